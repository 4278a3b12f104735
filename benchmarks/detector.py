"""The few-shot detector on the simulated clips: trained on clips 000 to 005, judged on the rest.

    python -m benchmarks.detector ../shared/data/sim [--leave-one-out] [--tasks drawer-open ...]

``--leave-one-out`` stays within the train clips: each is judged by a detector trained on the
others. Choose settings by that; the test clips are for reporting.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from objectstates.detect.evaluation import Evaluation, ImageRow, evaluate
from objectstates.detect.fewshot import FewShotDetector
from objectstates.detect.learning import Recipe, train
from objectstates.truth import shown_box
from objectstates.video import Frame, read_frames

TASKS = ("drawer-open", "door-open", "box-close", "coffee-pull", "faucet-open")

TRAIN_CLIPS = range(6)
FRAMES_PER_CLIP = 8
JUDGE_EVERY = 12  # frames


def make_labels(
    folder: Path, clips: Iterable[int], out: Path, *, per_clip: int | None = None
) -> Path:
    """Write the truth of some clips of a task as COCO labels of moments of their videos.

    per_clip : that many frames, evenly spread; or one in JUDGE_EVERY.
    """
    task = folder.name
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for clip in clips:
        truth = json.loads((folder / f"{task}_{clip:03d}.json").read_text())
        count = truth["n_frames"]
        frames = (
            range(0, count, JUDGE_EVERY)
            if per_clip is None
            else [int((k + 0.5) * count / per_clip) for k in range(per_clip)]
        )
        for frame in frames:
            video = folder / f"{task}_{clip:03d}.mp4"
            images.append(
                {"id": len(images), "video": str(video), "frame": frame, "fps": truth["fps"]}
            )
            if box := shown_box(truth, frame):
                x1, y1, x2, y2 = box
                annotations.append(
                    {
                        "id": len(annotations),
                        "image_id": len(images) - 1,
                        "category_id": 1,
                        "bbox": [x1, y1, x2 - x1, y2 - y1],
                    }
                )
    categories = [{"id": 1, "name": task}]
    out.write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": categories})
    )
    return out


def all_clips(folder: Path) -> list[int]:
    return sorted(int(path.stem[-3:]) for path in folder.glob("*_[0-9][0-9][0-9].json"))


def leave_one_out(folder: Path, recipe: Recipe | None = None) -> Evaluation:
    """Judge each train clip by a detector trained on the others; the precision is their mean."""
    rows: list[ImageRow] = []
    precisions = []
    with tempfile.TemporaryDirectory() as place:
        labels = Path(place) / "labels.json"
        for clip in TRAIN_CLIPS:
            others = [c for c in TRAIN_CLIPS if c != clip]
            detector = train(
                make_labels(folder, others, labels, per_clip=FRAMES_PER_CLIP), recipe=recipe
            )
            judged = evaluate(detector, make_labels(folder, [clip], labels))
            rows += judged.rows
            precisions.append(judged.average_precision)
    return Evaluation(judged.threshold, sum(precisions) / len(precisions), tuple(rows))


def held_out(folder: Path) -> tuple[Evaluation, FewShotDetector, float]:
    """Train on the train clips, judge on all others; seconds of training too."""
    test = [clip for clip in all_clips(folder) if clip not in TRAIN_CLIPS]
    with tempfile.TemporaryDirectory() as place:
        labels = Path(place) / "labels.json"
        make_labels(folder, TRAIN_CLIPS, labels, per_clip=FRAMES_PER_CLIP)
        start = time.perf_counter()
        detector = train(labels)
        seconds = time.perf_counter() - start
        return evaluate(detector, make_labels(folder, test, labels)), detector, seconds


def milliseconds(detector: FewShotDetector, video: Path, count: int = 50) -> float:
    """Processor time per frame, all on one core; the fastest of a few passes."""
    with read_frames(video) as reading:
        frames: list[Frame] = [frame for frame, _ in zip(reading, range(count), strict=False)]
    detector.detect(frames[:2])
    passes = []
    for _ in range(3):
        start = time.process_time()
        detector.detect(frames)
        passes.append((time.process_time() - start) / len(frames))
    return 1000 * min(passes)


def per_clip_recall(evaluation: Evaluation) -> dict[str, float]:
    clips: dict[str, list[ImageRow]] = {}
    for row in evaluation.rows:
        clips.setdefault(Path(row.image.rsplit(" at ", 1)[0]).stem, []).append(row)
    return {
        clip: sum(r.found for r in rows) / max(1, sum(r.objects for r in rows))
        for clip, rows in clips.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", nargs="*", default=TASKS)
    parser.add_argument("--leave-one-out", action="store_true")
    arguments = parser.parse_args()
    print("task         recall  false+/frame     AP  per clip")
    for task in arguments.tasks:
        folder = arguments.folder / task
        extra = ""
        if arguments.leave_one_out:
            result = leave_one_out(folder)
        else:
            result, detector, seconds = held_out(folder)
            video = folder / f"{task}_{all_clips(folder)[-1]:03d}.mp4"
            extra = f"  {milliseconds(detector, video):.1f} ms/frame, trained in {seconds:.0f} s"
        clips = " ".join(f"{recall:.2f}" for recall in per_clip_recall(result).values())
        print(
            f"{task:12} {result.recall:6.3f}  {result.false_positives_per_image:12.3f}  "
            f"{result.average_precision:5.3f}  {clips}{extra}",
            flush=True,
        )


if __name__ == "__main__":
    main()

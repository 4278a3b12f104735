"""The few-shot detector on the simulated clips: trained on clips 000 to 005, judged on the rest.

    python -m benchmarks.detector ../shared/data/sim [--leave-one-out] [--tasks drawer-open ...]

Recall, false positives and average precision are those of single frames. Coverage is what the rest
of the system gets: the share of the frames with a visible object in which some tracklet lies on it,
after ingest's own pass over the clip, cut as ``crops.json`` says. ``on object`` is the share of
tracklets that do.

``--leave-one-out`` stays within the train clips: each is judged by a detector trained on the
others. Choose settings by that; the test clips are for reporting.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.geometry import MATCH_IOU, iou
from objectstates.data.formats.truth_files import read_truth, shown_box
from objectstates.data.truth import ClipTruth
from objectstates.detect.fewshot import FewShotDetector
from objectstates.detect.fewshot_training import Recipe, train
from objectstates.detect.from_truth import judge_labels, train_labels
from objectstates.detect.metrics import Evaluation, ImageRow, evaluate
from objectstates.features.registry import load_backbone
from objectstates.ingest.observe import Observation, observe
from objectstates.ingest.settings import ObserveSettings
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, read_frames

RESULTS = Path(__file__).parent / "results"
TASKS = ("drawer-open", "door-open", "box-close", "coffee-pull", "faucet-open")

TRAIN_CLIPS = range(6)
VISIBLE = 0.25
"""Share of the object's pixels that must be seen for a frame to count in the coverage."""


def known(folder: Path, clips: Iterable[int]) -> list[tuple[ClipSpan, ClipTruth]]:
    """Some clips of a task, whole, with their ground truth."""
    truth = read_truth(folder)
    names = [f"{folder.name}_{clip:03d}" for clip in clips]
    return [(ClipSpan(name, folder / f"{name}.mp4"), truth[name]) for name in names]


def all_clips(folder: Path) -> list[int]:
    return sorted(int(path.stem[-3:]) for path in folder.glob("*_[0-9][0-9][0-9].json"))


@dataclass(frozen=True, slots=True)
class ClipRow:
    """One clip: frames with a visible object, those with a tracklet on it; tracklets, those on it.

    A tracklet is on the object if it is so in half of its frames.
    """

    clip: str
    recall: float
    visible: int
    covered: int
    tracklets: int
    on_object: int


@dataclass(frozen=True, slots=True)
class Judged:
    """How a task went: frame by frame, and clip by clip."""

    frames: Evaluation
    clips: tuple[ClipRow, ...]

    @property
    def coverage(self) -> float:
        return sum(row.covered for row in self.clips) / sum(row.visible for row in self.clips)

    @property
    def on_object(self) -> float:
        return sum(r.on_object for r in self.clips) / max(1, sum(r.tracklets for r in self.clips))


def judge(detector: FewShotDetector, folder: Path, clips: Sequence[int]) -> Judged:
    """Run a detector on frames of clips, and on the clips as ingest does."""
    frames = evaluate(detector, judge_labels(known(folder, clips), folder.name))
    recalls = per_clip_recall(frames)
    crops = json.loads((folder.parent / "crops.json").read_text())
    backbone = load_backbone()
    rows = []
    for clip in clips:
        name = f"{folder.name}_{clip:03d}"
        truth = json.loads((folder / f"{name}.json").read_text())
        first, last = crops[name]
        span = ClipSpan(name, folder / f"{name}.mp4", first / truth["fps"], last / truth["fps"])
        seen, _ = observe(span, detector, backbone, ObserveSettings())
        rows.append(ClipRow(name, recalls[name], *covered(seen, truth, first, last)))
    return Judged(frames, tuple(rows))


def covered(
    seen: Observation, truth: dict[str, Any], first: int, last: int
) -> tuple[int, int, int, int]:
    """Frames with a visible object, those with a tracklet on it; tracklets, those on it."""
    boxes = {
        frame: box
        for frame in range(first, last)
        if (truth["object"]["visible_fraction"][frame] or 0) > VISIBLE
        and (box := shown_box(truth, frame)) is not None
    }
    hit: set[int] = set()
    on_object = 0
    for low, high in zip(seen.box_offsets[:-1], seen.box_offsets[1:], strict=True):
        own = seen.boxes[low:high]
        frames = np.rint(own[:, 0] * truth["fps"]).astype(int).tolist()
        on = [
            frame
            for frame, box in zip(frames, own[:, 1:], strict=True)
            if frame in boxes and iou(box[None], np.array([boxes[frame]]))[0, 0] >= MATCH_IOU
        ]
        hit.update(on)
        on_object += 2 * len(on) >= len(frames)
    return len(boxes), len(hit), len(seen.tracklet_span), on_object


def leave_one_out(folder: Path, recipe: Recipe | None = None) -> Judged:
    """Judge each train clip by a detector trained on the others; the precision is their mean."""
    parts = []
    for clip in TRAIN_CLIPS:
        detector, _ = trained(folder, [c for c in TRAIN_CLIPS if c != clip], recipe)
        parts.append(judge(detector, folder, [clip]))
    rows = tuple(row for part in parts for row in part.frames.rows)
    precision = float(np.mean([part.frames.average_precision for part in parts]))
    frames = Evaluation(parts[0].frames.threshold, precision, rows)
    return Judged(frames, tuple(row for part in parts for row in part.clips))


def trained(
    folder: Path, clips: Iterable[int], recipe: Recipe | None = None
) -> tuple[FewShotDetector, float]:
    """A detector of a task, and the seconds that its training took."""
    labels = train_labels(known(folder, clips), folder.name)
    start = time.perf_counter()
    return train(labels, recipe=recipe), time.perf_counter() - start


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
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"detector{'_leave_one_out' if arguments.leave_one_out else ''}.json"
    report = {}
    print("task         recall  false+/frame     AP  coverage  on object")
    for task in arguments.tasks:
        folder = arguments.folder / task
        extra: dict[str, float] = {}
        if arguments.leave_one_out:
            result = leave_one_out(folder)
        else:
            detector, seconds = trained(folder, TRAIN_CLIPS)
            test = [clip for clip in all_clips(folder) if clip not in TRAIN_CLIPS]
            result = judge(detector, folder, test)
            video = folder / f"{task}_{test[-1]:03d}.mp4"
            extra = {"training_s": seconds, "ms_per_frame": milliseconds(detector, video)}
        frames = result.frames
        report[task] = {
            "recall": frames.recall,
            "false_positives_per_frame": frames.false_positives_per_image,
            "average_precision": frames.average_precision,
            "coverage": result.coverage,
            "on_object": result.on_object,
            **extra,
            "clips": [asdict(row) for row in result.clips],
        }
        print(
            f"{task:12} {frames.recall:6.3f}  {frames.false_positives_per_image:12.3f}  "
            f"{frames.average_precision:5.3f}  {result.coverage:8.3f}  {result.on_object:9.3f}  "
            + ", ".join(f"{name} {value:.3g}" for name, value in extra.items()),
            flush=True,
        )
        for row in result.clips:
            if row.covered < 0.8 * row.visible:
                print(f"  {row.clip}: recall {row.recall:.2f}, {row.covered} of {row.visible}")
        path.write_text(json.dumps(report, indent=1) + "\n")  # what is done is not lost


if __name__ == "__main__":
    main()

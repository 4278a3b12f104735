"""A Faster R-CNN trained on simulated clips, and judged on others.

    python -m benchmarks.rcnn [FOLDER] [--weights random] [--device cuda] [--minutes 8]

FOLDER has a folder per task with clips and their truth (``benchmarks/simulated``); clips 000 to 003
train, 004 and 005 are judged, and no other is read. Without FOLDER, the clips of the demo are used:
the first eight train, the others are judged. ``--together`` trains one detector on the objects of
all tasks. The few-shot detector, trained on as many frames as by default, is measured beside it
with ``--fewshot``.

Recall and false positives per frame are those at the threshold of ingest, 0.4, at an IoU of 0.5.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.needs import CORE, TORCH, require

if TYPE_CHECKING:
    from objectstates.data.truth import ClipTruth
    from objectstates.detect.metrics import Evaluation
    from objectstates.detect.rcnn_training import RcnnRecipe
    from objectstates.video.clip_list import ClipSpan

    Known = list[tuple[ClipSpan, ClipTruth]]

RESULTS = Path(__file__).parent / "results"
TRAIN, JUDGE = range(4), range(4, 6)  # of the clips of a task
DEMO_TRAIN = 8


@dataclass(frozen=True)
class Task:
    """Clips to train on and to judge by, with their ground truth."""

    name: str
    train: Known
    judge: Known


def demo_task() -> Task:
    """The drawer of the demo."""
    from importlib.resources import files

    clips = known(Path(str(files("objectstates"))) / "demo" / "drawer", "*")
    return Task("demo drawer", clips[:DEMO_TRAIN], clips[DEMO_TRAIN:])


def tasks_in(folder: Path, names: Sequence[str] | None) -> list[Task]:
    """The tasks of a folder."""
    found = [f for f in sorted(folder.iterdir()) if f.is_dir() and list(f.glob("*_000.mp4"))]
    chosen = [f for f in found if not names or f.name in names]
    if not chosen:
        raise SystemExit(f"{folder} has no folder with clips such as drawer-open_000.mp4")
    return [
        Task(
            f.name,
            [clip for n in TRAIN for clip in known(f, f"*_{n:03d}")],
            [clip for n in JUDGE for clip in known(f, f"*_{n:03d}")],
        )
        for f in chosen
    ]


def known(folder: Path, pattern: str) -> Known:
    """Clips of a folder whose names match, with their ground truth."""
    from objectstates.data.formats.truth_files import read_truth
    from objectstates.video.clip_list import ClipSpan

    videos = sorted(folder.glob(f"{pattern}.mp4"))
    truth = read_truth(folder)
    return [(ClipSpan(v.stem, v), truth[v.stem]) for v in videos if v.stem in truth]


def measure(task: Task, recipe: RcnnRecipe, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train on one task, and judge."""
    from objectstates.detect.detections import DetectorOptions
    from objectstates.detect.from_truth import judge_labels, train_labels
    from objectstates.detect.metrics import evaluate
    from objectstates.detect.rcnn import RcnnDetector
    from objectstates.detect.rcnn_training import train

    labels = train_labels(task.train, task.name, arguments.frames)
    begun = time.perf_counter()
    lines = _Lines(begun)
    model = train(
        labels,
        backbone=arguments.backbone,
        weights=arguments.weights,
        device=arguments.device,
        recipe=recipe,
        progress=lines,
    )
    seconds = time.perf_counter() - begun
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        model.save(arguments.out / f"{task.name.replace(' ', '-')}.pt")
    detector = RcnnDetector(model, DetectorOptions(device=arguments.device))
    judged = {
        "seen": evaluate(detector, train_labels(task.train, task.name, 4)),
        "held out": evaluate(detector, judge_labels(task.judge, task.name)),
    }
    row: dict[str, Any] = {
        "boxes": labels.counts["boxes"],
        "steps": lines.steps,
        "seconds": seconds,
    }
    for name, found in judged.items():
        row[name] = scores(found)
    if arguments.fewshot:
        row["few-shot, held out"] = scores(few_shot(task))
    return row


class _Lines:
    """Prints the loss about every five seconds."""

    def __init__(self, begun: float) -> None:
        self.begun = self.last = begun
        self.steps = 0

    def __call__(self, step: int, steps: int, loss: float) -> None:
        self.steps, now = step, time.perf_counter()
        if now - self.last > 5 or step in (1, steps):
            self.last = now
            rate = step / (now - self.begun)
            print(f"  step {step} of {steps}: loss {loss:.3f}, {rate:.1f} steps/s", flush=True)


def few_shot(task: Task) -> Evaluation:
    from objectstates.detect.fewshot_training import train
    from objectstates.detect.from_truth import judge_labels, train_labels
    from objectstates.detect.metrics import evaluate

    return evaluate(train(train_labels(task.train, task.name)), judge_labels(task.judge, task.name))


def scores(found: Evaluation) -> dict[str, float]:
    return {
        "recall": found.recall,
        "false_positives_per_frame": found.false_positives_per_image,
        "average_precision": found.average_precision,
        "frames": len(found.rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--tasks", nargs="*")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--fewshot", action="store_true")
    parser.add_argument("--weights", default="random")
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--device", default=None, help="cuda if there is a GPU, else cpu")
    parser.add_argument("--frames", type=int, default=40, help="labelled frames per train clip")
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--side", type=int, default=480)
    parser.add_argument("--rate", type=float, default=None)
    parser.add_argument("--minutes", type=float, default=8.0, help="of training, of all tasks")
    parser.add_argument("--out", type=Path, help="folder for the models")
    arguments = parser.parse_args()
    require(*CORE, *TORCH)
    import torch

    from objectstates.detect.rcnn_training import RcnnRecipe

    arguments.device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    tasks = [demo_task()]
    if arguments.folder is not None:
        tasks = tasks_in(arguments.folder, arguments.tasks)
    if arguments.together:
        whole = [[clip for t in tasks for clip in of(t)] for of in (_train_of, _judge_of)]
        tasks = [Task("all objects", *whole)]
    given = {"steps": arguments.steps, "batch": arguments.batch, "side": arguments.side}
    given |= {} if arguments.rate is None else {"rate": arguments.rate}
    recipe = RcnnRecipe(**given, seconds=60 * arguments.minutes / len(tasks))
    print(f"{arguments.backbone}, {arguments.weights} weights, on {arguments.device}; {recipe}")
    RESULTS.mkdir(exist_ok=True)
    report: dict[str, Any] = {}
    for task in tasks:
        print(f"{task.name}: {len(task.train)} clips to train on, {len(task.judge)} to judge by")
        report[task.name] = row = measure(task, recipe, arguments)
        for name, found in row.items():
            if isinstance(found, dict):
                print(
                    f"  {name}: recall {found['recall']:.3f}, {found['average_precision']:.3f} AP, "
                    f"{found['false_positives_per_frame']:.2f} false positives per frame, "
                    f"{found['frames']} frames",
                    flush=True,
                )
        print(f"  {row['steps']} steps in {row['seconds']:.0f} s on {row['boxes']} boxes")
        (RESULTS / "rcnn.json").write_text(json.dumps(report, indent=1) + "\n")


def _train_of(task: Task) -> Known:
    return task.train


def _judge_of(task: Task) -> Known:
    return task.judge


if __name__ == "__main__":
    main()

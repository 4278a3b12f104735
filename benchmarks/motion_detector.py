"""The motion detector on the train clips of the simulated tasks.

    python -m benchmarks.motion_detector ../shared/data/sim [--fit]

The ranking of boxes is a logistic regression of seven numbers. ``--fit`` prints its weights,
learned on all these clips, and the recall of each task with weights learned on the other tasks.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.detector import TASKS, TRAIN_CLIPS
from objectstates.base.geometry import MATCH_IOU, iou
from objectstates.data.truth import shown_box
from objectstates.detect import change_detector as motion
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, probe

Floats = npt.NDArray[np.float64]


class SummarisedClip:
    """A clip with its ground truth, read once."""

    def __init__(self, folder: Path, clip: int) -> None:
        self.task = folder.name
        video = folder / f"{self.task}_{clip:03d}.mp4"
        self.truth = json.loads(video.with_suffix(".json").read_text())
        self.span = ClipSpan(video.stem, video)
        self.scene = motion.summarise(video, None, None, motion.FPS)
        self.size = probe(video).height, probe(video).width

    def true_box(self, time: float) -> Floats | None:
        frame = min(self.truth["n_frames"] - 1, round(time * self.truth["fps"]))
        box = shown_box(self.truth, frame)
        return None if box is None else np.array([box], np.float64)

    def recall(self, boxes: int = motion.BOXES) -> float:
        """Fraction of the frames read in which a box matches the truth."""
        detector = motion.ClipProposals(lambda: self.scene, boxes)
        blank = np.zeros((*self.size, 3), np.uint8)
        hits = []
        for time in self.scene.times:
            if (truth := self.true_box(time)) is not None:
                found = detector.detect([Frame(float(time), blank)])[0]
                hits.append(len(found) > 0 and iou(found.boxes, truth).max() >= MATCH_IOU)
        return float(np.mean(hits))

    def examples(self) -> tuple[Floats, Floats]:
        """Candidates of both phases: their features, and their mean IoU with the truth."""
        scene = self.scene
        boxes = motion.candidate_boxes(scene.change)
        zoom = scene.change.shape[1] / self.size[1]
        features, overlaps = [], []
        for late, image in enumerate((scene.before, scene.after)):
            features.append(motion.describe(image, scene.change, boxes))
            rows = []
            for time, camera in zip(scene.times, scene.cameras, strict=True):
                truth = self.true_box(time)
                if int(time >= scene.split) == late and truth is not None:
                    here = motion.moved_boxes(truth * zoom, np.linalg.inv(camera))
                    rows.append(iou(boxes, here)[:, 0])
            overlaps.append(np.mean(rows, axis=0))
        return np.concatenate(features), np.concatenate(overlaps)


def fit(clips: list[SummarisedClip]) -> tuple[Floats, float]:
    """Weights and bias of a logistic regression on the IoU with the truth."""
    pairs = [clip.examples() for clip in clips]
    x = np.concatenate([features for features, _ in pairs])
    target = np.clip((np.concatenate([overlap for _, overlap in pairs]) - 0.2) / 0.5, 0, 1)
    mean, spread = x.mean(axis=0), x.std(axis=0)
    a = np.column_stack([(x - mean) / spread, np.ones(len(x))])
    w = np.zeros(a.shape[1])
    penalty = 1e-4 * len(a)
    for _ in range(30):
        p = 1 / (1 + np.exp(-a @ w))
        hessian = (a * (p * (1 - p))[:, None]).T @ a + penalty * np.eye(len(w))
        w -= np.linalg.solve(hessian, a.T @ (p - target) + penalty * w)
    weights = w[:-1] / spread
    return weights, float(w[-1] - weights @ mean)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fit", action="store_true")
    arguments = parser.parse_args()
    clips = [SummarisedClip(arguments.folder / task, k) for task in TASKS for k in TRAIN_CLIPS]
    print("task         recall of 5 boxes, of 1; of 5 per clip")
    for task in TASKS:
        mine = [clip for clip in clips if clip.task == task]
        if arguments.fit:
            motion.WEIGHTS, motion.BIAS = fit([clip for clip in clips if clip.task != task])
        five, one = [clip.recall() for clip in mine], [clip.recall(1) for clip in mine]
        each = " ".join(f"{recall:.2f}" for recall in five)
        print(f"{task:12} {np.mean(five):.3f} {np.mean(one):.3f}  {each}", flush=True)
    if arguments.fit:
        weights, bias = fit(clips)
        print("weights", np.round(weights, 3).tolist(), "bias", round(bias, 3))


if __name__ == "__main__":
    main()

"""Quality of a detector: average precision; recall and false positives at its threshold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from objectstates.base.geometry import MATCH_IOU, areas, intersections, iou
from objectstates.detect.detections import Detections
from objectstates.detect.labels import Labels, read_labels
from objectstates.detect.trained import TrainedDetector
from objectstates.video.reader import Frame

Floats = npt.NDArray[np.floating]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ImageRow:
    """One image: number of objects, of those found, and of false positives."""

    image: str
    objects: int
    found: int
    false_positives: int


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores of a detector on labelled images.

    average_precision : area under the precision-recall curve, interpolated as PASCAL VOC's since
        2010; independent of ``threshold``.
    recall, false_positives_per_image : at ``threshold``.
    rows : one per image, at ``threshold``.
    """

    threshold: float
    average_precision: float
    rows: tuple[ImageRow, ...]

    @property
    def recall(self) -> float:
        return sum(r.found for r in self.rows) / sum(r.objects for r in self.rows)

    @property
    def false_positives_per_image(self) -> float:
        return sum(r.false_positives for r in self.rows) / len(self.rows)


def evaluate(
    detector: TrainedDetector, labels: str | Path | Labels, object: str | None = None
) -> Evaluation:
    """Evaluate a detector on labels that it was not trained on.

    object : the category; by default the one that the detector was trained on.
    """
    if not isinstance(labels, Labels):
        labels = read_labels(labels, object or detector.object)
    unfiltered = detector.with_threshold(0.0)
    rows: list[ImageRow] = []
    scores: list[npt.NDArray[np.float32]] = []
    right: list[Bools] = []
    for image, pixels in labels.load():
        found = unfiltered.detect([Frame(image.time or 0.0, pixels)])[0]
        hits = match(found.boxes, image.boxes)
        counts = hits | ~_ignored(found, image.ignored)
        hits, kept = hits[counts], found.scores[counts]
        scores.append(kept)
        right.append(hits)
        above = kept >= detector.threshold
        rows.append(
            ImageRow(
                image.name, len(image.boxes), int(hits[above].sum()), int((~hits[above]).sum())
            )
        )
    precision = average_precision(
        np.concatenate(scores), np.concatenate(right), sum(r.objects for r in rows)
    )
    return Evaluation(detector.threshold, precision, tuple(rows))


def match(boxes: Floats, truth: Floats, overlap: float = MATCH_IOU) -> Bools:
    """(n,) whether each box, best first, matches an object that no better one matches."""
    hits = np.zeros(len(boxes), bool)
    if len(truth) == 0:
        return hits
    overlaps = iou(boxes, truth)
    for k in range(len(boxes)):
        best = int(overlaps[k].argmax())
        if overlaps[k, best] >= overlap:
            hits[k] = True
            overlaps[:, best] = -1.0
    return hits


def average_precision(scores: Floats, right: Bools, objects: int) -> float:
    """Area under the precision-recall curve."""
    if objects == 0 or len(scores) == 0:
        return 0.0
    hits = right[np.argsort(-scores, kind="stable")]
    found = np.cumsum(hits)
    precision = found / np.arange(1, len(hits) + 1)
    best_from_here = np.maximum.accumulate(precision[::-1])[::-1]
    return float(best_from_here[hits].sum() / objects)


def _ignored(found: Detections, regions: Floats) -> Bools:
    """(n,) whether more than half of a box lies in an ignored region."""
    inside = intersections(found.boxes[:, None], regions[None])
    return np.asarray((inside > 0.5 * areas(found.boxes)[:, None]).any(axis=1))

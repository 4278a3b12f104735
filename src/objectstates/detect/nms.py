"""Overlap of boxes, and the suppression of all but the best among those that overlap."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from objectstates.detect.detections import Boxes, Detections

Floats = npt.NDArray[np.floating]
Indices = npt.NDArray[np.intp]

OVERLAP = 0.5
"""Intersection over union beyond which two boxes are taken to show the same thing."""

MOST = 100
"""Detections that are kept of a frame: far more than tracks can be made of."""


def iou(a: Floats, b: Floats) -> npt.NDArray[np.float64]:
    """(n, m) intersection over union of (n, 4) and (m, 4) boxes ``x1, y1, x2, y2``.

    Boxes without area overlap with nothing, themselves included.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    both = np.prod(np.maximum(high - low, 0), axis=2)
    either = _areas(a)[:, None] + _areas(b)[None, :] - both
    share: npt.NDArray[np.float64] = np.zeros(both.shape)
    np.divide(both, either, out=share, where=both > 0)
    return share


def suppress(
    boxes: Floats, scores: Floats, overlap: float = OVERLAP, limit: int | None = None
) -> Indices:
    """Indices of the boxes to keep, best first: greedy non-maximum suppression.

    A box goes when its intersection over union with a better one that stays exceeds ``overlap``;
    of equal scores the earlier box is the better. The classes of boxes play no part: whatever
    overlaps is one candidate.

    limit : the number of boxes kept at most; the rest is not even looked at.
    """
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    # One row for each coordinate: the inner loop reads whole rows.
    x1, y1, x2, y2 = rows = np.asarray(boxes, np.float64).reshape(-1, 4)[order].T.copy()
    area = _areas(rows.T)
    kept: list[int] = []
    left = np.arange(len(order))
    while len(left) and (limit is None or len(kept) < limit):
        best, left = left[0], left[1:]
        kept.append(best)
        width = np.minimum(x2[best], x2[left]) - np.maximum(x1[best], x1[left])
        height = np.minimum(y2[best], y2[left]) - np.maximum(y1[best], y1[left])
        both = np.maximum(width, 0) * np.maximum(height, 0)
        left = left[both <= overlap * (area[best] + area[left] - both)]
    return order[kept]


def best_detections(
    boxes: Floats,
    scores: Floats,
    size: tuple[int, int],
    *,
    threshold: float,
    overlap: float | None = OVERLAP,
) -> Detections:
    """What a model found in one frame, made fit to be passed on: within the frame, best first.

    boxes : (n, 4) pixels of the frame; what is not finite, or has no area within it, is left out.
    size : height and width of the frame.
    threshold : the least score.
    overlap : as of `suppress`; None where the boxes need no suppression.
    """
    boxes = np.asarray(boxes, np.float32).reshape(-1, 4)
    scores = np.asarray(scores, np.float32).reshape(-1)
    wanted = (scores >= threshold) & np.isfinite(boxes).all(axis=1)
    boxes, scores = _within(boxes[wanted], size), np.minimum(scores[wanted], 1)
    seen = _areas(boxes) > 0
    boxes, scores = boxes[seen], scores[seen]
    if overlap is None:
        kept = np.argsort(-scores, kind="stable")[:MOST]
    else:
        kept = suppress(boxes, scores, overlap, MOST)
    return Detections(boxes[kept], scores[kept])


def _within(boxes: Boxes, size: tuple[int, int]) -> Boxes:
    height, width = size
    return np.clip(boxes, 0, np.array([width, height, width, height], np.float32))


def _areas(boxes: Floats) -> npt.NDArray[np.float64]:
    sides = np.maximum(np.asarray(boxes[:, 2:] - boxes[:, :2], np.float64), 0)
    area: npt.NDArray[np.float64] = sides[:, 0] * sides[:, 1]
    return area

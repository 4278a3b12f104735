"""Non-maximum suppression: of boxes that overlap, keep the best."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from objectstates.base import geometry
from objectstates.detect.detections import Detections

Floats = npt.NDArray[np.floating]
Indices = npt.NDArray[np.intp]

NMS_IOU = 0.5
"""IoU beyond which two boxes are taken to show the same object; torchvision's default too."""

MAX_DETECTIONS = 100  # per frame, COCO's limit: far more than the tracks of a frame


def suppress(
    boxes: Floats, scores: Floats, overlap: float = NMS_IOU, limit: int | None = None
) -> Indices:
    """Indices of the boxes to keep, best first: greedy non-maximum suppression.

    A box is dropped when its IoU with a better one that is kept exceeds ``overlap``; of equal
    scores the earlier box is the better. Classes play no part.

    limit : stop when this many boxes are kept.
    """
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    # One row for each coordinate: the inner loop reads whole rows.
    x1, y1, x2, y2 = rows = np.asarray(boxes, np.float64).reshape(-1, 4)[order].T.copy()
    area = geometry.areas(rows.T)
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
    overlap: float | None = NMS_IOU,
) -> Detections:
    """The output of a model for one frame as `Detections`: clipped to the frame, best first.

    boxes : (n, 4) pixels of the frame; those not finite, or without area within it, are dropped.
    size : height and width of the frame.
    threshold : the least score.
    overlap : see `suppress`; None: no suppression.
    """
    boxes = np.asarray(boxes, np.float32).reshape(-1, 4)
    scores = np.asarray(scores, np.float32).reshape(-1)
    wanted = (scores >= threshold) & np.isfinite(boxes).all(axis=1)
    boxes, scores = geometry.clip(boxes[wanted], size), np.minimum(scores[wanted], 1)
    visible = geometry.areas(boxes) > 0
    boxes, scores = boxes[visible], scores[visible]
    if overlap is None:
        kept = np.argsort(-scores, kind="stable")[:MAX_DETECTIONS]
    else:
        kept = suppress(boxes, scores, overlap, MAX_DETECTIONS)
    return Detections(boxes[kept], scores[kept])

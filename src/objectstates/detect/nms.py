"""Non-maximum suppression: of boxes that overlap, keep the best."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base import geometry
from objectstates.base.jit import compiled_exactly
from objectstates.detect.detections import Detections

Floats = npt.NDArray[np.floating]
Boxes = npt.NDArray[np.float64]  # (n, 4)
Areas = npt.NDArray[np.float64]  # (n,)
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
    best_first = np.asarray(boxes, np.float64).reshape(-1, 4)[order]
    most = len(order) if limit is None else limit
    return np.asarray(order[_kept(best_first, geometry.areas(best_first), overlap, most)])


@compiled_exactly
def _kept(boxes: Boxes, areas: Areas, overlap: float, most: int) -> Any:
    """Indices of the first ``most`` boxes that no earlier one of them overlaps too much."""
    kept, count = np.empty(len(boxes), np.int64), 0
    for i in range(len(boxes)):
        if count >= most:
            break
        free = True
        for j in kept[:count]:
            width = min(boxes[i, 2], boxes[j, 2]) - max(boxes[i, 0], boxes[j, 0])
            height = min(boxes[i, 3], boxes[j, 3]) - max(boxes[i, 1], boxes[j, 1])
            both = max(width, 0.0) * max(height, 0.0)
            if not both <= overlap * (areas[i] + areas[j] - both):
                free = False
                break
        if free:
            kept[count] = i
            count += 1
    return kept[:count]


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

"""Boxes ``x1, y1, x2, y2`` in pixels, along the last axis: overlap, enlarging and clipping."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Boxes = npt.NDArray[np.floating]
Floats = npt.NDArray[np.float64]
T = TypeVar("T", bound="np.floating[Any]")

MATCH_IOU = 0.5
"""IoU from which a box counts as the object's: the convention of PASCAL VOC."""


def areas(boxes: Boxes) -> Floats:
    """(..., 4) to (...); 0 where a side is negative."""
    sides = np.maximum(np.asarray(boxes[..., 2:] - boxes[..., :2], np.float64), 0)
    return np.asarray(sides[..., 0] * sides[..., 1])


def intersections(a: Boxes, b: Boxes) -> Floats:
    """Area of the intersection; leading axes are broadcast."""
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    return np.asarray(np.prod(np.maximum(sides, 0), axis=-1, dtype=np.float64))


def paired_iou(a: Boxes, b: Boxes) -> Floats:
    """Intersection over union of each box of ``a`` with the one of ``b`` at the same index.

    Leading axes are broadcast. 0 where a box has no area or is NaN.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    common = intersections(a, b)
    union = areas(a) + areas(b) - common
    return np.divide(common, union, out=np.zeros(common.shape), where=common > 0)


def iou(a: Boxes, b: Boxes) -> Floats:
    """(n, m) intersection over union of all pairs of (n, 4) and (m, 4) boxes."""
    return paired_iou(a[:, None], b[None])


def iou_of_two(a: Boxes, b: Boxes) -> float:
    """`paired_iou` of two (4,) boxes, without the overhead of arrays."""
    (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) = a.tolist(), b.tolist()
    wide, high = min(ax2, bx2) - max(ax1, bx1), min(ay2, by2) - max(ay1, by1)
    if not (wide > 0 and high > 0):
        return 0.0
    both = wide * high
    return float(both / ((ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1) - both))


def enlarge(boxes: Boxes, factor: float) -> Floats:
    """Scale the sides of boxes by ``factor`` about their centres."""
    boxes = np.asarray(boxes, np.float64)
    centre = (boxes[..., :2] + boxes[..., 2:]) / 2
    half = factor * (boxes[..., 2:] - boxes[..., :2]) / 2
    return np.concatenate([centre - half, centre + half], axis=-1)


def clip(boxes: npt.NDArray[T], size: tuple[int, ...]) -> npt.NDArray[T]:
    """Clip boxes to a frame of ``size`` (height, width)."""
    height, width = size
    limit = np.array([width, height, width, height], boxes.dtype)
    return np.asarray(np.clip(boxes, 0, limit))

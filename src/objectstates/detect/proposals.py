"""Dense box proposals, scored by integral images.

A box is divided into GRID x GRID bins, and a bin's feature is the mean of a cell map over it. A
linear score of these features is a sum over the corners of the bins of integrals of *projected*
maps, one plane per corner: tens of thousands of boxes of a frame are scored in about a millisecond,
and features are computed of the best only.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from objectstates.base import geometry
from objectstates.base.jit import compiled

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

GRID = 4
"""Bins along each side of a box; 4 was better than 3 on simulated clips, each left out in turn."""

SHAPE_RATIO = 1.25  # of neighbouring sizes, and of neighbouring aspects, in the list of shapes

MARGIN = 0.35
"""Least distance of a box's centre from the border of the frame, as a fraction of its side."""


def shapes_like(boxes: Floats) -> Floats:
    """(n, 2) widths and heights that cover those of the (m, 4) boxes, with a margin."""
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    size, aspect = np.log(width * height) / 2, np.log(width / height) / 2
    sizes, aspects = _spread(size, 0.15), _spread(aspect, 0.1)
    grid = np.array([[s + a, s - a] for s in sizes for a in aspects])
    return np.asarray(np.exp(grid), np.float64)


def _spread(values: Floats, beyond: float) -> Floats:
    low, high = values.min() - beyond, values.max() + beyond
    return np.linspace(low, high, max(2, math.ceil((high - low) / math.log(SHAPE_RATIO)) + 1))


def dense_boxes(shapes: Floats, size: tuple[int, int], step: float) -> Floats:
    """(n, 4) boxes of the given shapes all over a frame of ``size`` (height, width), clipped to it.

    step : least pixels between neighbours; those of large boxes are an eighth of their side.
    """
    return _dense_boxes(tuple(map(tuple, shapes.tolist())), size, step)


@lru_cache(maxsize=8)
def _dense_boxes(
    shapes: tuple[tuple[float, float], ...], size: tuple[int, int], step: float
) -> Floats:
    frame_height, frame_width = size
    boxes = []
    for width, height in shapes:
        x = _centres(frame_width, width, step)[None, :, None]
        y = _centres(frame_height, height, step)[:, None, None]
        half = np.array([width, height]) / 2
        centre = np.concatenate(np.broadcast_arrays(x, y), axis=2).reshape(-1, 2)
        boxes.append(np.hstack([centre - half, centre + half]))
    found = geometry.clip(np.concatenate(boxes), size)
    found.setflags(write=False)
    return found


def _centres(frame: int, side: float, step: float) -> Floats:
    low, high = MARGIN * side, frame - MARGIN * side
    if high <= low:
        return np.array([frame / 2])
    count = max(2, math.ceil((high - low) / max(step, side / 8)) + 1)
    return np.linspace(low, high, count)


def score_boxes(cells: Floats32, weights: Floats32, boxes: Floats) -> Floats:
    """(n,) linear scores of the features of boxes, those of `describe_bins`.

    cells : (h, w, C).
    weights : (grid², C), bins row by row.
    boxes : (n, 4) in units of cells, within the map, not empty.
    """
    scores: Floats = _sum_over_corners(_integral(cells @ _corner_weights(weights).T), boxes)
    return scores


def _corner_weights(weights: Floats32) -> Floats32:
    """((grid + 1)², C) sums of the weights of the bins that meet at each corner, with signs.

    The sum over a bin is that of the integral at two of its corners less that at the other two. So
    a score needs one plane, and one look-up, for each corner.
    """
    grid = math.isqrt(len(weights))
    bins = weights.reshape(grid, grid, -1)
    corners = np.zeros((grid + 1, grid + 1, bins.shape[2]), np.float32)
    corners[1:, 1:] += bins
    corners[:-1, :-1] += bins
    corners[:-1, 1:] -= bins
    corners[1:, :-1] -= bins
    return corners.reshape((grid + 1) ** 2, -1)


def _integral(planes: Floats32) -> Floats:
    """(h + 1, w + 1, C) sums of a (h, w, C) map above and left of every corner of its cells."""
    height, width, channels = planes.shape
    out = np.zeros((height + 1, width + 1, channels))
    np.cumsum(planes, axis=0, dtype=np.float64, out=out[1:, 1:])
    np.cumsum(out[1:, 1:], axis=1, out=out[1:, 1:])
    return out


@compiled
def _sum_over_corners(sums: Floats, boxes: Floats) -> Floats:
    """(n,) sum over the corners of the bins of each box of the corner's own plane, interpolated.

    sums : (h + 1, w + 1, (grid + 1)²) integral of the planes.
    """
    rows, columns, planes = sums.shape
    corners = int(np.sqrt(planes))
    grid = corners - 1
    scores = np.zeros(len(boxes))
    x_cell, x_part = np.empty(corners, np.int64), np.empty(corners)
    for n in range(len(boxes)):
        x1, y1, x2, y2 = boxes[n]
        for k in range(corners):
            x = x1 + (x2 - x1) * k / grid
            x_cell[k] = min(int(x), columns - 2)
            x_part[k] = x - x_cell[k]
        total = 0.0
        for row in range(corners):
            y = y1 + (y2 - y1) * row / grid
            i = min(int(y), rows - 2)
            top, low = 0.0, 0.0
            for column in range(corners):
                j, part, plane = x_cell[column], x_part[column], row * corners + column
                top += sums[i, j, plane] * (1 - part) + sums[i, j + 1, plane] * part
                low += sums[i + 1, j, plane] * (1 - part) + sums[i + 1, j + 1, plane] * part
            total += top + (low - top) * (y - i)
        scores[n] = total * grid * grid / ((x2 - x1) * (y2 - y1))
    return scores


@compiled
def describe_bins(cells: Floats32, boxes: Floats, grid: int) -> Floats32:
    """(n, grid², C) means of a (h, w, C) map over the bins of boxes, as in `score_boxes`.

    boxes : (n, 4) in units of cells, within the map, not empty.
    """
    height, width, channels = cells.shape
    out = np.zeros((len(boxes), grid * grid, channels), np.float32)
    for n in range(len(boxes)):
        x1, y1 = boxes[n, 0], boxes[n, 1]
        across, down = (boxes[n, 2] - x1) / grid, (boxes[n, 3] - y1) / grid
        for row in range(grid):
            top, bottom = y1 + row * down, y1 + (row + 1) * down
            for column in range(grid):
                left, right = x1 + column * across, x1 + (column + 1) * across
                bin_mean = out[n, row * grid + column]
                for i in range(int(top), min(height, int(np.ceil(bottom)))):
                    tall = min(bottom, i + 1.0) - max(top, float(i))
                    for j in range(int(left), min(width, int(np.ceil(right)))):
                        wide = min(right, j + 1.0) - max(left, float(j))
                        weight = np.float32(tall * wide / (across * down))
                        for c in range(channels):
                            bin_mean[c] += weight * cells[i, j, c]
    return out

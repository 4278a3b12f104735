"""Appearance of boxes and frames, pooled from feature maps: one forward pass for all boxes.

A box is divided into a grid of bins, and a bin's feature is the mean of the bilinearly
interpolated map over the bin. ROI-align takes that mean over a few samples; here the integral is
taken in closed form (as precise ROI pooling, Jiang et al., ECCV 2018), which is what ROI-align
tends to with many samples, has no sampling to tune and changes smoothly with the box. The
integral is separable, so all boxes of a frame take two matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base import geometry
from objectstates.base.choices import BOX_CONTEXT
from objectstates.base.errors import SettingError
from objectstates.base.jit import compiled_exactly
from objectstates.features.backbones import FeatureMap

Boxes = npt.NDArray[np.floating]  # (N, 4) x1, y1, x2, y2 in pixels

Floats = npt.NDArray[np.float64]
Features = npt.NDArray[np.float32]

GRID = 2  # bins along each side of a box, as in the paper

_BLOCK_BYTES = 64 << 20


def describe_boxes(
    maps: Sequence[FeatureMap],
    boxes: Sequence[Boxes],
    *,
    context: float = BOX_CONTEXT,
    grid: int = GRID,
) -> list[Features]:
    """Describe boxes in a batch of frames: for each frame (N, D), D = grid² x channels of all maps.

    The part of each map is scaled to the same length, and the whole to length 1: no map outweighs
    another, and frames of high contrast do not outweigh others.

    boxes : for each frame of the maps its (N, 4) boxes; N may be 0.
    """
    out = []
    for index, frame_boxes in enumerate(boxes):
        enlarged = enlarge_and_clip(frame_boxes, context, maps[0].size)
        pooled = [pool(m.values[index], m.stride, enlarged, grid) for m in maps]
        parts = [unit(bins.reshape(len(bins), grid**2 * bins.shape[-1])) for bins in pooled]
        out.append(unit(np.concatenate(parts, axis=1)))
    return out


def describe_frames(maps: Sequence[FeatureMap]) -> Features:
    """Describe whole frames: (B, D) of length 1, the mean over the frame of each map."""
    height, width = maps[0].size
    whole = [np.array([[0.0, 0.0, width, height]])] * len(maps[0].values)
    return np.concatenate(describe_boxes(maps, whole, context=1.0, grid=1))


def average(features: Sequence[npt.NDArray[np.float32]] | Features) -> Features:
    """Average the descriptions of a tracklet's frames, (F, D), into one of length 1, (D,)."""
    if len(features) == 0:
        raise SettingError("a tracklet needs at least one frame to be described")
    return unit(np.mean(features, axis=0, dtype=np.float64))


def unit(vectors: npt.NDArray[np.floating]) -> Features:
    """Scale vectors along the last axis to length 1; zero stays zero."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(length > 0, length, 1)).astype(np.float32, copy=False)


def enlarge_and_clip(boxes: Boxes, factor: float, size: tuple[int, int]) -> npt.NDArray[np.float64]:
    """Enlarge boxes about their centres, and clip them to frames of ``size`` (height, width)."""
    if not factor > 0:
        raise SettingError(f"`context` must be a factor above 0, not {factor}")
    out = geometry.clip(geometry.enlarge(np.reshape(boxes, (-1, 4)), factor), size)
    empty = ~(geometry.areas(out) > 0)  # or NaN
    if empty.any():
        raise SettingError(
            f"box {np.reshape(boxes, (-1, 4))[empty][0].tolist()} covers nothing of a frame of "
            f"{size[1]} x {size[0]} pixels (boxes are x1, y1, x2, y2)"
        )
    return out


def pool(
    values: npt.NDArray[np.float32], stride: float, boxes: Boxes, grid: int = GRID
) -> Features:
    """Mean of a map over the bins of boxes: (N, grid, grid, C), rows first.

    values : (h, w, C) map of one frame, whose cells' centres lie ``stride`` pixels apart, the
        first at ``stride / 2``. Beyond the outermost centres the map is constant.
    boxes : (N, 4) pixels, not empty.
    """
    height, width, channels = values.shape
    cells = np.asarray(boxes, np.float64) / stride - 0.5
    across = bin_weights(cells[:, 0], cells[:, 2], width, grid)
    down = bin_weights(cells[:, 1], cells[:, 3], height, grid)
    rows = values.reshape(height, width * channels)
    out = np.empty((len(cells), grid, grid, channels), np.float32)
    block = max(1, _BLOCK_BYTES // (4 * grid * width * channels))
    for start in range(0, len(cells), block):
        part = slice(start, start + block)
        strips = (down[part].reshape(-1, height) @ rows).reshape(-1, grid, width, channels)
        np.matmul(across[part, None], strips, out=out[part])
    return out


@compiled_exactly
def bin_weights(start: Floats, end: Floats, count: int, grid: int) -> Any:
    """(N, grid, count) weight of each of ``count`` cells in the mean over each bin, along one axis.

    start, end : (N,) in units of cells, with cell c centred at c. Linear interpolation is a sum of
    tents, max(0, 1 - |u - c|), whose integral up to u is 1/2 + t - t|t|/2 with t = u - c cut to
    [-1, 1].
    """
    weights = np.zeros((len(start), grid, count), np.float32)
    last = count - 1.0
    for n in range(len(start)):
        step = (end[n] - start[n]) / grid
        for k in range(grid):
            low = start[n] + step * k
            high = start[n] + step * (k + 1)
            inside_low, inside_high = min(max(low, 0.0), last), min(max(high, 0.0), last)
            for c in range(int(inside_low), min(int(inside_high) + 2, count)):
                tent = _tent_integral(inside_high - c) - _tent_integral(inside_low - c)
                weights[n, k, c] = tent / step
            # Beyond the outermost centres the map is constant.
            weights[n, k, 0] += (min(high, 0.0) - min(low, 0.0)) / step
            weights[n, k, count - 1] += (max(high, last) - max(low, last)) / step
    return weights


@compiled_exactly
def _tent_integral(distance: float) -> float:
    t = min(max(distance, -1.0), 1.0)
    return t - t * abs(t) / 2

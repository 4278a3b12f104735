"""Boxes of tracklets as the page stores them: few, and as differences in short integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from objectstates.data.corpus import Array

_STRAIGHT = 0.02  # of the box's longer side: the error at which a motion counts as uniform


def packed_boxes(tracklets: Sequence[Array], most: int) -> list[list[int]]:
    """Of each tracklet's boxes (B, 5) at most ``most``, evenly spaced, as one list of integers.

    A box is time in hundredths of a second, x, y, width, height in pixels, minus those of the box
    before it. Of a uniform motion the first and the last box say all.

    >>> packed_boxes([np.array([[1.0, 10, 20, 40, 60], [1.5, 12, 20, 42, 60]])], most=5)
    [[100, 10, 20, 30, 40, 50, 2, 0, 0, 0]]
    """
    counts = np.array([len(boxes) for boxes in tracklets], np.int64)
    if not counts.any():
        return [[] for _ in tracklets]
    table = np.concatenate([boxes for boxes in tracklets if len(boxes)])
    first = np.concatenate([[0], np.cumsum(counts[counts > 0])[:-1]])
    last = first + counts[counts > 0] - 1
    rows = np.linspace(first, last, most, axis=1).round().astype(np.int64)  # (n, most)
    chosen = table[rows]
    keep = np.ones(rows.shape, bool)
    keep[:, 1:] = rows[:, 1:] > rows[:, :-1]
    uniform = _is_uniform(chosen)
    keep[uniform, 1:] = False
    keep[uniform, -1] |= (last > first)[uniform]
    packed = iter(_differences(chosen, keep))
    return [next(packed) if count else [] for count in counts]


def _is_uniform(boxes: Array) -> npt.NDArray[np.bool_]:
    """(n,) whether the boxes (n, m, 5) lie where the first and the last put them."""
    first, last = boxes[:, :1], boxes[:, -1:]
    seconds = np.maximum(last[..., :1] - first[..., :1], 1e-9)
    expected = first + (boxes[..., :1] - first[..., :1]) / seconds * (last - first)
    error = np.abs(boxes - expected)[..., 1:].max(axis=(1, 2))
    size = (first[:, 0, 3:] - first[:, 0, 1:3]).max(axis=1)
    return np.asarray(error <= np.maximum(_STRAIGHT * size, 1.0))


def _differences(boxes: Array, keep: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Per row of boxes (n, m, 5), those to keep (n, m) as differences from the one before."""
    whole = np.round(boxes * [100, 1, 1, 1, 1]).astype(np.int64)
    whole[..., 3:] -= whole[..., 1:3]
    found = []
    for row, kept in zip(whole, keep, strict=True):
        mine = row[kept]
        mine[1:] -= mine[:-1].copy()
        found.append(mine.ravel().tolist())
    return found

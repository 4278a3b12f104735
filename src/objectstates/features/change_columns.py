"""What discovery learns from a change profile: two columns of the features of chunks.

The *intensity* of a change is how much of the picture changes for good and how fast the changed
places move, as one number. Neither tells alone: what a hand hid is seen to have changed only when
the hand leaves, and a thing that is carried moves fastest after its place has changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.data.clips import ChangeProfile

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

# Chosen on simulated training clips, cropped at either side, 28 other films of windows and faucets,
# and 41 real clips in which a marker is put into a cup, by whether the time of the action was right
# and by its distance from the fastest change: docs/evaluation.md.
SMOOTHING = 1.0  # chunks; standard deviation of the Gaussian: single bins are noisy
STILL_SMOOTHING = 0.4  # chunks; the same of the change alone, where the motion is not known
CURVE_POWER = 0.5  # of how much changes, beside how fast it moves

WIDTHS = (1.0, 2.0)
"""Chunk lengths on either side of a chunk's middle: a column of the intensity within the first, and
one of the change within the second. Motion makes the first sharp. With intensity in both, simulated
windows are found less often; with change in both, real clips of many rooms."""
COLUMN_SCALE = 0.6
"""Half the mean length of the other features of a chunk. On simulated training clips, whole and cut
to 1 or 2 s, less misses actions that reach the end, and twice as much misleads in whole clips. On
real clips it makes no difference."""
CHAIN_COLUMN_SCALE = 1.2
"""The same of a chain: its mean length. Chosen on simulated chains: with less, the arm's approach
and retreat, which all clips share, are taken for the action; 0.8 to 1.5 are about as good."""
LEAST_PEAK = 0.2  # of the largest one; a lower peak is not taken for a change of a chain


def intensity(profile: ChangeProfile, chunk: float) -> Floats:
    """(n,) how much of the picture changes for good and how fast it moves, per bin, in any unit.

    chunk : seconds of a chunk. Without a motion it is how much changes.
    """
    chunks = chunk / profile.step  # in bins
    if profile.motion is None or not profile.motion.any():
        return smoothed(profile.curve, STILL_SMOOTHING * chunks)
    change, motion = (smoothed(c, SMOOTHING * chunks) for c in (profile.curve, profile.motion))
    return np.asarray(change**CURVE_POWER * motion)


def smoothed(curve: npt.NDArray[Any], deviation: float) -> Floats:
    """(n,) the curve, smoothed by a Gaussian of this standard deviation, in bins; 0 outside."""
    from scipy.ndimage import gaussian_filter1d  # takes long to load, and few need it

    return np.asarray(gaussian_filter1d(curve.astype(np.float64), deviation, mode="constant"))


def chunk_columns(profile: ChangeProfile | None, chunks: Floats, *, changes: int = 1) -> Floats32:
    """(T, 2) share of the clip's change around each chunk, relative to the largest in the clip.

    chunks : (T, 2) start and end. Zero where nothing changes, or the profile is unknown.
    changes : of a chain; the columns are then relative to the lowest of so many peaks, and end at
        the height of a peak, so that a small change of the chain counts as much as a large one.
    """
    columns = np.zeros((len(chunks), len(WIDTHS)), np.float32)
    scale = COLUMN_SCALE if changes == 1 else CHAIN_COLUMN_SCALE
    if profile is None:
        return columns
    middles, length = chunks.mean(axis=1), float(np.median(np.diff(chunks, axis=1)))
    edges = profile.start + profile.step * np.arange(len(profile.curve) + 1)
    change = profile.curve.astype(np.float64)
    curves = (change if profile.motion is None else intensity(profile, length)), change
    for column, (width, curve) in enumerate(zip(WIDTHS, curves, strict=True)):
        until = np.concatenate([[0.0], np.cumsum(curve)])
        around = middles[:, None] + width * length * np.array([-1, 1])
        near = np.diff(np.interp(around, edges, until), axis=1)[:, 0]
        if near.max() > 0:
            height = _lowest_peak(near, middles, 2 * width * length, changes)
            columns[:, column] = scale * np.minimum(near, height) / height
    return columns


def _lowest_peak(values: Floats, times: Floats, apart: float, count: int) -> float:
    """The lowest of the ``count`` highest peaks, at least so many seconds ``apart``."""
    highest = lowest = float(values.max())
    left = values.copy()
    for _ in range(count - 1):
        left[np.abs(times - times[left.argmax()]) < apart] = 0
        if left.max() < LEAST_PEAK * highest:
            break
        lowest = float(left.max())
    return lowest

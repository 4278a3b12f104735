"""The moment and the extent of an action, from the change profile of its clip.

The solver finds the action's chunk. The profile (``features/change_profile.py``) tells to a frame
when the picture changes for good near that chunk, and how long the change lasts.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter1d

from objectstates.data.clips import ChangeProfile
from objectstates.data.corpus import Array

# Chosen by distance and overlap with the true action on simulated training clips.
SMOOTHING = 0.3  # chunks; standard deviation, for the moment: single bins are noisy
EXTENT_SMOOTHING = 0.8  # chunks, for the extent: it goes on through short pauses
REACH = 1.5  # chunks on either side of the action's chunk in which the moment is sought
EXTENT = 0.2  # of the curve's height at the moment: the change goes on while the curve is above
LEAST_SHARE = 0.1  # of the clip's whole change that must lie within reach


def moment_and_extent(
    profile: ChangeProfile, start: float, end: float
) -> tuple[float, tuple[float, float]] | None:
    """When the change near the chunk ``[start, end)`` is greatest, and from when to when it lasts.

    All in seconds of the video. None where little changes near the chunk.
    """
    length = end - start
    times = profile.start + profile.step * (np.arange(len(profile.curve)) + 0.5)
    near = (times >= start - REACH * length) & (times < end + REACH * length)
    if profile.curve[near].sum() <= LEAST_SHARE * profile.curve.sum():
        return None
    peak = int(np.where(near, smoothed(profile, SMOOTHING * length), -1.0).argmax())
    height = smoothed(profile, EXTENT_SMOOTHING * length)
    above = height >= EXTENT * height[peak]
    first, last = peak, peak
    while first > 0 and above[first - 1]:
        first -= 1
    while last + 1 < len(above) and above[last + 1]:
        last += 1
    half = profile.step / 2
    return float(times[peak]), (float(times[first] - half), float(times[last] + half))


def smoothed(profile: ChangeProfile, seconds: float) -> Array:
    """(n,) the curve, smoothed by a Gaussian of this standard deviation; 0 outside of the clip."""
    curve = profile.curve.astype(np.float64)
    return np.asarray(gaussian_filter1d(curve, seconds / profile.step, mode="constant"))

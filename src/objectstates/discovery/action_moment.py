"""The moment and the extent of an action, from the change profile of its clip.

The solver finds the action's chunk. The profile (``features/change_profile.py``) tells to a frame
when the picture changes for good near that chunk, and how long the change lasts.

The moment is when the change is most intense (``features/change_columns.py``).
"""

from __future__ import annotations

import numpy as np

from objectstates.data.clips import ChangeProfile
from objectstates.data.corpus import Array
from objectstates.features.change_columns import intensity, smoothed

# Chosen by distance and overlap with the true action on simulated training clips; the reach also by
# action precision on real clips, where less was worse, and more was worse on simulated ones.
EXTENT_SMOOTHING = 0.8  # chunks; standard deviation: the extent goes on through short pauses
CHAIN_EXTENT_SMOOTHING = 2.0
"""The same in a chain. Local curves show less of an action, often only its start or its end, so
that tracklets of its rest had a state. Chosen on simulated chains; 1.6 is about as good."""
REACH = 4.0  # chunks on either side of the action's chunk in which the moment is sought
EXTENT = 0.2  # of the curve's largest height within reach: the change goes on while it is above
LEAST_SHARE = 0.1  # of the clip's whole change that must lie within reach


def moment_and_extent(
    profile: ChangeProfile,
    start: float,
    end: float,
    within: tuple[float, float] = (-np.inf, np.inf),
    smoothing: float = EXTENT_SMOOTHING,
) -> tuple[float, tuple[float, float]] | None:
    """When the change near the chunk ``[start, end)`` is most intense, and how long it lasts.

    All in seconds of the video. None where little changes near the chunk.
    within : when the action may be. ``smoothing`` : of the extent, in chunks.
    """
    length = end - start
    times = profile.start + profile.step * (np.arange(len(profile.curve)) + 0.5)
    near = (times >= start - REACH * length) & (times < end + REACH * length)
    near &= (times >= within[0]) & (times <= within[1])
    if profile.curve[near].sum() <= LEAST_SHARE * profile.curve.sum():
        return None
    bins = length / profile.step
    height = smoothed(profile.curve, smoothing * bins)
    changes = height >= EXTENT * height[near].max()
    peak = peak_bin(profile, near & changes, length)
    first, last = peak, peak
    while first > 0 and changes[first - 1]:
        first -= 1
    while last + 1 < len(changes) and changes[last + 1]:
        last += 1
    half = profile.step / 2
    return float(times[peak]), (float(times[first] - half), float(times[last] + half))


def peak_bin(profile: ChangeProfile, considered: Array, length: float) -> int:
    """The bin, of those ``considered`` (n,), in which the change is most intense.

    length : seconds of a chunk.
    """
    return int(np.where(considered, intensity(profile, length), -1.0).argmax())

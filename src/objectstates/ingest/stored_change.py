"""What changes in a clip, as arrays for the cache.

The profile of a clip is stored with its observation, or in an entry of its own if the clip has
several segments. That entry also holds all that the detector ``motion`` needs, so that the
segments need not read the whole video again.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from objectstates.base.cache import Arrays, Entry
from objectstates.data.clips import ChangeProfile
from objectstates.features.change_profile import ClipChange, profile_of

_PREFIX = "clip_change_"


def profile_arrays(change: ClipChange | None, origin: float | None) -> Arrays:
    """The `ChangeProfile` of a clip; the arrays are empty if there is none.

    ``change_time`` is its start and its step in seconds, and its scale. ``origin`` : see
    `ClipSpan.origin`.
    """
    if change is None:
        numbers, where = np.empty(0, np.float32), np.empty((0, 0), np.uint8)
        return _profile(np.empty(0), numbers, where, numbers, numbers)
    profile = profile_of(change)
    time = np.array([profile.start + (origin or 0.0), profile.step, profile.scale])
    local, motion = (
        np.empty(0, np.float32) if curve is None else curve
        for curve in (profile.local, profile.motion)
    )
    return _profile(time, profile.curve, profile.where, local, motion)


def _profile(time: Any, curve: Any, where: Any, local: Any, motion: Any) -> Arrays:
    return {
        "change_time": time,
        "change_curve": curve,
        "change_where": where,
        "change_local": local,
        "change_motion": motion,
    }


def stored_profile(entry: Entry) -> ChangeProfile | None:
    """The inverse of `profile_arrays`."""
    names = ("time", "curve", "where", "local", "motion")
    time, curve, where, local, motion = (entry[f"change_{name}"] for name in names)
    if not len(time):
        return None
    start, step, scale = map(float, time)
    known = (values if len(values) else None for values in (local, motion))
    return ChangeProfile(start, step, curve, where, scale, *known)


def change_arrays(change: ClipChange) -> Arrays:
    """All of a `ClipChange`; a field that is None is left out."""
    values = {field.name: getattr(change, field.name) for field in fields(ClipChange)}
    return {_PREFIX + name: np.asarray(v) for name, v in values.items() if v is not None}


def stored_change(arrays: Arrays) -> ClipChange:
    """The inverse of `change_arrays`; other arrays are ignored."""
    values: dict[str, Any] = {
        name.removeprefix(_PREFIX): array if array.ndim else float(array)
        for name, array in arrays.items()
        if name.startswith(_PREFIX)
    }
    return ClipChange(**values)

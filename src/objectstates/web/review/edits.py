"""What a person does to a clip in review, as changes of its rows of corrections.

Each function takes the rows of one clip and returns its new rows. Whether they contradict each
other, or the clip, is checked by `Refitter.check` before anything is written.
"""

from __future__ import annotations

from typing import Literal, get_args

from objectstates.base.errors import CorrectionError
from objectstates.data.corrections import LEAVES_OUT, Correction

Rows = tuple[Correction, ...]
Told = Literal["1", "2", "not_object", ""]
"""What a person says of a tracklet: its state, that it is not the object, or nothing."""
TOLD: tuple[Told, ...] = get_args(Told)

_SAME = 1e-3  # seconds; times that differ by less are those of the same tracklet


def with_action(rows: Rows, clip: str, start: float, end: float) -> Rows:
    """The action happens within start to end; the clip takes part."""
    return (
        *_without(rows, "action", "confirm", *LEAVES_OUT),
        Correction(clip, "action", start, end),
    )


def with_confirmation(rows: Rows, clip: str, start: float, end: float) -> Rows:
    """The action is as found, from start to end; the clip takes part."""
    others = _without(rows, "action", "confirm", *LEAVES_OUT)
    return (*others, Correction(clip, "confirm", start, end))


def with_toggled(rows: Rows, clip: str, kind: Literal["exclude", "no_change"]) -> Rows:
    """Leave the clip out for this reason, or take it in again."""
    others = _without(rows, *LEAVES_OUT)
    if any(row.kind == kind for row in rows):
        return others
    if kind == "no_change":  # which an action would contradict
        others = _without(others, "action", "confirm")
    return (*others, Correction(clip, kind))


def with_state(rows: Rows, clip: str, start: float, end: float, state: Literal["1", "2"]) -> Rows:
    """The object is in this state from start to end; replaces what was said of the same times."""
    others = tuple(row for row in rows if not _is_state_of(row, start, end))
    return (*others, Correction(clip, "state", start, end, state))


def with_tracklet(
    rows: Rows, clip: str, index: int, interval: tuple[float, float], told: Told
) -> Rows:
    """What a tracklet shows: a state (during its time), not the object, or as found.

    index : of the tracklet within its clip; ``interval`` its start and end.
    """
    others = tuple(
        row
        for row in rows
        if not _is_state_of(row, *interval)
        and not (row.kind == "not_object" and row.value == str(index))
    )
    match told:
        case "":
            return others
        case "not_object":
            return (*others, Correction(clip, "not_object", value=str(index)))
        case "1" | "2":
            return with_state(others, clip, *interval, told)
    raise CorrectionError(f"there is no answer {told!r} for a tracklet: 1, 2, not_object or none")


def told_of(rows: Rows, index: int, interval: tuple[float, float]) -> Told:
    """What the rows of a clip say of one of its tracklets by itself."""
    for row in rows:
        if row.kind == "not_object" and row.value == str(index):
            return "not_object"
        if _is_state_of(row, *interval):
            return "1" if row.value == "1" else "2"
    return ""


def _without(rows: Rows, *kinds: str) -> Rows:
    return tuple(row for row in rows if row.kind not in kinds)


def _is_state_of(row: Correction, start: float, end: float) -> bool:
    return (
        row.kind == "state"
        and row.start is not None
        and row.end is not None
        and abs(row.start - start) < _SAME
        and abs(row.end - end) < _SAME
    )

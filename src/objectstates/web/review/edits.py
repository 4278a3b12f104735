"""What a person does to a clip in review, as changes of its rows of corrections.

Each function takes the rows of one clip and returns its new rows. Whether they contradict each
other, or the clip, is checked by `Refitter.check` before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from objectstates.base.errors import CorrectionError
from objectstates.data.corrections import LEAVES_OUT, Correction

Rows = tuple[Correction, ...]
NOT_OBJECT: Literal["not_object"] = "not_object"
"""The correction of a tracklet: the number of its state, this, or nothing ("")."""

_SAME = 1e-3  # seconds; times that differ by less are those of the same tracklet


def with_action(rows: Rows, clip: str, start: float, end: float, action: str = "") -> Rows:
    """The action happens within start to end; the clip takes part.

    action : its number in a chain of changes; empty where there is one.
    """
    others = tuple(row for row in _without(rows, *LEAVES_OUT) if not is_of_action(row, action))
    return (*others, Correction(clip, "action", start, end, action))


def with_confirmation(rows: Rows, clip: str, spans: Mapping[str, tuple[float, float]]) -> Rows:
    """The actions are as found; the clip takes part.

    spans : start and end of each, by its number as in `with_action`.
    """
    others = _without(rows, "action", "confirm", *LEAVES_OUT)
    return (*others, *(Correction(clip, "confirm", *span, k) for k, span in spans.items()))


def is_of_action(row: Correction, action: str) -> bool:
    """Whether a row says when this action is, given by its number as in `with_action`."""
    return row.kind in ("action", "confirm") and row.value in (action, "")


def with_toggled(rows: Rows, clip: str, kind: Literal["exclude", "no_change"]) -> Rows:
    """Leave the clip out for this reason, or take it in again."""
    others = _without(rows, *LEAVES_OUT)
    if any(row.kind == kind for row in rows):
        return others
    if kind == "no_change":  # which an action would contradict
        others = _without(others, "action", "confirm")
    return (*others, Correction(clip, kind))


def with_state(rows: Rows, clip: str, start: float, end: float, state: str) -> Rows:
    """The object is in this state from start to end; replaces what was said of the same times."""
    others = tuple(row for row in rows if not _is_state_of(row, start, end))
    return (*others, Correction(clip, "state", start, end, state))


def with_tracklet(
    rows: Rows, clip: str, index: int, interval: tuple[float, float], value: str
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
    if value == "":
        return others
    if value == NOT_OBJECT:
        return (*others, Correction(clip, NOT_OBJECT, value=str(index)))
    if value.isdigit():
        return with_state(others, clip, *interval, value)
    raise CorrectionError(
        f"there is no answer {value!r} for a tracklet: the number of a state, not_object or none"
    )


def correction_of(rows: Rows, index: int, interval: tuple[float, float]) -> str:
    """The correction of one tracklet of a clip by itself, if its rows have one."""
    for row in rows:
        if row.kind == "not_object" and row.value == str(index):
            return NOT_OBJECT
        if _is_state_of(row, *interval):
            return row.value
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

"""One correction by a person: what is known about a clip, or a part of it.

Kinds, with times in seconds of the video (an empty start or end is that of the clip):

* ``action``: it happens within start to end; if both are given, they are its interval. ``value``
  is its number in a chain of actions: 1, or empty.
* ``confirm``: all is as found. With times it constrains like ``action``; without, the times are
  those of the result that the corrections are applied to (``discovery/corrections.py``).
* ``state``: from start to end the object is in the state ``value``: 1, 2, or the state's name.
* ``not_object``: tracklets within start to end do not show the object; with ``value``, the index of
  a tracklet within its clip, that tracklet alone.
* ``no_change``: nothing happens in the clip. ``exclude``: the clip takes no part, for any reason.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, get_args

from objectstates.base.errors import CorrectionError

Kind = Literal["action", "confirm", "state", "not_object", "no_change", "exclude"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LEAVES_OUT: frozenset[Kind] = frozenset({"no_change", "exclude"})
"""Kinds with which a clip takes no part."""

MAX_TEXT = 1000  # characters of a clip id or a value


@dataclass(frozen=True, slots=True)
class Correction:
    """One row. Invalid values raise `CorrectionError`.

    start, end : seconds of the video; None is the start or the end of the clip.
    line : its line in the file, counted from 1, and ``file`` its name; 0 and "" without a file.
    """

    clip: str
    kind: Kind
    start: float | None = None
    end: float | None = None
    value: str = ""
    line: int = field(default=0, compare=False)
    file: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem is not None:
            raise CorrectionError(f"{self.place}: {problem}")

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        if self.line:
            return f"{self.file or 'corrections'}, line {self.line}"
        of_file = f"{self.file}, " if self.file else ""
        return f"{of_file}correction {self.kind!r} of clip {self.clip!r}"

    def within(self, first: float, last: float) -> tuple[float, float]:
        """Start and end, given those of the clip."""
        return (
            first if self.start is None else self.start,
            last if self.end is None else self.end,
        )

    def to_json(self) -> dict[str, Any]:
        """For the header of a result."""
        return {name: value for name, value in asdict(self).items() if name != "file"}


def corrections_from_json(values: Any) -> tuple[Correction, ...]:
    """Raise TypeError or ValueError unless ``values`` are rows as `Correction.to_json` has them."""
    if not isinstance(values, list):
        raise TypeError("corrections are not a list")
    return tuple(Correction(**row) for row in values)


def _problem(row: Correction) -> str | None:
    """What is wrong with a row by itself; None if nothing is."""
    if row.kind not in KINDS:
        near = get_close_matches(str(row.kind), KINDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it must be one of {', '.join(KINDS)}"
        return f"there is no kind {short(row.kind)}: {hint}"
    for name, text in (("clip", row.clip), ("value", row.value)):
        if not isinstance(text, str) or len(text) > MAX_TEXT:
            return f"the {name} must be text of at most {MAX_TEXT} characters"
    if not row.clip:
        return "the clip is missing"
    for name, time in (("start", row.start), ("end", row.end)):
        if time is not None and not (isinstance(time, int | float) and 0 <= time < math.inf):
            return f"{name} must be a number of seconds of at least 0, not {short(time)}"
    if row.start is not None and row.end is not None and not row.start < row.end:
        return f"it starts at {row.start:g} s and ends at {row.end:g} s: the end must be later"
    return _value_problem(row)


def _value_problem(row: Correction) -> str | None:
    timed = row.start is not None or row.end is not None
    match row.kind:
        case "action" if not timed:
            return "an action needs a start or an end"
        case "state" if not row.value:
            return "a state needs a value: 1, 2 or the state's name"
        case "not_object" if row.value and not (row.value.isascii() and row.value.isdigit()):
            return f"value {short(row.value)} is not the index of a tracklet: 0, 1, ..."
        case "no_change" | "exclude" if row.value:
            return f"{row.kind} takes no value, but {short(row.value)} is given"
        case "no_change" | "exclude" if timed:
            return f"{row.kind} concerns the whole clip: leave start and end empty"
    return None


def short(value: object) -> str:
    """A value as Python writes it, cut to 60 characters, for messages."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

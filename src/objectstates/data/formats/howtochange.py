"""HowToChange's evaluation list: a CSV with the intervals of both states and the transition."""

from __future__ import annotations

import ast
import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from objectstates.base.errors import TruthError
from objectstates.data.truth import VideoSeconds

_LONGEST = 1e6  # seconds of a clip (11 days)

Intervals = tuple[tuple[float, float], ...]

_COLUMNS = {
    "video_name", "video_id", "start_time", "duration", "initial_state", "transitioning_state",
    "end_state", "osc", "is_novel_osc",
}  # fmt: skip


@dataclass(frozen=True)
class HowToChangeClip:
    """A clip; ``start`` is in seconds of the video, intervals are in seconds of the clip.

    category : the object state change, such as ``rolling_pasta``.
    novel : whether the category is absent from the training set.
    """

    name: str
    video: str
    category: str
    novel: bool
    start: float
    duration: float
    first_state: Intervals
    action: Intervals
    second_state: Intervals

    def seconds(self) -> VideoSeconds:
        """Labels per second, by the middle of each; the action takes precedence over states."""
        middle = np.arange(math.ceil(self.duration)) + 0.5
        labels = np.zeros(len(middle), np.int8)
        for label, intervals in ((1, self.first_state), (3, self.second_state), (2, self.action)):
            for start, end in intervals:
                labels[(middle >= start) & (middle < end)] = label
        return VideoSeconds(self.category, self.name, labels)


def read_howtochange(path: str | Path) -> list[HowToChangeClip]:
    """Read the whole list."""
    path = Path(path)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            missing = _COLUMNS - {*(reader.fieldnames or ())}
            if missing:
                raise TruthError(f"{path} lacks the columns {', '.join(sorted(missing))}")
            return [_clip(path, reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise TruthError(f"{path} cannot be read: {problem}") from problem


def _clip(path: Path, line: int, row: dict[str, str]) -> HowToChangeClip:
    try:
        duration = float(row["duration"])
        if not 0 <= duration <= _LONGEST:
            raise ValueError(f"the duration {duration:g} s is not from 0 to {_LONGEST:g}")
        return HowToChangeClip(
            name=row["video_name"],
            video=row["video_id"],
            category=row["osc"],
            novel={"True": True, "False": False}[row["is_novel_osc"]],
            start=float(row["start_time"]),
            duration=duration,
            first_state=_intervals(row["initial_state"]),
            action=_intervals(row["transitioning_state"]),
            second_state=_intervals(row["end_state"]),
        )
    except (KeyError, TypeError, ValueError, SyntaxError, RecursionError, MemoryError) as problem:
        raise TruthError(f"{path}, line {line}: {problem}; correct this line") from problem


def _intervals(text: str) -> Intervals:
    """Parse a list of pairs, a Python literal, without evaluating it."""
    value = ast.literal_eval(text)
    if not isinstance(value, list):
        raise ValueError(f"{text!r} is not a list of intervals")
    pairs = tuple((float(start), float(end)) for start, end in value)
    if not all(0 <= start <= end < math.inf for start, end in pairs):
        raise ValueError(f"{text!r} has an interval that ends before it starts")
    return pairs

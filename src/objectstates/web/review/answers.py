"""The answer of each clip, to be shown and compared with earlier ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from objectstates.data.result import Result
from objectstates.report.clip_view import ClipView, view_clips

_MOVED = 0.25  # seconds by which an edge of the action or of a state must move to be a change


@dataclass(frozen=True)
class Answer:
    """What was found in a clip.

    action : start and end in seconds, and ``time`` its moment; None if it has none.
    states : intervals of state 1 and of state 2, in seconds.
    left_out : why the clip takes no part; empty if it does.
    """

    action: tuple[float, float] | None = None
    time: float | None = None
    states: tuple[tuple[tuple[float, float], ...], tuple[tuple[float, float], ...]] = ((), ())
    left_out: str = ""
    outlier: str = ""

    def differs(self, other: Answer) -> bool:
        """Whether a person would call it another answer."""
        if bool(self.left_out) != bool(other.left_out):
            return True
        pairs = [(self._edges, other._edges)]
        pairs += [(self.states[k], other.states[k]) for k in (0, 1)]
        return any(_apart(one, two) for one, two in pairs)

    @property
    def _edges(self) -> tuple[tuple[float, float], ...]:
        return () if self.action is None else (self.action,)

    def to_json(self) -> dict[str, Any]:
        return {
            "action": self.action and _rounded(self.action),
            "time": None if self.time is None else round(self.time, 4),
            "states": [[_rounded(each) for each in intervals] for intervals in self.states],
            "left_out": self.left_out,
            "outlier": self.outlier,
        }


def answers_of(result: Result) -> dict[str, Answer]:
    """By clip, with those that were left out."""
    outliers = {clip.clip: clip.reason for clip in result.set_aside}
    found = {view.name: answer_of(view, outliers.get(view.name, "")) for view in view_clips(result)}
    return found | {clip.clip: Answer(left_out=clip.reason) for clip in result.skipped}


def answer_of(view: ClipView, outlier: str = "") -> Answer:
    """The answer of one clip of a result."""
    action = view.action
    return Answer(
        None if action is None else (action.start, action.end),
        None if action is None else action.time,
        (_intervals(view, 1), _intervals(view, 2)),
        outlier=outlier,
    )


def chances_of(result: Result) -> dict[str, tuple[float, float, float]] | None:
    """By clip, the chances that action, state 1 and state 2 are right; None without a verdict."""
    if result.confidences is None:
        return None
    rows = zip(result.clips, result.confidences.tolist(), strict=True)
    return {clip: (row[0], row[1], row[2]) for clip, row in rows}


def confidence(chances: tuple[float, float, float]) -> float | None:
    """The share of the answers that is right, as ``Result.confidence``; None if not known."""
    known = [(x, w) for x, w in zip(chances, (2, 1, 1), strict=True) if not math.isnan(x)]
    weight = sum(w for _, w in known)
    return sum(x * w for x, w in known) / weight if weight else None


def changed(answers: Mapping[str, Answer], since: Mapping[str, Answer]) -> set[str]:
    """The clips whose answer differs."""
    return {
        clip for clip, answer in answers.items() if clip in since and answer.differs(since[clip])
    }


def _intervals(view: ClipView, state: int) -> tuple[tuple[float, float], ...]:
    return tuple((segment.start, segment.end) for segment in view.state_segments(state))


def _apart(one: tuple[tuple[float, float], ...], two: tuple[tuple[float, float], ...]) -> bool:
    if len(one) != len(two):
        return True
    edges = zip(sum(one, ()), sum(two, ()), strict=True)
    return any(abs(a - b) > _MOVED for a, b in edges)


def _rounded(interval: tuple[float, float]) -> list[float]:
    return [round(edge, 4) for edge in interval]

"""The answer of each clip, to be shown and compared with earlier ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from objectstates.data.result import Result
from objectstates.report.clip_view import ClipView, view_clips

_MOVED = 0.25  # seconds by which an edge of an action or of a state must move to be a change

Interval = tuple[float, float]
Chances = tuple[float, ...]
"""That each action, then each state is right; NaN for what was not sought."""


@dataclass(frozen=True)
class Answer:
    """What was found in a clip.

    actions : of each action of the chain, start and end in seconds; None if the clip lacks it.
    times : the moments of these.
    states : of each state its intervals, in seconds.
    left_out : why the clip takes no part; empty if it does.
    """

    actions: tuple[Interval | None, ...] = ()
    times: tuple[float | None, ...] = ()
    states: tuple[tuple[Interval, ...], ...] = ()
    left_out: str = ""
    outlier: str = ""

    def differs(self, other: Answer) -> bool:
        """Whether a person would call it another answer."""
        if bool(self.left_out) != bool(other.left_out):
            return True
        pairs = zip_longest(self._intervals, other._intervals, fillvalue=())
        return any(_apart(one, two) for one, two in pairs)

    @property
    def _intervals(self) -> list[tuple[Interval, ...]]:
        """Of the actions, then of the states."""
        return [*(() if action is None else (action,) for action in self.actions), *self.states]

    def to_json(self) -> dict[str, Any]:
        return {
            "actions": [action and _rounded(action) for action in self.actions],
            "times": [None if time is None else round(time, 4) for time in self.times],
            "states": [[_rounded(each) for each in intervals] for intervals in self.states],
            "left_out": self.left_out,
            "outlier": self.outlier,
        }


def answers_of(result: Result) -> dict[str, Answer]:
    """By clip, with those that were left out."""
    outliers = {clip.clip: clip.reason for clip in result.set_aside}
    found = {view.name: answer_of(view, outliers.get(view.name, "")) for view in view_clips(result)}
    return found | {clip.clip: left_out(result, clip.reason) for clip in result.skipped}


def left_out(result: Result, reason: str) -> Answer:
    """The answer of a clip that takes no part."""
    nothing = (None,) * result.n_actions
    return Answer(nothing, nothing, ((),) * result.n_states, left_out=reason)


def answer_of(view: ClipView, outlier: str = "") -> Answer:
    """The answer of one clip of a result."""
    found = {action.label: action for action in view.actions}
    actions = [found.get(label) for label in view.result.action_labels]
    return Answer(
        tuple(None if action is None else (action.start, action.end) for action in actions),
        tuple(None if action is None else action.time for action in actions),
        tuple(_intervals(view, k) for k in range(1, view.result.n_states + 1)),
        outlier=outlier,
    )


def chances_of(result: Result) -> dict[str, Chances] | None:
    """By clip, the chances that actions and states are right; None without a verdict."""
    if result.confidences is None:
        return None
    rows = zip(result.clips, result.confidences.tolist(), strict=True)
    return {clip: tuple(row) for clip, row in rows}


def confidence(chances: Chances) -> float | None:
    """The share of the answers that is right, as ``Result.confidence``; None if not known."""
    n_actions = len(chances) // 2
    weights = [(n_actions + 1) / n_actions] * n_actions + [1.0] * (n_actions + 1)
    known = [(x, w) for x, w in zip(chances, weights, strict=True) if not math.isnan(x)]
    weight = sum(w for _, w in known)
    return sum(x * w for x, w in known) / weight if weight else None


def changed(answers: Mapping[str, Answer], since: Mapping[str, Answer]) -> set[str]:
    """The clips whose answer differs."""
    return {
        clip for clip, answer in answers.items() if clip in since and answer.differs(since[clip])
    }


def _intervals(view: ClipView, state: int) -> tuple[Interval, ...]:
    return tuple((segment.start, segment.end) for segment in view.state_segments(state))


def _apart(one: tuple[Interval, ...], two: tuple[Interval, ...]) -> bool:
    if len(one) != len(two):
        return True
    edges = zip(sum(one, ()), sum(two, ()), strict=True)
    return any(abs(a - b) > _MOVED for a, b in edges)


def _rounded(interval: Interval) -> list[float]:
    return [round(edge, 4) for edge in interval]

"""A clip's labels compared with the truth: the true actions, mistakes, and how much is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from objectstates.data.clips import TrackletLabel
from objectstates.data.corpus import UNKNOWN, Array
from objectstates.data.result import Result
from objectstates.data.truth_labels import truth_count
from objectstates.report.clip_parts import Action, TrackletView

MISTAKES = {
    "object": "not the object",
    "state": "wrong state",
    "ambiguous": "ambiguous",
    "action": "action off",
}
"""The kinds of mistakes, and their names on the page."""

Intervals = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A label that the truth contradicts. ``kind`` is a key of `MISTAKES`."""

    kind: str
    time: float
    text: str


@dataclass(frozen=True)
class JudgedClip:
    """The labels of a clip beside their truth.

    true_actions : per action the intervals in which it truly happens; None if that is not known.
    action_errors : per action that was found, seconds from its chunk to the nearest true interval,
        0 inside one, infinite if the clip truly has no such action; None without truth. The truth
        is known by chunks, so the chunk is judged, as precision does, and not the moment.
    mistakes : sorted by time.
    disagreement : from 0 (all right) to 1 (all wrong), None without truth. Weighted like
        `Result.confidence`: the actions count as much as the states.
    """

    true_actions: tuple[Intervals, ...] | None
    action_errors: tuple[float | None, ...]
    mistakes: tuple[Mistake, ...]
    disagreement: float | None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Each kind of mistake once, in the order of `MISTAKES`."""
        found = {mistake.kind for mistake in self.mistakes}
        return tuple(kind for kind in MISTAKES if kind in found)

    @property
    def action_error(self) -> float | None:
        """The largest of `action_errors`; None if none is known."""
        return max((far for far in self.action_errors if far is not None), default=None)


def judge_clip(
    result: Result, number: int, tracklets: Sequence[TrackletView], actions: Sequence[Action]
) -> JudgedClip:
    """Judge the labels of clip ``number``: its tracklets, and the actions that it has."""
    truth = _true_actions(result, number)
    errors = tuple(_action_error(result, number, action, truth) for action in actions)
    found = [
        *_state_mistakes(tracklets, by_time=truth_count(result.corpus).by_time),
        *_action_mistakes(actions, errors),
        *_missing_actions(result, actions, truth),
    ]
    return JudgedClip(
        truth,
        errors,
        tuple(sorted(found, key=lambda mistake: mistake.time)),
        _disagreement(result, number, tracklets, actions),
    )


def _true_actions(result: Result, number: int) -> tuple[Intervals, ...] | None:
    table, rows = result.corpus.chunks, list(result.corpus.chunk_rows(number))
    start, end, label = table.start[rows], table.end[rows], table.label[rows]
    if (label == UNKNOWN).all():
        return None
    found = []
    for k in range(1, result.n_actions + 1):
        edges = np.flatnonzero(np.diff(label == k, prepend=False, append=False))
        runs = zip(edges[::2], edges[1::2], strict=True)
        found.append(tuple((float(start[a]), float(end[b - 1])) for a, b in runs))
    return tuple(found)


def _action_error(
    result: Result, number: int, action: Action, truth: tuple[Intervals, ...] | None
) -> float | None:
    if truth is None:
        return None
    corpus = result.corpus
    time = float(corpus.chunks.time[corpus.chunk_rows(number)[action.chunk]])
    intervals = truth[action.number - 1]
    return min((max(a - time, time - b, 0.0) for a, b in intervals), default=math.inf)


def _state_mistakes(tracklets: Sequence[TrackletView], *, by_time: bool) -> list[Mistake]:
    found = []
    for t in tracklets:
        if t.state == 0 or t.truth is None or t.truth == t.state:
            continue
        what = f"state {t.state} at {t.time:.1f} s is"
        match t.truth:
            case TrackletLabel.FALSE_POSITIVE:
                found.append(Mistake("object", t.time, f"{what} not the object"))
            case TrackletLabel.AMBIGUOUS:
                found.append(Mistake("ambiguous", t.time, f"{what} ambiguous"))
            case truth:
                known = "by time" if by_time else "truly"
                found.append(Mistake("state", t.time, f"{what} {known} state {truth}"))
    return found


def _action_mistakes(actions: Sequence[Action], errors: Sequence[float | None]) -> list[Mistake]:
    found = []
    for action, far in zip(actions, errors, strict=True):
        if not far:
            continue
        name = action.label.replace("_", " ")
        text = f"{name} off by {far:.1f} s" if np.isfinite(far) else f"no true {name} to find"
        found.append(Mistake("action", action.time, text))
    return found


def _missing_actions(
    result: Result, actions: Sequence[Action], truth: tuple[Intervals, ...] | None
) -> list[Mistake]:
    """Those that truly happen in the clip, and that its chain was said to lack."""
    if truth is None or not (result.actions.chunk >= 0).any():
        return []
    found = {action.number for action in actions}
    return [
        Mistake("action", intervals[0][0], f"{label.replace('_', ' ')} was not found")
        for k, (label, intervals) in enumerate(zip(result.action_labels, truth, strict=True), 1)
        if intervals and k not in found
    ]


def _disagreement(
    result: Result, number: int, tracklets: Sequence[TrackletView], actions: Sequence[Action]
) -> float | None:
    n_actions = result.n_actions
    parts: list[tuple[float, float]] = []  # how much is right, weight
    if (result.actions.chunk >= 0).any():
        shown = result.corpus.chunks.label[list(result.corpus.chunk_rows(number))]
        chunks = {action.number: action.chunk for action in actions}
        weight = (n_actions + 1) / n_actions
        parts += [
            (_right_action(shown, chunks.get(k), k, n_actions), weight)
            for k in range(1, n_actions + 1)
        ]
    if result.state.any():
        parts += [
            (_right_states(tracklets, k, result.n_states), 1.0)
            for k in range(1, result.n_states + 1)
        ]
    known = [(right, weight) for right, weight in parts if not np.isnan(right)]
    if not known:
        return None
    return 1 - sum(v * w for v, w in known) / sum(w for _, w in known)


def _right_action(shown: Array, chunk: int | None, number: int, n_actions: int) -> float:
    """1 or 0; NaN without truth, and for an action that a chain rightly lacks."""
    if chunk is not None:
        return math.nan if shown[chunk] == UNKNOWN else float(shown[chunk] == number)
    if (shown == UNKNOWN).all() or (n_actions > 1 and not (shown == number).any()):
        return math.nan
    return 0.0


def _right_states(tracklets: Sequence[TrackletView], state: int, n_states: int) -> float:
    """The share that is right of the tracklets with a state; 0 if a state has none.

    NaN without truth, and for a state that a chain rightly lacks.
    """
    truths = [t.truth for t in tracklets if t.truth is not None]
    if not truths:
        return math.nan
    mine = [t for t in tracklets if t.state == state]
    if not mine:
        return math.nan if n_states > 2 and state not in truths else 0.0
    right = [t.truth == state for t in mine if t.truth is not None]
    return sum(right) / len(right) if right else math.nan

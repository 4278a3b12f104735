"""From a corpus to the arrays of the solver: constraints of both sides, and what cannot be met."""

from __future__ import annotations

import numpy as np

from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import SkippedClip
from objectstates.solver.oracle import Constraints, feasible, one_row, ordered_states


def state_constraints(
    corpus: Corpus, *, exactly_one: bool = False, penalty: float = 0.0
) -> Constraints:
    """Ordered, non-overlapping states on the tracklets.

    ``penalty`` is what labelling a tracklet of detection score 0 costs; at score 1 it is free.
    """
    table = corpus.tracklets
    cost = penalty * (1 - table.score)
    return ordered_states(
        table.start,
        table.end,
        table.offsets,
        linear=np.where(table.allowed, cost[:, None], np.inf),
        times=table.time,
        exactly_one=exactly_one,
    )


def action_constraints(corpus: Corpus) -> Constraints:
    """Exactly one allowed chunk per clip."""
    table = corpus.chunks
    linear = np.where(table.allowed, 0.0, np.inf)[:, None]
    return one_row(table.offsets, linear=linear, times=table.time)


def no_states(n_clips: int) -> Constraints:
    """The state side when only actions are sought: no rows."""
    none, offsets = np.empty(0), np.zeros(n_clips + 1, np.int64)
    return ordered_states(none, none, offsets, linear=np.empty((0, 2)))


def no_action(n_clips: int) -> Constraints:
    """The action side when only states are sought: no rows."""
    offsets = np.zeros(n_clips + 1, np.int64)
    return one_row(offsets, linear=np.empty((0, 1)), times=np.empty(0))


def infeasible_clips(
    corpus: Corpus, action: Constraints | None, state: Constraints | None
) -> tuple[SkippedClip, ...]:
    """The clips that admit no labelling, and why. None is a side that is not sought."""
    reasons: dict[int, str] = {}
    if action is not None:
        for n in _impossible(action):
            reasons[n] = "the action is allowed in none of its chunks"
    if state is not None:
        for n in _impossible(state):
            count = len(corpus.tracklet_rows(n))
            reasons[n] = (
                f"it has {count} tracklet(s), of which no two can be state 1 and then state 2 "
                "(they overlap, or labels are forbidden)"
            )
    return tuple(SkippedClip(corpus.clip_ids[n], reasons[n]) for n in sorted(reasons))


def _impossible(constraints: Constraints) -> list[int]:
    indices: Array = np.flatnonzero(~feasible(constraints))
    return [int(n) for n in indices]

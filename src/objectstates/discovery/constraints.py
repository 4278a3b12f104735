"""From a corpus to the solver's constraints, and the clips that admit no labelling."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from objectstates.base.choices import ConstraintName, OnInfeasible, Target
from objectstates.base.errors import InfeasibleClipError
from objectstates.data.corpus import Array, Corpus
from objectstates.data.label_names import classes_of
from objectstates.data.result import SkippedClip
from objectstates.discovery.labelling import OptionalSteps
from objectstates.solver.cost import normaliser
from objectstates.solver.oracle import Constraints, feasible, one_row, ordered_states


class InfeasibleClipWarning(UserWarning):
    """Clips were left out because they admit no labelling."""


@dataclass(frozen=True)
class Formulation:
    """The settings of the estimator that shape the constraints.

    optional : numbers, from 1, of the actions that a clip may lack, with the state after each.
    price : of lacking one (``labelling.OptionalSteps``); in the objective, in wrong labels of each
        side.
    pattern : which states share a classifier, such as "ABA"; None if each has its own.
    """

    target: Target
    constraint: ConstraintName
    detection_weight: float
    optional: tuple[int, ...] = ()
    price: float = 0.0
    pattern: str | None = None

    @property
    def steps(self) -> OptionalSteps:
        """Those that a clip may lack."""
        return OptionalSteps(self.optional, self.price)

    def constraints(
        self, corpus: Corpus, n_chunks: int, n_tracklets: int, *, required: bool = False
    ) -> tuple[Constraints, Constraints]:
        """Of actions and states; the side that is not sought has no rows.

        n_chunks, n_tracklets : T and M of the objective, which prices and detection scores are
            weighed by.
        required : every clip has all steps.
        """
        changes = corpus.n_states - 1
        price = self.price / np.array([normaliser(max(n, 1)) for n in (n_chunks, n_tracklets)])
        optional = np.array([k + 1 in self.optional and not required for k in range(changes)])
        of_actions = np.where(optional, price[0], np.inf)
        of_states = np.where(np.concatenate([[False], optional]), price[1], np.inf)
        if self.target == "state":
            action = no_action(len(corpus), changes)
        else:
            action = action_constraints(corpus, absent=of_actions)
        if self.target == "action":
            return action, no_states(len(corpus), changes + 1)
        return action, state_constraints(
            corpus,
            exactly_one=self.constraint == "exactly_one",
            penalty=self.detection_weight / max(n_tracklets, 1),
            absent=of_states,
        )

    def classes(self, n_states: int) -> Array:
        """(K,) the column of the states' classifier that each state uses."""
        return classes_of(self.pattern, n_states)

    def leave_out_infeasible(
        self,
        corpus: Corpus,
        on_infeasible: OnInfeasible,
        corrected: Mapping[str, str] | None = None,
    ) -> tuple[tuple[SkippedClip, ...], Corpus]:
        """The clips that admit no labelling, and the corpus of the others.

        corrected : for clips with corrections, where these are; it becomes part of the reason.
        """
        action, state = self.constraints(corpus, 1, 1)
        skipped = infeasible_clips(
            corpus,
            None if self.target == "state" else action,
            None if self.target == "action" else state,
        )
        if not skipped:
            return skipped, corpus
        at = corrected or {}
        skipped = tuple(
            replace(each, reason=f"{each.reason}; corrected in {at[each.clip]}")
            if each.clip in at
            else each
            for each in skipped
        )
        what = f"{len(skipped)} of {len(corpus)} clips cannot be labelled"
        named = "; ".join(f"{clip.clip}: {clip.reason}" for clip in skipped[:3])
        named += "; ..." if len(skipped) > 3 else ""
        if on_infeasible == "raise" or len(skipped) == len(corpus):
            raise InfeasibleClipError(f"{what}: {named}")
        warnings.warn(f"{what} and were left out: {named}", InfeasibleClipWarning, stacklevel=3)
        names = {clip.clip for clip in skipped}
        kept = [n for n, clip_id in enumerate(corpus.clip_ids) if clip_id not in names]
        return skipped, corpus.select(kept)


def state_constraints(
    corpus: Corpus,
    *,
    exactly_one: bool = False,
    penalty: float = 0.0,
    absent: Array | None = None,
) -> Constraints:
    """Ordered, non-overlapping states on the tracklets.

    penalty : the cost of labelling a tracklet of detection score 0; none at score 1.
    absent : (K,) the cost of a clip without each state; infinite, or None, if it needs all.
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
        absent=absent,
    )


def action_constraints(corpus: Corpus, *, absent: Array | None = None) -> Constraints:
    """Exactly one allowed chunk per clip and action, in order.

    absent : as in :func:`state_constraints`.
    """
    table = corpus.chunks
    linear = np.where(table.allowed, 0.0, np.inf)
    if corpus.n_states == 2 and (absent is None or np.isinf(absent).all()):
        return one_row(table.offsets, linear=linear, times=table.time)
    return ordered_states(
        table.start,
        table.end,
        table.offsets,
        linear=linear,
        times=table.time,
        exactly_one=True,
        absent=absent,
    )


def no_states(n_clips: int, n_states: int = 2) -> Constraints:
    """The state side when only actions are sought: no rows."""
    none, offsets = np.empty(0), np.zeros(n_clips + 1, np.int64)
    return ordered_states(none, none, offsets, linear=np.empty((0, n_states)))


def no_action(n_clips: int, n_actions: int = 1) -> Constraints:
    """The action side when only states are sought: no rows."""
    offsets = np.zeros(n_clips + 1, np.int64)
    return one_row(offsets, linear=np.empty((0, n_actions)), times=np.empty(0))


def infeasible_clips(
    corpus: Corpus, action: Constraints | None, state: Constraints | None
) -> tuple[SkippedClip, ...]:
    """The clips that admit no labelling, and why. None is a side that is not sought."""
    reasons: dict[int, str] = {}
    if action is not None:
        for n in _impossible(action):
            reasons[n] = (
                "the action is allowed in none of its chunks"
                if action.n_states == 1
                else f"no {action.n_states} of its chunks can be the actions, in order"
            )
    if state is not None:
        for n in _impossible(state):
            count = len(corpus.tracklet_rows(n))
            which = (
                "two can be state 1 and then state 2"
                if state.n_states == 2
                else f"{state.n_states} can be states 1 to {state.n_states}, in order"
            )
            reasons[n] = (
                f"it has {count} tracklet(s), of which no {which} (they overlap, or labels are "
                "forbidden)"
            )
    return tuple(SkippedClip(corpus.clip_ids[n], reasons[n]) for n in sorted(reasons))


def _impossible(constraints: Constraints) -> list[int]:
    return [int(n) for n in np.flatnonzero(~feasible(constraints))]

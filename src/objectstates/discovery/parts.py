"""Fits to parts of the clips that share one factorisation of their features.

The verdict learns from many parts of the same clips (``replication.py``). The features of a part
are not factored again: their quadratic form follows from that of all clips (``solver/parts.py``),
which is the judged fit's if that was kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import numpy as np

from objectstates.base.choices import SideName, Target
from objectstates.data.corpus import Array, Corpus
from objectstates.discovery.in_memory import KeptFactors, Pose, Posed, Weights, key_of
from objectstates.solver.cost import ClusteringCost, factorise, part_classifier
from objectstates.solver.frank_wolfe import Schedule
from objectstates.solver.in_memory import InMemoryProblem
from objectstates.solver.oracle import Constraints
from objectstates.solver.parts import cost_of_part, cost_without_columns
from objectstates.solver.problem import JointProblem, make_side

# Enough for classifiers that tell whether a discovery replicates: docs/evaluation.md.
SWEEPS = 2  # over all clips in a pass
PART_SCHEDULE = Schedule(uncoupled=2, growing=10)
PART_TOLERANCE = 10.0  # times ``tol``
ROUND_EVERY = 2  # passes; the last is always rounded


class Parts:
    """Problems of parts of ``corpus``.

    costs : of the features of all its clips, by side; a side that is not sought has none.
    classes : (K,) the column of the states' classifier that each state uses.
    starts : random labellings whose mean is the first point.
    """

    def __init__(
        self,
        corpus: Corpus,
        costs: Mapping[SideName, ClusteringCost],
        *,
        classes: Array,
        starts: int = 1,
    ) -> None:
        self._costs, self._classes, self._starts = costs, classes, starts
        self._bare = corpus.without_features()
        self._features = {"action": corpus.chunks.features, "state": corpus.tracklets.features}
        self._offsets = {"action": corpus.chunks.offsets, "state": corpus.tracklets.offsets}

    def clips(self, part: Array) -> Corpus:
        """The clips of a part, by their indices, without features."""
        return self._bare.select(part)

    def pose(self, part: Array) -> Pose:
        """The problem of a part; its ridges are those of all clips together."""

        @contextmanager
        def pose(action: Constraints, state: Constraints, weights: Weights) -> Iterator[Posed]:
            rows = {name: _rows(offsets, part) for name, offsets in self._offsets.items()}
            rows["action"] = rows["action"][: action.n_rows]
            rows["state"] = rows["state"][: state.n_rows]
            costs = {side: self._cost(side, rows[side]) for side in ("action", "state")}
            joint = JointProblem(
                make_side(costs["action"], action),
                make_side(costs["state"], state, self._classes),
                weights.nu,
            )

            def classifier(side: SideName, labels: Array, residual: Array) -> tuple[Array, Array]:
                learn = partial(part_classifier, self._features[side], rows[side])
                return learn(labels, residual, costs[side].ridge)

            problem = InMemoryProblem(joint, classifier, starts=self._starts, sweeps=SWEEPS)
            yield Posed(problem, {}, ROUND_EVERY)

        return pose

    def _cost(self, side: SideName, rows: Array) -> ClusteringCost:
        if not len(rows):
            return ClusteringCost(np.empty((0, 0)), True, 0.0)
        return cost_of_part(self._costs[side], rows)


def _rows(offsets: Array, clips: Array) -> Array:
    """The rows of some clips."""
    return np.concatenate([np.arange(offsets[n], offsets[n + 1]) for n in clips])


def costs_of(
    corpus: Corpus,
    target: Target,
    weights: Weights,
    factors: KeptFactors | None = None,
    removed: Array | None = None,
) -> dict[SideName, ClusteringCost]:
    """Of the features of all clips, by side, with what ``factors`` has of them.

    removed : (T, k) the last columns of the chunk features that were factored, which ``corpus``
        lacks: those of the change profile.
    """
    n_chunks = 0 if target == "state" else len(corpus.chunks.start)
    n_tracklets = 0 if target == "action" else len(corpus.tracklets.start)
    key = key_of(corpus.clip_ids, n_chunks, n_tracklets, weights)
    known = {} if factors is None else factors.costs(key)
    if n_chunks and "action" in known and removed is not None:
        action = known.pop("action")
        if action.dense:
            known["action"] = cost_without_columns(action, removed)
    if "action" not in known:
        known["action"] = factorise(corpus.chunks.features[:n_chunks], weights.lam)
    if "state" not in known:
        known["state"] = factorise(corpus.tracklets.features[:n_tracklets], weights.mu)
    return known


def removed_columns(whole: Corpus, part: Corpus) -> Array | None:
    """(T, k) the last columns of the chunk features of ``whole`` that ``part``, some of its clips,
    lacks; None if it has them all."""
    k = whole.chunks.features.shape[1] - part.chunks.features.shape[1]
    if not k:
        return None
    numbers = {clip: n for n, clip in enumerate(whole.clip_ids)}
    rows = _rows(whole.chunks.offsets, np.array([numbers[clip] for clip in part.clip_ids]))
    return np.asarray(whole.chunks.features[rows, -k:])

"""From what a solver found to labels that people use, and to the classifiers for unseen clips.

The solver's rounding, the paper's, decides where the action is and names the surest tracklets of
each state. "held_out" goes on from there: scores that a clip did not help to learn label all
tracklets that look like those, and give the action an extent (``solver/held_out.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from objectstates.base.choices import SideName
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Classifier
from objectstates.solver.held_out import (
    action_extent,
    common_scale,
    held_out_scores,
    states_alone,
    states_around,
)
from objectstates.solver.oracle import Constraints
from objectstates.solver.problem import JointProblem, one_hot
from objectstates.solver.scale.factor_gpu import HostAlgebra

DOUBT = 0.5  # what a tracklet that is surely not the object loses of its worth
ROUNDS = 2  # the second learns from all tracklets that the first labelled


@dataclass(frozen=True, eq=False)
class Labelling:
    """Labels of all rows and the scores behind them; a side that was not sought has no rows.

    action : (T,) 0/1, ``action_scores`` (T, 1). state : (M,) 0/1/2, ``state_scores`` (M, 2).
    action_span : (N, 2) seconds, NaN where no action was sought.
    """

    action: Array
    state: Array
    action_scores: Array
    state_scores: Array
    action_span: Array


def chosen_chunks(
    corpus: Corpus, action: Array, state: Array, action_scores: Array, state_scores: Array
) -> Labelling:
    """Labels as they are: the action lasts as long as its chunk."""
    span = np.full((len(corpus), 2), np.nan)
    if len(action):
        rows = np.flatnonzero(action)
        span = np.stack([corpus.chunks.start[rows], corpus.chunks.end[rows]], axis=1)
    return Labelling(action, state, action_scores, state_scores, span)


def label_alike(
    corpus: Corpus, found: Labelling, state: Constraints, detection_scale: float
) -> Labelling:
    """Give the action its extent, and a state to all tracklets that score like it.

    The scores of ``found`` must be on the common scale of ``solver/held_out.py``.
    detection_scale : score of detections that are sure to be the object.
    """
    doubt = 1 - np.minimum(corpus.tracklets.score / detection_scale, 1)
    worth = found.state_scores - DOUBT * doubt[: len(found.state_scores), None]
    if not len(found.action):
        return replace(found, state=states_alone(state, worth))
    rows = np.flatnonzero(found.action)
    chunks = corpus.chunks
    extent = action_extent(found.action_scores[:, 0], rows, chunks.offsets)
    found = replace(found, action_span=_seconds(corpus, extent))
    if not len(found.state):
        return found
    # A chunk is described over a longer window than its own: the states keep one chunk's distance.
    extent[:, 0] = np.maximum(extent[:, 0] - 1, chunks.offsets[:-1])
    extent[:, 1] = np.minimum(extent[:, 1] + 1, chunks.offsets[1:])
    table, span = corpus.tracklets, _seconds(corpus, extent)
    labels = states_around(state, worth, table.start, table.end, chunks.time[rows], span)
    return replace(found, state=labels)


def _seconds(corpus: Corpus, extent: Array) -> Array:
    """(N, 2) from when to when, of first and one past the last chunk."""
    return np.stack(
        [corpus.chunks.start[extent[:, 0]], corpus.chunks.end[extent[:, 1] - 1]], axis=1
    )


def detection_scale(corpus: Corpus) -> float:
    """The mean over clips of the largest detection score: not all detectors are sure up to 1."""
    score, offsets = corpus.tracklets.score, corpus.tracklets.offsets
    return float(common_scale(score[:, None], offsets)[0]) if len(score) else 1.0


@dataclass(frozen=True, eq=False)
class Learned:
    """Scores (M, K) of rows by the classifier of labels learned without their clip; and how to get
    the classifier (W, b) that was learned with all."""

    scores: Array
    classifier: Callable[[], tuple[Array, Array]]


Learner = Callable[[SideName, Array], Learned]
"""Learns one side from integer labels (M,)."""


def learner_in_memory(
    corpus: Corpus, problem: JointProblem, algebra: HostAlgebra, *, mu: float, lam: float
) -> Learner:
    """Learn from a problem's own factors; ``mu`` and ``lam`` are the ridges of state and action.

    algebra : what computes the classifiers, and where.
    """
    sides = {
        "action": (problem.action, corpus.chunks.features, lam),
        "state": (problem.state, corpus.tracklets.features, mu),
    }

    def learn(kind: SideName, labels: Array) -> Learned:
        side, features, ridge = sides[kind]
        hot = one_hot(labels, side.constraints.linear.shape[1])
        scores, residual = held_out_scores(side, hot)
        return Learned(scores, lambda: algebra.linear_classifier(features, hot, residual, ridge))

    return learn


def label_held_out(
    corpus: Corpus, constraints: Constraints, action: Array, state: Array, learn: Learner
) -> tuple[Labelling, dict[str, Classifier]]:
    """Labels by scores without the clip, from the solver's integer labels; and the classifiers.

    The classifiers are those of the same labels on the same scale, so that an unseen clip is
    scored just as the clips here are. ``constraints`` are the states'.
    """
    where = _Held(learn, "action", action, corpus.chunks.offsets)
    span = np.full((len(corpus), 2), np.nan)
    scale = detection_scale(corpus)
    for _ in range(ROUNDS):
        what = _Held(learn, "state", state, corpus.tracklets.offsets)
        found = Labelling(action, state, where.scores, what.scores, span)
        found = label_alike(corpus, found, constraints, scale)
        state = found.state
    sides = {"action": where, "state": what}
    return found, {name: side.classifier() for name, side in sides.items() if side.n_rows}


class _Held:
    """One side's scores without the clip, on the common scale.

    labels : (M,) integers. offsets : of the clips' rows.
    """

    def __init__(self, learn: Learner, kind: SideName, labels: Array, offsets: Array) -> None:
        self.n_rows = len(labels)
        self.scores: Array = np.empty((0, 1 if kind == "action" else 2))
        if self.n_rows:
            self._learned = learn(kind, labels)
            self._scale = common_scale(self._learned.scores, offsets)
            self.scores = self._learned.scores / self._scale

    def classifier(self) -> Classifier:
        weights, bias = self._learned.classifier()
        return Classifier(weights / self._scale, bias / self._scale, self.n_rows, self._scale)

"""From what a solver found to labels that people use, and to the classifiers for unseen clips.

The solver's rounding, the paper's, decides where the action is and names the surest tracklets of
each state. "held_out" goes on from there: scores that a clip did not help to learn label all
tracklets that look like those, and give the action an extent (``solver/held_out.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from objectstates.corpus import Array, Corpus
from objectstates.result import Classifier
from objectstates.solver.cost import linear_classifier
from objectstates.solver.held_out import (
    action_extent,
    common_scale,
    held_out_scores,
    states_alone,
    states_around,
)
from objectstates.solver.oracle import Constraints
from objectstates.solver.problem import JointProblem, Side

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
    extent = action_extent(found.action_scores[:, 0], rows, corpus.chunks.offsets)
    chunks = corpus.chunks
    span = np.stack([chunks.start[extent[:, 0]], chunks.end[extent[:, 1] - 1]], axis=1)
    found = replace(found, action_span=span)
    if not len(found.state):
        return found
    table = corpus.tracklets
    labels = states_around(state, worth, table.start, table.end, chunks.time[rows], span)
    return replace(found, state=labels)


def detection_scale(corpus: Corpus) -> float:
    """The mean over clips of the largest detection score: not all detectors are sure up to 1."""
    score, offsets = corpus.tracklets.score, corpus.tracklets.offsets
    return float(common_scale(score[:, None], offsets)[0]) if len(score) else 1.0


def label_held_out(
    corpus: Corpus,
    problem: JointProblem,
    action: Array,
    state: Array,
    *,
    mu: float,
    lam: float,
) -> tuple[Labelling, dict[str, Classifier]]:
    """Labels by scores without the clip, from the solver's integer labels; and the classifiers.

    The classifiers are those of the same labels on the same scale, so that an unseen clip is
    scored just as the clips here are. ``mu`` and ``lam`` are the ridges of states and action.
    """
    where = _Held(problem.action, action[:, None] == 1, corpus.chunks.features, lam)
    span = np.full((len(corpus), 2), np.nan)
    scale = detection_scale(corpus)
    for _ in range(ROUNDS):
        what = _Held(problem.state, state[:, None] == (1, 2), corpus.tracklets.features, mu)
        found = Labelling(action, state, where.scores, what.scores, span)
        found = label_alike(corpus, found, problem.state.constraints, scale)
        state = found.state
    sides = {"action": where, "state": what}
    return found, {name: side.classifier() for name, side in sides.items() if len(side.labels)}


class _Held:
    """One side's scores without the clip, on the common scale.

    chosen : (M, K) whether a row has a label. ``features`` and ``ridge`` are the side's.
    """

    def __init__(self, side: Side, chosen: Array, features: Array, ridge: float) -> None:
        self.labels = np.ascontiguousarray(chosen, np.float64)
        self.features, self.ridge = features, ridge
        self.scores = self.labels
        if len(self.labels):
            raw, self.residual = held_out_scores(side, self.labels)
            self.scale = common_scale(raw, side.constraints.offsets)
            self.scores = raw / self.scale

    def classifier(self) -> Classifier:
        weights, bias = linear_classifier(self.features, self.labels, self.residual, self.ridge)
        return Classifier(weights / self.scale, bias / self.scale, len(self.labels))

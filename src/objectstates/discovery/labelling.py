"""From the solver's rounding to the labels of a result, and to the classifiers for unseen clips.

The paper's rounding chooses the action's chunk and the highest-scoring tracklets of each state.
"held_out" starts from it: leave-one-clip-out scores label all tracklets that look like those, and
give the action an extent (``solver/held_out.py``). Where the change profile of the clip is known,
it gives the moment of the action and its extent instead (``action_moment.py``). What corrections
say about a clip is respected throughout (``corrections.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from objectstates.base.choices import SideName
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Classifier
from objectstates.discovery.action_moment import moment_and_extent
from objectstates.discovery.corrections import (
    Bounds,
    with_seen_states,
    with_told_spans,
    within_bounds,
)
from objectstates.solver.frank_wolfe import Learned, Rounding
from objectstates.solver.held_out import action_extent, common_scale, states_alone, states_around
from objectstates.solver.oracle import Constraints

NO_BOUNDS: Bounds = {}
DOUBT = 0.5  # subtracted from the score of a tracklet of detection score 0; docs/method.md
ROUNDS = 2  # the second learns from all tracklets that the first labelled


@dataclass(frozen=True, eq=False)
class Labelling:
    """Labels of all rows and the scores behind them; a side that was not sought has no rows.

    action : (T,) 0/1, ``action_scores`` (T, 1). state : (M,) 0/1/2, ``state_scores`` (M, 2).
    action_time : (N,) and ``action_span`` (N, 2) in seconds, NaN where no action was sought.
    """

    action: Array
    state: Array
    action_scores: Array
    state_scores: Array
    action_time: Array
    action_span: Array


def label_as_rounded(
    corpus: Corpus,
    action: Array,
    state: Array,
    action_scores: Array,
    state_scores: Array,
    bounds: Bounds = NO_BOUNDS,
) -> Labelling:
    """The labels of a rounding: the action lasts as long as its chunk.

    bounds : of clips with corrections.
    """
    times = _unknown_times(corpus)
    if len(action):
        rows, chunks = np.flatnonzero(action), corpus.chunks
        times = chunks.time[rows], np.stack([chunks.start[rows], chunks.end[rows]], axis=1)
        times = within_bounds(corpus, bounds, *times)
    return Labelling(action, state, action_scores, state_scores, *times)


def label_by_rounding(
    corpus: Corpus, rounding: Rounding, bounds: Bounds = NO_BOUNDS
) -> tuple[Labelling, dict[SideName, Classifier]]:
    """The paper's labels, and the classifiers of the relaxed labels that were rounded."""
    found = label_as_rounded(
        corpus,
        rounding.action,
        rounding.state,
        rounding.action_scores,
        rounding.state_scores,
        bounds,
    )
    n_rows: dict[SideName, int] = {"action": len(found.action), "state": len(found.state)}
    return found, {
        name: Classifier(weights, bias, n_rows[name], np.ones(len(bias)))
        for name, (weights, bias) in rounding.classifiers().items()
    }


def label_alike(
    corpus: Corpus,
    found: Labelling,
    state: Constraints,
    detection_scale: float,
    bounds: Bounds = NO_BOUNDS,
) -> Labelling:
    """Give the action its extent, and a state to all tracklets with high enough scores.

    The scores of ``found`` must be on the common scale of ``solver/held_out.py``.
    detection_scale : the detection score above which a tracklet loses nothing of its score.
    """
    doubt = 1 - np.minimum(corpus.tracklets.score / detection_scale, 1)
    worth = found.state_scores - DOUBT * doubt[: len(found.state_scores), None]
    if len(worth):
        worth = with_seen_states(corpus, bounds, worth)
    if not len(found.action):
        return replace(found, state=states_alone(state, worth))
    rows, chunks, table = np.flatnonzero(found.action), corpus.chunks, corpus.tracklets
    extent = action_extent(found.action_scores[:, 0], rows, chunks.offsets)
    time, span = _sharpened(corpus, rows, _seconds(corpus, extent))
    time, span = within_bounds(corpus, bounds, time, span)
    state_labels = found.state
    if len(found.state):
        # A chunk's features cover more than its own interval: states keep a distance of one chunk.
        margin = (chunks.end - chunks.start)[rows][:, None] * np.array([-1, 1])
        state_labels = states_around(state, worth, table.start, table.end, time, span + margin)
        span = with_told_spans(corpus, bounds, _between_states(corpus, state_labels, time, span))
    action = _chunks_within(corpus, rows, time, span)
    return replace(found, action=action, state=state_labels, action_time=time, action_span=span)


def _sharpened(corpus: Corpus, rows: Array, extent: Array) -> tuple[Array, Array]:
    """Time (N,) and span (N, 2) of the action in seconds.

    Those of the change near the action's chunk where it is known, at least as long as a chunk;
    elsewhere the chunk's time and its ``extent``.
    """
    chunks = corpus.chunks
    time, span = chunks.time[rows].copy(), extent.copy()
    for n, (row, profile) in enumerate(zip(rows, corpus.changes, strict=True)):
        start, end = float(chunks.start[row]), float(chunks.end[row])
        found = None if profile is None else moment_and_extent(profile, start, end)
        if found is None:
            continue
        time[n], (first, last) = found
        half, clip = (end - start) / 2, corpus.chunk_rows(n)
        span[n, 0] = max(min(first, time[n] - half), chunks.start[clip[0]])
        span[n, 1] = min(max(last, time[n] + half), chunks.end[clip[-1]])
    return time, span


def _chunks_within(corpus: Corpus, rows: Array, time: Array, span: Array) -> Array:
    """(T,) 0/1 labels of the chunks ``rows`` (N,) where they lie in the span, else of those at
    ``time``. A chunk in which the action is not allowed is not labelled."""
    chunks, action = corpus.chunks, np.zeros(len(corpus.chunks.start), np.int8)
    for n, row in enumerate(rows):
        clip = corpus.chunk_rows(n)
        at = clip[int(np.abs(chunks.time[clip.start : clip.stop] - time[n]).argmin())]
        outside = not span[n, 0] <= chunks.time[row] <= span[n, 1]
        action[at if outside and chunks.allowed[at] else row] = 1
    return action


def _between_states(corpus: Corpus, state: Array, time: Array, span: Array) -> Array:
    """The span (N, 2) without the time of tracklets that have a state; ``time`` stays within."""
    table = corpus.tracklets
    owner = np.repeat(np.arange(len(corpus)), np.diff(table.offsets))
    start, end = span.T.copy()
    before, after = state == 1, state == 2
    np.maximum.at(start, owner[before], table.end[before])
    np.minimum.at(end, owner[after], table.start[after])
    return np.stack([np.minimum(start, time), np.maximum(end, time)], axis=1)


def _seconds(corpus: Corpus, extent: Array) -> Array:
    """(N, 2) start and end time of the chunks from first to one past the last, (N, 2)."""
    return np.stack(
        [corpus.chunks.start[extent[:, 0]], corpus.chunks.end[extent[:, 1] - 1]], axis=1
    )


def _unknown_times(corpus: Corpus) -> tuple[Array, Array]:
    """Time and span of the action where none was sought."""
    return np.full(len(corpus), np.nan), np.full((len(corpus), 2), np.nan)


def detection_scale(corpus: Corpus) -> float:
    """The mean over clips of the largest detection score: detectors have different ranges."""
    score, offsets = corpus.tracklets.score, corpus.tracklets.offsets
    return float(common_scale(score[:, None], offsets)[0]) if len(score) else 1.0


Learner = Callable[[SideName, Array], Learned]
"""Learns one side from integer labels (M,)."""


def label_held_out(
    corpus: Corpus,
    constraints: Constraints,
    action: Array,
    state: Array,
    learn: Learner,
    bounds: Bounds = NO_BOUNDS,
) -> tuple[Labelling, dict[SideName, Classifier]]:
    """Labels by leave-one-clip-out scores, from the solver's integer labels; and the classifiers.

    The classifiers are those of the same labels on the same scale, so that an unseen clip is
    scored as the clips here are. ``constraints`` are the states'.
    """
    action_side = _HeldOut(learn, "action", action, corpus.chunks.offsets)
    scale = detection_scale(corpus)
    for _ in range(ROUNDS):
        state_side = _HeldOut(learn, "state", state, corpus.tracklets.offsets)
        found = Labelling(
            action, state, action_side.scores, state_side.scores, *_unknown_times(corpus)
        )
        found = label_alike(corpus, found, constraints, scale, bounds)
        state = found.state
    sides: dict[SideName, _HeldOut] = {"action": action_side, "state": state_side}
    return found, {name: side.classifier() for name, side in sides.items() if side.n_rows}


class _HeldOut:
    """One side's leave-one-clip-out scores, on the common scale.

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

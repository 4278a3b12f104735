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
from objectstates.discovery.action_moment import (
    CHAIN_EXTENT_SMOOTHING,
    EXTENT_SMOOTHING,
    moment_and_extent,
)
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

    action : (T,) 0 to A, ``action_scores`` (T, A). state : (M,) 0 to K, ``state_scores`` (M, K).
    action_time : (N, A) and ``action_span`` (N, A, 2) in seconds, NaN where there is no action.
    """

    action: Array
    state: Array
    action_scores: Array
    state_scores: Array
    action_time: Array
    action_span: Array


@dataclass(frozen=True)
class OptionalSteps:
    """The actions that a clip may lack, each with the state after it.

    numbers : of the actions, from 1.
    price : a clip lacks a step whose action and state score less than 1 - price in the mean: less
        like those of other clips than that.
    """

    numbers: tuple[int, ...] = ()
    price: float = 0.0


NO_STEPS = OptionalSteps()


def without_lacking(
    corpus: Corpus,
    action: Array,
    state: Array,
    action_scores: Array,
    state_scores: Array,
    steps: OptionalSteps,
) -> tuple[Array, Array]:
    """The labels (T,) and (M,) without the steps that clips lack.

    The scores (T, A) and (M, K) must be on the common scale of ``solver/held_out.py``; those of
    relaxed labels, which the solver rounds, are low everywhere, and do not tell what is lacking.
    """
    action, state, rows = action.copy(), state.copy(), action_rows(corpus, action)
    owner = np.repeat(np.arange(len(corpus)), np.diff(corpus.tracklets.offsets))
    for number in steps.numbers:
        of_action, labelled = rows[:, number - 1], np.flatnonzero(state == number + 1)
        best = np.full(len(corpus), -np.inf)
        np.maximum.at(best, owner[labelled], state_scores[labelled, number])
        mean = (action_scores[of_action, number - 1] + best) / 2
        lacking = (of_action >= 0) & (mean < 1 - steps.price)
        action[of_action[lacking]] = 0
        state[labelled[lacking[owner[labelled]]]] = 0
    return action, state


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
        rows, chunks = action_rows(corpus, action), corpus.chunks
        times = chunks.time[rows], np.stack([chunks.start[rows], chunks.end[rows]], axis=-1)
        times = within_bounds(corpus, bounds, *_known(rows, *times))
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
    rows, chunks, table = action_rows(corpus, found.action), corpus.chunks, corpus.tracklets
    extents = [
        _extent(corpus, found.action_scores[:, k], column) for k, column in enumerate(rows.T)
    ]
    time, span = _sharpened(corpus, rows, np.stack(extents, axis=1))
    time, span = within_bounds(corpus, bounds, time, span)
    state_labels = found.state
    if len(found.state):
        # A chunk's features cover more than its own interval: states keep a distance of one chunk.
        margin = (chunks.end - chunks.start)[rows][..., None] * np.array([-1, 1])
        state_labels = states_around(state, worth, table.start, table.end, time, span + margin)
        span = with_told_spans(corpus, bounds, _between_states(corpus, state_labels, time, span))
    action = _chunks_at(corpus, rows, time)
    return replace(found, action=action, state=state_labels, action_time=time, action_span=span)


def action_rows(corpus: Corpus, action: Array) -> Array:
    """(N, A) the row of each clip's actions, from labels (T,) of the chunks; -1 for none."""
    rows = np.full((len(corpus), corpus.n_states - 1), -1)
    labelled = np.flatnonzero(action)
    clips = np.searchsorted(corpus.chunks.offsets, labelled, side="right") - 1
    rows[clips, action[labelled] - 1] = labelled
    return rows


def _known(rows: Array, time: Array, span: Array) -> tuple[Array, Array]:
    """Times and spans of actions, NaN where a clip has none: rows (N, A) of -1."""
    return np.where(rows < 0, np.nan, time), np.where(rows[..., None] < 0, np.nan, span)


def _extent(corpus: Corpus, scores: Array, rows: Array) -> Array:
    """(N, 2) start and end time of the chunks around ``rows`` (N,) that score like these."""
    chunks = corpus.chunks
    extent = action_extent(scores, np.where(rows < 0, chunks.offsets[:-1], rows), chunks.offsets)
    return np.stack([chunks.start[extent[:, 0]], chunks.end[extent[:, 1] - 1]], axis=1)


def _sharpened(corpus: Corpus, rows: Array, extent: Array) -> tuple[Array, Array]:
    """Time (N, A) and span (N, A, 2) of the actions in seconds.

    Those of the change near the action's chunk where it is known, at least as long as a chunk;
    elsewhere the chunk's time and its ``extent``. Actions of a chain share no change: between
    their chunks each has its half of the time.
    """
    chunks = corpus.chunks
    smoothing = EXTENT_SMOOTHING if corpus.n_states == 2 else CHAIN_EXTENT_SMOOTHING
    time, span = _known(rows, chunks.time[rows], extent)
    for n, profile in enumerate(corpus.changes):
        clip = corpus.chunk_rows(n)
        first, last = chunks.start[clip[0]], chunks.end[clip[-1]]
        for k, (low, high) in own_times(chunks.time, rows[n]).items():
            row = rows[n, k]
            start, end = float(chunks.start[row]), float(chunks.end[row])
            found = None
            if profile is not None:
                found = moment_and_extent(profile, start, end, (low, high), smoothing)
            if found is not None:
                half = (end - start) / 2
                time[n, k], (begin, stop) = found
                span[n, k] = min(begin, time[n, k] - half), max(stop, time[n, k] + half)
            span[n, k] = max(span[n, k, 0], low, first), min(span[n, k, 1], high, last)
    return time, span


def own_times(times: Array, rows: Array) -> dict[int, tuple[float, float]]:
    """From when to when each action of a clip may be: to the middle between it and its neighbours.

    times : (T,) of the chunks. rows : (A,) of the actions, -1 for one that the clip lacks.
    """
    present = np.flatnonzero(rows >= 0)
    middles = (times[rows[present[1:]]] + times[rows[present[:-1]]]) / 2
    bounds = [-np.inf, *middles, np.inf]
    return {int(k): (bounds[i], bounds[i + 1]) for i, k in enumerate(present)}


def _chunks_at(corpus: Corpus, rows: Array, time: Array) -> Array:
    """(T,) labels of the chunks ``rows`` (N, A), or of those at the actions' ``time`` (N, A) where
    that is more than a chunk away, and the action allowed.
    """
    chunks, action = corpus.chunks, np.zeros(len(corpus.chunks.start), np.int8)
    for n, k in zip(*np.nonzero(rows >= 0), strict=True):
        row, clip = rows[n, k], corpus.chunk_rows(n)
        at = clip[int(np.abs(chunks.time[clip.start : clip.stop] - time[n, k]).argmin())]
        away = abs(chunks.time[row] - time[n, k]) > chunks.end[row] - chunks.start[row]
        free = chunks.allowed[at, k] and not action[at]
        action[at if away and free else row] = k + 1
    return action


def _between_states(corpus: Corpus, state: Array, time: Array, span: Array) -> Array:
    """The spans (N, A, 2) without the time of tracklets that have a state; ``time`` (N, A) stays
    within."""
    table = corpus.tracklets
    owner = np.repeat(np.arange(len(corpus)), np.diff(table.offsets))
    start, end = span[..., 0].copy(), span[..., 1].copy()
    for k in range(time.shape[1]):
        before, after = (state > 0) & (state <= k + 1), state > k + 1
        np.fmax.at(start[:, k], owner[before], table.end[before])
        np.fmin.at(end[:, k], owner[after], table.start[after])
    return np.stack([np.minimum(start, time), np.maximum(end, time)], axis=-1)


def _unknown_times(corpus: Corpus) -> tuple[Array, Array]:
    """Times and spans of the actions where none was sought."""
    shape = len(corpus), corpus.n_states - 1
    return np.full(shape, np.nan), np.full((*shape, 2), np.nan)


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
    steps: OptionalSteps = NO_STEPS,
) -> tuple[Labelling, dict[SideName, Classifier]]:
    """Labels by leave-one-clip-out scores, from the solver's integer labels; and the classifiers.

    The classifiers are those of the same labels on the same scale, so that an unseen clip is
    scored as the clips here are. ``constraints`` are the states'.
    steps : those that a clip may lack; the solver's labels have them all.
    """
    for _ in range(ROUNDS if steps.numbers else 0):
        scores = (
            _HeldOut(learn, "action", action, corpus.chunks.offsets, corpus.n_states - 1).scores,
            _HeldOut(learn, "state", state, corpus.tracklets.offsets, corpus.n_states).scores,
        )
        action, state = without_lacking(corpus, action, state, *scores, steps)
    action_side = _HeldOut(learn, "action", action, corpus.chunks.offsets, corpus.n_states - 1)
    scale = detection_scale(corpus)
    for _ in range(ROUNDS):
        state_side = _HeldOut(learn, "state", state, corpus.tracklets.offsets, corpus.n_states)
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

    def __init__(
        self, learn: Learner, kind: SideName, labels: Array, offsets: Array, n_columns: int
    ) -> None:
        self.n_rows = len(labels)
        self.scores: Array = np.empty((0, n_columns))
        if self.n_rows:
            self._learned = learn(kind, labels)
            self._scale = common_scale(self._learned.scores, offsets)
            self.scores = self._learned.scores / self._scale

    def classifier(self) -> Classifier:
        weights, bias = self._learned.classifier()
        scale = self._scale
        return Classifier(weights / scale, bias / scale, self.n_rows, scale)

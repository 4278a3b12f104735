"""Progress and success: how far each clip gets from state 1 to state 2.

Every clip is given an action and both states, whether it shows them or not. So the labels of a clip
cannot tell whether the manipulation succeeded in it. What can is how the other clips look before
and after their actions. A ridge regression learns from their chunks, by appearance, how far along a
clip is: 0 before the action, 1 after it. A clip is judged by the regression that was learned
without it (``solver/held_out.py`` has the formula).

Failed clips mislead the regression: they are said to be in state 2 after an action that is none. So
it is learned `ROUNDS` times, each time with targets that rise only as far as the chance that the
clip succeeds. Then the last moments of failed clips become examples of "not yet".

The chance that a clip reaches state 2 is a logistic regression of five numbers, all relative to the
usual clip: its highest progress; how much the picture changes for good at the action; how far the
action's scores rise above those of the rest of the clip; the clip's length; and the time since the
clip looked least like its beginning. The hand and what it does are then in view: an episode that
ends at that moment ends before the hand has left, and one that ends early was given up. The weights
were estimated on simulated and real clips whose action was cut away (``benchmarks/success``), among
clips of which 20 % fail: docs/evaluation.md.

The progress of a clip is the weighted mean of the regression, which is blurred, and of a rise
during the action found, which is sharp, up to the chance of success. The action is found by
leave-one-clip-out scores and the change profile. The mean is made monotone: states do not go back
within a manipulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import blas, lapack
from scipy.optimize import isotonic_regression

from objectstates.base.blas import numpy_on_one_thread
from objectstates.data.corpus import Array, Corpus
from objectstates.data.progress import ProgressModel
from objectstates.data.result import Result
from objectstates.discovery.evidence import (
    amounts_relative_to,
    changes_at_action,
    usual_amount,
)
from objectstates.discovery.shared_change import appearance

ROUNDS = 4  # the first believes that all clips succeed
RIDGE = 0.3  # relative to the mean squared length of the rows
INTERCEPT = 100.0  # squared length of the constant column: the ridge hardly bounds it
FIRST_SHARE = 0.25  # of the chunks of a clip: its beginning, from which the others differ
TOP_SHARE = 0.15  # of the chunks, those of the highest progress; two at least
FEWEST = 4  # clips; from fewer nothing is learned
SAMPLE = 60  # clips that are learned from, a random sample if there are more
SHORTEST = 0.15  # seconds; keeps logarithms finite
ENOUGH = 1.0  # seconds since a clip looked least like its beginning; more makes no difference
LEAST_SCORE = 1e-3  # of the action above the rest of the clip; keeps logarithms finite
ACTION_SHARE = 0.7  # of the action's time in progress; more is nearer to the truth of clips in
# which the action is right, and tells nothing of others
LEAST_RISE = 0.05  # of the regression from before to after; less is no scale

BIAS, WEIGHTS = 6.3, {"top": 2.6, "change": 2.5, "action": 1.1, "length": 3.8, "since": 3.8}
"""Of the chance of success, by `evidence_of`."""


Read = Callable[[Array], Corpus]
"""Some clips with their features in memory, by their indices."""


@numpy_on_one_thread
def with_progress(found: Result, read: Read, *, seed: int = 0) -> Result:
    """``found`` with progress, chances of success, and their model.

    Features are read `SAMPLE` clips at a time. Unchanged for a chain of changes, and if there are
    too few clips, no action was sought, or chunks have no appearance.
    """
    if found.n_actions > 1:
        return found
    aside = {clip.clip for clip in found.set_aside}
    learned = np.array([n for n, clip in enumerate(found.clips) if clip not in aside], np.int64)
    if len(learned) < FEWEST or (found.action_chunk < 0).any():
        return found
    chosen = np.sort(np.random.default_rng(seed).permutation(learned)[:SAMPLE])
    corpus = read(chosen)
    if not appearance(corpus).any():
        return found
    learned_there = learn(corpus, found.select(chosen))
    model = learned_there.model
    progress, chances = np.empty(len(found.action_scores)), np.empty(len(found.clips))
    rows = found.corpus.chunk_rows
    progress[np.concatenate([list(rows(int(n))) for n in chosen])] = learned_there.progress
    chances[chosen] = learned_there.chance
    others = np.setdiff1d(np.arange(len(chances)), chosen)
    for first in range(0, len(others), SAMPLE):
        part = others[first : first + SAMPLE]
        new = apply_model(model, read(part), found.select(part))
        progress[np.concatenate([list(rows(int(n))) for n in part])] = new.progress
        chances[part] = new.reached_chance
    return replace(found, progress=progress, reached_chance=chances, progress_model=model)


def apply_model(model: ProgressModel, corpus: Corpus, found: Result) -> Result:
    """``found``, the result on ``corpus``, with progress by a model that was learned on others."""
    parts = _described(corpus)
    raw = parts[0] @ model.weights[0] + parts[1] @ model.weights[1] + model.bias
    measures = measure(corpus, found, parts[1])
    chance = chance_of(evidence_of(model, measures, _top(corpus, raw)))
    progress = _curve(model, corpus, found, raw, chance)
    return replace(found, progress=progress, reached_chance=chance, progress_model=model)


# --- learning -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Learned:
    """The model; and progress (T,), chances of success (N,) and evidence, each clip held out."""

    model: ProgressModel
    progress: Array
    chance: Array
    evidence: Mapping[str, Array]


def learn(corpus: Corpus, found: Result) -> Learned:
    """Learn from ``found``, the result on ``corpus``."""
    parts = _described(corpus)
    centre = parts[0].mean(axis=0)
    parts = parts[0] - centre, parts[1]
    measures = measure(corpus, found, parts[1])
    lengths = [max(float(np.sqrt((part**2).sum(axis=1).mean())), 1e-12) for part in parts]
    rows = np.hstack([part / length for part, length in zip(parts, lengths, strict=True)])
    target = _targets(corpus, found)
    regression = _HeldOutRidge(rows, _row_weights(corpus, target), corpus.chunks.offsets)
    chance = np.ones(len(corpus))
    for _ in range(ROUNDS):
        believed = target * np.repeat(chance, np.diff(corpus.chunks.offsets))
        raw = regression.held_out(believed)
        top = _top(corpus, raw)
        usual = _usual(measures, _first(corpus, raw), top, chance)
        evidence = evidence_of(usual, measures, top)
        chance = chance_of(evidence)
    weights, bias = regression.fitted(believed)
    size = parts[0].shape[1]
    scaled = np.stack([weights[:size] / lengths[0], weights[size:] / lengths[1]])
    model = replace(usual, weights=scaled, bias=float(bias - centre @ scaled[0]))
    return Learned(model, _curve(model, corpus, found, raw, chance), chance, evidence)


class _HeldOutRidge:
    """Weighted ridge regression whose predictions for each clip are learned on the others.

    rows : (T, d). weights : (T,). offsets : of the clips' rows.

    With scaled rows and labels, residuals of the fit are A y, A = l (G + l I)^-1, G the Gram matrix
    with the constant column; those of the fit without the clip's rows C are (A_CC)^-1 (A y)_C.
    """

    def __init__(self, rows: Array, weights: Array, offsets: Array) -> None:
        self._rows, self._root, self._offsets = rows, np.sqrt(weights), offsets
        gram = blas.dsyrk(0.5, rows.T, trans=1, lower=1) + INTERCEPT  # its lower triangle
        gram *= self._root[:, None]
        gram *= self._root
        gram[np.diag_indices(len(gram))] += RIDGE
        lower, _ = lapack.dpotrf(gram, lower=1, overwrite_a=1)
        inverse, _ = lapack.dpotri(lower, lower=1, overwrite_c=1)
        self._inverse = inverse + np.tril(inverse, -1).T

    def held_out(self, labels: Array) -> Array:
        """(T,) predictions for labels (T,)."""
        residual = RIDGE * (self._inverse @ (self._root * labels))
        predicted = np.empty(len(labels))
        for first, last in zip(self._offsets[:-1], self._offsets[1:], strict=True):
            clip = slice(first, last)
            without = np.linalg.solve(RIDGE * self._inverse[clip, clip], residual[clip])
            predicted[clip] = labels[clip] - without / self._root[clip]
        return predicted

    def fitted(self, labels: Array) -> tuple[Array, float]:
        """Weights (d,) and bias of the fit to all clips."""
        dual = self._root * (self._inverse @ (self._root * labels))
        return self._rows.T @ dual / 2, float(INTERCEPT * dual.sum())


def _targets(corpus: Corpus, found: Result) -> Array:
    """(T,) 0 before the action found, 1 after it, and rising during it."""
    start, end = np.repeat(found.action_span, np.diff(corpus.chunks.offsets), axis=0).T
    return np.asarray(np.clip((corpus.chunks.time - start) / np.maximum(end - start, 0.01), 0, 1))


def _row_weights(corpus: Corpus, target: Array) -> Array:
    """(T,) so that the time before and the time after the action weigh the same in every clip."""
    weights = np.ones(len(target))
    for n in range(len(corpus)):
        rows = np.array(corpus.chunk_rows(n))
        for half in (target[rows] < 0.5, target[rows] >= 0.5):
            weights[rows[half]] = 1 / max(int(half.sum()), 1)
    return weights


# --- what chunks look like ------------------------------------------------------------------------


def _described(corpus: Corpus) -> tuple[Array, Array]:
    """(T, d) how chunks look, and how that differs from the beginning of their clip.

    The difference is free of what distinguishes the scenes of clips.
    """
    features = appearance(corpus).astype(np.float64)
    change = np.empty_like(features)
    for n in range(len(corpus)):
        rows = corpus.chunk_rows(n)
        mine = features[rows.start : rows.stop]
        first = max(1, int(FIRST_SHARE * len(mine)))
        change[rows.start : rows.stop] = mine - mine[:first].mean(axis=0)
    return features, change


# --- chances --------------------------------------------------------------------------------------


def measure(corpus: Corpus, found: Result, difference: Array) -> dict[str, Array]:
    """What clips are compared by, (N,) each, beside their progress; all but the change above 0.

    change : share of the picture that changes for good at the action; NaN if unknown.
    action : the highest of the action's scores less their median.
    length : seconds.
    since : seconds from the moment that looks least like the beginning to the end; at most
        `ENOUGH`.
    difference : (T, d) of chunks from the beginning of their clip.
    """
    chunks, size = corpus.chunks, np.linalg.norm(difference, axis=1)
    action, since = np.empty(len(corpus)), np.empty(len(corpus))
    ends = chunks.end[chunks.offsets[1:] - 1]
    for n in range(len(corpus)):
        rows = np.array(corpus.chunk_rows(n))
        scores = found.action_scores[rows]
        action[n] = scores[_highest(scores)].mean() - np.median(scores)
        since[n] = ends[n] - np.median(chunks.time[rows[_highest(size[rows])]])
    return {
        "change": changes_at_action(corpus, found),
        "action": np.maximum(action, LEAST_SCORE),
        "length": ends - chunks.start[chunks.offsets[:-1]],
        "since": np.minimum(since + SHORTEST, ENOUGH),
    }


def evidence_of(
    model: ProgressModel, measures: Mapping[str, Array], top: Array
) -> dict[str, Array]:
    """(N,) each: the highest progress less 1, and logarithms of ratios to the usual clip.

    top : (N,) the highest that the regression says.
    """
    ratios = {
        name: np.clip(np.log(measures[name] / getattr(model, name)), -1.5, 0.5)
        for name in ("action", "length", "since")
    }
    return {
        "top": np.clip((top - model.low) / (model.high - model.low) - 1, -1.5, 0.5),
        "change": amounts_relative_to(model.change, measures["change"]),
        **ratios,
    }


def chance_of(evidence: Mapping[str, Array]) -> Array:
    """(N,) that clips reach state 2."""
    total = BIAS + sum(weight * evidence[name] for name, weight in WEIGHTS.items())
    return np.asarray(1 / (1 + np.exp(-total)))


def _usual(measures: Mapping[str, Array], first: Array, top: Array, chance: Array) -> ProgressModel:
    """What is usual in clips that succeed; without weights.

    first, top : (N,) the first and the highest that the regression says.
    """
    likely = chance >= np.median(chance)
    low, high = float(np.median(first)), float(np.median(top[likely]))
    return ProgressModel(
        weights=np.empty((2, 0)),
        bias=0.0,
        low=low,
        high=max(high, low + LEAST_RISE),
        change=usual_amount(np.nan_to_num(measures["change"][likely])),
        **{
            name: float(np.median(measures[name][likely])) for name in ("action", "length", "since")
        },
    )


def _top(corpus: Corpus, values: Array) -> Array:
    """(N,) mean of the highest values (T,) of each clip."""
    clips = [values[list(corpus.chunk_rows(n))] for n in range(len(corpus))]
    return np.array([mine[_highest(mine)].mean() for mine in clips])


def _highest(values: Array) -> Array:
    """The indices of the highest values."""
    count = min(max(2, int(TOP_SHARE * len(values))), len(values))
    return np.argsort(values, kind="stable")[-count:]


def _first(corpus: Corpus, values: Array) -> Array:
    """(N,) mean of the first values (T,) of each clip."""
    rows = [values[list(corpus.chunk_rows(n))] for n in range(len(corpus))]
    return np.array([mine[: max(1, int(FIRST_SHARE * len(mine)))].mean() for mine in rows])


def _curve(model: ProgressModel, corpus: Corpus, found: Result, raw: Array, chance: Array) -> Array:
    """(T,) progress, the nearest to the mean of both sources that never falls within a clip."""
    regression = np.clip((raw - model.low) / (model.high - model.low), 0, 1)
    action = _targets(corpus, found) * np.repeat(chance, np.diff(corpus.chunks.offsets))
    scaled = ACTION_SHARE * action + (1 - ACTION_SHARE) * regression
    progress = np.empty(len(raw))
    for n in range(len(corpus)):
        rows = list(corpus.chunk_rows(n))
        progress[rows] = isotonic_regression(scaled[rows]).x
    return progress

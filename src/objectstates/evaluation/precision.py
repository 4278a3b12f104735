"""The paper's precision, with one row per clip.

Per clip and state the precision is TP / (TP + FP): the fraction of the labelled tracklets whose
true state it is; false positives and ambiguous ones are wrong. The action is right if its chunk
truly shows it. The totals are means over clips (and states), whatever their numbers of tracklets.
As in the paper every clip needs a prediction: a clip that a method left out, and a state without
any tracklet in a clip, have precision 0. (The constraints exclude both; the authors' code gives
NaN for the latter.) Recall is reported too, because one safe label per state and clip is enough for
a high precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from objectstates.data.corpus import UNKNOWN, Array, Corpus
from objectstates.data.result import Result, SkippedClip
from objectstates.evaluation.bootstrap import Comparison, interval, macro_mean, paired

Side = Literal["states", "action"]


@dataclass(frozen=True)
class ClipScore:
    """The scores of one clip; NaN for what was not sought or has no truth."""

    clip: str
    precision_1: float
    precision_2: float
    recall_1: float
    recall_2: float
    action: float
    n_labels: float


@dataclass(frozen=True)
class SeedSpread:
    """Standard deviations over seeds of the precision of states and action."""

    states: float = np.nan
    action: float = np.nan


@dataclass(frozen=True)
class Evaluation:
    """Per-clip scores and their means.

    skipped : the clips that were left out, and why; their rows count as wrong.
    state_error : standard error of the state precision over random runs; 0 for a single run.
    gap : duality gap of the relaxed solution over its objective; NaN for other methods.
    spread : standard deviations of both precisions over seeds; NaN where not measured.
    """

    rows: tuple[ClipScore, ...]
    skipped: tuple[SkippedClip, ...] = ()
    state_error: float = 0.0
    gap: float = np.nan
    spread: SeedSpread = SeedSpread()

    @property
    def precisions(self) -> Array:
        """(N, 2) of both states."""
        return self._column("precision_1", "precision_2")

    @property
    def recalls(self) -> Array:
        """(N, 2) of both states."""
        return self._column("recall_1", "recall_2")

    @property
    def actions(self) -> Array:
        """(N,) 1 if the action's chunk is right, else 0."""
        return self._column("action")[:, 0]

    @property
    def state_precision(self) -> float:
        """Mean over clips and states."""
        return macro_mean([self.precisions])

    @property
    def state_recall(self) -> float:
        """Mean over clips and states, without states that a clip does not show."""
        return macro_mean([self.recalls])

    @property
    def action_precision(self) -> float:
        """Fraction of clips whose action is right."""
        return macro_mean([self.actions])

    def precision(self, side: Side) -> float:
        return self.state_precision if side == "states" else self.action_precision

    @property
    def labels_per_clip(self) -> float:
        return macro_mean([self._column("n_labels")])

    def _column(self, *names: str) -> Array:
        rows = [[getattr(row, name) for name in names] for row in self.rows]
        return np.array(rows, np.float64).reshape(-1, len(names))


@dataclass(frozen=True)
class MethodRow:
    """One method's row in a table: means over clips, with 95 % bounds (bootstrap over clips).

    gap : the largest of the parts'. states_spread, action_spread : their mean over parts.
    """

    method: str
    states: float
    states_low: float
    states_high: float
    states_recall: float
    labels_per_clip: float
    action: float
    action_low: float
    action_high: float
    gap: float
    states_spread: float
    action_spread: float


def method_row(method: str, parts: Sequence[Evaluation], *, seed: int = 0) -> MethodRow:
    """A row of a table; of several parts (such as the actions) the mean of their means."""
    states = interval([part.precisions for part in parts], seed=seed)
    action = interval([part.actions for part in parts], seed=seed)
    labels = [part.labels_per_clip for part in parts if np.isfinite(states.mean)]
    return MethodRow(
        method=method,
        states=states.mean,
        states_low=states.low,
        states_high=states.high,
        states_recall=macro_mean([part.recalls for part in parts]),
        labels_per_clip=float(np.mean(labels)) if labels else np.nan,
        action=action.mean,
        action_low=action.low,
        action_high=action.high,
        gap=max((part.gap for part in parts if np.isfinite(part.gap)), default=np.nan),
        states_spread=macro_mean([np.array([part.spread.states for part in parts])]),
        action_spread=macro_mean([np.array([part.spread.action for part in parts])]),
    )


def compare(
    first: Sequence[Evaluation], second: Sequence[Evaluation], *, seed: int = 0
) -> dict[str, Comparison]:
    """The differences ``first`` - ``second`` on the clips of both, for ``states`` and ``action``.

    Both have the same parts (such as the actions of a table) in the same order; all parts have the
    same weight. The states of a clip are compared by the mean of its precisions.
    """
    states, action = [], []
    for here, there in zip(first, second, strict=True):
        number = {row.clip: n for n, row in enumerate(there.rows)}
        both = [(n, number[row.clip]) for n, row in enumerate(here.rows) if row.clip in number]
        mine, other = np.array(both, np.int64).reshape(-1, 2).T
        states.append((_clip_means(here)[mine], _clip_means(there)[other]))
        action.append((here.actions[mine], there.actions[other]))
    return {"states": paired(states, seed=seed), "action": paired(action, seed=seed)}


def evaluate(result: Result, corpus: Corpus) -> Evaluation:
    """Score ``result`` by the labels in ``corpus``, including the clips that were left out.

    What was not sought (states or the action) is not scored. Clips left out are scored if the
    corpus holds them; a result's own corpus does not.
    """
    number = {clip: n for n, clip in enumerate(corpus.clip_ids)}
    states_sought, action_sought = bool(result.state.any()), bool((result.action_chunk >= 0).any())
    rows = []
    for i, clip in enumerate(result.clips):
        mine = result.tracklet_clip == i
        n = number[clip]
        state = np.zeros(len(corpus.tracklet_rows(n)), np.int8)
        state[result.tracklet_index[mine]] = result.state[mine]
        chunk = int(result.action_chunk[i]) if action_sought else None
        rows.append(score_clip(corpus, n, state if states_sought else None, chunk))
    for n in (number[skipped.clip] for skipped in result.skipped if skipped.clip in number):
        nothing = np.zeros(len(corpus.tracklet_rows(n)), np.int8)
        rows.append(
            score_clip(corpus, n, nothing if states_sought else None, -1 if action_sought else None)
        )
    return Evaluation(tuple(rows), result.skipped)


def score_clip(corpus: Corpus, n: int, state: Array | None, chunk: int | None) -> ClipScore:
    """Score the labels of clip n: ``state`` (M_n,) of its tracklets, ``chunk`` of the action.

    None stands for what was not sought. A state without tracklets and the chunk -1 are wrong.
    """
    precision = recall = (np.nan, np.nan)
    if state is not None:
        truth = corpus.tracklets.label[list(corpus.tracklet_rows(n))]
        precision = _precision(state, truth, 1), _precision(state, truth, 2)
        recall = _fraction(state[truth == 1] == 1), _fraction(state[truth == 2] == 2)
        if not len(truth) and (corpus.tracklets.label == UNKNOWN).all():
            precision = np.nan, np.nan
    action = np.nan
    if chunk is not None:
        shown = corpus.chunks.label[list(corpus.chunk_rows(n))]
        if chunk < 0:
            action = 0.0 if (shown != UNKNOWN).any() else np.nan
        elif shown[chunk] != UNKNOWN:
            action = float(shown[chunk] == 1)
    return ClipScore(
        clip=corpus.clip_ids[n],
        precision_1=precision[0],
        precision_2=precision[1],
        recall_1=recall[0],
        recall_2=recall[1],
        action=action,
        n_labels=0 if state is None else int((state > 0).sum()),
    )


def _precision(state: Array, truth: Array, k: int) -> float:
    """TP / (TP + FP) over tracklets with truth; 0 if no tracklet has the state."""
    if len(truth) and (truth == UNKNOWN).all():
        return np.nan
    if not (state == k).any():
        return 0.0
    return _fraction(truth[(state == k) & (truth != UNKNOWN)] == k)


def _clip_means(evaluation: Evaluation) -> Array:
    """(N,) mean precision of each clip's states; NaN without truth."""
    scores = evaluation.precisions
    known = (~np.isnan(scores)).sum(axis=1)
    return np.where(known > 0, np.nansum(scores, axis=1) / np.maximum(known, 1), np.nan)


def _fraction(right: Array) -> float:
    return float(right.mean()) if len(right) else np.nan

"""The paper's precision, with its per-clip rows.

Per clip and state the precision is TP / (TP + FP): the share of the labelled tracklets whose true
state it is; false positives and ambiguous ones are wrong. The action is right if its chunk truly
shows it. The totals are means over clips (and states): every clip counts the same, however many
tracklets it has. As in the paper every clip demands an answer: a clip that a method left out, and
a state that it gives to no tracklet of a clip (under the constraints neither can happen; in the
authors' code the latter is not a number), are wrong, with precision 0. Beside the precision stands
the recall, because labelling one sure tracklet per state and stopping scores well in precision
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from objectstates.data.corpus import UNKNOWN, Array, Corpus
from objectstates.data.result import Result, SkippedClip
from objectstates.evaluation.bootstrap import Comparison, interval, macro_mean, paired


@dataclass(frozen=True)
class ClipScore:
    """The scores of one clip; NaN where it was not sought, or there is no truth."""

    clip: str
    precision_1: float
    precision_2: float
    recall_1: float
    recall_2: float
    action: float
    n_labels: float


@dataclass(frozen=True)
class Evaluation:
    """Per-clip scores and their means.

    skipped : the clips that were left out, and why; they are among the rows, as wrong.
    state_error : where the scores are means over random runs, the standard error of the state
        precision over them; else 0.
    """

    rows: tuple[ClipScore, ...]
    skipped: tuple[SkippedClip, ...] = ()
    state_error: float = 0.0

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
        """(N,) whether the action is placed rightly."""
        return self._column("action")[:, 0]

    @property
    def state_precision(self) -> float:
        """Mean over clips and states."""
        return macro_mean([self.precisions])

    @property
    def state_recall(self) -> float:
        """Mean over clips and states; a state that a clip does not have has no recall."""
        return macro_mean([self.recalls])

    @property
    def action_precision(self) -> float:
        """Share of clips whose action is placed rightly."""
        return macro_mean([self.actions])

    @property
    def labels_per_clip(self) -> float:
        return macro_mean([self._column("n_labels")])

    def _column(self, *names: str) -> Array:
        rows = [[getattr(row, name) for name in names] for row in self.rows]
        return np.array(rows, np.float64).reshape(-1, len(names))


@dataclass(frozen=True)
class MethodRow:
    """One method's line in a table: means over clips, with bounds (95 %, bootstrap over clips)."""

    method: str
    states: float
    states_low: float
    states_high: float
    states_recall: float
    labels_per_clip: float
    action: float
    action_low: float
    action_high: float


def method_row(method: str, parts: Sequence[Evaluation], *, seed: int = 0) -> MethodRow:
    """A line of a table; of several parts (the actions of a table, say) the mean of their means."""
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
    )


def compare(
    first: Sequence[Evaluation], second: Sequence[Evaluation], *, seed: int = 0
) -> dict[str, Comparison]:
    """How much better ``first`` is than ``second`` on the clips of both, by ``states``, ``action``.

    Each has one part, or several that belong together in order (the actions of a table, say) and
    count the same. The states of a clip are compared by the mean of its precisions.
    """
    states, action = [], []
    for here, there in zip(first, second, strict=True):
        place = {row.clip: n for n, row in enumerate(there.rows)}
        both = [(n, place[row.clip]) for n, row in enumerate(here.rows) if row.clip in place]
        mine, other = np.array(both, np.int64).reshape(-1, 2).T
        states.append((_clip_means(here)[mine], _clip_means(there)[other]))
        action.append((here.actions[mine], there.actions[other]))
    return {"states": paired(states, seed=seed), "action": paired(action, seed=seed)}


def evaluate(result: Result, corpus: Corpus) -> Evaluation:
    """Score ``result`` by the labels in ``corpus``: the clips that took part, and those left out.

    What was not sought (states or the action alone) is not scored. A clip left out that the corpus
    does not hold either, such as a result's own, cannot be.
    """
    place = {clip: n for n, clip in enumerate(corpus.clip_ids)}
    states_sought, action_sought = bool(result.state.any()), bool((result.action_chunk >= 0).any())
    rows = []
    for i, clip in enumerate(result.clips):
        mine = result.tracklet_clip == i
        n = place[clip]
        state = np.zeros(len(corpus.tracklet_rows(n)), np.int8)
        state[result.tracklet_index[mine]] = result.state[mine]
        chunk = int(result.action_chunk[i]) if action_sought else None
        rows.append(score_clip(corpus, n, state if states_sought else None, chunk))
    for n in (place[skipped.clip] for skipped in result.skipped if skipped.clip in place):
        nothing = np.zeros(len(corpus.tracklet_rows(n)), np.int8)
        rows.append(
            score_clip(corpus, n, nothing if states_sought else None, -1 if action_sought else None)
        )
    return Evaluation(tuple(rows), result.skipped)


def score_clip(corpus: Corpus, n: int, state: Array | None, chunk: int | None) -> ClipScore:
    """Score the labels of clip n: ``state`` (M_n,) of its tracklets, ``chunk`` of the action.

    None is what was not sought; a state without tracklets, and the chunk -1, are wrong.
    """
    precision = recall = (np.nan, np.nan)
    if state is not None:
        truth = corpus.tracklets.label[list(corpus.tracklet_rows(n))]
        precision = _precision(state, truth, 1), _precision(state, truth, 2)
        recall = _share(state[truth == 1] == 1), _share(state[truth == 2] == 2)
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
    """TP / (TP + FP), 0 where nothing is labelled; labelled tracklets without truth don't count."""
    if len(truth) and (truth == UNKNOWN).all():
        return np.nan
    if not (state == k).any():
        return 0.0
    return _share(truth[(state == k) & (truth != UNKNOWN)] == k)


def _clip_means(evaluation: Evaluation) -> Array:
    """(N,) mean precision of each clip's states, NaN where there is none."""
    scores = evaluation.precisions
    known = ~np.isnan(scores)
    sums = np.where(known, scores, 0.0).sum(axis=1)
    return np.where(known.any(axis=1), sums / np.maximum(known.sum(axis=1), 1), np.nan)


def _share(right: Array) -> float:
    return float(right.mean()) if len(right) else np.nan

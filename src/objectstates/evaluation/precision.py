"""The paper's precision, with one row per clip.

Per clip and state the precision is TP / (TP + FP): the fraction of the labelled tracklets whose
true state it is; false positives and ambiguous ones are wrong. The action is right if its chunk
truly shows it. The totals are means over clips (and states), whatever their numbers of tracklets.
As in the paper every clip needs a prediction: a clip that a method left out, and a state without
any tracklet in a clip, have precision 0. (The constraints exclude both; the authors' code gives
NaN for the latter.) Recall is reported too, because one safe label per state and clip is enough for
a high precision.

In a chain of changes each state and each action has its own score. A step that a clip truly lacks
is right if it was not found, and wrong if it was: its action, and the state after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from objectstates.data.corpus import UNKNOWN, Array, Corpus
from objectstates.data.result import Result, SkippedClip, action_labels
from objectstates.evaluation.bootstrap import Comparison, interval, macro_mean, paired

Side = Literal["states", "action"]


@dataclass(frozen=True)
class ClipScore:
    """The scores of one clip; NaN for what was not sought or has no truth.

    precisions, recalls : of the K states. ``actions`` : of the K - 1 actions, 1 if right, else 0.
    """

    clip: str
    precisions: tuple[float, ...]
    recalls: tuple[float, ...]
    actions: tuple[float, ...]
    n_labels: float

    @property
    def precision_1(self) -> float:
        return self.precisions[0]

    @property
    def precision_2(self) -> float:
        return self.precisions[1]

    @property
    def recall_1(self) -> float:
        return self.recalls[0]

    @property
    def recall_2(self) -> float:
        return self.recalls[1]

    @property
    def action(self) -> float:
        """The share of the actions that is right: 1 or 0 of a single one."""
        return macro_mean([np.array(self.actions)])

    @property
    def columns(self) -> dict[str, str | float]:
        """A row of a table: of one change clip, precision_1, precision_2, recall_1, recall_2,
        action, n_labels; in a chain there are precision_3 and so on, and action_1, action_2."""
        return {
            "clip": self.clip,
            **{f"precision_{k}": x for k, x in enumerate(self.precisions, start=1)},
            **{f"recall_{k}": x for k, x in enumerate(self.recalls, start=1)},
            **dict(zip(action_labels(len(self.actions)), self.actions, strict=True)),
            "n_labels": self.n_labels,
        }

    @classmethod
    def from_columns(cls, row: Mapping[str, Any]) -> ClipScore:
        """The score with these `columns`; KeyError if some are missing."""
        n_states = sum(name.startswith("precision_") for name in row)
        return cls(
            row["clip"],
            tuple(row[f"precision_{k}"] for k in range(1, n_states + 1)),
            tuple(row[f"recall_{k}"] for k in range(1, n_states + 1)),
            tuple(row[name] for name in action_labels(n_states - 1)),
            row["n_labels"],
        )


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
        """(N, K) of the states."""
        return self._table("precisions")

    @property
    def recalls(self) -> Array:
        """(N, K) of the states."""
        return self._table("recalls")

    @property
    def each_action(self) -> Array:
        """(N, K - 1) 1 where the action is right, else 0."""
        return self._table("actions")

    @property
    def actions(self) -> Array:
        """(N,) the share of the clip's actions that is right: 1 or 0 of a single one."""
        return np.array([row.action for row in self.rows], np.float64)

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
        """Fraction of the clips' actions that are right."""
        return macro_mean([self.each_action])

    def precision(self, side: Side) -> float:
        return self.state_precision if side == "states" else self.action_precision

    @property
    def labels_per_clip(self) -> float:
        return macro_mean([np.array([row.n_labels for row in self.rows], np.float64)])

    def _table(self, name: str) -> Array:
        rows = [getattr(row, name) for row in self.rows]
        return np.array(rows, np.float64).reshape(len(rows), -1 if rows else 2)


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

    Examples
    --------
    >>> from objectstates import JointDiscovery
    >>> from objectstates.data.synthetic import synthetic_corpus
    >>> corpus = synthetic_corpus(n_clips=8, noise=0.5)
    >>> scores = evaluate(JointDiscovery(verdict=False).fit(corpus).result_, corpus)
    >>> scores.action_precision > 0.8, len(scores.rows)
    (True, 8)
    """
    number = {clip: n for n, clip in enumerate(corpus.clip_ids)}
    states_sought, action_sought = bool(result.state.any()), bool((result.actions.chunk >= 0).any())
    n_states, rows = result.n_states, []
    for i, clip in enumerate(result.clips):
        mine = result.tracklet_clip == i
        n = number[clip]
        state = np.zeros(len(corpus.tracklet_rows(n)), np.int8)
        state[result.tracklet_index[mine]] = result.state[mine]
        chunks = result.actions.chunk[i] if action_sought else None
        rows.append(score_clip(corpus, n, state if states_sought else None, chunks, n_states))
    for n in (number[skipped.clip] for skipped in result.skipped if skipped.clip in number):
        nothing = np.zeros(len(corpus.tracklet_rows(n)), np.int8)
        no_chunks = np.full(n_states - 1, -1)
        row = score_clip(
            corpus,
            n,
            nothing if states_sought else None,
            no_chunks if action_sought else None,
            n_states,
        )
        rows.append(_all_wrong(row))
    return Evaluation(tuple(rows), result.skipped)


def score_clip(
    corpus: Corpus, n: int, state: Array | None, chunks: Array | int | None, n_states: int = 2
) -> ClipScore:
    """Score the labels of clip n: ``state`` (M_n,) of its tracklets, ``chunks`` of the actions,
    (K - 1,) or the only one, -1 where there is none.

    None stands for what was not sought. A state without tracklets and an action without a chunk
    are wrong, but for steps of a chain that the clip truly lacks.
    """
    lacking = truly_absent(corpus, n, n_states)
    precision = recall = (np.nan,) * n_states
    if state is not None:
        truth = corpus.tracklets.label[list(corpus.tracklet_rows(n))]
        numbers = range(1, n_states + 1)
        precision = tuple(_precision(state, truth, k, absent=k - 1 in lacking) for k in numbers)
        recall = tuple(_fraction(state[truth == k] == k) for k in numbers)
        if not len(truth) and (corpus.tracklets.label == UNKNOWN).all():
            precision = (np.nan,) * n_states
    actions = (np.nan,) * (n_states - 1)
    if chunks is not None:
        shown = corpus.chunks.label[list(corpus.chunk_rows(n))]
        actions = tuple(
            _action_score(shown, k, int(chunk), absent=k in lacking)
            for k, chunk in enumerate(np.atleast_1d(chunks), start=1)
        )
    n_labels = 0 if state is None else int((state > 0).sum())
    return ClipScore(corpus.clip_ids[n], precision, recall, actions, n_labels)


def truly_absent(corpus: Corpus, n: int, n_states: int) -> set[int]:
    """The actions of a chain (from 1) that clip n has not, by its truth; with them the state after
    each is absent. A single change is in every clip."""
    shown = corpus.chunks.label[list(corpus.chunk_rows(n))]
    if n_states == 2 or not len(shown) or (shown == UNKNOWN).any():
        return set()
    return set(range(1, n_states)) - {int(number) for number in np.unique(shown)}


def _action_score(shown: Array, k: int, chunk: int, *, absent: bool) -> float:
    """Whether ``chunk`` shows action k, by the truth ``shown`` (T_n,) of a clip's chunks."""
    if chunk < 0:
        return float(absent) if (shown != UNKNOWN).any() else np.nan
    return np.nan if shown[chunk] == UNKNOWN else float(shown[chunk] == k)


def _all_wrong(row: ClipScore) -> ClipScore:
    """The row of a clip without an answer: even for steps that it lacks there is none."""
    return replace(
        row,
        precisions=tuple(0 * score for score in row.precisions),
        actions=tuple(0 * score for score in row.actions),
    )


def _precision(state: Array, truth: Array, k: int, *, absent: bool) -> float:
    """TP / (TP + FP) over tracklets with truth; 0 if no tracklet has the state."""
    if len(truth) and (truth == UNKNOWN).all():
        return np.nan
    if not (state == k).any():
        return float(absent)
    return _fraction(truth[(state == k) & (truth != UNKNOWN)] == k)


def _clip_means(evaluation: Evaluation) -> Array:
    """(N,) mean precision of each clip's states; NaN without truth."""
    scores = evaluation.precisions
    known = (~np.isnan(scores)).sum(axis=1)
    return np.where(known > 0, np.nansum(scores, axis=1) / np.maximum(known, 1), np.nan)


def _fraction(right: Array) -> float:
    return float(right.mean()) if len(right) else np.nan

"""How good a result is, where the truth is known: the paper's precision, with its per-clip rows.

Per clip and state the precision is the share of the labelled tracklets whose true state it is
(false positives and ambiguous ones are wrong), and the action is right if its chunk truly shows it.
The totals are means over clips (and states): every clip counts the same, however many tracklets it
has. Beside the precision stands the recall, because labelling one sure tracklet per state and
stopping scores well in precision alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from objectstates.corpus import UNKNOWN, Corpus
from objectstates.result import Result


@dataclass(frozen=True)
class ClipScore:
    """The scores of one clip; NaN where there is no truth, or nothing to divide by."""

    clip: str
    precision_1: float
    precision_2: float
    recall_1: float
    recall_2: float
    action: float
    n_labels: int


@dataclass(frozen=True)
class Evaluation:
    """Per-clip scores and their means."""

    rows: tuple[ClipScore, ...]

    @property
    def state_precision(self) -> float:
        """Mean over clips and states."""
        return _mean([(row.precision_1, row.precision_2) for row in self.rows])

    @property
    def state_recall(self) -> float:
        """Mean over clips and states."""
        return _mean([(row.recall_1, row.recall_2) for row in self.rows])

    @property
    def action_precision(self) -> float:
        """Share of clips whose action is placed rightly."""
        return _mean([row.action for row in self.rows])

    @property
    def labels_per_clip(self) -> float:
        return _mean([row.n_labels for row in self.rows])


def evaluate(result: Result, corpus: Corpus) -> Evaluation:
    """Score ``result`` by the labels in ``corpus``, over the clips that took part."""
    position = {clip: n for n, clip in enumerate(corpus.clip_ids)}
    rows = []
    for i, clip in enumerate(result.clips):
        n = position[clip]
        mine = result.tracklet_clip == i
        truth = corpus.tracklets.label[corpus.tracklets.offsets[n] + result.tracklet_index[mine]]
        state = result.state[mine]
        known = truth != UNKNOWN
        chunk = corpus.chunks.offsets[n] + result.action_chunk[i]
        action = np.nan
        if result.action_chunk[i] >= 0 and corpus.chunks.label[chunk] != UNKNOWN:
            action = float(corpus.chunks.label[chunk] == 1)
        rows.append(
            ClipScore(
                clip=clip,
                precision_1=_share(truth[known & (state == 1)] == 1),
                precision_2=_share(truth[known & (state == 2)] == 2),
                recall_1=_share(state[known & (truth == 1)] == 1),
                recall_2=_share(state[known & (truth == 2)] == 2),
                action=action,
                n_labels=int((state > 0).sum()),
            )
        )
    return Evaluation(tuple(rows))


def _share(right: np.ndarray) -> float:
    return float(right.mean()) if len(right) else np.nan


def _mean(values: Sequence[float | tuple[float, float]]) -> float:
    known = np.array(values, np.float64)
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else np.nan

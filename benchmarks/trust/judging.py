"""Judge corpora: fit, gather the evidence, and compare with the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.trust.corpora import Judged
from objectstates import JointDiscovery, evaluate
from objectstates.base.errors import ObjectStatesError
from objectstates.discovery.constraints import Formulation
from objectstates.discovery.evidence import Evidence, gather
from objectstates.discovery.fit_steps import discover_parts
from objectstates.discovery.prediction import predict
from objectstates.discovery.verdict import (
    ACTION,
    FOUND,
    STATES,
    Weights,
    chances_of,
)

RIGHT = 0.8  # precision from which the answers of a corpus count as right
BINS = 10  # of the reliability diagram


@dataclass(frozen=True, eq=False)
class Outcome:
    """Evidence and truth of one corpus.

    action_truth : (N,) 0 or 1; ``state_truth`` (N, 2) precisions; NaN where there is no truth.
    """

    name: str
    kind: str
    chosen_on: bool
    evidence: Evidence
    action_truth: np.ndarray
    state_truth: np.ndarray

    @property
    def action_evidence(self) -> Mapping[str, np.ndarray]:
        assert self.evidence.action is not None
        return self.evidence.action

    @property
    def state_evidence(self) -> Mapping[str, np.ndarray]:
        assert self.evidence.states is not None
        return self.evidence.states


def outcome(judged: Judged) -> Outcome | None:
    """None where the corpus admits no labelling, which ends in an error for a user."""
    model = JointDiscovery(verdict=False)
    try:
        found = model.fit(judged.corpus).result_
    except ObjectStatesError:
        return None
    kept = set(found.clips)
    clips = [n for n, clip in enumerate(judged.corpus.clip_ids) if clip in kept]
    corpus = judged.corpus.select(clips)
    scores = evaluate(found, corpus)
    (evidence,) = gather(
        corpus,
        found,
        partial(discover_parts, model),
        lambda learned, part: predict(learned, part, Formulation("joint", "at_least_one", 0.0)),
    )
    action, states = scores.actions.copy(), scores.precisions.copy()
    if judged.hopeless:
        action[:], states[:] = 0, 0
    return Outcome(judged.name, judged.kind, judged.chosen_on, evidence, action, states)


# --- scores ---------------------------------------------------------------------------------------

Side = Literal["action", "states"]


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of one side of a corpus: their chances and whether they are right, (k,) each."""

    name: str
    kind: str
    chance: np.ndarray
    truth: np.ndarray

    @property
    def expected(self) -> float:
        return float(self.chance.mean())

    @property
    def precision(self) -> float:
        return float(self.truth.mean())


def answers(
    outcomes: Sequence[Outcome],
    side: Side,
    action: Weights = ACTION,
    states: Sequence[Weights] = STATES,
) -> list[Answers]:
    """Of all corpora with truth, by these weights."""
    found = []
    for one in outcomes:
        columns = [0] if side == "action" else [1, 2]
        chance = chances_of(one.evidence, len(one.action_truth), action, states)[:, columns]
        truth = np.column_stack([one.action_truth, one.state_truth])[:, columns]
        known = np.isfinite(truth)
        if known.any():
            found.append(Answers(one.name, one.kind, chance[known], truth[known]))
    return found


@dataclass(frozen=True)
class Score:
    """How good verdict and confidence are, over corpora.

    precision, recall : of the verdict "found", where corpora of precision `RIGHT` are right.
    auc : area under the ROC curve of the share of right answers to expect.
    ece : expected calibration error of the chances; every corpus counts the same.
    """

    corpora: int
    right: int
    found: int
    precision: float
    recall: float
    auc: float
    ece: float


def score(parts: Sequence[Answers]) -> Score:
    expected = np.array([part.expected for part in parts])
    right = np.array([part.precision >= RIGHT for part in parts])
    found = expected >= FOUND
    hits = int((right & found).sum())
    return Score(
        corpora=len(parts),
        right=int(right.sum()),
        found=int(found.sum()),
        precision=hits / max(int(found.sum()), 1),
        recall=hits / max(int(right.sum()), 1),
        auc=float(roc_auc_score(right, expected)),
        ece=sum(share * abs(chance - truth) for share, chance, truth in reliability(parts)),
    )


def reliability(parts: Sequence[Answers]) -> list[tuple[float, float, float]]:
    """Of each bin of chances: its share of the answers, their mean chance, and their precision."""
    chance = np.concatenate([part.chance for part in parts])
    truth = np.concatenate([part.truth for part in parts])
    weight = np.concatenate([np.full(len(part.chance), 1 / len(part.chance)) for part in parts])
    bins = np.minimum((chance * BINS).astype(int), BINS - 1)
    rows = []
    for number in np.unique(bins):
        mine = bins == number
        total = weight[mine].sum()
        mean, right = (float(np.average(x[mine], weights=weight[mine])) for x in (chance, truth))
        rows.append((float(total / weight.sum()), mean, right))
    return rows

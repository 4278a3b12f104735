"""Estimate the weights of the verdict on the corpora that it may be chosen on.

Logistic regression with the true precision of each answer as a soft label. Every corpus counts the
same, whatever its number of clips.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks.trust.judging import Outcome
from objectstates.discovery.verdict import FEWEST, Weights

INVERSE_RIDGE = 1.0
ACTION = ("cues_all", "smoothness_all", "room_all", "quiet_all", "cues", "room", "amount")
STATES = ("action", "same_all", "order_all", "cover_all")
"""Chosen by the scores on manipulations left out. Replication with the profile, and the deviations
of single clips from the states' evidence, did not raise them."""


def estimate(outcomes: Sequence[Outcome]) -> tuple[Weights, Weights]:
    """The weights of the action, and those of the states, which depend on them.

    Corpora of too few clips, which are never found, do not count.
    """
    outcomes = [one for one in outcomes if one.evidence.n_learned >= FEWEST]
    action = _fit(ACTION, [(o.action_evidence, o.action_truth) for o in outcomes])
    of_states = []
    for outcome in outcomes:
        rows = {**outcome.state_evidence, "action": action.chance(outcome.action_evidence)}
        of_states += [(rows, truth) for truth in outcome.state_truth.T]
    return action, _fit(STATES, of_states)


def _fit(
    names: Sequence[str], parts: Sequence[tuple[Mapping[str, np.ndarray], np.ndarray]]
) -> Weights:
    rows = np.concatenate([np.stack([part[name] for name in names], 1) for part, _ in parts])
    truth = np.concatenate([labels for _, labels in parts])
    share = np.concatenate([np.full(len(labels), 1 / len(labels)) for _, labels in parts])
    known = np.isfinite(truth)
    rows, truth, share = rows[known], truth[known], share[known]
    scaler = StandardScaler().fit(rows)
    twice = np.tile(scaler.transform(rows), (2, 1))
    model = LogisticRegression(C=INVERSE_RIDGE, max_iter=1000)
    labels = np.repeat([1, 0], len(truth))
    model.fit(twice, labels, sample_weight=np.concatenate([share * truth, share * (1 - truth)]))
    weights = model.coef_[0] / scaler.scale_
    bias = float(model.intercept_[0] - weights @ scaler.mean_)
    return Weights(
        round(bias, 3), {n: round(float(w), 3) for n, w in zip(names, weights, strict=True)}
    )

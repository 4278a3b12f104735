"""Estimate the weights of the verdict on the corpora that it may be chosen on.

The true precision of each answer is a soft label. Every corpus counts the same, whatever its number
of clips. The chance of the action is a logistic regression; that of the states is a product of
logistic functions, one for each condition, fitted together by maximum likelihood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks.trust.judging import Outcome
from objectstates.discovery.verdict import FEWEST, Weights

INVERSE_RIDGE = 1.0
RIDGE = 0.004  # of the product, per corpus
ACTION = (
    "cues_all", "shared_all", "smoothness_all", "room_all", "quiet_all",
    "cues", "shared", "room", "amount",
)  # fmt: skip
STATES = ("action", "same_all", "cover_all")
"""Chosen by the scores on manipulations left out, as is the form: a sum is better for the action, a
product for the states. Replication with the profile, how surely scores tell one state from the
other, and the deviations of single clips from the states' evidence, did not raise them."""


def estimate(outcomes: Sequence[Outcome]) -> tuple[Weights, tuple[Weights, ...]]:
    """The weights of the action, and those of the states' conditions, of which it is one.

    Corpora of too few clips, which are never found, do not count.
    """
    outcomes = [one for one in outcomes if one.evidence.n_learned >= FEWEST]
    action = _sum(ACTION, [(o.action_evidence, o.action_truth) for o in outcomes])
    of_states = []
    for outcome in outcomes:
        rows = {**outcome.state_evidence, "action": action.chance(outcome.action_evidence)}
        of_states += [(rows, truth) for truth in outcome.state_truth.T]
    return action, _product(STATES, of_states)


Part = tuple[Mapping[str, np.ndarray], np.ndarray]
"""Evidence of a corpus by name, and the truth, NaN where it is not known."""


def _sum(names: Sequence[str], parts: Sequence[Part]) -> Weights:
    scaler, rows, truth, share = _standardised(names, parts)
    model = LogisticRegression(C=INVERSE_RIDGE, max_iter=1000)
    labels = np.repeat([1, 0], len(truth))
    both = np.concatenate([share * truth, share * (1 - truth)])
    model.fit(np.tile(rows, (2, 1)), labels, sample_weight=both)
    weights = model.coef_[0] / scaler.scale_
    bias = float(model.intercept_[0] - weights @ scaler.mean_)
    return _rounded(bias, dict(zip(names, weights, strict=True)))


def _product(names: Sequence[str], parts: Sequence[Part]) -> tuple[Weights, ...]:
    scaler, rows, truth, share = _standardised(names, parts)
    share = share / share.sum()

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        biases, slopes = parameters.reshape(2, -1)
        factors = 1 / (1 + np.exp(-(biases + slopes * rows)))
        chance = np.clip(factors.prod(axis=1), 1e-9, 1 - 1e-9)
        value = -share @ (truth * np.log(chance) + (1 - truth) * np.log(1 - chance))
        inner = (share * (chance - truth) / (1 - chance))[:, None] * (1 - factors)
        gradient = inner.sum(axis=0), (inner * rows).sum(axis=0) + RIDGE * slopes
        return float(value + RIDGE * (slopes**2).sum() / 2), np.concatenate(gradient)

    start = np.repeat([1.5, 0.5], len(names))
    biases, slopes = minimize(loss, start, jac=True, method="L-BFGS-B").x.reshape(2, -1)
    slopes = slopes / scaler.scale_
    biases = biases - slopes * scaler.mean_
    return tuple(_rounded(b, {n: w}) for n, b, w in zip(names, biases, slopes, strict=True))


def _standardised(
    names: Sequence[str], parts: Sequence[Part]
) -> tuple[StandardScaler, np.ndarray, np.ndarray, np.ndarray]:
    """The scaler, rows (n, names) by it, their truth, and the share of each row in its corpus."""
    rows = np.concatenate([np.stack([part[name] for name in names], 1) for part, _ in parts])
    truth = np.concatenate([labels for _, labels in parts])
    share = np.concatenate([np.full(len(labels), 1 / len(labels)) for _, labels in parts])
    known = np.isfinite(truth)
    scaler = StandardScaler().fit(rows[known])
    return scaler, scaler.transform(rows[known]), truth[known], share[known]


def _rounded(bias: float, weights: Mapping[str, float]) -> Weights:
    return Weights(round(float(bias), 3), {n: round(float(w), 3) for n, w in weights.items()})

"""What a discovery must beat: chance, and the constraints without the features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from objectstates.corpus import Corpus
from objectstates.discovery import JointDiscovery
from objectstates.evaluation import evaluate


@dataclass(frozen=True)
class Baseline:
    """Precision of a baseline, with the standard error over its seeds (0 where it is exact)."""

    state_precision: float
    action_precision: float
    state_error: float = 0.0


def chance(corpus: Corpus) -> Baseline:
    """A tracklet and a chunk drawn at random in each clip (rows a and i of the paper), exactly."""
    state, action = [], []
    for n in range(len(corpus)):
        truth = corpus.tracklets.label[list(corpus.tracklet_rows(n))]
        if len(truth):
            state += [np.mean(truth == 1), np.mean(truth == 2)]
        action.append(np.mean(corpus.chunks.label[list(corpus.chunk_rows(n))] == 1))
    return Baseline(float(np.mean(state)), float(np.mean(action)))


def constraints_only(corpus: Corpus, *, runs: int = 10, seed: int = 0) -> Baseline:
    """States from random features, under the same constraints (row c); the action is chance's."""
    precision = []
    for run in range(runs):
        noise = np.random.default_rng((seed, run)).standard_normal(
            corpus.tracklets.features.shape, np.float32
        )
        model = JointDiscovery(target="state", max_passes=50, seed=seed + run)
        result = model.fit(corpus.with_features(tracklets=noise)).result_
        precision.append(evaluate(result, corpus).state_precision)
    error = float(np.std(precision, ddof=1) / np.sqrt(runs)) if runs > 1 else np.nan
    return Baseline(float(np.mean(precision)), chance(corpus).action_precision, error)

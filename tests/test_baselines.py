import numpy as np
import pytest

from objectstates.baselines import chance, constraints_only
from objectstates.synthetic import synthetic_corpus


def test_chance_is_the_share_of_each_label():
    corpus = synthetic_corpus(n_clips=30, seed=0)
    baseline = chance(corpus)
    rng = np.random.default_rng(0)
    draws = []
    for n in range(len(corpus)):
        labels = corpus.tracklets.label[list(corpus.tracklet_rows(n))]
        draws.append([np.mean(rng.choice(labels, 4000) == k) for k in (1, 2)])
    assert baseline.state_precision == pytest.approx(np.mean(draws), abs=0.01)
    assert 0.05 < baseline.action_precision < 0.4


def test_constraints_alone_beat_chance():
    corpus = synthetic_corpus(n_clips=10, seed=0)
    baseline = constraints_only(corpus, runs=3)
    assert baseline.state_precision > chance(corpus).state_precision + 0.05
    assert baseline.state_precision < 0.7
    assert 0 < baseline.state_error < 0.2

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.corrections import ORDERS, Curves, actions_right, curves, needed, table
from objectstates import JointDiscovery
from objectstates.data.synthetic import synthetic_corpus
from objectstates.data.truth import ClipTruth


def truth_of(corpus):
    """The true actions of a synthetic corpus, whose chunks are labelled."""
    found = {}
    for n, clip in enumerate(corpus.clip_ids):
        rows = [row for row in corpus.chunk_rows(n) if corpus.chunks.label[row] == 1]
        action = float(corpus.chunks.start[rows[0]]), float(corpus.chunks.end[rows[-1]])
        found[clip] = ClipTruth.single(clip, action, np.empty(0), np.empty((0, 4)))
    return found


def test_corrected_clips_are_right_and_are_not_judged_as_untouched():
    corpus = synthetic_corpus(n_clips=6, noise=6.0, seed=0)
    found = curves(corpus, truth_of(corpus), [0, 2], draws=2)
    assert set(found) == set(ORDERS)
    for each in found.values():
        assert each.after.shape == (2, 2, 6)
        assert np.isnan(each.after[:, 0]).sum() == 0
        assert (np.isnan(each.after[:, 1]).sum(axis=1) == 2).all()
        assert (np.isnan(each.before) == np.isnan(each.after)).all()
        assert (each.all[:, 1][np.isnan(each.after[:, 1])] == 1).all()
    first = found["random"].all[0, 0]
    assert (first == actions_right(JointDiscovery(seed=0).fit(corpus).result_, corpus)).all()
    text = table([found], [0, 2])
    assert text.count("| ask next |") == 3


def test_needed_is_the_share_of_corrections_that_reach_the_same():
    random = np.array([0.2, 0.3, 0.4, 0.6])
    counts = [0, 1, 2, 4]
    assert needed(random, random, counts) == pytest.approx(1.0)
    twice_as_good = np.array([0.2, 0.4, 0.6, 0.6])
    assert needed(twice_as_good, random, counts) == pytest.approx(0.5)
    useless = np.full(4, 0.2)
    assert needed(useless, random, counts) == pytest.approx(np.mean([4, 2, 1]))
    assert np.isnan(needed(random, useless, counts))
    assert Curves._fields == ("after", "before", "all")

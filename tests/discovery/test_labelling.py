from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from objectstates.data.clips import ChangeProfile
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.estimator import JointDiscovery

OFFSET = 0.13  # seconds from the middle of the action's chunk to the moment of the change


@pytest.fixture(scope="module")
def plain():
    corpus = synthetic_corpus(n_clips=10, seed=3)
    return corpus, JointDiscovery(seed=0).fit(corpus).result_


def with_profiles(corpus, moments):
    """The same clips, each with a change at the given time and none elsewhere."""
    changes = []
    for n, moment in enumerate(moments):
        rows = list(corpus.chunk_rows(n))
        start, end = corpus.chunks.start[rows[0]], corpus.chunks.end[rows[-1]]
        times = start + 0.04 * (np.arange(int((end - start) / 0.04)) + 0.5)
        curve = np.exp(-0.5 * ((times - moment) / 0.1) ** 2).astype(np.float32)
        changes.append(ChangeProfile(float(start), 0.04, curve, np.zeros((2, 3), np.uint8)))
    return replace(corpus, changes=tuple(changes))


def test_the_action_is_at_the_moment_of_the_change(plain):
    corpus, found = plain
    moments = found.action_time + OFFSET
    sharp = JointDiscovery(seed=0).fit(with_profiles(corpus, moments)).result_
    assert sharp.action_time == pytest.approx(moments, abs=0.05)
    rows = corpus.chunks.offsets[:-1] + sharp.action_chunk
    assert (corpus.chunks.start[rows] <= sharp.action_time).all()
    assert (sharp.action_time < corpus.chunks.end[rows] + 1e-9).all()
    assert (sharp.action_span[:, 0] <= sharp.action_time).all()
    assert (sharp.action_time <= sharp.action_span[:, 1]).all()
    shorter = np.diff(sharp.action_span, axis=1) <= np.diff(found.action_span, axis=1) + 1e-9
    assert shorter.mean() > 0.5


def test_a_change_far_from_the_action_changes_nothing(plain):
    corpus, found = plain
    far = [corpus.chunks.start[corpus.chunk_rows(n)[0]] - 5 for n in range(len(corpus))]
    same = JointDiscovery(seed=0).fit(with_profiles(corpus, far)).result_
    assert (same.action_time == found.action_time).all()
    assert (same.action_chunk == found.action_chunk).all()


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_the_action_and_the_states_do_not_overlap(seed):
    corpus = synthetic_corpus(n_clips=10, seed=seed)
    times = JointDiscovery(seed=0).fit(corpus).result_.action_time
    found = JointDiscovery(seed=0).fit(with_profiles(corpus, times + OFFSET)).result_
    table, owner = found.corpus.tracklets, found.tracklet_clip
    start, end = found.action_span[owner].T
    straddles = (table.start < found.action_time[owner]) & (found.action_time[owner] < table.end)
    labelled = (found.state > 0) & ~straddles
    overlap = np.minimum(table.end, end) - np.maximum(table.start, start)
    assert overlap[labelled].max() < 1e-6
    assert labelled.sum() > 0.9 * (found.state > 0).sum()


def test_the_papers_labelling_ignores_profiles(plain):
    corpus, found = plain
    model = JointDiscovery.paper(seed=0)
    with_them = model.fit(with_profiles(corpus, found.action_time + OFFSET)).result_
    without = model.fit(corpus).result_
    assert (with_them.action_time == without.action_time).all()
    assert (with_them.action_span == without.action_span).all()


def test_predictions_are_sharpened_too(plain):
    corpus, found = plain
    model = JointDiscovery(seed=0).fit(corpus)
    predicted = model.predict(with_profiles(corpus, found.action_time + OFFSET))
    at = model.predict(corpus).action_time
    near = np.abs(predicted.action_time - found.action_time - OFFSET) < 0.05
    assert near[np.isclose(at, found.action_time)].all()
    assert near.mean() > 0.7

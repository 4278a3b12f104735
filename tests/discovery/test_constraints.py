"""Clips that admit no labelling, and labels that are not allowed."""

import warnings

import numpy as np
import pytest

from objectstates import Corpus, JointDiscovery
from objectstates.base.errors import InfeasibleClipError
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.constraints import InfeasibleClipWarning
from tests.discovery.checks import assert_constraints_hold, with_impossible_clips


@pytest.fixture(scope="module")
def corpus():
    return synthetic_corpus(n_clips=12, seed=0)


def test_forbidden_labels_are_not_given(corpus):
    allowed = np.ones((len(corpus.tracklets.start), 2), bool)
    allowed[::3, 0] = False
    window = corpus.chunks.time < 8
    restricted = Corpus.from_arrays(
        tracklets_per_clip=np.diff(corpus.tracklets.offsets),
        tracklet_start=corpus.tracklets.start,
        tracklet_end=corpus.tracklets.end,
        tracklet_features=corpus.tracklets.features,
        tracklet_allowed=allowed,
        chunks_per_clip=np.diff(corpus.chunks.offsets),
        chunk_start=corpus.chunks.start,
        chunk_end=corpus.chunks.end,
        chunk_features=corpus.chunks.features,
        chunk_allowed=window,
    )
    model = JointDiscovery().fit(restricted)
    assert not (model.labels_[::3] == 1).any()
    assert (model.action_time_ < 8).all()
    predicted = model.predict(restricted)
    assert (predicted.action_time < 8).all()


def test_impossible_clips_are_left_out_and_named():
    corpus = with_impossible_clips()
    with pytest.warns(InfeasibleClipWarning, match="2 of 6 clips cannot be labelled"):
        model = JointDiscovery().fit(corpus)
    assert [skipped.clip for skipped in model.skipped_] == ["overlapping", "empty"]
    assert "overlap" in model.skipped_[0].reason
    assert model.result_.clips == tuple(
        c for c in corpus.clip_ids if c not in ("overlapping", "empty")
    )
    assert model.action_chunk_[[1, 3]].tolist() == [-1, -1]
    assert not model.labels_[list(corpus.tracklet_rows(1))].any()
    kept = corpus.select([0, 2, 4, 5])
    assert_constraints_hold(kept, model.result_.state, model.result_.action_chunk)
    alone = JointDiscovery().fit(kept)
    assert alone.objective_ == model.objective_
    with pytest.warns(InfeasibleClipWarning):
        assert model.predict(corpus).clips == model.result_.clips
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # actions need no tracklets
        JointDiscovery(target="action", max_passes=20).fit(corpus)


def test_no_tracklets_at_all_is_not_feasible():
    clips = [type(c)(c.id, (), c.chunks) for c in synthetic_corpus(n_clips=3)]
    corpus = Corpus.from_clips(clips)
    for target in ("joint", "state"):
        with pytest.raises(InfeasibleClipError, match="3 of 3 clips"):
            JointDiscovery(target=target).fit(corpus)


def test_impossible_clips_raise_where_asked():
    corpus = with_impossible_clips()
    with pytest.raises(InfeasibleClipError, match="overlapping: it has 30 tracklet"):
        JointDiscovery(on_infeasible="raise").fit(corpus)
    with pytest.raises(InfeasibleClipError, match="2 of 2 clips"):
        JointDiscovery().fit(corpus.select([1, 3]))

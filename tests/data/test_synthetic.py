import numpy as np

from objectstates.data.clips import TrackletLabel
from objectstates.data.synthetic import synthetic_corpus


def test_truth_is_in_the_papers_order():
    corpus = synthetic_corpus(n_clips=25, seed=3)
    for clip in corpus:
        action = [chunk.time for chunk in clip.chunks if chunk.label]
        assert action
        for tracklet in clip.tracklets:
            if tracklet.label is TrackletLabel.STATE_1:
                assert tracklet.time < min(action)
            if tracklet.label is TrackletLabel.STATE_2:
                assert tracklet.time > max(action)


def test_seed_and_world_decide_everything():
    one, two = synthetic_corpus(n_clips=2, seed=1), synthetic_corpus(n_clips=2, seed=1)
    np.testing.assert_array_equal(one.tracklets.features, two.tracklets.features)
    other = synthetic_corpus(n_clips=2, seed=2)
    assert (other.tracklets.features != one.tracklets.features).any()


def test_sizes_are_as_asked_for():
    corpus = synthetic_corpus(
        n_clips=2, tracklets_per_clip=9, chunks_per_clip=7, state_size=11, action_size=13
    )
    assert corpus.tracklets.features.shape == (18, 11)
    assert corpus.chunks.features.shape == (14, 13)

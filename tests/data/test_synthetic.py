import numpy as np
import pytest

from objectstates.data.clips import TrackletLabel
from objectstates.data.synthetic import synthetic_corpus


@pytest.mark.parametrize("seed", range(4))
def test_states_are_before_and_after_the_action(seed):
    corpus = synthetic_corpus(n_clips=25, seed=seed)
    for n in range(len(corpus)):
        rows, chunks = list(corpus.tracklet_rows(n)), list(corpus.chunk_rows(n))
        action = corpus.chunks.time[chunks][corpus.chunks.label[chunks] == 1]
        time, label = corpus.tracklets.time[rows], corpus.tracklets.label[rows]
        assert time[label == TrackletLabel.STATE_1].max() < action.min()
        assert time[label == TrackletLabel.STATE_2].min() > action.max()


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

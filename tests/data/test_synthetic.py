import hashlib

import numpy as np
import pytest

from objectstates.base.errors import SettingError
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


UNEQUAL = {
    "n_clips": 4, "tracklets_per_clip": [2, 9, 31, 5], "chunks_per_clip": [3, 20, 50, 7],
    "state_size": 11, "action_size": 80, "world": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "digest", "sums"),
    [
        (
            {"n_clips": 6, "seed": 3, "noise": 0.7},
            "28f5708dbad55e8f",
            (2291.44182, 3391.23689, 6.06432, -3.28435),
        ),
        (UNEQUAL, "a39810dfe7877484", (131.45701, 574.11767, 15.17758, 0.80039)),
    ],
)
def test_corpora_of_one_change_stay_what_they_are(settings, digest, sums):
    """Features are compared by sums, because products differ in the last bit between machines."""
    corpus = synthetic_corpus(**settings)
    tracklets, chunks = corpus.tracklets, corpus.chunks
    found = hashlib.sha256(tracklets.label.tobytes() + chunks.label.tobytes())
    for column in (tracklets.start, tracklets.end, tracklets.score):
        found.update(np.round(column * 1e6).astype("<i8").tobytes())
    assert found.hexdigest()[:16] == digest
    features = tracklets.features.astype(float), chunks.features.astype(float)
    known = [*(np.abs(part).sum() for part in features), features[0][:, 0].sum()]
    np.testing.assert_allclose([*known, features[1][:, -1].sum()], sums, rtol=1e-5)


@pytest.mark.parametrize("changes", [2, 3, 4])
def test_states_of_a_chain_are_between_its_actions(changes):
    corpus = synthetic_corpus(n_clips=12, changes=changes, tracklets_per_clip=40)
    assert corpus.n_states == changes + 1
    for n in range(len(corpus)):
        rows, chunks = list(corpus.tracklet_rows(n)), list(corpus.chunk_rows(n))
        of_chunks, label = corpus.chunks.label[chunks], corpus.tracklets.label[rows]
        found = [number for number in dict.fromkeys(of_chunks.tolist()) if number]
        assert found == list(range(1, changes + 1)), "in order"
        for k in range(1, changes + 1):
            action = corpus.chunks.time[chunks][of_chunks == k]
            times = corpus.tracklets.time[rows]
            assert times[label == k].max() < action.max()
            assert times[label == k + 1].min() > action.min()


def test_states_that_look_alike_share_a_look():
    """The mean features of states 1 and 3 of a cycle are nearer than those of 1 and 2."""

    def apart(pattern):
        corpus = synthetic_corpus(n_clips=20, changes=2, pattern=pattern, noise=0.3)
        looks = corpus.tracklets.features
        one, two, three = (looks[corpus.tracklets.label == k].mean(axis=0) for k in (1, 2, 3))
        return np.linalg.norm(one - three) / np.linalg.norm(one - two)

    assert apart("ABA") < 0.3
    assert apart(None) > 0.6


@pytest.mark.parametrize(("optional", "lacking"), [(None, 3), (1, 1)])
def test_a_share_of_the_clips_lacks_a_step(optional, lacking):
    corpus = synthetic_corpus(n_clips=10, changes=3, optional=optional, leave_out=0.4, seed=1)
    missing = 0
    for n in range(len(corpus)):
        actions = set(corpus.chunks.label[list(corpus.chunk_rows(n))]) - {0}
        states = set(corpus.tracklets.label[list(corpus.tracklet_rows(n))]) - {0, -2}
        assert states == {1} | {number + 1 for number in actions}
        assert actions in ({1, 2, 3}, {1, 2, 3} - {lacking})
        missing += len(actions) == 2
    assert missing == 4


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"changes": 0}, "`changes`"),
        ({"changes": 2, "pattern": "AB"}, "`pattern` must have 3 letters"),
        ({"changes": 2, "optional": 3}, "`optional`"),
        ({"leave_out": 0.2}, "`leave_out`"),
    ],
)
def test_a_chain_that_cannot_be_is_refused(settings, words):
    with pytest.raises(SettingError, match=words):
        synthetic_corpus(**settings)

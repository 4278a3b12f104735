"""Bags of dense trajectories of the clips of a corpus, and the supervised row that uses them."""

from dataclasses import replace

import numpy as np
import pytest

from objectstates.base.errors import CorpusError
from objectstates.data.formats.authors_release import find_release, read_release
from objectstates.evaluation.baselines import METHODS, MethodSettings
from objectstates.evaluation.trajectory_bags import trajectory_bags
from tests.release import make_release


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    root = tmp_path_factory.mktemp("release")
    make_release(root, "open_fridge", clips=2)
    return read_release(find_release(root)["open_fridge"])


@pytest.fixture(scope="module")
def bags(corpus):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("objectstates.evaluation.trajectory_bags.WORDS", 20)
        return trajectory_bags(corpus)


def test_chunks_have_one_bag_per_channel(corpus, bags):
    assert bags.shape == (len(corpus.chunks.start), 5 * 20)
    squares = (bags.reshape(len(bags), 5, 20) ** 2).sum(axis=2)
    assert set(squares.round(4).ravel()) <= {0.0, 1.0}, "frequencies, or nothing moves"
    assert squares[corpus.chunks.label == 1].mean() > 0.5, "the hand moves during the action"


def test_the_supervised_row_uses_features_and_trajectories(corpus, bags, monkeypatch):
    method = METHODS["supervised_trajectories"]
    assert (method.action_row, method.on_request) == ("E2", True)
    asked = []

    def given(clips, *, seed):
        asked.append((clips.clip_ids, seed))
        return bags

    monkeypatch.setattr("objectstates.evaluation.trajectory_bags.trajectory_bags", given)
    scores = method.scores(corpus, MethodSettings(seeds=2))
    assert asked == [(corpus.clip_ids, 0)], "once, for all seeds"
    assert len(scores.rows) == len(corpus)
    assert set(scores.actions) <= {0.0, 1.0}
    assert np.isnan(scores.state_precision)
    alone = METHODS["supervised"].scores(corpus.with_features(chunks=bags * 0), MethodSettings())
    assert scores.action_precision >= alone.action_precision


def test_clips_without_videos_are_refused(corpus):
    without = replace(corpus, videos=(None, *corpus.videos[1:]))
    with pytest.raises(CorpusError, match="need the clips' videos: 1 of 2 have none"):
        trajectory_bags(without)

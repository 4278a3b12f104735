from dataclasses import replace

import numpy as np
import pytest

from objectstates import JointDiscovery
from objectstates.data.clips import ChangeProfile
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery import replication as module
from objectstates.discovery.constraints import Formulation
from objectstates.discovery.prediction import predict
from objectstates.discovery.replication import (
    PARTS,
    REPEATS,
    peak_time,
    replicate,
    separately,
    without_change,
)

FORMULATION = Formulation("joint", "at_least_one", 0.0)


def profile(peak, seconds=20.0, step=0.1):
    curve = np.zeros(round(seconds / step), np.float32)
    curve[round(peak / step)] = 0.01
    return ChangeProfile(0.0, step, curve, np.full((2, 2), 255, np.uint8))


def replication(corpus, first=0):
    """Result, replication and clips of each fit; clips before ``first`` are outliers."""
    model = JointDiscovery(verdict=False)
    found = model.fit(corpus).result_
    learned_on = []

    def discover(clips):
        learned_on.append(clips.clip_ids)
        return model.fit(clips).result_

    (again,) = replicate(
        corpus,
        found,
        np.arange(first, len(corpus)),
        separately(discover),
        lambda learned, clips: predict(learned, clips, FORMULATION),
    )
    return found, again, learned_on


@pytest.fixture(scope="module")
def clear():
    return synthetic_corpus(n_clips=12, seed=0)


def test_what_clips_share_replicates(clear):
    _, again, _ = replication(clear)
    assert again.action.mean() > 0.9 > 0.5 > again.action_chance.mean()


def test_noise_does_not_replicate(clear):
    rng = np.random.default_rng(0)
    noise = clear.with_features(
        tracklets=rng.normal(size=clear.tracklets.features.shape),
        chunks=rng.normal(size=clear.chunks.features.shape),
    )
    _, again, _ = replication(noise)
    assert again.action.mean() < again.action_chance.mean() + 0.25
    assert again.states.mean() < 0.4


def test_no_clip_is_labelled_by_classifiers_that_know_it(clear):
    _, again, learned_on = replication(clear)
    assert len(learned_on) == PARTS * REPEATS
    for clips in learned_on:
        assert len(clips) == 9
    counts = [sum(clip in clips for clips in learned_on) for clip in clear.clip_ids]
    assert counts == [(PARTS - 1) * REPEATS] * len(clear)
    assert not np.isnan(again.action).any()


def test_of_many_clips_one_sample_is_divided(clear, monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 8)
    _, again, learned_on = replication(clear)
    assert len(learned_on) == PARTS * REPEATS
    assert {len(clips) for clips in learned_on} == {6}
    assert len(set().union(*learned_on)) == 8
    assert not np.isnan(again.action).any()


def test_cues_agree_where_the_picture_changes_when_the_clips_move_alike(clear):
    found, _, _ = replication(clear)
    there = replace(clear, changes=tuple(profile(t) for t in found.action_time))
    _, again, _ = replication(there)
    assert again.cues.mean() > 0.9 * again.action.mean()
    elsewhere = replace(clear, changes=tuple(profile((t + 8) % 20) for t in found.action_time))
    assert replication(elsewhere)[1].cues.mean() < 0.1


def test_a_still_picture_agrees_with_nothing(clear):
    still = replace(profile(1.0), curve=np.zeros(200, np.float32))
    _, again, _ = replication(replace(clear, changes=(still,) * len(clear)))
    assert (again.cues == 0).all()


def test_without_profiles_cues_are_unknown(clear):
    assert np.isnan(replication(clear)[1].cues).all()


def test_one_clip_has_no_others():
    _, again, learned_on = replication(synthetic_corpus(n_clips=1, seed=0))
    assert not learned_on
    assert np.isnan(again.action).all()
    assert np.isnan(again.states).all()


@pytest.mark.parametrize("target", ["state", "action"])
def test_a_side_that_was_not_sought_is_unknown(clear, target):
    model = JointDiscovery(verdict=False, target=target)
    formulation = Formulation(target, "at_least_one", 0.0)
    (again,) = replicate(
        clear,
        model.fit(clear).result_,
        np.arange(len(clear)),
        separately(lambda clips: model.fit(clips).result_),
        lambda learned, clips: predict(learned, clips, formulation),
    )
    assert np.isnan(again.action).all() == (target == "state")


def test_outliers_are_labelled_but_not_learned_from(clear):
    _, again, learned_on = replication(clear, first=1)
    assert all(clear.clip_ids[0] not in clips for clips in learned_on)
    assert not np.isnan(again.action[0])


def test_columns_of_the_profile_are_left_out(clear):
    wide = np.hstack([clear.chunks.features, np.ones((len(clear.chunks.start), 2), np.float32)])
    made = replace(
        clear.with_features(chunks=wide),
        info={"ingest": {"change_columns": True}},
        changes=(profile(2.0),) * len(clear),
    )
    bare = without_change(made)
    np.testing.assert_array_equal(bare.chunks.features, clear.chunks.features)
    assert not any(bare.changes)
    np.testing.assert_array_equal(without_change(clear).chunks.features, clear.chunks.features)


def test_the_peak_is_the_time_of_most_change():
    assert peak_time(profile(3.0), 0.2) == pytest.approx(3.05)
    assert np.isnan(peak_time(None, 0.2))
    assert np.isnan(peak_time(replace(profile(3.0), curve=np.zeros(5, np.float32)), 0.2))

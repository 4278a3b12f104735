"""Refits while clips are corrected: equal to a whole fit, or near it and faster."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from objectstates.base.errors import CorrectionError
from objectstates.data.corrections import Correction
from objectstates.data.label_names import LabelNames
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.estimator import JointDiscovery
from objectstates.discovery.refit import Cancelled, Refitter

COLUMNS = ("action_chunk", "action_time", "action_span", "action_scores", "state", "state_scores")


@pytest.fixture(scope="module")
def corpus():
    return synthetic_corpus(n_clips=12, noise=1.4, seed=2)


def corrections(corpus):
    clips = corpus.clip_ids
    return [
        [Correction(clips[3], "action", 2.0, 4.0)],
        [Correction(clips[3], "action", 2.0, 4.0), Correction(clips[5], "exclude")],
        [Correction(clips[7], "state", 1.0, 6.0, "closed"), Correction(clips[5], "no_change")],
        [],
    ]


def assert_same(one, other):
    assert one.clips == other.clips
    assert one.skipped == other.skipped
    assert one.set_aside == other.set_aside
    assert one.corrections == other.corrections
    assert one.names == other.names
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


@pytest.mark.parametrize("settings", [{}, {"restarts": 2, "reduce": 20}, {"target": "action"}])
def test_a_refit_equals_a_fit_with_the_same_corrections(corpus, settings):
    model = JointDiscovery(verdict=False, **settings)
    refitter, names = Refitter(corpus, model.get_params()), LabelNames.of("closed,open")
    for rows in corrections(corpus):
        refitter.update(rows, names)  # must leave no trace in what follows
        again = refitter.fit(rows, names)
        assert_same(again, model.fit(corpus, corrections=rows, names=names).result_)


def test_outliers_are_rejected_as_in_a_fit(corpus):
    model = JointDiscovery(verdict=False, reject="auto")
    refitter = Refitter(corpus, model.get_params())
    rows = [Correction(corpus.clip_ids[0], "action", 3.0, 5.0)]
    found = refitter.fit(rows)
    assert_same(found, model.fit(corpus, corrections=rows).result_)
    quick = refitter.update([*rows, Correction(corpus.clip_ids[1], "action", 3.0, 5.0)])
    assert {clip.clip for clip in quick.set_aside} == {clip.clip for clip in found.set_aside}


def test_an_update_respects_corrections_and_is_near_the_fit(corpus):
    refitter = Refitter(corpus, JointDiscovery().get_params())
    refitter.fit([])
    row = Correction(corpus.clip_ids[4], "action", 12.0, 14.0)
    quick = refitter.update([row])
    assert 12.0 <= quick.action_time[4] <= 14.0
    whole = refitter.fit([row])
    assert quick.summary["passes"] < whole.summary["passes"] / 2
    assert (np.abs(quick.action_time - whole.action_time) < 1).mean() > 0.8
    undone = refitter.update([])
    assert (np.abs(undone.action_time - refitter.fit([]).action_time) < 1).mean() > 0.8


def test_the_verdict_is_that_of_a_fit(corpus):
    refitter = Refitter(corpus, JointDiscovery().get_params())
    rows = [Correction(corpus.clip_ids[3], "action", 2.0, 4.0)]
    judged = refitter.judge(refitter.fit(rows))
    whole = JointDiscovery().fit(corpus, corrections=rows).result_
    assert judged.verdict == whole.verdict
    np.testing.assert_array_equal(judged.confidences, whole.confidences)


def test_it_can_be_given_up_and_repeated(corpus):
    refitter = Refitter(corpus, JointDiscovery().get_params())
    rows = [Correction(corpus.clip_ids[3], "action", 2.0, 4.0)]
    with pytest.raises(Cancelled):
        refitter.fit(rows, cancelled=lambda: True)
    found = refitter.fit(rows)
    with pytest.raises(Cancelled):
        refitter.judge(found, cancelled=lambda: True)
    assert_same(refitter.fit(rows), found)


def test_contradictions_are_named_before_a_fit(corpus):
    refitter = Refitter(corpus, JointDiscovery().get_params())
    clip = corpus.clip_ids[0]
    rows = [Correction(clip, "action", 9.0, 10.0), Correction(clip, "state", 4.0, 6.0, "2")]
    with pytest.raises(CorrectionError, match="cannot have its action"):
        refitter.check(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refitter.check(rows[:1])


def test_an_update_starts_from_the_solution_when_clips_are_left_out_and_taken_in_again(corpus):
    refitter = Refitter(corpus, JointDiscovery().get_params())
    refitter.fit([])
    without = [Correction(corpus.clip_ids[2], "exclude")]
    for rows in (without, []):
        quick = refitter.update(rows)
        whole = refitter.fit(rows)
        assert quick.clips == whole.clips
        assert quick.summary["passes"] < whole.summary["passes"] / 2
        assert (np.abs(quick.action_time - whole.action_time) < 1).mean() > 0.8

"""What the truth says of labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from objectstates import JointDiscovery, Result, TrackletLabel
from objectstates.data.synthetic import synthetic_corpus
from objectstates.evaluation.precision import score_clip
from objectstates.report.clip_view import view_clips
from tests.chains import chain_result
from tests.chains import unjudged as without_truth
from tests.report.scenes import with_states


def test_mistakes_are_named_by_kind(result: Result) -> None:
    clips = view_clips(result)
    assert [clip.judged.kinds for clip in clips[:4]] == [()] * 4
    assert clips[4].judged.kinds == ("action",)
    assert clips[4].judged.action_error == pytest.approx(1.75, abs=0.03), "to a frame"
    assert clips[4].judged.mistakes[0].text == "action off by 1.8 s"
    assert clips[4].judged.disagreement == 0.5
    assert clips[5].judged.kinds == ("ambiguous",)
    assert "is ambiguous" in clips[5].judged.mistakes[0].text


def test_false_positives_and_wrong_states_are_told_apart() -> None:
    (clip,) = view_clips(with_states((0, 1, 1), (1, 2, 1), (2, 3, 2), (3, 4, 2), (4, 5, 0)))
    corpus = clip.result.corpus
    truth = np.array([0, 2, TrackletLabel.AMBIGUOUS, 2, 1], np.int8)
    judged = replace(corpus, tracklets=replace(corpus.tracklets, label=truth))
    (clip,) = view_clips(replace(clip.result, corpus=judged))
    assert [(m.kind, m.time) for m in clip.judged.mistakes] == [
        ("object", 0.5),
        ("state", 1.5),
        ("ambiguous", 2.5),
    ]
    assert clip.judged.kinds == ("object", "state", "ambiguous")
    assert clip.judged.disagreement == 1 - (0 + 1 / 2) / 2


def test_the_true_action_is_one_interval_of_adjacent_chunks() -> None:
    corpus = synthetic_corpus(n_clips=3)
    result = JointDiscovery(max_passes=60).fit(corpus).result_
    for n, clip in enumerate(view_clips(result)):
        rows = list(corpus.chunk_rows(n))
        true = np.flatnonzero(corpus.chunks.label[rows] == 1)
        band = corpus.chunks.start[rows][true[0]], corpus.chunks.end[rows][true[-1]]
        assert clip.judged.true_actions is not None
        ((found,),) = clip.judged.true_actions
        assert found == pytest.approx(band)


def test_without_truth_nothing_is_judged(unjudged: Result) -> None:
    for clip in view_clips(unjudged):
        assert clip.judged.disagreement is None
        assert clip.judged.true_actions is None
        assert clip.judged.mistakes == ()


def test_a_state_is_wrong_by_time_where_the_truth_has_no_boxes() -> None:
    result = with_states((0, 1, 2), (3, 4, 2))
    tracklets = replace(result.corpus.tracklets, label=np.array([1, 2], np.int8))
    for with_boxes, known in ((1, "truly"), (0, "by time")):
        info = {"truth": {"clips": 1, "with_boxes": with_boxes}}
        corpus = replace(result.corpus, tracklets=tracklets, info=info)
        (clip,) = view_clips(replace(result, corpus=corpus))
        assert [m.text for m in clip.judged.mistakes] == [f"state 2 at 0.5 s is {known} state 1"]


def test_what_is_wrong_is_weighed_like_precision(result: Result) -> None:
    for clip in view_clips(result):
        states = result.state[list(result.corpus.tracklet_rows(clip.number))]
        chunk = int(result.action_chunk[clip.number])
        score = score_clip(result.corpus, clip.number, states, chunk)
        right = (2 * score.action + score.precision_1 + score.precision_2) / 4
        assert clip.judged.disagreement == pytest.approx(1 - right)


def test_a_chain_is_judged_action_by_action() -> None:
    clip, *_, short = view_clips(chain_result(2))
    assert clip.judged.true_actions == (((1.6, 2.0),), ((3.6, 4.0),))
    assert clip.judged.action_errors == (0.0, 0.0)
    assert clip.judged.mistakes == ()
    assert clip.judged.disagreement == 0
    assert [(m.kind, m.time, m.text) for m in short.judged.mistakes] == [
        ("action", 3.6, "action 2 was not found")
    ]
    assert short.judged.disagreement == pytest.approx((1.5 + 1) / 6), "one action and one state"


def test_an_action_of_a_chain_that_is_another_is_off() -> None:
    result = chain_result(2)
    result.actions.chunk[0] = result.actions.chunk[0, ::-1]  # found in the wrong order
    clip = view_clips(result)[0]
    assert [m.text for m in clip.judged.mistakes] == [
        "action 1 off by 1.8 s",
        "action 2 off by 1.8 s",
    ]


def test_a_step_that_truly_lacks_is_no_mistake() -> None:
    result = chain_result(2)
    chunks, tracklets = result.corpus.chunks, result.corpus.tracklets
    corpus = replace(
        result.corpus,
        chunks=replace(chunks, label=np.where(chunks.label == 2, 0, chunks.label)),
        tracklets=replace(tracklets, label=np.where(tracklets.label == 3, 2, tracklets.label)),
    )
    first, *_, short = view_clips(replace(result, corpus=corpus))
    assert short.judged.mistakes == ()
    assert short.judged.disagreement == 0
    assert "no true action 2 to find" in [m.text for m in first.judged.mistakes]


def test_a_chain_without_truth_is_not_judged() -> None:
    for clip in view_clips(without_truth(chain_result(2))):
        assert clip.judged.true_actions is None
        assert clip.judged.disagreement is None
        assert clip.judged.mistakes == ()

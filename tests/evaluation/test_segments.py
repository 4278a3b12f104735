from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectstates import Corpus
from objectstates.base.errors import TruthError
from objectstates.data.actions import Actions
from objectstates.data.result import Result, SkippedClip
from objectstates.data.truth import ClipTruth
from objectstates.evaluation.segments import (
    Segment,
    edit_score,
    segment_f1,
    segment_scores,
    segments_of,
)

TRUE = [Segment(0, 0, 4), Segment(1, 4, 6), Segment(2, 6, 10)]


def test_a_clip_is_divided_without_gaps():
    assert segments_of([(4, 6)], 0, 10) == TRUE
    assert segments_of([None], 0, 10) == [Segment(0, 0, 10)]
    late = segments_of([(-1, 2), (1, 3), (9, 12)], 0, 10)
    # Action 1 begins before the clip, 2 overlaps it, 3 leaves the clip: three states are missing.
    assert late == [Segment(1, 0, 2), Segment(3, 2, 3), Segment(4, 3, 9), Segment(5, 9, 10)]


@pytest.mark.parametrize(
    ("iou", "expected"),
    [
        (0.1, 1.0),  # 3/4, 1/4 and 4/5 overlap enough
        (0.25, 1.0),  # the bound itself is enough
        (0.5, 2 / 3),  # the action does not: 2 of 3 found, 2 of 3 true
        (0.9, 0.0),
    ],
)
def test_f1_by_hand(iou, expected):
    found = [Segment(0, 0, 3), Segment(1, 4.5, 5), Segment(2, 5, 10)]
    assert segment_f1(found, TRUE, iou) == pytest.approx(expected)


def test_a_segment_is_matched_once_and_only_by_its_label():
    halves = [Segment(0, 0, 2), Segment(0, 2, 4), Segment(1, 4, 6), Segment(2, 6, 10)]
    assert segment_f1(halves, TRUE, 0.5) == pytest.approx(2 * 3 / (4 + 3))
    others = [Segment(2, 0, 4), Segment(3, 4, 6), Segment(4, 6, 10)]
    assert segment_f1(others, TRUE, 0.1) == 0
    assert segment_f1([], TRUE, 0.1) == 0
    assert segment_f1([], [], 0.1) == 1


def test_edit_score_by_hand():
    assert edit_score([0, 1, 2, 3, 4], [0, 1, 2, 3, 4]) == 1
    assert edit_score([0, 1, 2], [0, 1, 2, 3, 4]) == pytest.approx(1 - 2 / 5)  # two inserted
    assert edit_score([0, 3, 4], [0, 1, 2]) == pytest.approx(1 - 2 / 3)  # two replaced
    assert edit_score([1, 0], [0, 1]) == 0
    assert edit_score([], [0, 1]) == 0


labels = st.lists(st.integers(0, 3), max_size=6)


@given(labels, labels, st.integers(0, 3))
def test_the_edit_distance_is_one(one, other, label):
    """Symmetric, and no more than one apart after one insertion."""
    longest = max(len(one), len(other))
    assert edit_score(one, other) == edit_score(other, one)
    distance = (1 - edit_score(one, other)) * longest
    after = (1 - edit_score([*one, label], other)) * max(len(one) + 1, len(other))
    assert abs(after - distance) <= 1 + 1e-9
    assert distance >= abs(len(one) - len(other)) - 1e-9


# --- of a result ---------------------------------------------------------------------------------


def chain_result(spans):
    """Clips of ten chunks of a second; ``spans`` (N, A, 2), NaN for an action that is missing."""
    spans = np.array(spans, float)
    n = len(spans)
    corpus = Corpus.from_arrays(
        clip_ids=list("abcdef"[:n]),
        tracklets_per_clip=[1] * n,
        tracklet_start=[0] * n,
        tracklet_end=[1] * n,
        tracklet_features=np.ones((n, 1)),
        chunks_per_clip=[10] * n,
        chunk_start=np.tile(np.arange(10), n),
        chunk_end=np.tile(np.arange(1, 11), n),
        chunk_features=np.ones((10 * n, 1)),
    ).for_changes(spans.shape[1])
    time = spans.mean(axis=2)
    chunk = np.where(np.isnan(time), -1, np.nan_to_num(time)).astype(int)
    scores = np.zeros((10 * n, spans.shape[1]))
    found = Result(
        corpus=corpus,
        actions=Actions(chunk, time, spans, scores),
        state=np.zeros(n, np.int8),
        state_scores=np.zeros((n, spans.shape[1] + 1)),
        classifiers={},
        settings={},
        summary={},
    )
    return found, corpus


def truth_of(*clips):
    return {
        name: ClipTruth(name, actions, np.empty(0), np.empty((0, 4)))
        for name, actions in zip("abcdef", clips, strict=False)
    }


def test_the_seconds_of_every_action():
    found, corpus = chain_result([[[1, 2], [6, 10]]])
    (row,) = segment_scores(found, corpus, truth_of(((2, 4), (7, 9))))
    assert list(row.to_action) == [0.5, 0]  # 1.5 s is before the first, 8 s within the second
    assert list(row.to_change) == [1.5, 0]  # from the middles 3 and 8 s
    known = truth_of(((2, 4), (7, 9)))
    known = {"a": replace(known["a"], moments=(2.5, None))}
    (row,) = segment_scores(found, corpus, known)
    assert list(row.to_change) == [1, 0]
    assert list(row.columns)[:6] == ["clip", "f1_10", "f1_25", "f1_50", "edit", "to_action_1"]


def test_a_step_left_out_has_no_seconds():
    none = [np.nan, np.nan]
    found, corpus = chain_result([[[2, 4], none], [[2, 4], [7, 9]], [[2, 4], none]])
    truth = truth_of(((2, 4), None), ((2, 4), None), ((2, 4), (7, 9)))
    right, too_many, missed = segment_scores(found, corpus, truth)
    assert (right.f1, right.edit) == ((1, 1, 1), 1)
    assert np.isnan(right.to_action[1])
    # Two segments too many, and state 2 lasts 3 s in place of 6: found, but not beyond IoU .5.
    assert too_many.f1 == (6 / 8, 6 / 8, 6 / 8)
    assert too_many.edit == pytest.approx(3 / 5)
    assert np.isnan(too_many.to_action[1])
    assert missed.edit == pytest.approx(3 / 5)
    assert np.isnan(missed.to_action[1])


def test_clips_that_were_left_out_have_no_segments():
    found, corpus = chain_result([[[2, 4]], [[2, 4]]])
    part = replace(found.select(np.array([0])), skipped=(SkippedClip("b", "no tracklets"),))
    rows = segment_scores(part, corpus, truth_of(((2, 4),), ((2, 4),)))
    assert [(row.clip, row.f1, row.edit) for row in rows] == [
        ("a", (1, 1, 1), 1),
        ("b", (0, 0, 0), 0),
    ]


def test_truth_of_another_chain_is_refused():
    found, corpus = chain_result([[[2, 4]]])
    with pytest.raises(TruthError, match="no ground truth of 1 actions"):
        segment_scores(found, corpus, truth_of(((2, 4), (5, 6))))

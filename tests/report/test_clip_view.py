from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectstates import Result
from objectstates.app.inspection import describe_clips
from objectstates.base.errors import ResultError
from objectstates.data.actions import Actions
from objectstates.data.result import SkippedClip
from objectstates.export.videos import ExportSource
from objectstates.report.clip_view import (
    ClipView,
    box_at,
    image_fps,
    merge_gap,
    object_name,
    view_clips,
)
from tests.chains import STEP, action_span, chain_result
from tests.report.scenes import ACTION, make_result, with_states


def test_decisive_moments_are_the_best_of_each_state_around_the_action(result: Result) -> None:
    for clip in view_clips(result):
        before, action, after = clip.moments
        assert [m.role for m in clip.moments] == ["state 1", "action", "state 2"]
        assert before.time < action.time < after.time
        assert abs(action.time - ACTION) < 0.5
        for moment, state in ((before, 1), (after, 2)):
            assert moment.tracklet is not None
            chosen = clip.tracklets[moment.tracklet]
            assert chosen.score == max(x.score for x in clip.tracklets if x.state == state)


def test_one_side_alone_has_its_own_moments() -> None:
    states = view_clips(make_result(target="state"))
    assert {m.role for clip in states for m in clip.moments} == {"state 1", "state 2"}
    actions = view_clips(make_result(target="action"))
    assert [m.role for m in actions[0].moments] == ["before", "action", "after"]


def test_the_change_curve_is_a_rate_that_sums_to_what_changes(result: Result) -> None:
    for clip in view_clips(result)[:-1]:
        assert clip.change is not None
        for most in (1, 7, 40, 10_000):
            assert (curve := clip.change_curve(most)) is not None
            assert len(curve.rates) <= most
            assert curve.start == clip.change.start
            assert len(curve.rates) * curve.step >= len(clip.change.curve) * clip.change.step - 1e-9
            assert curve.total == pytest.approx(float(clip.change.curve.sum()), rel=1e-5)
        assert (curve := clip.change_curve(10_000)) is not None
        assert curve.step == clip.change.step
        assert clip.middle == 3.0


def test_a_clip_without_a_profile_has_no_curve(result: Result) -> None:
    clip = view_clips(result)[-1]
    assert clip.change is None
    assert clip.change_curve(100) is None


def test_the_chances_of_a_clip_are_those_of_the_result() -> None:
    result = with_states((0, 1, 1), (3, 4, 2))
    assert view_clips(result)[0].confidences is None
    (clip,) = view_clips(replace(result, confidences=np.array([[np.nan, 0.8, 0.6]])))
    assert clip.confidences is not None
    assert clip.confidences[1:] == (0.8, 0.6)
    assert clip.confidence == pytest.approx(0.7)


def test_key_frames_are_spread_over_the_clip(result: Result) -> None:
    clip = view_clips(result, key_frames=3)[0]
    assert [(m.time, m.role) for m in clip.moments[3:]] == [(1, "key"), (3, "key"), (5, "key")]


# States over time


def test_tracklets_of_a_state_across_a_short_gap_are_one_interval() -> None:
    gap = merge_gap(with_states((0, 1, 1)).corpus)
    assert gap == 0.25, "a detection later, at five a second, and a frame"
    short, long = 2 + gap, 2 + 2 * gap
    (clip,) = view_clips(with_states((0, 1, 1), (1, 2, 1), (short, 3, 1), (5, 6, 2)))
    assert [(s.label, s.start, s.end) for s in clip.segments()] == [
        ("state_1", 0, 3),
        ("state_2", 5, 6),
    ]
    (clip,) = view_clips(with_states((0, 2, 1), (long, 3, 1), (3.1, 4, 2)))
    assert [(s.start, s.end) for s in clip.state_segments(1)] == [(0, 2), (long, 3)]
    (clip,) = view_clips(with_states((0, 4, 1), (1, 2, 1), (4, 5, 1)))
    assert [(s.start, s.end) for s in clip.state_segments(1)] == [(0, 5)], "an inner one ends first"


def test_the_gap_that_is_closed_follows_the_length_of_chunks() -> None:
    result = with_states((0, 0.2, 1), (0.4, 0.6, 1), (0.8, 1, 2))
    assert len(next(iter(view_clips(result))).state_segments(1)) == 1
    corpus = replace(result.corpus, info={"ingest": {"chunk_seconds": 0.08}})
    (clip,) = view_clips(replace(result, corpus=corpus))
    assert [(s.start, s.end) for s in clip.state_segments(1)] == [(0, 0.2), (0.4, 0.6)]


def with_action(result: Result, start: float, end: float) -> ClipView:
    """The clip of `with_states`, with an action of this extent and the moment in its middle."""
    (clip,) = view_clips(
        replace(
            result,
            actions=Actions.single(
                np.array([0]),
                np.array([(start + end) / 2]),
                np.array([[start, end]]),
                np.ones(1),
            ),
        )
    )
    return clip


def shown(clip: ClipView, state: int) -> list[tuple[float, float]]:
    return [(s.start, s.end) for s in clip.state_segments(state)]


def test_the_action_is_at_its_moment_not_at_the_middle_of_its_chunk() -> None:
    clip = with_action(with_states((0, 1, 1), (3, 4, 2)), 1.5, 2.0)
    assert clip.action is not None
    assert clip.action.time == 1.75
    assert [m.time for m in clip.moments] == [0.5, 1.75, 3.5]


def test_states_are_shown_without_the_time_of_the_action() -> None:
    clip = with_action(with_states((0, 1, 1), (1, 2, 1), (1.9, 3, 2), (3, 4, 2)), 1.6, 2.2)
    assert [(s.label, s.start, s.end) for s in clip.segments()] == [
        ("state_1", 0, 1.6),
        ("action", 1.6, 2.2),
        ("state_2", 2.2, 4),
    ]
    assert [clip.shown_interval(t) for t in clip.tracklets] == [(0, 1), (1, 1.6), (2.2, 3), (3, 4)]
    assert (clip.tracklets[1].start, clip.tracklets[1].end) == (1, 2), "the tracklet itself stays"


def test_of_a_tracklet_on_both_sides_of_the_action_its_own_side_is_shown() -> None:
    clip = with_action(with_states((0, 5, 1), (5, 6, 2)), 2.0, 2.5)
    assert shown(clip, 1) == [(0, 2)]
    clip = with_action(with_states((0, 1, 1), (1, 6, 2)), 2.0, 2.5)
    assert shown(clip, 2) == [(2.5, 6)]
    clip = with_action(with_states((0, 1, 1), (1.5, 2.5, 1), (3, 4, 2)), 2.0, 2.0)
    assert shown(clip, 1) == [(0, 1), (1.5, 2)], "an action may last no time"


def test_a_tracklet_on_the_wrong_side_is_shown_there_but_not_joined_across_the_action() -> None:
    clip = with_action(with_states((0, 1, 1), (1.1, 2, 1), (3, 4, 2)), 1.0, 1.1)
    assert shown(clip, 1) == [(0, 1), (1.1, 2)]


def test_tracklets_within_the_action_are_left_out_unless_the_state_has_no_other() -> None:
    states = with_states((0, 1, 1), (2, 2.5, 1), (2.6, 3, 2))
    clip = with_action(states, 2.0, 3.0)
    assert shown(clip, 1) == [(0, 1)]
    assert shown(clip, 2) == [(2.6, 3)], "the only one of its state"
    assert all(s.end > s.start for s in clip.segments())


tenths = st.integers(0, 99).map(lambda n: n / 10)


@given(
    st.lists(st.tuples(tenths, st.integers(1, 30), st.sampled_from([0, 1, 2])), min_size=1),
    tenths,
    st.integers(0, 30),
)
def test_shown_states_overlap_the_action_only_if_they_lie_within_it(
    tracklets: list[tuple[float, int, int]], start: float, length: int
) -> None:
    spans = sorted((s, s + n / 10, state) for s, n, state in tracklets)
    end = start + length / 10
    clip = with_action(with_states(*spans), start, end)
    for state in (1, 2):
        mine = [(a, b) for a, b, k in spans if k == state]
        segments = shown(clip, state)
        assert bool(segments) == bool(mine)
        if all(start - 1e-3 < a and b < end + 1e-3 for a, b in mine):
            continue
        for a, b in segments:
            assert a < b
            assert b <= start or a >= end


def test_the_terminal_and_the_exports_show_the_same_intervals(result: Result) -> None:
    for row, clip in zip(describe_clips(result), ExportSource.of(result).clips, strict=True):
        assert row["clip"] == clip.name
        for k in (1, 2):
            mine = [s for s in clip.segments() if s.label == f"state_{k}"]
            assert row[f"state_{k}"] == [(s.start, s.end) for s in mine] != []
        assert clip.action is not None
        assert (row["action"], row["action_time"]) == (
            (clip.action.start, clip.action.end),
            clip.action.time,
        )


def test_clips_left_out_have_no_view(result: Result) -> None:
    skipped = replace(result, skipped=(SkippedClip("lonely", "has one tracklet only"),))
    assert [clip.name for clip in view_clips(skipped)] == list(result.clips)


# Chains


def test_a_chain_has_a_view_of_each_action_and_state() -> None:
    result = chain_result(3)
    clip, *_, short = view_clips(result)
    assert [(a.number, a.label, a.start, a.end) for a in clip.actions] == [
        (k, f"action_{k}", *action_span(k)) for k in (1, 2, 3)
    ]
    assert [a.number for a in short.actions] == [1, 3], "it lacks one"
    assert [s.label for s in clip.segments()] == [
        *("state_1", "action_1", "state_2", "action_2", "state_3", "action_3", "state_4"),
    ]
    assert [s.label for s in short.segments()] == [
        *("state_1", "action_1", "state_2", "action_3", "state_4"),
    ]
    roles = [moment.role.replace(" ", "_") for moment in clip.moments]
    assert roles == [segment.label for segment in clip.segments()]
    assert clip.chunk_scores.shape == (len(clip.chunks), 2 + 3)
    assert clip.confidences is not None
    assert len(clip.confidences) == 3 + 4
    with pytest.raises(ResultError, match="actions"):
        _ = clip.action


def test_a_state_of_a_chain_is_shown_between_its_actions() -> None:
    result = chain_result(2)
    whole = result.corpus.tracklets
    end = np.where(whole.label > 0, STEP * 3, whole.end)  # each lasts until the end of the clip
    corpus = replace(result.corpus, tracklets=replace(whole, end=end))
    clip, *_, short = view_clips(replace(result, corpus=corpus))
    assert [(s.label, s.start, s.end) for s in clip.segments()] == [
        ("state_1", 0.0, 1.6),
        ("action_1", 1.6, 2.0),
        ("state_2", 2.0, 3.6),
        ("action_2", 3.6, 4.0),
        ("state_3", 4.0, 6.0),
    ]
    assert [(s.label, s.start, s.end) for s in short.segments()][1:] == [
        ("action_1", 1.6, 2.0),
        ("state_2", 2.0, 6.0),
    ]


def test_without_states_a_chain_has_moments_around_its_actions() -> None:
    result = chain_result(2)
    bare = replace(result, state=np.zeros_like(result.state))
    roles = [m.role for m in view_clips(bare)[0].moments]
    assert roles == ["before", "action 1", "between", "action 2", "after"]


# What the corpus says of itself


def test_boxes_are_interpolated() -> None:
    boxes = np.array([[1.0, 0, 0, 10, 10], [2.0, 10, 20, 30, 40]])
    np.testing.assert_allclose(box_at(boxes, 1.5), [5, 10, 20, 25])
    np.testing.assert_allclose(box_at(boxes, 0.0), [0, 0, 10, 10])
    np.testing.assert_allclose(box_at(boxes, 9.0), [10, 20, 30, 40])


@pytest.mark.parametrize(
    ("info", "name", "rate"),
    [
        ({}, None, 25.0),
        ({"object": "a\n cup", "ingest": {"image_fps": 10}}, "a cup", 10.0),
        ({"object": 3, "ingest": {"image_fps": -1}}, None, 25.0),
        ({"object": "cup", "ingest": "edited by hand"}, "cup", 25.0),
    ],
)
def test_odd_headers_have_defaults(
    result: Result, info: dict[str, object], name: str | None, rate: float
) -> None:
    odd = replace(result, corpus=replace(result.corpus, info=info))
    assert (object_name(odd), image_fps(odd)) == (name, rate)

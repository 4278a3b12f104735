from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from objectstates import JointDiscovery, Result
from objectstates.data.synthetic import synthetic_corpus
from objectstates.report.clip_view import view_clips
from objectstates.report.page_data import clip_data
from tests.report.scenes import make_result


def test_no_lane_holds_two_tracklets_at_once() -> None:
    corpus = synthetic_corpus(n_clips=4)
    for clip in view_clips(JointDiscovery(max_passes=60).fit(corpus).result_):
        rows = [row[:4] for row in clip_data(clip, boxes_per_tracklet=1)["tracklets"]]
        for lane in {lane for *_, lane in rows}:
            mine = sorted((start, end) for start, end, _, its_lane in rows if its_lane == lane)
            assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(mine))
        assert {lane for _, _, state, lane in rows if state} == {0}
        assert all(lane > 0 for _, _, state, lane in rows if not state)


def test_labelled_tracklets_are_drawn_beside_the_action(result: Result) -> None:
    wide = replace(
        result,
        actions=replace(
            result.actions, span=(result.action_span + np.array([[-2.5, 2.5]]))[:, None]
        ),
    )
    for clip in view_clips(wide):
        data = clip_data(clip, boxes_per_tracklet=1)
        ((_, start, end, _),) = data["actions"]
        drawn = [row for row in data["tracklets"] if row[2]]
        assert len(drawn) == sum(t.state > 0 for t in clip.tracklets)
        for row, tracklet in zip(drawn, (t for t in clip.tracklets if t.state), strict=True):
            within = start <= tracklet.start and tracklet.end <= end
            assert within or row[1] <= start or row[0] >= end


def test_scores_are_there_if_the_action_was_sought() -> None:
    states, actions = (view_clips(make_result(target=t))[0] for t in ("state", "action"))
    assert clip_data(states, boxes_per_tracklet=3)["scores"] == []
    ((scores, *others), clip) = clip_data(actions, boxes_per_tracklet=3)["scores"], actions
    assert not others
    assert np.array(scores) / 1e4 == pytest.approx(clip.chunk_scores[:, 2], abs=1e-4)


def test_the_change_curve_is_in_hundredths_of_its_peak(result: Result) -> None:
    clips = view_clips(result)
    data = clip_data(clips[0], boxes_per_tracklet=1)["change"]
    curve = clips[0].change_curve(10_000)
    assert curve is not None
    assert max(data["values"]) == 100
    assert min(data["values"]) >= 0
    assert len(data["values"]) <= 150
    total = sum(data["values"]) / 100 * data["peak"] * data["step"]
    assert total == pytest.approx(data["total"], rel=0.1)
    assert data["total"] == pytest.approx(curve.total, rel=0.01)
    assert clip_data(clips[-1], boxes_per_tracklet=1)["change"] is None


def test_data_are_plain_and_small(result: Result) -> None:
    clip = view_clips(result)[0]
    data = json.loads(json.dumps(clip_data(clip, boxes_per_tracklet=4), allow_nan=False))
    assert data["name"] == clip.name
    boxes = [tracklet[6] for tracklet in data["tracklets"]]
    assert max(map(len, boxes)) <= 4 * 5
    assert max(len(t[6]) for t in data["tracklets"] if not t[2]) <= 2 * 5
    for tracklet, packed in zip(clip.tracklets, boxes, strict=True):
        assert packed[0] / 100 == pytest.approx(tracklet.boxes[0, 0], abs=0.01)
        assert sum(packed[::5]) / 100 == pytest.approx(tracklet.boxes[-1, 0], abs=0.01)


def test_times_of_chunks_are_stored_as_the_first_and_the_step(result: Result) -> None:
    clip = view_clips(result)[0]
    first, step = clip_data(clip, boxes_per_tracklet=1)["times"]
    middles = clip.chunk_scores[:, :2].mean(axis=1)
    assert first + step * np.arange(len(middles)) == pytest.approx(middles, abs=0.01)
    uneven = replace(
        result.corpus.chunks,
        end=result.corpus.chunks.end - 0.1 * (np.arange(len(result.corpus.chunks.end)) == 3),
    )
    clip = view_clips(replace(result, corpus=replace(result.corpus, chunks=uneven)))[0]
    times = clip_data(clip, boxes_per_tracklet=1)["times"]
    assert times == pytest.approx(clip.chunk_scores[:, :2].mean(axis=1), abs=0.01)


def test_progress_has_a_value_per_chunk(result: Result) -> None:
    n, t = len(result.clips), len(result.action_scores)
    unknown = replace(result, progress=None, reached_chance=None)
    plain = clip_data(view_clips(unknown)[0], boxes_per_tracklet=1)
    assert (plain["progress"], plain["reached"]) == (None, None)
    known = replace(result, progress=np.linspace(0, 1, t), reached_chance=np.full(n, 0.25))
    clip = view_clips(known)[0]
    data = clip_data(clip, boxes_per_tracklet=1)
    assert data["reached"] == 0.25
    assert clip.progress is not None
    assert len(data["progress"]) == len(data["scores"][0])
    assert np.array(data["progress"]) / 100 == pytest.approx(clip.progress, abs=0.01)

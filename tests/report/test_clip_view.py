from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from objectstates import JointDiscovery, Result, evaluate
from objectstates.data.synthetic import synthetic_corpus
from objectstates.report.clip_view import as_json, gather, interpolate
from objectstates.report.summary_text import (
    certificate,
    failures,
    optimisation_charts,
    precision,
    tables,
    title,
)
from tests.report.scenes import ACTION, make_result


def test_decisive_moments_are_the_surest_of_each_state_around_the_action(result: Result) -> None:
    for clip in gather(result):
        before, action, after = clip.moments
        assert [m.role for m in clip.moments] == ["state 1", "action", "state 2"]
        assert before.time < action.time < after.time
        assert abs(action.time - ACTION) < 0.5
        for moment, state in ((before, 1), (after, 2)):
            chosen = clip.tracklets[moment.tracklet]
            rivals = [x.score for x in clip.tracklets if x.state == state]
            assert chosen.score == max(rivals)


def test_mistakes_are_told_by_kind(result: Result) -> None:
    clips = gather(result)
    assert [clip.kinds for clip in clips[:4]] == [()] * 4
    assert clips[4].kinds == ("action",)
    assert clips[4].off == pytest.approx(1.75)
    assert clips[4].mistakes[0].text == "action off by 1.8 s"
    assert clips[4].disagreement == 0.5
    assert clips[5].kinds == ("ambiguous",)
    assert "is ambiguous" in clips[5].mistakes[0].text
    counts = {failure.kind: failure.clips for failure in failures(result, clips)}
    assert counts == {"object": 0, "state": 0, "ambiguous": 1, "action": 1}


def test_false_positives_and_wrong_states_are_told_apart() -> None:
    corpus = synthetic_corpus(n_clips=12, noise=2.5)
    clips = gather(JointDiscovery(max_passes=60).fit(corpus).result_)
    seen = set()
    for clip in clips:
        by_time = {m.time: m for m in clip.mistakes if m.kind != "action"}
        for x in clip.tracklets:
            if x.state and x.truth != x.state:
                expected = {0: "object", 3: "ambiguous"}.get(x.truth, "state")
                assert by_time[x.time].kind == expected
                seen.add(expected)
    assert len(seen) >= 2, "the clips are too easy to test this"


def test_no_lane_holds_two_tracklets_at_once() -> None:
    corpus = synthetic_corpus(n_clips=4)
    for clip in gather(JointDiscovery(max_passes=60).fit(corpus).result_):
        for lane in {x.lane for x in clip.tracklets}:
            mine = sorted((x.start, x.end) for x in clip.tracklets if x.lane == lane)
            assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(mine))
        assert {x.lane for x in clip.tracklets if x.state} == {0}
        assert all(x.lane > 0 for x in clip.tracklets if not x.state)


def test_the_true_action_is_one_band_of_adjacent_chunks() -> None:
    corpus = synthetic_corpus(n_clips=3)
    result = JointDiscovery(max_passes=60).fit(corpus).result_
    for n, clip in enumerate(gather(result)):
        rows = list(corpus.chunk_rows(n))
        true = np.flatnonzero(corpus.chunks.label[rows] == 1)
        band = corpus.chunks.start[rows][true[0]], corpus.chunks.end[rows][true[-1]]
        assert clip.true_action == (pytest.approx(band),)


def test_without_truth_nothing_is_judged(result: Result) -> None:
    unknown = replace(
        result,
        corpus=replace(
            result.corpus,
            chunks=replace(
                result.corpus.chunks, label=np.full_like(result.corpus.chunks.label, -1)
            ),
            tracklets=replace(
                result.corpus.tracklets, label=np.full_like(result.corpus.tracklets.label, -1)
            ),
        ),
    )
    assert precision(unknown) == []
    for clip in gather(unknown):
        assert clip.disagreement is None
        assert clip.true_action is None
        assert clip.mistakes == ()


def test_precision_stands_beside_chance(result: Result) -> None:
    rows = {row.name: row for row in precision(result)}
    scores = evaluate(result, result.corpus)
    assert rows["found here"].states == scores.state_precision
    assert rows["found here"].action == scores.action_precision == pytest.approx(5 / 6)
    assert rows["chance"].action == pytest.approx(1 / 12)
    assert 0 < rows["chance"].states < rows["found here"].states
    assert rows["always the middle"].action == pytest.approx(5 / 6)


def test_the_certificate_says_what_it_is_worth() -> None:
    corpus = synthetic_corpus(n_clips=4)
    joint = JointDiscovery().fit(corpus)
    assert "not convex" in " ".join(certificate(joint.result_))
    assert "converged" in certificate(joint.result_)[0]
    alone = JointDiscovery(target="state").fit(corpus).result_
    assert "The problem is convex" in " ".join(certificate(alone))
    short = JointDiscovery(max_passes=51, tol=1e-9).fit(corpus).result_
    assert "stopped before" in certificate(short)[0]
    predicted = joint.predict(synthetic_corpus(n_clips=2, seed=1))
    assert "learned on 4 clips" in certificate(predicted)[0]


def test_one_side_alone_has_its_own_moments() -> None:
    states = gather(make_result(target="state"))
    assert {m.role for clip in states for m in clip.moments} == {"state 1", "state 2"}
    actions = gather(make_result(target="action"))
    assert [m.role for m in actions[0].moments] == ["before", "action", "after"]
    assert as_json(states[0], boxes_per_tracklet=3)["scores"] == []
    assert len(as_json(actions[0], boxes_per_tracklet=3)["scores"]) == 12


def test_json_is_plain_and_small(result: Result) -> None:
    clip = gather(result)[0]
    facts = json.loads(json.dumps(as_json(clip, boxes_per_tracklet=4), allow_nan=False))
    assert facts["name"] == clip.name
    boxes = [tracklet[6] for tracklet in facts["tracklets"]]
    assert max(map(len, boxes)) == 4
    for tracklet, rows in zip(clip.tracklets, boxes, strict=True):
        assert rows[0][0] == pytest.approx(tracklet.boxes[0, 0], abs=0.01)
        assert rows[-1][0] == pytest.approx(tracklet.boxes[-1, 0], abs=0.01)


def test_boxes_are_interpolated() -> None:
    boxes = np.array([[1.0, 0, 0, 10, 10], [2.0, 10, 20, 30, 40]])
    np.testing.assert_allclose(interpolate(boxes, 1.5), [5, 10, 20, 25])
    np.testing.assert_allclose(interpolate(boxes, 0.0), [0, 0, 10, 10])
    np.testing.assert_allclose(interpolate(boxes, 9.0), [10, 20, 30, 40])


def test_the_story_names_the_object_and_the_settings(result: Result) -> None:
    assert title(result) == "How the thing changes, in 6 clips"
    named = dict(tables(result))
    assert ("nu", "0.1") in named["Settings"]
    assert "numpy" in dict(named["Versions"])


def test_the_optimisation_is_drawn_from_its_trace(result: Result) -> None:
    objective, gap = optimisation_charts(result)
    assert [name for _, name in objective[2]] == ["relaxed", "best labels so far"]
    points = objective[1].split('class="relaxed" points="')[1].split('"')[0].split()
    assert len(points) == len(result.summary["trace"])
    heights = [float(point.split(",")[1]) for point in points]
    values = [row[1] for row in result.summary["trace"]]
    assert (np.diff(heights)[np.diff(values) < 0] >= 0).all(), "smaller stands lower"
    assert heights[0] < heights[-1]
    assert ("mark", "asked for: 1.00%") in gap[2]
    for trace in ([], None, [[1, 2]], "none", [[1, 2, 3, 4], [1]]):
        assert optimisation_charts(replace(result, summary={"trace": trace})) == []

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from objectstates import JointDiscovery, Result
from objectstates.data.corrections import Correction
from objectstates.data.label_names import LabelNames
from objectstates.data.synthetic import synthetic_corpus
from objectstates.data.verdict import Finding, Verdict
from objectstates.report.clip_view import view_clips
from objectstates.report.headline import (
    certificate,
    count_mistakes,
    headline,
    mistake_names,
    optimisation_charts,
    steps,
    summary,
    tables,
)
from tests.chains import chain_result
from tests.report.scenes import make_result


def judged(result: Result, action: Finding | None, states: Finding | None) -> Result:
    return replace(result, verdict=Verdict(action, states, "Because."))


def test_the_headline_names_the_object(result: Result) -> None:
    result = replace(result, verdict=None)
    assert headline(result) == "How the thing changes, in 6 clips"
    nameless = replace(result, corpus=replace(result.corpus, info={}))
    assert headline(nameless) == "What changes, and when, in 6 clips"


def test_the_headline_does_not_claim_what_was_not_found(result: Result) -> None:
    lost = judged(result, "not_found", "not_found")
    assert headline(lost) == "No common change of the thing was found, in 6 clips"
    nameless = replace(lost, corpus=replace(lost.corpus, info={}))
    assert headline(nameless) == "No common change was found, in 6 clips"
    assert headline(judged(result, "doubtful", "not_found")).startswith("How the thing changes")
    assert headline(judged(result, None, "not_found")).startswith("No common change")


def test_the_summary_says_what_was_sought(result: Result) -> None:
    assert "the time of the action and the object before (state 1)" in summary(result)
    assert "state 1" not in summary(make_result(target="action"))
    state_only = replace(make_result(target="state"), verdict=None)
    assert "the action" not in summary(state_only)


def test_the_summary_follows_the_verdict(result: Result) -> None:
    for verdict in (None, Verdict("found", "found", "Because.")):
        assert "In each clip objectstates found" in summary(replace(result, verdict=verdict))
    lost = summary(judged(result, "not_found", "not_found"))
    assert "did not find it" in lost
    assert "objectstates found" not in lost
    half = summary(judged(result, "found", "doubtful"))
    assert "The times of the action were found. Look at the states" in half
    mixed = summary(judged(result, "doubtful", "not_found"))
    assert "Look at the times of the action" in mixed
    assert "The states were not found: do not rely" in mixed


def test_without_boxes_the_truth_cannot_tell_the_object(result: Result) -> None:
    for with_boxes, told in ((0, False), (2, True), (6, True)):
        info = {**result.corpus.info, "truth": {"clips": 6, "with_boxes": with_boxes}}
        timed = replace(result, corpus=replace(result.corpus, info=info))
        counts = {c.kind: c for c in count_mistakes(timed, view_clips(timed))}
        assert ("object" in counts) == ("object" in mistake_names(timed)) == told
        assert ("the object is" in counts["state"].meaning) == (with_boxes == 6)


def test_mistakes_are_counted_by_kind(result: Result) -> None:
    counts = {c.kind: (c.count, c.clips) for c in count_mistakes(result, view_clips(result))}
    labelled = int((result.state[list(result.corpus.tracklet_rows(5))] == 2).sum())
    assert counts == {
        "object": (0, 0),
        "state": (0, 0),
        "ambiguous": (labelled, 1),
        "action": (1, 1),
    }


def test_the_certificate_says_what_it_proves() -> None:
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
    assert certificate(replace(short, summary={})) == ["This result has no certificate."]


def test_tables_hold_settings_and_versions(result: Result) -> None:
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
    assert (np.diff(heights)[np.diff(values) < 0] >= 0).all(), "smaller values are lower"
    assert heights[0] < heights[-1]
    assert ("mark", "tolerance: 1.00%") in gap[2]
    for trace in ([], None, [[1, 2]], "none", [[1, 2, 3, 4], [1]]):
        assert optimisation_charts(replace(result, summary={"trace": trace})) == []


def test_the_summary_uses_the_users_names_and_tells_of_corrections(result: Result) -> None:
    found = judged(result, "found", "found")
    named = replace(found, names=LabelNames.of("closed,open", "opening"))
    assert "the action (opening) and the object before (closed) and after (open) it" in summary(
        named
    )
    assert summary(found).startswith("No labels were used.")
    rows = (Correction(result.clips[0], "exclude"), Correction(result.clips[1], "confirm", 1, 2))
    told = summary(replace(found, corrections=rows))
    assert told.startswith("2 clips were corrected by a person.")
    assert "in common and from the corrections" in told


def test_a_chain_is_told_in_steps() -> None:
    names = LabelNames.of("closed,open,closed", "opening,closing")
    result = chain_result(2, names=names)
    assert result.confidences is not None
    assert headline(result) == "How the thing changes, in 2 steps and 3 clips"
    assert "2 actions in a row (opening, closing)" in summary(result)
    assert "(closed, open, closed)" in summary(result)
    one, two = steps(result, view_clips(result))
    assert (one.label, one.before, one.after, one.clips) == ("action 1", "state 1", "state 2", 3)
    assert two.clips == 2
    assert two.time == pytest.approx(3.8)
    assert two.confidence == pytest.approx(result.confidences[0, 1])
    assert steps(make_result(), []) == []

from __future__ import annotations

from dataclasses import replace

import numpy as np

from objectstates import JointDiscovery, Result
from objectstates.data.synthetic import synthetic_corpus
from objectstates.report.clip_view import view_clips
from objectstates.report.headline import (
    certificate,
    count_mistakes,
    headline,
    optimisation_charts,
    summary,
    tables,
)
from tests.report.scenes import make_result


def test_the_headline_names_the_object(result: Result) -> None:
    assert headline(result) == "How the thing changes, in 6 clips"
    nameless = replace(result, corpus=replace(result.corpus, info={}))
    assert headline(nameless) == "What changes, and when, in 6 clips"


def test_the_summary_says_what_was_sought(result: Result) -> None:
    assert "the time of the action and the object before (state 1)" in summary(result)
    assert "state 1" not in summary(make_result(target="action"))
    assert "the action" not in summary(make_result(target="state"))


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

"""Advice about the clips of a result: one line of each kind, and none where all is well."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from objectstates import Corpus, Result
from objectstates.data.actions import Actions
from objectstates.data.corpus import Array
from objectstates.data.result import SkippedClip
from objectstates.discovery.preflight import Advice, warnings_about
from tests.results import with_action

N, LENGTH = 12, 10.0


def make_result(
    lengths: Array | None = None, spans: Array | None = None, n: int = N, **info: object
) -> Result:
    """Clips with a tracklet before and after the action, which lasts from 4 to 6 s of 10."""
    lengths = np.full(n, LENGTH) if lengths is None else lengths
    corpus = Corpus.from_arrays(
        clip_ids=[f"clip {k}" for k in range(n)],
        info={"ingest": {"detector": "fewshot:drawer.npz"}, **info},
        tracklets_per_clip=[2] * n,
        tracklet_start=np.stack([0 * lengths, 0.7 * lengths], axis=1).ravel(),
        tracklet_end=np.stack([0.3 * lengths, lengths], axis=1).ravel(),
        tracklet_features=np.zeros((2 * n, 1)),
        chunks_per_clip=[1] * n,
        chunk_start=np.zeros(n),
        chunk_end=lengths,
        chunk_features=np.zeros((n, 1)),
    )
    return Result(
        corpus=corpus.without_features(),
        actions=Actions.single(
            np.zeros(n, np.int64),
            lengths / 2,
            lengths[:, None] * [0.4, 0.6] if spans is None else spans,
            np.ones(n),
        ),
        state=np.tile(np.array([1, 2], np.int8), n),
        state_scores=np.ones((2 * n, 2)),
        classifiers={},
        settings={},
        summary={"kind": "fit", "duality_gap": 0.01, "relaxed_objective": 1.0, "converged": True},
    )


def only(result: Result) -> Advice:
    """The one piece of advice there is."""
    (advice,) = warnings_about(result)
    assert len(advice.text.split(". ")) == 1, "one sentence"
    assert advice.text.endswith(".")
    assert advice.remedy.endswith(".")
    return advice


def test_good_clips_with_a_trained_detector_need_no_advice() -> None:
    assert warnings_about(make_result()) == ()
    assert warnings_about(make_result(n=10)) == ()


def test_few_clips_may_have_something_else_in_common() -> None:
    few = make_result(n=9)
    advice = only(few)
    assert (advice.name, advice.topic, advice.clips) == ("few_clips", "few-clips", ())
    assert advice.text.startswith("9 clips are few")
    assert only(make_result(n=1)).text.startswith("1 clip is few")
    predicted = replace(few, summary={"kind": "predict"})
    assert warnings_about(predicted) == (), "what was learned from counts, not what was labelled"


def test_short_clips_are_counted_if_they_are_many() -> None:
    lengths = np.full(N, LENGTH)
    lengths[:2] = 4.0
    assert warnings_about(make_result(lengths)) == ()
    lengths[:3] = 4.0
    advice = only(make_result(lengths))
    assert (advice.name, advice.topic) == ("short_clips", "short-clips")
    assert advice.text.startswith("3 of 12 clips")
    assert advice.clips == ("clip 0", "clip 1", "clip 2")


@pytest.mark.parametrize("span", [(0.5, 3.0), (7.0, 9.5)])
def test_an_action_at_either_end_leaves_no_room_for_a_state(span: tuple[float, float]) -> None:
    spans = np.tile([4.0, 6.0], (N, 1))
    spans[:4] = span
    advice = only(make_result(spans=spans))
    assert (advice.name, advice.topic) == ("action_at_the_end", "action-at-the-end")
    assert "4 of 12 clips" in advice.text
    spans[2:] = 4.0, 6.0
    assert warnings_about(make_result(spans=spans)) == ()


@pytest.mark.parametrize(("usual", "long"), [(10.0, 51.0), (60.0, 181.0)])
def test_one_clip_that_is_much_longer_is_named(usual: float, long: float) -> None:
    lengths = np.full(N, usual)
    lengths[7] = long
    advice = only(make_result(lengths))
    assert (advice.name, advice.topic, advice.clips) == ("long_clips", "long-clips", ("clip 7",))
    lengths[7] = 4.9 * usual if usual < 30 else 179.0
    assert warnings_about(make_result(lengths)) == ()


def test_clips_without_detections_are_those_left_out() -> None:
    skipped = tuple(SkippedClip(f"lost {k}", "no tracklet") for k in range(2))
    advice = only(replace(make_result(), skipped=skipped))
    assert (advice.name, advice.topic) == ("no_detections", "no-detections")
    assert advice.text.startswith("2 of 14 clips")
    assert advice.clips == ("lost 0", "lost 1")
    assert warnings_about(replace(make_result(), skipped=skipped[:1])) == ()


def test_an_action_that_covers_most_of_the_clip_is_doubted() -> None:
    spans = np.tile([2.0, 7.5], (N, 1))
    advice = only(make_result(spans=spans))
    assert (advice.name, advice.topic) == ("long_action", "long-action")
    assert "12 of 12 clips" in advice.text


def test_a_large_gap_is_reported_if_the_solver_has_not_converged() -> None:
    result = make_result()
    gap = {**result.summary, "duality_gap": 0.2, "converged": False}
    advice = only(replace(result, summary=gap))
    assert (advice.name, advice.topic) == ("not_converged", "not-converged")
    assert "20%" in advice.text
    assert "`max_passes`" in advice.remedy
    for change in ({"converged": True}, {"duality_gap": 0.02}, {"relaxed_objective": None}):
        assert warnings_about(replace(result, summary={**gap, **change})) == ()


def test_boxes_by_motion_alone_are_not_of_an_object() -> None:
    result = make_result(ingest={"detector": "motion"})
    advice = only(result)
    assert (advice.name, advice.topic) == ("motion_boxes", "wrong-object")
    only_action = replace(result, state=np.zeros_like(result.state))
    assert warnings_about(only_action) == (), "boxes do not matter where no state is sought"


def test_ends_beyond_the_video_are_those_of_clips_in_the_result() -> None:
    advice = only(make_result(ends_beyond_video=["clip 3", "a skipped clip"]))
    assert (advice.name, advice.topic) == ("ends_beyond_video", "clip-list")
    assert advice.text.startswith("1 of 12 clips ends")
    assert advice.clips == ("clip 3",)
    assert warnings_about(make_result(ends_beyond_video="clip 3")) == (), "edited by hand"


def test_only_the_action_or_only_states_were_sought() -> None:
    nan = np.full((N, 2), np.nan)
    assert warnings_about(with_action(make_result(), span=nan)) == ()


def test_every_topic_is_a_section_of_the_documentation() -> None:
    root = Path(__file__).parents[2]
    source = (root / "src/objectstates/discovery/preflight.py").read_text(encoding="utf-8")
    topics = set(re.findall(r'^ {8}"([a-z]+(?:-[a-z]+)+)",$', source, re.M))
    assert len(topics) >= 8
    text = (root / "docs/failures.md").read_text(encoding="utf-8")
    anchors = {
        re.sub(r"\W+", "-", heading.lower()).strip("-")
        for heading in re.findall(r"^#+ (.*)$", text, re.M)
    }
    others = {"few-clips", "short-clips", "different-scenes", "different-actions", "no-detections",
              "wrong-object", "no-change", "action-at-the-end"}  # fmt: skip
    assert topics | others <= anchors

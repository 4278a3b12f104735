"""Occurrences in long videos: learned from clips that show it once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from objectstates import JointDiscovery, Result
from objectstates.base.errors import CorpusError, SettingError
from objectstates.discovery.occurrences import MINIMUM, Extent, NoOccurrenceError, usual_score
from objectstates.evaluation.occurrences import occurrence_spans, score_occurrences
from tests.long_videos import long_videos, once, true_spans


@pytest.fixture(scope="module")
def cycle() -> JointDiscovery:
    return JointDiscovery(changes=2, pattern="ABA", verdict=False).fit(once())


@pytest.fixture(scope="module")
def single() -> JointDiscovery:
    return JointDiscovery(verdict=False).fit(once(changes=1, pattern=None))


def test_none_to_four_occurrences_of_a_cycle_are_found(cycle: JointDiscovery) -> None:
    videos = long_videos([0, 1, 2, 3, 4])
    found = cycle.occurrences(videos)
    score = score_occurrences(occurrence_spans(found), true_spans(videos))
    assert [row.true for row in score.videos] == [0, 1, 2, 3, 4]
    assert score.f1 >= 0.9


def test_several_occurrences_of_a_single_change_are_found(single: JointDiscovery) -> None:
    videos = long_videos([0, 2, 3], changes=1, pattern=None)
    found = single.occurrences(videos)
    score = score_occurrences(occurrence_spans(found), true_spans(videos))
    assert score.f1 >= 0.8


def test_occurrences_are_ordinary_clips_of_their_video(
    cycle: JointDiscovery, tmp_path: Path
) -> None:
    videos = long_videos([2, 0, 1])
    result = cycle.occurrences(videos)
    result.save(tmp_path / "found")
    found = Result.load(tmp_path / "found")
    assert found.clips == ("video0#1", "video0#2", "video2#1")
    assert found.corpus.videos == ("video0.mp4", "video0.mp4", "video2.mp4")
    first, second, _ = found.corpus.spans
    assert first is not None
    assert second is not None
    assert 0 <= first[0] < first[1] <= second[0]
    for n, span in enumerate(found.corpus.spans):
        assert span is not None
        assert (found.actions.time[n] > span[0]).all()
        assert (found.actions.time[n] < span[1]).all()
        rows = list(found.corpus.tracklet_rows(n))
        assert (found.corpus.tracklets.start[rows] >= span[0]).all()
        assert (found.corpus.tracklets.end[rows] <= span[1]).all()
        profile = found.corpus.changes[n]
        assert profile is not None
        assert profile.start == pytest.approx(span[0], abs=profile.step)
        assert len(profile.curve) * profile.step == pytest.approx(span[1] - span[0], abs=0.1)
    assert found.names == cycle.result_.names
    assert all(score > MINIMUM for score in found.summary["occurrence_scores"].values())
    assert ((found.confidence > 0) & (found.confidence < 1)).all()


def test_a_video_without_any_is_listed_with_its_best_score(cycle: JointDiscovery) -> None:
    (skipped,) = cycle.occurrences(long_videos([1, 0])).skipped
    assert skipped.clip == "video1"
    assert skipped.reason.startswith("shows no occurrence (best score ")
    assert skipped.reason.endswith(f"more than {MINIMUM:.2f} needed)")
    with pytest.raises(NoOccurrenceError, match=r"none of 2 videos .* video0 shows no occurrence"):
        cycle.occurrences(long_videos([0, 0]))
    with pytest.raises(NoOccurrenceError, match=r"more than 5\.00 needed"):
        cycle.occurrences(long_videos([2]), minimum=5)


def test_a_higher_minimum_finds_no_more(cycle: JointDiscovery) -> None:
    videos = long_videos([1, 2, 3], noise=1.0)
    counts = [len(cycle.occurrences(videos, minimum=minimum).clips) for minimum in (0.2, 0.6, 0.9)]
    assert counts == sorted(counts, reverse=True)


def test_scores_are_relative_to_those_of_the_fit(cycle: JointDiscovery) -> None:
    found = cycle.occurrences(long_videos([2, 3]))
    assert 0.7 < np.median(list(found.summary["occurrence_scores"].values())) < 1.3
    result = cycle.result_
    without = replace(
        result,
        state_scores=0 * result.state_scores,
        actions=replace(result.actions, scores=-np.ones_like(result.actions.scores)),
    )
    with pytest.raises(SettingError, match="nothing was learned"):
        usual_score(without, Extent.of(result), np.array([0, 1, 0]))


def test_lengths_are_those_of_the_fit(cycle: JointDiscovery) -> None:
    extent = Extent.of(cycle.result_)
    assert extent.between.shape == (len(cycle.result_.clips), 1)
    (gaps,) = extent.gaps(0.4)
    assert 1 <= gaps[0] <= extent.between.min() / 0.4
    assert gaps[1] >= extent.between.max() / 0.4
    assert extent.margin(1000.0) == 1


def test_models_without_what_is_needed_are_refused(cycle: JointDiscovery) -> None:
    videos = long_videos([1])
    clips = once(4)
    for name, value in (("target", "action"), ("labelling", "paper")):
        model = JointDiscovery(changes=2, verdict=False, **{name: value}).fit(clips)  # type: ignore[arg-type]
        with pytest.raises(SettingError, match=f"`{name}`"):
            model.occurrences(videos)
    model = JointDiscovery(changes=2, pattern="ABA")
    settings = {**cycle.result_.settings, "optional": [2]}
    model.result_ = replace(cycle.result_, settings=settings)
    with pytest.raises(SettingError, match="`optional`"):
        model.occurrences(videos)
    with pytest.raises(SettingError, match="`minimum`"):
        cycle.occurrences(videos, minimum=np.nan)
    other = videos.with_features(chunks=videos.chunks.features[:, :5])
    with pytest.raises(CorpusError, match="size 5"):
        cycle.occurrences(other)


def test_an_occurrence_without_tracklets_is_left_out(cycle: JointDiscovery) -> None:
    videos = long_videos([1, 1])
    table = videos.tracklets
    allowed = table.allowed.copy()
    allowed[: table.offsets[1]] = False
    found = cycle.occurrences(replace(videos, tracklets=replace(table, allowed=allowed)))
    assert found.clips == ("video1#1",)
    assert found.skipped[0].clip == "video0#1"

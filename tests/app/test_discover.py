"""The facade, on some of the demo clips."""

import json
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import objectstates
from objectstates import Corpus, Result
from objectstates.app.discover import Monitor
from objectstates.base.errors import CorrectionError, MissingExtraError, SettingError, VideoError
from objectstates.data.corrections import (
    Correction,
    UnusedCorrectionWarning,
    read_corrections,
    write_corrections,
)
from tests.detect import torchvision_here

CLIPS = Path(str(files("objectstates"))) / "demo" / "drawer"
VIDEOS = sorted(CLIPS.glob("*.mp4"))[:3]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def discover(cache):
    """The facade, with a small frame size and without worker processes, to be fast."""

    def call(videos=VIDEOS, **settings):
        return objectstates.discover(
            videos,
            object="drawer",
            detector=f"fewshot:{CLIPS / 'drawer.npz'}",
            **{"cache": cache, "max_side": 160, "processes": 1, **settings},
        )

    return call


class Recorder(Monitor):
    """Records the progress of each stage."""

    def __init__(self):
        self.progress: dict[str, list[Any]] = {"ingest": [], "fit": [], "report": []}

    def ingested(self, corpus, report):
        self.corpus, self.observed = corpus, report.observed

    @contextmanager
    def stage(self, name):
        yield lambda *progress: self.progress[name].append(progress)

    def finished(self, result, reused):
        self.result, self.reused = result, reused


def test_one_call_leads_from_videos_to_a_result_and_a_report(discover, tmp_path):
    out, monitor = tmp_path / "found", Recorder()
    result = discover(out=out, truth=CLIPS, nu=1.0, monitor=monitor)
    assert isinstance(result, Result)
    assert result.clips == tuple(video.stem for video in VIDEOS)
    assert result.settings["nu"] == 1.0
    assert len(Corpus.load(out / "corpus")) == len(VIDEOS)
    assert "<html" in (out / "report.html").read_text()
    saved = Result.load(out / "result")
    np.testing.assert_array_equal(saved.state, result.state)
    np.testing.assert_array_equal(saved.action_time, result.action_time)
    assert (monitor.corpus.chunks.label == 1).any(), "annotations are in the corpus"
    ingest, fit, report = monitor.progress.values()
    assert monitor.observed == ingest[-1][0].clips_done == len(VIDEOS)
    assert [progress.passes for (progress,) in fit] == list(range(1, len(fit) + 1))
    assert report[-1] == (len(VIDEOS), len(VIDEOS))
    assert monitor.result is result
    assert monitor.reused == {"fit": False, "report": False}

    again = Recorder()
    repeated = discover(out=out, truth=CLIPS, nu=1.0, monitor=again)
    assert again.observed == 0
    assert again.progress["fit"] == again.progress["report"] == []
    assert again.reused == {"fit": True, "report": True}
    np.testing.assert_array_equal(repeated.state, result.state)


def test_the_command_does_the_same(discover, run, tmp_path, cache):
    result = discover(out=tmp_path / "library", seed=1)
    code, text, err = run(
        "discover", *VIDEOS, "--object", "drawer", "--detector", f"fewshot:{CLIPS / 'drawer.npz'}",
        "--out", tmp_path / "command", "--cache", cache, "--max-side", 160, "--processes", 1,
        "--seed", 1, "--json",
    )  # fmt: skip
    assert code == 0, err
    assert [clip["action_time"] for clip in json.loads(text)["clips"]] == list(result.action_time)
    found = Result.load(tmp_path / "command" / "result")
    np.testing.assert_array_equal(found.state, result.state)
    np.testing.assert_array_equal(found.state_scores, result.state_scores)


def test_a_single_video_a_folder_and_a_list_can_be_named(discover, tmp_path):
    listed = tmp_path / "list.csv"
    listed.write_text("video\n" + "".join(f"{video}\n" for video in VIDEOS))
    expected = [video.stem for video in VIDEOS]
    assert list(discover(str(listed), out=tmp_path / "a").clips) == expected
    assert list(discover((), clips=listed, out=tmp_path / "b").clips) == expected


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"nuu": 1.0}, SettingError, "no setting `nuu`: did you mean `nu`"),
        ({"mu": 0.0}, SettingError, "mu"),
        ({"paper": True, "mu": 0.0}, SettingError, "mu"),
        ({"object_name": "drawer"}, SettingError, "no setting `object_name`: use `object`"),
        ({"engine": "cluster"}, SettingError, "`engine` must be one of"),
        ({"tracklet_seconds": 0.0}, SettingError, "tracklet_seconds"),
        ({"states": "closed"}, SettingError, "`states` must be 2 to 8 names"),
        ({"changes": "many"}, SettingError, "`changes` must be a whole number from 1 to 7"),
        ({"changes": 9}, SettingError, "`changes` must be a whole number from 1 to 7"),
        ({"changes": "2", "optional": "last"}, SettingError, "`optional` must be numbers"),
        ({"corrections": "nowhere.csv"}, CorrectionError, "nowhere.csv cannot be read"),
        ({"videos": []}, VideoError, "no clip to read"),
        ({"out_of_core": True, "shards": 0}, SettingError, "shards"),
    ],
)
def test_mistakes_are_found_before_any_video_is_read(discover, tmp_path, settings, error, message):
    with pytest.raises(error, match=message):
        discover(out=tmp_path / "out", **settings)
    assert not list(tmp_path.iterdir())


@torchvision_here.missing
def test_the_papers_settings_need_the_papers_networks(discover, tmp_path):
    with pytest.raises(MissingExtraError, match=r"backbone resnet50 .*objectstates\[torch\]"):
        discover(out=tmp_path / "out", paper=True)


def test_corrections_of_clips_that_are_gone_are_kept_and_not_used(discover, tmp_path):
    out = tmp_path / "found"
    discover(out=out, verdict=False)
    told = [Correction(VIDEOS[0].stem, "exclude"), Correction(VIDEOS[1].stem, "action", 2.0, 4.0)]
    write_corrections(out / "corrections.csv", told)
    with pytest.warns(UnusedCorrectionWarning, match=f"1, the first of '{VIDEOS[0].stem}'"):
        result = discover(VIDEOS[1:], out=out, verdict=False)
    assert [row.kind for row in result.corrections] == ["action"]
    assert set(read_corrections(out / "corrections.csv")) == set(told)
    with pytest.raises(CorrectionError, match="there is no clip"):
        discover(VIDEOS[1:], out=out, corrections=out / "corrections.csv")

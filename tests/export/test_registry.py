from __future__ import annotations

import json
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from objectstates import JointDiscovery
from objectstates.base.errors import ExportError, MissingExtraError, SettingError
from objectstates.data.label_names import LabelNames
from objectstates.data.synthetic import synthetic_corpus
from objectstates.data.verdict import Verdict
from objectstates.export import FORMATS, export
from objectstates.video.fingerprint import INFO, fingerprint
from tests.export.conftest import clip, make_result

EXTRAS = {"rerun": "rerun"}


OF_VIDEOS = [name for name, kind in FORMATS.items() if not kind.into_dataset]
"""The others need a LeRobot dataset: see ``test_lerobot.py``."""


@pytest.fixture(params=OF_VIDEOS)
def format(request):
    if request.param in EXTRAS:
        pytest.importorskip(EXTRAS[request.param])
    return request.param


def test_the_command_offers_all_formats(run):
    code, _, err = run("export", "result", "--to", "pdf", "--out", "x")
    assert code == 2
    for name in FORMATS:
        assert f"'{name}'" in err


def test_an_export_is_whole_and_replaces_only_its_own(result, format, tmp_path):
    done = export(result, format, tmp_path / "x")
    assert done.problems == ()
    header = json.loads((tmp_path / "x" / "export.json").read_text())
    assert header["format"] == format
    assert tuple(header["files"]) == done.files
    for name in done.files:
        assert (tmp_path / "x" / name).stat().st_size > 0
    assert export(result, format, tmp_path / "x") == done
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    (tmp_path / "x" / "notes.txt").write_text("dear")
    with pytest.raises(ExportError, match="holds something else"):
        export(result, format, tmp_path / "x")
    assert (tmp_path / "x" / "notes.txt").read_text() == "dear"


def test_no_name_leads_out_of_the_folder(result, format, tmp_path):
    export(result, format, tmp_path / "deep" / "x")
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["x"]


def test_the_header_has_the_verdict_on_the_result(result, tmp_path):
    verdict = Verdict("found", "doubtful", "Not all fits.")
    for known in (None, verdict):
        export(replace(result, verdict=known), "csv", tmp_path / "x")
        header = json.loads((tmp_path / "x" / "export.json").read_text())
        assert header.get("verdict") == (known and known.to_json())


@pytest.mark.parametrize("content", [{}, {"export.json": "{}"}, {"export.json": "[1"}])
def test_foreign_folders_are_refused(result, tmp_path, content):
    (tmp_path / "x" / "mine").mkdir(parents=True)
    for name, text in content.items():
        (tmp_path / "x" / name).write_text(text)
    with pytest.raises(ExportError, match="holds something else"):
        export(result, "csv", tmp_path / "x")
    assert (tmp_path / "x" / "mine").is_dir()


def test_a_lost_video_is_named_and_the_rest_goes_on(with_a_lost_video, format, tmp_path):
    done = export(with_a_lost_video, format, tmp_path / "x")
    if FORMATS[format].needs_videos:
        assert len(done.problems) == 1
        assert "/nowhere/lost.mp4: this does not exist" in done.problems[0]
        assert "1 clips" in done.problems[0]
    else:
        assert done.problems == ()


@pytest.mark.parametrize("format", [f for f in FORMATS if FORMATS[f].needs_videos], indirect=True)
def test_moved_videos_are_found_by_name(result, videos, format, tmp_path):
    moved = tuple(f"/nowhere/{video.rpartition('/')[2]}" for video in result.corpus.videos)
    away = replace(result, corpus=replace(result.corpus, videos=moved))
    with pytest.raises(ExportError, match=r"none of the 2 videos can be read.*`videos`"):
        export(away, format, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
    assert export(away, format, tmp_path / "x", videos=videos).problems == ()
    with pytest.raises(ExportError, match="is not a folder"):
        export(away, format, tmp_path / "x", videos=videos / "nowhere")


def test_what_a_format_lacks_is_told(format, tmp_path):
    bare = JointDiscovery(max_passes=60).fit(synthetic_corpus(n_clips=3)).result_
    unboxed = replace(bare, corpus=replace(bare.corpus, videos=("a.mp4", "b.mp4", "c.mp4")))
    if not FORMATS[format].needs_names:
        assert export(bare, format, tmp_path / "x").problems == ()
        return
    with pytest.raises(ExportError, match=f"{format} needs videos"):
        export(bare, format, tmp_path / "x")
    if FORMATS[format].needs_boxes:
        with pytest.raises(ExportError, match=f"{format} needs boxes"):
            export(unboxed, format, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_a_clip_without_a_video_is_named(videos, format, tmp_path):
    clips = [clip("here", str(videos / "a.mp4"), 0.0), clip("adrift", None, 0.0)]
    problems = export(make_result(clips), format, tmp_path / "x").problems
    assert any("'adrift'" in problem for problem in problems) == FORMATS[format].needs_names


def test_options_belong_to_formats(result, tmp_path):
    with pytest.raises(SettingError, match="'pdf' is not known: choose from csv"):
        export(result, "pdf", tmp_path / "x")
    with pytest.raises(
        SettingError, match="cvat has no option `fps`; its options: `all_tracklets`"
    ):
        export(result, "cvat", tmp_path / "x", fps=3)
    for format, options in (
        ("coco", {"fps": 0}),
        ("crops", {"context": -1}),
        ("crops", {"fps": float("nan")}),
    ):
        with pytest.raises(SettingError, match="must be a number above 0"):
            export(result, format, tmp_path / "x", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_named(result, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rerun", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'objectstates\[rerun\]'"):
        export(result, "rerun", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_either_side_alone_can_be_exported(without_states, without_actions, format, tmp_path):
    if format == "coco":
        with pytest.raises(ExportError, match="no box has a state"):
            export(without_states, format, tmp_path / "x")
    else:
        assert export(without_states, format, tmp_path / "x").problems == ()
    assert export(without_actions, format, tmp_path / "y").problems == ()


def test_the_command(run, result, with_a_lost_video, tmp_path):
    with_a_lost_video.save(tmp_path / "r")
    out = tmp_path / "crops"
    code, printed, err = run("export", tmp_path / "r", "--to", "crops", "--out", out, "--json")
    assert code == 0
    summary = json.loads(printed)
    assert summary["files"] == len(list(out.rglob("*.jpg"))) == 8
    assert err.count("\n") == 1
    assert "/nowhere/lost.mp4" in err
    for words, message in (
        (["--to", "pdf"], "'pdf' is not one of"),
        (["--to", "csv", "--fps", "3"], "csv has no option"),
        (["--to", "crops", "--context", "0"], "must be a number above 0"),
    ):
        code, _, err = run("export", tmp_path / "r", *words, "--out", tmp_path / "no")
        assert code == 2
        assert message in err
        assert err.count("\n") == 1
    code, _, err = run("export", tmp_path / "q", "--to", "csv", "--out", tmp_path / "no")
    assert (code, err.count("\n")) == (2, 1)
    assert not (tmp_path / "no").exists()


def test_exports_use_the_names_that_the_user_gave(result, tmp_path):
    named = replace(result, names=LabelNames.of(states=('a "$1" <b>', "=open"), action="go/on"))
    for format in ("csv", "jsonl", "webvtt", "crops", "labelstudio", "cvat"):
        export(named, format, tmp_path / format)
    segments = (tmp_path / "csv" / "segments.csv").read_text(encoding="utf-8")
    assert "'=open" in segments
    assert "state_1" not in segments
    first = json.loads((tmp_path / "jsonl" / "clips.jsonl").read_text().splitlines()[0])
    assert first["names"] == named.names.to_json()
    captions = next((tmp_path / "webvtt").glob("*.vtt")).read_text(encoding="utf-8")
    assert 'a "$1" &lt;b&gt;: cup' in captions
    assert "go/on" in captions
    folders = {path.name for path in (tmp_path / "crops").iterdir() if path.is_dir()}
    assert len(folders) == 3
    assert {"go_on", "open"} < folders
    labels = ElementTree.parse(tmp_path / "labelstudio" / "config.xml").iter("Label")
    declared = {label.get("value") for label in labels}
    assert not any("$" in (value or "") for value in declared)
    (task, *_) = json.loads((tmp_path / "labelstudio" / "tasks.json").read_text())
    for region in task["predictions"][0]["result"]:
        used = region["value"].get("labels") or region["value"]["timelinelabels"]
        assert set(used) <= declared
    tracks = ElementTree.parse(next((tmp_path / "cvat" / "annotations").glob("*.xml")))
    assert "go/on" in {track.get("label") for track in tracks.iter("track")}


def test_a_replaced_video_is_a_problem_of_the_export(result, tmp_path):
    """Also of one that reads no videos: its times are of the earlier content."""
    video = tmp_path / "b.mp4"
    video.write_bytes(b"other content")
    videos = (*result.corpus.videos[:2], str(video))
    info = {**result.corpus.info, INFO: {str(video): "1-0", videos[0]: fingerprint(videos[0])}}
    stale = replace(result, corpus=replace(result.corpus, videos=videos, info=info))
    done = export(stale, "csv", tmp_path / "x")
    assert len(done.problems) == 1
    assert done.problems[0].startswith(f"1 video was replaced after being read: {video}.")
    assert json.loads((tmp_path / "x" / "export.json").read_text())["problems"] == [*done.problems]

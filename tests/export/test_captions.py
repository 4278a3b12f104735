from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import av
import pytest
import webvtt

from objectstates.export import export
from tests.export.conftest import NAMES, clip, make_result


def captions(path: Path) -> list[Any]:
    """The captions as the ``webvtt`` package reads them."""
    return list(webvtt.read(str(path)).captions)


def test_a_reader_gets_what_was_found(result, tmp_path):
    done = export(result, "webvtt", tmp_path / "x")
    assert done.files == ("a.vtt", "b.vtt")
    cues = captions(tmp_path / "x" / "a.vtt")
    one = ["state 1: cup <big> & co", "action", "state 2: cup <big> & co"]
    assert [html.unescape(cue.text) for cue in cues] == [*one, *one]
    assert [(cue.start, cue.end) for cue in cues] == [
        (
            "00:00:00.000",
            "00:00:00.800",
        ),  # two tracklets, until the action
        ("00:00:00.800", "00:00:01.200"),
        ("00:00:01.440", "00:00:01.920"),
        ("00:00:02.000", "00:00:02.800"),
        ("00:00:02.800", "00:00:03.200"),
        ("00:00:03.440", "00:00:03.920"),
    ]
    assert len(captions(tmp_path / "x" / "b.vtt")) == 3


def test_ffmpeg_reads_the_captions(result, tmp_path):
    export(result, "webvtt", tmp_path / "x")
    with av.open(str(tmp_path / "x" / "a.vtt")) as container:
        packets = [packet for packet in container.demux() if packet.size]
    times = [float((packet.pts or 0) * packet.time_base) for packet in packets]
    assert times == [0.0, 0.8, 1.44, 2.0, 2.8, 3.44]
    assert bytes(packets[1]) == b"action"


def test_names_are_no_markup(result, tmp_path):
    export(result, "webvtt", tmp_path / "x")
    text = (tmp_path / "x" / "a.vtt").read_text(encoding="utf-8")
    assert "cup &lt;big&gt; &amp; co" in text
    arrows = [line for line in text.splitlines() if "-->" in line]
    assert len(arrows) == 6
    assert all(line[:2] == "00" for line in arrows)
    cues = captions(tmp_path / "x" / "a.vtt")
    assert cues[0].identifier == f"clip {NAMES[0]}"


@pytest.mark.parametrize(
    "name", ["NOTE this", "STYLE", "x\n\n00:01.000 --> 00:02.000\nboo", "--->"]
)
def test_no_clip_breaks_the_file(name, tmp_path):
    export(make_result([clip(name, "/nowhere/v.mp4", 0.0)], name), "webvtt", tmp_path / "x")
    assert len(captions(tmp_path / "x" / "v.vtt")) == 3


def test_what_has_no_caption_is_named(tmp_path):
    early = make_result([clip("early", "/nowhere/v.mp4", -1.2)])
    problems = export(early, "webvtt", tmp_path / "x").problems
    assert len(problems) == 1
    assert "'early'" in problems[0]
    cues = captions(tmp_path / "x" / "v.vtt")
    assert [(c.start, c.end) for c in cues] == [("00:00:00.240", "00:00:00.720")]


def test_an_object_need_not_have_a_name(tmp_path):
    export(make_result([clip("c", "v.mp4", 0.0)], None), "webvtt", tmp_path / "x")
    texts = [cue.text for cue in captions(tmp_path / "x" / "v.vtt")]
    assert texts == ["state 1", "action", "state 2"]


def test_a_chain_has_a_caption_per_state_and_action(chain, tmp_path):
    one = chain.select([0])
    export(one, "webvtt", tmp_path / "out")
    (path,) = (tmp_path / "out").glob("*.vtt")
    texts = [caption.text for caption in webvtt.read(str(path)).captions]
    assert texts == ["closed: thing", "opening", "open: thing", "closing", "closed: thing"]

import json
import string
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from objectstates.base.errors import NarrationError
from objectstates.narration.subtitles import (
    SUFFIXES,
    NarrationReader,
    find_narrations,
    read_narration,
    write_webvtt,
)
from objectstates.narration.transcript import Cue

ROLLING = """WEBVTT
Kind: captions
Language: en

00:00:00.160 --> 00:00:02.350 align:start position:0%
\x20
hey<00:00:00.480><c> guys</c><00:00:00.719><c> today</c><00:00:01.120><c> we</c>

00:00:02.350 --> 00:00:02.360 align:start position:0%
hey guys today we
\x20

00:00:02.360 --> 00:00:05.000 align:start position:0%
hey guys today we
remove<00:00:02.720><c> the</c><00:00:03.000><c> wheel</c> &amp; go [Music]

NOTE this is not said

named-cue
00:00:05.000 --> 00:00:05.010 align:start position:0%
remove the wheel go
\x20
"""


@pytest.fixture
def read(tmp_path):
    def call(text, name="v.srt", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return read_narration(path)

    return call


def said(narration):
    return " ".join(narration.words)


def test_rolling_captions_are_said_once_and_their_word_times_kept(read):
    narration = read(ROLLING, "v.vtt")
    assert said(narration) == "hey guys today we remove the wheel go"
    np.testing.assert_allclose(
        narration.times[:, 0], [0.16, 0.48, 0.719, 1.12, 2.36, 2.72, 3.0, 4.33], atol=0.01
    )


def test_rolling_captions_converted_to_subrip(read):
    narration = read(
        "1\n00:00:00,000 --> 00:00:02,000\nso we take\n\n"
        "2\n00:00:02,000 --> 00:00:04,000\nso we take\nthe wheel off\n\n"
        "3\n00:00:04,000 --> 00:00:06,000\nthe wheel off\nand put it down\n"
    )
    assert said(narration) == "so we take the wheel off and put it down"
    assert narration.times[3, 0] == 2.0


def test_captions_that_grow_word_by_word(read):
    cues = ["now", "now we", "now we open", "now we open it"]
    text = "".join(f"{i}\n00:00:0{i},000 --> 00:00:0{i},900\n{c}\n\n" for i, c in enumerate(cues))
    assert said(read(text)) == "now we open it"


def test_what_is_really_said_twice_stays(read):
    narration = read(
        "1\n00:00:01,000 --> 00:00:02,000\npush push\n\n"
        "2\n00:00:09,000 --> 00:00:10,000\npush push\n"
    )
    assert said(narration) == "push push push push"


def test_cues_out_of_order_overlapping_empty_and_backwards(read):
    narration = read(
        "2\n00:00:10,000 --> 00:00:12,000\nsecond one\n\n"
        "1\n00:00:01,000 --> 00:00:20,000\n<i>first</i> {\\an8}one\n\n"
        "3\n00:00:15,000 --> 00:00:16,000\n\n"
        "4\n00:00:30,000 --> 00:00:29,000\nlast\n"
    )
    assert said(narration) == "first one second one last"
    assert (np.diff(narration.times[:, 0]) >= 0).all()
    assert narration.times[1, 1] <= 10.0  # a cue ends where the next begins
    assert narration.times[-1].tolist() == [30.0, 30.0]


def test_long_words_take_longer(read):
    narration = read("1\n00:00:00,000 --> 00:00:04,000\na refrigerator\n")
    np.testing.assert_allclose(narration.times, [[0, 8 / 15], [8 / 15, 4]], atol=0.01)


def test_substation(read):
    narration = read(
        "[Script Info]\nScriptType: v4.00+\n\n[Events]\n"
        "Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
        "Comment: 0,0:00:00.00,0:00:01.00,Default,,0,0,0,,not said\n"
        "Dialogue: 0,0:00:01.00,0:00:03.00,Default,,0,0,0,,{\\b1}take{\\b0} it\\Noff, now\n",
        "v.ass",
    )
    assert said(narration) == "take it off now"
    assert narration.times[0, 0] == 1.0


def test_json3(read):
    events = [
        {"tStartMs": 0, "dDurationMs": 9000, "id": 1},
        {
            "tStartMs": 1000,
            "dDurationMs": 3000,
            "segs": [{"utf8": "take"}, {"utf8": " it <b>", "tOffsetMs": 500}],
        },
        {"tStartMs": 2500, "dDurationMs": 10, "aAppend": 1, "segs": [{"utf8": "\n"}]},
        {"tStartMs": 3000, "dDurationMs": 2000, "segs": [{"utf8": "off now"}]},
        {"tStartMs": "x", "segs": [7, {"utf8": 3}]},
    ]
    narration = read(json.dumps({"wireMagic": "pb3", "events": events}), "v.json3")
    assert said(narration) == "take it b off now"
    assert narration.times[:2, 0].tolist() == [1.0, 1.5]


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("intro\n0:05 take it\n1:02:03 off\n", [5.0, 3723.0]),
        ("[00:05.5] take it\n(00:07) off", [5.5, 7.0]),
        ("0:05\ntake\nit\n0:09\noff", [5.0, 9.0]),
        ("5.5\t6.5\ttake it\n7\t8\toff", [5.5, 7.0]),
        ("00:05 - 00:06 take it\n00:07 - 00:09: off", [5.0, 7.0]),
    ],
)
def test_text_with_times(read, text, times):
    narration = read(text, "v.txt")
    assert said(narration) == "take it off"
    assert narration.times[[0, 2], 0].tolist() == times
    assert narration.times[1, 1] - times[0] < 1.3  # words are not spread over silence


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_any_encoding(read, encoding):
    text = "1\r\n00:00:01,000 --> 00:00:02,000\r\nla d\u00e9montez r\u00f4ti\r\n"
    assert said(read(text, encoding=encoding)) == "la d\u00e9montez r\u00f4ti"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.srt", b""),
        ("silent.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\n[Music]\n"),
        ("noise.srt", bytes(range(256))),
        ("bad.json", b"{"),
        ("other.json", b'{"events": 3}'),
        ("untimed.txt", b"just some text"),
    ],
)
def test_unreadable_files_are_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(NarrationError, match=name):
        read_narration(tmp_path / name)


def test_a_narration_belongs_to_the_video_of_its_name(tmp_path):
    for name in ("a.mp4", "b.en.vtt", "a.en-US.vtt", "far/b.mkv", "c.vtt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("WEBVTT\n\n00:01.000 --> 00:02.000\nhello\n")
    paths = sorted(tmp_path.glob("*.vtt"))
    reader = NarrationReader(tmp_path / "far")
    found = [reader.read(path) for path in paths]
    assert [n.name for n in found] == ["a", "b", "c"]
    assert [n.video for n in found] == [tmp_path / "a.mp4", tmp_path / "far" / "b.mkv", None]


def test_cues_of_very_many_words_are_read_in_time(read):
    words, others = "so we " * 100_000, "and he " * 100_000
    first, second = "00:00:01,000 --> 00:00:04,000", "00:00:04,000 --> 00:00:09,000"
    text = f"1\n{first}\n{words}\n\n2\n{second}\n{others}\n"
    began = time.monotonic()
    assert len(read(text)) == 400_000
    assert time.monotonic() - began < 20


def test_folders_without_subtitles_and_missing_files_are_said(tmp_path):
    with pytest.raises(NarrationError, match="no subtitles"):
        find_narrations([tmp_path])
    with pytest.raises(NarrationError, match="does not exist"):
        find_narrations([tmp_path / "x.srt"])


@given(
    st.lists(
        st.tuples(
            st.floats(0, 5000),
            st.floats(0, 20),
            st.text(string.ascii_letters + " <&>-'\n", max_size=40),
        ),
        max_size=20,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_written_is_read_again(tmp_path, rows):
    """Distinct words, so that none is taken for a caption that rolls."""
    cues, start = [], 0.0
    for number, (gap, length, text) in enumerate(rows):
        start += gap + 1
        cues.append(Cue(start, start + length, f"word{number} {text}"))
        start += length
    write_webvtt(tmp_path / "v.vtt", cues)
    if not cues:
        return
    narration = read_narration(tmp_path / "v.vtt")
    firsts = [i for i, word in enumerate(narration.words) if word.startswith("word")]
    assert len(firsts) == len(cues)
    expected = [cue.start for cue in cues]
    np.testing.assert_allclose(narration.times[firsts, 0], expected, atol=1e-3)


FRAGMENTS = [
    *(
        "WEBVTT\n",
        "\n\n",
        "1\n",
        "NOTE ",
        "\x00",
        "\\N",
        "\ufeff",
        "\u2028",
        "{\\k",
        "{1}{2}",
        "]}",
    ),
    *("00:00:01,000 --> 00:00:02,000\n", "1:00.000 --> 0:59.000", "99:99:99,999 --> ", "0:05 "),
    *("<00:00:01.000>", "<c> word</c>", "<t99999>", "&#x110000;", "[Script Info]\n"),
    *("[Events]\nDialogue: ", "<tt xmlns='http://www.w3.org/ns/ttml'>", '{"events": ['),
    *('{"segs": [{"utf8": "x"}], "tStartMs": 1e400}', '{"tStartMs": -1, "segs": [{}]},'),
]
fragments = st.sampled_from(FRAGMENTS)


@given(
    st.one_of(st.binary(max_size=200), st.lists(fragments | st.text(max_size=9)).map("".join)),
    st.sampled_from(SUFFIXES),
)
@settings(
    max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_no_file_is_a_crash(tmp_path, content, suffix):
    path = tmp_path / f"v{suffix}"
    data = content if isinstance(content, bytes) else content.encode(errors="replace")
    path.write_bytes(data)
    try:
        narration = read_narration(path)
    except NarrationError as problem:
        message = str(problem)
        assert str(path) in message
        return
    assert len(narration) > 0
    assert np.isfinite(narration.times).all()
    assert (narration.times >= 0).all()
    assert (np.diff(narration.times[:, 0]) >= 0).all()
    assert (narration.times[:, 1] >= narration.times[:, 0]).all()

"""The commands transcribe and retrieve, on speech synthesised by espeak-ng."""

import csv
import json
import shutil
import subprocess
import wave

import numpy as np
import pytest

from objectstates.narration.subtitles import read_narration
from objectstates.video.clip_list import find_clips
from tests.narration.test_speech import write_video

SPOKEN = (
    "My neighbour and his family went to the sea last summer. It was very warm.",
    "Now we put the new wheel on the car.",
    "Thank you for watching my video. I hope that you will come back soon.",
)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """Samples of the sentences with four seconds between them, and when each begins."""
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not here: nothing is spoken aloud")
    folder = tmp_path_factory.mktemp("spoken")
    parts, starts, length = [], [], 0
    for i, sentence in enumerate(SPOKEN):
        path = folder / f"{i}.wav"
        subprocess.run(["espeak-ng", "-s", "140", "-w", str(path), sentence], check=True)
        with wave.open(str(path)) as file:
            assert file.getframerate() == 22050
            samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
        starts.append(length / 22050)
        silence = np.zeros(4 * 22050, np.int16)
        parts += [samples, silence]
        length += len(samples) + len(silence)
    return np.concatenate(parts), starts


def test_from_sound_to_clips(spoken, run, tmp_path):
    pytest.importorskip("moonshine_voice", reason="the extra asr is not installed")
    sound, starts = spoken
    write_video(tmp_path / "talk.mp4", sound)
    write_video(tmp_path / "mute.mp4")
    code, out, err = run("transcribe", tmp_path, "--json")
    assert code == 0
    assert "mute.mp4: this video has no audio stream" in err
    assert json.loads(out)["written"] == [str(tmp_path / "talk.vtt")]
    words = [word.lower() for word in read_narration(tmp_path / "talk.vtt").words]
    assert len({"new", "wheel", "car", "family", "video", "soon"} & {*words}) >= 4

    before = (tmp_path / "talk.vtt").read_bytes()
    code, out, _ = run("transcribe", tmp_path / "talk.mp4", "--json")
    assert json.loads(out)["kept"] == [str(tmp_path / "talk.vtt")]
    assert (tmp_path / "talk.vtt").read_bytes() == before

    clips, page = tmp_path / "clips.csv", tmp_path / "page.html"
    code, out, _ = run(
        "retrieve", tmp_path, "--action", "put-wheel", "--out", clips, "--page", page, "--json"
    )
    assert code == 0
    assert json.loads(out)["cross_validation"]["average_precision"] > 0.5
    (span,) = find_clips(csv=clips)
    assert span.id == "talk"
    assert span.video.resolve() == (tmp_path / "talk.mp4").resolve()
    assert span.start is not None
    assert span.end is not None
    assert span.start <= starts[1] <= span.start + 6  # clips begin 5 s before the mention
    assert span.end - span.start == pytest.approx(20, abs=0.01) or span.start == 0
    assert "talk.mp4#t=" in page.read_text()


def test_two_videos_of_one_name_are_not_written_over_one_another(run, tmp_path):
    for name in ("a/v.mp4", "b/v.mp4"):
        (tmp_path / name).parent.mkdir()
        write_video(tmp_path / name)
    code, _, err = run("transcribe", tmp_path, "--out", tmp_path / "said")
    assert code == 2
    assert "rename one" in err
    assert not (tmp_path / "said").exists()


def test_the_list_has_the_columns_of_a_list_of_clips(run, tmp_path):
    (tmp_path / "a.srt").write_text("1\n00:00:10,000 --> 00:00:12,000\nopen the fridge\n")
    code, _, err = run(
        "retrieve", tmp_path / "a.srt", "--action", "open_fridge", "--out", tmp_path / "c.csv"
    )
    assert code == 0
    assert "without a video" in err
    with (tmp_path / "c.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert list(row) == ["video", "start", "end", "id", "score"]
    assert 5.0 <= float(row["start"]) <= 7.0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "give one of --action"),
        (("--action", "open_fridge", "--phrase", "x"), "give one of --action"),
        (("--positive", "p.txt"), "give both"),
        (("--action", "sing"), "open-fridge"),
        (("--action", "open_fridge", "--videos", "nowhere"), "nowhere is no folder"),
    ],
)
def test_mistakes_are_one_line(run, tmp_path, words, complaint):
    (tmp_path / "a.srt").write_text("1\n00:00:10,000 --> 00:00:12,000\nopen the fridge\n")
    code, _, err = run("retrieve", tmp_path / "a.srt", "--out", tmp_path / "c.csv", *words)
    assert code == 2
    assert complaint in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "c.csv").exists()


def test_own_sentences(run, tmp_path):
    (tmp_path / "a.srt").write_text(
        "1\n00:00:10,000 --> 00:00:12,000\nhello there my friends\n\n"
        "2\n00:00:40,000 --> 00:00:42,000\nspread the butter on the bread\n"
    )
    (tmp_path / "p.txt").write_text("butter the bread\nspread butter on the toast\n")
    (tmp_path / "n.txt").write_text("slice the cheese\nhello friends\nboil some water\n")
    files = ("--positive", tmp_path / "p.txt", "--negative", tmp_path / "n.txt")
    code, _, _ = run("retrieve", tmp_path / "a.srt", *files, "--out", tmp_path / "c.csv")
    assert code == 0
    (span,) = find_clips(csv=tmp_path / "c.csv")
    assert span.start is not None
    assert 35 <= span.start <= 37


@pytest.mark.parametrize("flag", ["--out", "--page"])
def test_neither_the_narrations_nor_anything_else_is_written_over(run, tmp_path, flag):
    narration, thesis = tmp_path / "a.srt", tmp_path / "thesis.html"
    narration.write_text("1\n00:00:10,000 --> 00:00:12,000\nopen the fridge\n")
    thesis.write_text("years of work")
    places = {"--out": tmp_path / "c.csv", "--page": tmp_path / "p.html"}
    for place, message in ((narration, "is an input"), (thesis, "is something else")):
        before = place.read_text()
        words = [word for pair in {**places, flag: place}.items() for word in pair]
        code, _, err = run("retrieve", narration, "--action", "open_fridge", *words)
        assert code == 2
        assert message in err
        assert place.read_text() == before
    words = [word for pair in places.items() for word in pair]
    for _ in range(2):  # its own files are replaced
        assert run("retrieve", narration, "--action", "open_fridge", *words)[0] == 0

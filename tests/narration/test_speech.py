"""Speech that is really spoken, by espeak-ng, and really recognised."""

import csv
import inspect
import json
import shutil
import subprocess
import wave
from fractions import Fraction
from types import SimpleNamespace

import av
import numpy as np
import pytest

from objectstates.base.errors import MissingExtraError, NarrationError, SettingError, VideoError
from objectstates.narration.audio import RATE, read_audio
from objectstates.narration.speech import (
    Moonshine,
    Whisper,
    _short_cues,
    make_recogniser,
    transcribe,
)
from objectstates.narration.subtitles import read_narration
from objectstates.narration.transcript import Cue
from objectstates.video.clip_list import find_clips

SPOKEN = (
    "My neighbour and his family went to the sea last summer. It was very warm.",
    "Now we put the new wheel on the car.",
    "Thank you for watching my video. I hope that you will come back soon.",
)


def write_video(path, sound=None, rate=22050, seconds=2.0, offset=0.0):
    """A grey video, with sound if given; the sound begins ``offset`` seconds late."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=10)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        audio = container.add_stream("aac", rate=rate, layout="mono") if sound is not None else None
        if sound is not None:
            seconds = offset + len(sound) / rate
        for i in range(round(10 * seconds)):
            image = np.full((48, 64, 3), 5 * i % 255, np.uint8)
            container.mux(video.encode(av.VideoFrame.from_ndarray(image)))
        container.mux(video.encode())
        if audio is not None:
            frame = av.AudioFrame.from_ndarray(sound[None], format="s16", layout="mono")
            frame.sample_rate, frame.time_base = rate, Fraction(1, rate)
            frame.pts = round(offset * rate)
            container.mux(audio.encode(frame))
            container.mux(audio.encode())
    return path


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


class Echo:
    """Recognises one word in every segment."""

    def recognise(self, samples):
        return [Cue(0.5, 1.0, "word"), Cue(1.0, 1.2, "  ")] if samples.any() else []


def test_times_are_those_of_the_video(tmp_path):
    loud = np.random.default_rng(0).normal(0, 3000, 40 * 8000).astype(np.int16)
    done: list[float] = []
    cues = list(
        transcribe(write_video(tmp_path / "v.mp4", loud, 8000), Echo(), progress=done.append)
    )
    assert [cue.text for cue in cues] == ["word", "word"]
    assert cues[0].start == pytest.approx(0.5, abs=0.05)
    assert 20 < cues[1].start < 31
    assert done[-1] == pytest.approx(40, abs=0.3)


def test_videos_without_speech_are_named(tmp_path):
    quiet = write_video(tmp_path / "quiet.mp4", np.zeros(16000, np.int16), 8000)
    with pytest.raises(NarrationError, match=r"quiet\.mp4: no speech was recognised"):
        list(transcribe(quiet, Echo()))
    (tmp_path / "noise.mp4").write_bytes(b"noise")
    with pytest.raises(VideoError, match=r"noise\.mp4"):
        list(read_audio(tmp_path / "noise.mp4"))
    with pytest.raises(SettingError, match="moonshine, whisper"):
        make_recogniser("parrot")


class Broken:
    def recognise(self, samples):
        raise RuntimeError("out of order")


def test_a_recogniser_that_fails_is_named(tmp_path):
    loud = np.random.default_rng(0).normal(0, 3000, 8000).astype(np.int16)
    with pytest.raises(NarrationError, match=r"v\.mp4: the recogniser failed at 0 s: out of order"):
        list(transcribe(write_video(tmp_path / "v.mp4", loud, 8000), Broken()))


def test_two_videos_of_one_name_are_not_written_over_one_another(run, tmp_path):
    for name in ("a/v.mp4", "b/v.mp4"):
        (tmp_path / name).parent.mkdir()
        write_video(tmp_path / name)
    code, _, err = run("transcribe", tmp_path, "--out", tmp_path / "said")
    assert code == 2
    assert "rename one" in err
    assert not (tmp_path / "said").exists()


def test_models_that_are_not_there_are_named(tmp_path):
    pytest.importorskip("moonshine_voice", reason="the extra asr is not installed")
    with pytest.raises(SettingError, match="English only"):
        Moonshine(language="fr")
    with pytest.raises(NarrationError, match="no such folder"):
        Moonshine(str(tmp_path / "nothing"))
    with pytest.raises(NarrationError, match="cannot be loaded"):
        Moonshine(str(tmp_path))


def test_whisper_without_its_package_or_its_weights(tmp_path):
    """Loading code as far as it goes without weights."""
    try:
        import faster_whisper  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtraError, match=r"objectstates\[whisper\]"):
            Whisper("small")
        return
    with pytest.raises(NarrationError, match="cannot be loaded"):
        Whisper(str(tmp_path))


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
        ((), "in one way"),
        (("--action", "open_fridge", "--phrase", "x"), "in one way"),
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


def test_whisper_is_called_as_it_wants_to_be():
    """Its weights are not ours to ship: at least the call must fit the signature."""
    faster_whisper = pytest.importorskip(
        "faster_whisper", reason="the extra whisper is not installed"
    )
    calls = []

    class Model:
        def transcribe(self, *args, **options):
            inspect.signature(faster_whisper.WhisperModel.transcribe).bind(self, *args, **options)
            calls.append(options)
            return iter([]), None

    whisper = Whisper.__new__(Whisper)
    whisper._model, whisper._language = Model(), "de"
    assert whisper.recognise(np.zeros(RATE, np.float32)) == []
    assert calls[0]["language"] == "de"


def test_long_segments_become_short_cues():
    words = [SimpleNamespace(word=f" w{i}", start=float(i), end=i + 0.5) for i in range(10)]
    first, second = _short_cues(words)
    assert (first.start, first.end, len(first.text.split())) == (0.0, 7.5, 8)
    assert (second.start, second.end, second.text.split()) == (8.0, 9.5, ["w8", "w9"])

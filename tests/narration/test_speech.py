import inspect
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
from objectstates.narration.transcript import Cue


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

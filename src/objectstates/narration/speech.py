"""Speech recognition, for videos without subtitles.

A `Recogniser` converts audio to cues; there are two engines. Moonshine's tiny English model is part
of its package, so it needs no download.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from objectstates.base.errors import NarrationError, SettingError
from objectstates.base.torch_utils import loading, needs_extra
from objectstates.narration.audio import RATE, Samples, read_audio
from objectstates.narration.transcript import Cue

ENGINES = ("moonshine", "whisper")


class Recogniser(Protocol):
    """A speech recognition model."""

    def recognise(self, samples: Samples) -> list[Cue]:
        """Cues in ``samples``, times in seconds from their start."""


def make_recogniser(engine: str, model: str | None = None, language: str = "en") -> Recogniser:
    """Make a recogniser; ``model`` is a folder, or for whisper also a size such as small."""
    if engine == "moonshine":
        return Moonshine(model, language)
    if engine == "whisper":
        return Whisper(model or "small", language)
    raise SettingError(f"`engine` {engine!r} is unknown: choose one of {', '.join(ENGINES)}")


def transcribe(
    path: str | Path,
    recogniser: Recogniser,
    *,
    problems: list[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Cue]:
    """Yield the cues of a video as they are recognised.

    problems : receives messages about damaged audio.
    progress : called after each segment with the number of seconds done.
    """
    recognised = False
    for segment in read_audio(path, problems):
        try:
            cues = recogniser.recognise(segment.samples)
        except Exception as problem:  # runtimes raise errors of any type
            raise NarrationError(
                f"{path}: the recogniser failed at {segment.start:.0f} s: {problem}"
            ) from problem
        for cue in cues:
            if text := " ".join(cue.text.split()):
                recognised = True
                start = max(0.0, segment.start + cue.start)
                yield Cue(start, max(start, segment.start + cue.end), text)
        if progress is not None:
            progress(segment.start + len(segment.samples) / RATE)
    if not recognised:
        raise NarrationError(f"{path}: no speech was recognised in it")


class Moonshine:
    """Moonshine (Jeffries et al., 2024): small models for CPUs, one per language.

    model : a folder with the model's .ort files, a base model if its name contains "base", else a
        tiny one; None is the English model in the package.
    """

    def __init__(self, model: str | None = None, language: str = "en") -> None:
        with needs_extra("asr", "the recogniser moonshine"):
            import moonshine_voice
            from moonshine_voice.moonshine_api import ModelArch
            from moonshine_voice.transcriber import Transcriber
        if model is None and language != "en":
            raise SettingError(
                f"moonshine's built-in model is English only, not {language!r}: give a folder as "
                "`model`, or use `engine` whisper"
            )
        folder = Path(model) if model else Path(moonshine_voice.get_model_path("tiny-en"))
        kind = ModelArch.BASE if "base" in folder.name else ModelArch.TINY
        if not folder.is_dir():
            raise NarrationError(f"{folder}: no such folder of a moonshine model")
        with loading(f"the moonshine model {folder}", NarrationError):
            self._transcriber: Any = Transcriber(folder, kind)

    def recognise(self, samples: Samples) -> list[Cue]:
        transcript = self._transcriber.transcribe_without_streaming(samples.tolist(), RATE)
        return [
            Cue(line.start_time, line.start_time + line.duration, line.text)
            for line in transcript.lines
        ]


class Whisper:
    """Whisper (Radford et al., 2022) by faster-whisper: larger, multilingual.

    model : a size (downloaded on first use) or a folder of converted weights.
    """

    def __init__(self, model: str = "small", language: str = "en", device: str = "auto") -> None:
        with needs_extra("whisper", "the recogniser whisper"):
            from faster_whisper import WhisperModel
        with loading(f"the whisper model {model}", NarrationError):
            self._model: Any = WhisperModel(model, device=device, compute_type="default")
        self._language = language

    def recognise(self, samples: Samples) -> list[Cue]:
        """Cues of a few words each, from the word timestamps."""
        segments, _ = self._model.transcribe(
            samples,
            language=self._language,
            word_timestamps=True,
            vad_filter=True,
            condition_on_previous_text=False,  # avoids repetition; segments are independent
        )
        return [cue for segment in segments for cue in _short_cues(segment.words or [])]


def _short_cues(words: list[Any], length: int = 8) -> Iterator[Cue]:
    """Split a segment into cues of ``length`` words."""
    for first in range(0, len(words), length):
        line = words[first : first + length]
        text = "".join(word.word for word in line)
        yield Cue(float(line[0].start), float(line[-1].end), text)

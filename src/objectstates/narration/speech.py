"""Recognise what is said in videos that have no subtitles.

A `Recogniser` turns a piece of sound into cues; two kinds of models are known. Moonshine's tiny
English model is inside its package, so it works without a network.
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
    """Hears speech."""

    def recognise(self, samples: Samples) -> list[Cue]:
        """What is said in ``samples``, times in seconds from their beginning."""


def make_recogniser(engine: str, model: str | None = None, language: str = "en") -> Recogniser:
    """A recogniser by name; ``model`` is a folder, or for whisper also a size such as small."""
    if engine == "moonshine":
        return Moonshine(model, language)
    if engine == "whisper":
        return Whisper(model or "small", language)
    raise SettingError(f"engine {engine!r} is not known: choose one of {', '.join(ENGINES)}")


def transcribe(
    path: str | Path,
    recogniser: Recogniser,
    *,
    problems: list[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Cue]:
    """Yield what is said in a video, as it is heard.

    progress : told after each piece how many seconds have been heard.
    """
    heard = False
    for piece in read_audio(path, problems):
        try:
            cues = recogniser.recognise(piece.samples)
        except Exception as problem:  # recognisers raise whatever their runtimes do
            raise NarrationError(
                f"{path}: the recogniser failed at {piece.start:.0f} s: {problem}"
            ) from problem
        for cue in cues:
            if text := " ".join(cue.text.split()):
                heard = True
                start = max(0.0, piece.start + cue.start)
                yield Cue(start, max(start, piece.start + cue.end), text)
        if progress is not None:
            progress(piece.start + len(piece.samples) / RATE)
    if not heard:
        raise NarrationError(f"{path}: nothing is said in it, or it is not understood")


class Moonshine:
    """Moonshine (Jeffries et al., 2024): small models for a CPU, one for each language.

    model : a folder with the model's .ort files, whose name tells tiny from base; None is the
        English one inside the package.
    """

    def __init__(self, model: str | None = None, language: str = "en") -> None:
        with needs_extra("asr", "the recogniser moonshine"):
            import moonshine_voice
            from moonshine_voice.moonshine_api import ModelArch
            from moonshine_voice.transcriber import Transcriber
        if model is None and language != "en":
            raise SettingError(
                f"moonshine's built-in model knows English only, not {language!r}: "
                "name a folder with --model, or use --engine whisper"
            )
        folder = Path(model) if model else Path(moonshine_voice.get_model_path("tiny-en"))
        kind = ModelArch.BASE if "base" in folder.name else ModelArch.TINY
        if not folder.is_dir():
            raise NarrationError(f"{folder}: no such folder of a moonshine model")
        with loading(f"the moonshine model {folder}", NarrationError):
            self._transcriber: Any = Transcriber(folder, kind)

    def recognise(self, samples: Samples) -> list[Cue]:
        heard = self._transcriber.transcribe_without_streaming(samples.tolist(), RATE)
        return [
            Cue(line.start_time, line.start_time + line.duration, line.text) for line in heard.lines
        ]


class Whisper:
    """Whisper (Radford et al., 2022) by faster-whisper: larger, any language.

    model : a size (fetched at first use) or a folder of converted weights.
    """

    def __init__(self, model: str = "small", language: str = "en", device: str = "auto") -> None:
        with needs_extra("whisper", "the recogniser whisper"):
            from faster_whisper import WhisperModel
        with loading(f"the whisper model {model}", NarrationError):
            self._model: Any = WhisperModel(model, device=device, compute_type="default")
        self._language = language

    def recognise(self, samples: Samples) -> list[Cue]:
        """Cues of a few words each, for whisper says when each word begins."""
        segments, _ = self._model.transcribe(
            samples,
            language=self._language,
            word_timestamps=True,
            vad_filter=True,
            condition_on_previous_text=False,  # pieces are apart, and it repeats itself otherwise
        )
        return [cue for segment in segments for cue in _short_cues(segment.words or [])]


def _short_cues(words: list[Any], length: int = 8) -> Iterator[Cue]:
    """Cut the words of a long segment into lines that are read, and timed, on their own."""
    for first in range(0, len(words), length):
        line = words[first : first + length]
        text = "".join(word.word for word in line)
        yield Cue(float(line[0].start), float(line[-1].end), text)

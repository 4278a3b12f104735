"""Transcripts: the words of a video with their times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import NarrationError

Times = npt.NDArray[np.float64]

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")


class Cue(NamedTuple):
    """A subtitle: ``text`` is said from ``start`` to ``end``, in seconds."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Narration:
    """The transcript of one video.

    name : of the video, without suffix.
    words : as written, without punctuation, in order of time.
    times : (n, 2) seconds, start and end of each word; starts never decrease.
    video : the file, if known.
    """

    name: str
    words: Sequence[str] = field(repr=False)
    times: Times = field(repr=False)
    video: Path | None = None

    def __post_init__(self) -> None:
        if self.times.shape != (len(self.words), 2):
            raise NarrationError(
                f"{self.name}: {len(self.words)} words, but times of shape {self.times.shape}"
            )

    def __len__(self) -> int:
        return len(self.words)

    @property
    def identity(self) -> str:
        """The same for two narrations of one video: its file, or its name if unknown."""
        return str(self.video or self.name)


def split_words(text: str) -> list[str]:
    """Split a text into words, without punctuation, which speech recognition lacks.

    >>> split_words("Don't pry -- twist the half-open shell!")
    ["Don't", 'pry', 'twist', 'the', 'half', 'open', 'shell']
    """
    return _WORD.findall(text)


def normalised(word: str) -> str:
    """The form of a word for comparison."""
    return word.casefold().replace("\u2019", "'")


def tokens(text: str) -> list[str]:
    """The normalised words of a text."""
    return [normalised(word) for word in split_words(text)]


def spread(start: float, end: float, words: Sequence[str]) -> list[tuple[float, float]]:
    """Start and end of each word, dividing an interval in proportion to their lengths."""
    lengths = np.array([len(word) + 1 for word in words], float)
    ends = start + (end - start) * lengths.cumsum() / lengths.sum()
    return list(zip([start, *ends[:-1].tolist()], ends.tolist(), strict=True))


def in_order(words: Iterable[tuple[float, float, str]]) -> tuple[list[str], Times]:
    """Sort timed words by start; an end before the start is set to the start."""
    rows = sorted(words, key=lambda row: row[0])
    times = np.array([(start, max(start, end)) for start, end, _ in rows], float).reshape(-1, 2)
    return [word for _, _, word in rows], times

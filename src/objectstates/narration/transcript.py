"""What is said in a video: words, and when each is said."""

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
    """A stretch of speech: ``text`` is said from ``start`` to ``end``, in seconds."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Narration:
    """The words of one video in the order in which they are said.

    name : of the video, without its ending.
    words : as written, without punctuation.
    times : (n, 2) seconds, when each word begins and ends; beginnings never decrease.
    video : the file, where it is known.
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
        """What two narrations of the same video share: its file, or its name if there is none."""
        return str(self.video or self.name)


def split_words(text: str) -> list[str]:
    """Split a text into its words; punctuation, which recognised speech lacks, is dropped.

    >>> split_words("Don't pry -- twist the half-open shell!")
    ["Don't", 'pry', 'twist', 'the', 'half', 'open', 'shell']
    """
    return _WORD.findall(text)


def normalised(word: str) -> str:
    """The form in which words are compared."""
    return word.casefold().replace("\u2019", "'")


def tokens(text: str) -> list[str]:
    """The words of a text in the form in which they are compared."""
    return [normalised(word) for word in split_words(text)]


def spread(start: float, end: float, words: Sequence[str]) -> list[tuple[float, float]]:
    """Divide a time among words by their length: the best guess without times for each."""
    lengths = np.array([len(word) + 1 for word in words], float)
    ends = start + (end - start) * lengths.cumsum() / lengths.sum()
    return list(zip([start, *ends[:-1].tolist()], ends.tolist(), strict=True))


def in_order(words: Iterable[tuple[float, float, str]]) -> tuple[list[str], Times]:
    """Sort timed words by their beginning; a word that ends before it begins takes no time."""
    rows = sorted(words, key=lambda row: row[0])
    times = np.array([(start, max(start, end)) for start, end, _ in rows], float).reshape(-1, 2)
    return [word for _, _, word in rows], times

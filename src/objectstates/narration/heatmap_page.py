"""An HTML page of retrieved clips with their narrations as heat maps, as in the paper's appendix.

Each word is coloured by the mean score of the windows that contain it, from blue (low) to red. The
page is self-contained except for the videos, which are linked by relative paths.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

import numpy as np

from objectstates.base.storage import write_atomically
from objectstates.narration.retrieval import Retrieved
from objectstates.narration.windows import Floats, Scorer

_SHADES = 21
_CONTEXT = 1500  # words shown before and after the best window; bounds the size of the page
_PAUSE, _LINE_SECONDS = 1.5, 12.0  # silence that begins a new line, and its longest duration
_COLD, _MIDDLE, _HOT = (140, 168, 224), (240, 239, 237), (228, 108, 92)  # dark text is readable


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive words of one shade; ``found`` if they are in the best window."""

    shade: int
    text: str
    found: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the narration from ``time`` (seconds); ``inside`` if it overlaps the clip."""

    time: float
    inside: bool
    runs: list[Run]


@dataclass(frozen=True, slots=True)
class Card:
    """One retrieved clip; ``left_out`` are the numbers of words omitted before and after."""

    rank: int
    name: str
    link: str
    clip: Retrieved
    lines: list[Line]
    left_out: tuple[int, int]


PAGE_START = (
    b'<!doctype html>\n<html lang="en">\n<meta name="generator" content="objectstates narration">'
)


def write_page(path: Path, clips: Sequence[Retrieved], scorer: Scorer, title: str) -> None:
    """Write the page of retrieved clips, atomically."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    heats = [scorer.score(clip.narration).word_means(len(clip.narration)) for clip in clips]
    low, high = heat_range(heats)
    cards = [
        make_card(rank, clip, shades(heat, low, high), path)
        for rank, (clip, heat) in enumerate(zip(clips, heats, strict=True), 1)
    ]
    environment = Environment(
        loader=PackageLoader("objectstates.narration", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["clock"] = clock
    text = environment.get_template("heatmap_page.html").render(
        title=title, cards=cards, colours=[colour(i) for i in range(_SHADES)], low=low, high=high
    )
    write_atomically(path, text)


def heat_range(heats: Sequence[Floats]) -> tuple[float, float]:
    """Scores shown as full blue and full red: percentiles, which are robust to outliers."""
    if not heats:
        return 0.0, 1.0
    low, high = np.percentile(np.concatenate(heats), [2, 99.8])
    return float(low), float(max(high, low + 1e-9))


def shades(heat: Floats, low: float, high: float) -> list[int]:
    """The shade of each word, from 0 (blue) to `_SHADES` - 1 (red)."""
    place = np.clip((heat - low) / (high - low), 0, 1)
    return [int(shade) for shade in np.rint(place * (_SHADES - 1))]


def colour(shade: int) -> str:
    """CSS colour of a shade: blue, nearly white, red."""
    stops = [0, (_SHADES - 1) / 2, _SHADES - 1]
    channels = [np.interp(shade, stops, c) for c in zip(_COLD, _MIDDLE, _HOT, strict=True)]
    return "#" + "".join(f"{round(float(channel)):02x}" for channel in channels)


def make_card(rank: int, clip: Retrieved, word_shades: list[int], page: Path) -> Card:
    """Lay out one clip; ``word_shades`` has the shade of each word of its narration."""
    narration = clip.narration
    first, last = max(0, clip.first - _CONTEXT), min(len(narration), clip.last + _CONTEXT)
    link = ""
    if narration.video is not None:
        place = os.path.relpath(os.path.abspath(narration.video), os.path.abspath(page.parent))
        link = quote(os.fsencode(Path(place).as_posix()))
        if ":" in link.split("/")[0]:  # else parsed as a URL scheme
            link = f"./{link}"
    lines = list(_lines(clip, word_shades, first, last))
    return Card(rank, narration.name, link, clip, lines, (first, len(narration) - last))


def _lines(clip: Retrieved, word_shades: list[int], first: int, last: int) -> Iterator[Line]:
    times, words = clip.narration.times, clip.narration.words
    starts = [first]
    for i in range(first + 1, last):
        pause = times[i, 0] - times[i - 1, 1]
        if pause > _PAUSE or times[i, 0] - times[starts[-1], 0] > _LINE_SECONDS:
            starts.append(i)
    for begin, end in zip(starts, [*starts[1:], last], strict=True):
        time = float(times[begin, 0])
        runs = [
            Run(shade, " ".join(words[i] for i in group), found)
            for (shade, found), group in groupby(
                range(begin, end), key=lambda i: (word_shades[i], clip.first <= i < clip.last)
            )
        ]
        inside = time < clip.end and float(times[end - 1, 1]) >= clip.start
        yield Line(time, inside, runs)


def clock(seconds: float) -> str:
    """Format seconds as m:ss or h:mm:ss.

    >>> clock(65.4), clock(3723)
    ('1:05', '1:02:03')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

"""User-given names made safe for file systems, XML and single lines."""

from __future__ import annotations

import math
import re
import unicodedata
from itertools import chain, count
from pathlib import PurePath

from objectstates.video.reader import VIDEO_SUFFIXES

_LONGEST = 100
"""Bytes. File systems take 255; the rest is for suffixes and numbers."""

_DEVICES = {"con", "prn", "aux", "nul"} | {f"{x}{n}" for x in ("com", "lpt") for n in range(10)}
"""Names that Windows reserves for devices, whatever the suffix."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def safe_name(text: str, longest: int = _LONGEST) -> str:
    """A file name that resembles ``text``: no separators, no dots in front, not too long.

    >>> safe_name("../../etc/pass wd"), safe_name("Schüssel 3"), safe_name("..")
    ('etc_pass_wd', 'Schüssel_3', 'unnamed')
    """
    text = unicodedata.normalize("NFC", text)
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in text)
    name = name.encode()[:longest].decode(errors="ignore").strip("._")
    if name.partition(".")[0].casefold() in _DEVICES:
        name = f"_{name}"
    return name or "unnamed"


class Names:
    """Unique safe names of one folder, also on file systems that ignore case."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, text: str) -> str:
        """A safe name for ``text`` that this object has not returned before."""
        name = safe_name(text)
        for candidate in chain([name], (f"{name}-{n}" for n in count(2))):
            if candidate.casefold() not in self._taken:
                self._taken.add(candidate.casefold())
                return candidate
        raise AssertionError  # count does not end


def video_stem(video: str) -> str:
    """The name of a video without its folder, and without its suffix if it has one."""
    path = PurePath(video)
    return path.stem if path.suffix.lower() in VIDEO_SUFFIXES else path.name


def one_line(text: str) -> str:
    """Text without line breaks or control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def xml_text(text: str) -> str:
    """Text without the characters that XML cannot hold, escaped or not."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def number(value: float) -> float | None:
    """The value; None for NaN, which JSON cannot hold."""
    return None if math.isnan(value) else value

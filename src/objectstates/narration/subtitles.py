"""Read narrations from subtitle files, and write subtitles.

Formats: SubRip, WebVTT, SubStation, TTML, YouTube's json3, and text whose lines begin with a time.
Automatic captions scroll: a line is shown again while the next one is spoken, so words that a cue
repeats from the previous one are dropped. Words without times divide the duration of their cue.
"""

from __future__ import annotations

import html
import json
import math
import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pysubs2

from objectstates.base.errors import NarrationError
from objectstates.base.file_names import printable_name
from objectstates.base.storage import write_atomically
from objectstates.narration.transcript import (
    Cue,
    Narration,
    in_order,
    normalised,
    split_words,
    spread,
)
from objectstates.video.reader import VIDEO_SUFFIXES

SUFFIXES = (".ass", ".json", ".json3", ".srt", ".ssa", ".ttml", ".txt", ".vtt")

_SECONDS_PER_WORD = 0.6  # at most, if only the start is known; speech has two to three a second
_SCROLL_GAP = 0.25  # seconds between two cues up to which the second may be the first, scrolled
_LONGEST = 1e6  # seconds (11 days); later times are errors
_SCROLLED = 200  # words, more than fit on a screen: repetition of more is not looked for

_STAMP = re.compile(r"(?:(\d{1,4}):)?(\d{1,3}):(\d{2}(?:[.,]\d{1,6})?)")
_INLINE_TIME = re.compile(r"<(?:(\d{1,4}):)?(\d{1,3}):(\d{2}(?:\.\d{1,6})?)>")
_INLINE = re.compile(r"<t(\d{1,12})>")  # the same in milliseconds, which pysubs2 does not parse
_TAG = re.compile(r"</?(?!t\d+>)[A-Za-z][^<>]*>|\{\\[^{}]*\}")
_SOUND = re.compile(r"\[[^\[\]]*\]")  # such as [Music]
_LINE_BREAK = re.compile(r"\\N|\\n|\n")

TimedWord = tuple[float, float, str]


def read_narration(path: str | Path) -> Narration:
    """Read one file; the narration's name is the file's without suffix."""
    place = Path(path)
    try:
        data = place.read_bytes()
    except OSError as problem:
        raise NarrationError(f"{place}: {problem.strerror or problem}") from problem
    text = decode(data)
    try:
        timed = _READERS.get(place.suffix.lower(), _read_subtitles)(text)
    except NarrationError as problem:
        raise NarrationError(f"{place}: {problem}") from problem
    words, times = in_order(
        (start, min(end, _LONGEST), sys.intern(word))
        for start, end, word in timed
        if 0 <= start < _LONGEST
    )
    if not words:
        raise NarrationError(f"{place}: no words in it; is this the right file?")
    return Narration(printable_name(place.stem), words, times)


def find_narrations(paths: Iterable[str | Path]) -> list[Path]:
    """Subtitle files: those given, and in folders recursively in order of name; no duplicates."""
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        if not path.exists():
            raise NarrationError(f"{path} does not exist: name subtitle files, or folders of them")
        if not path.is_dir():
            found[path] = None
            continue
        inside = sorted(
            p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.name[0] != "."
        )
        if not inside:
            raise NarrationError(f"{path}: no subtitles in this folder ({' '.join(SUFFIXES)})")
        found |= dict.fromkeys(inside)
    return list(found)


class NarrationReader:
    """Reads files and finds their videos: in the same folder, or anywhere below ``videos``."""

    def __init__(self, videos: Path | None = None) -> None:
        self._elsewhere = _by_stem(videos.rglob("*")) if videos is not None else {}
        self._beside: dict[Path, dict[str, Path]] = {}

    def read(self, path: Path) -> Narration:
        narration = read_narration(path)
        if path.parent not in self._beside:
            self._beside[path.parent] = _by_stem(path.parent.iterdir())
        places = self._beside[path.parent], self._elsewhere
        names = video_names(path)
        found = [here[name] for here in places for name in names if name in here]
        if found:
            return replace(narration, name=printable_name(found[0].stem), video=found[0])
        return replace(narration, name=printable_name(names[-1]))


def video_names(path: Path) -> list[str]:
    """Possible names of the video without suffix: downloads append a language to the name.

    >>> video_names(Path("subs/tyre 2.0.en-GB.vtt"))
    ['tyre 2.0.en-GB', 'tyre 2.0']
    """
    shorter = re.sub(r"\.[A-Za-z]{2,3}(?:-[A-Za-z0-9]+)*$", "", path.stem)
    return [path.stem] if shorter in ("", path.stem) else [path.stem, shorter]


def _by_stem(paths: Iterable[Path]) -> dict[str, Path]:
    return {p.stem: p for p in sorted(paths, reverse=True) if p.suffix.lower() in VIDEO_SUFFIXES}


def write_webvtt(path: Path, cues: Iterable[Cue]) -> None:
    """Write cues as WebVTT, atomically."""
    blocks = ["WEBVTT"]
    for cue in cues:
        text = html.escape(" ".join(cue.text.split()), quote=False)
        blocks.append(f"{_stamp(cue.start)} --> {_stamp(max(cue.start, cue.end))}\n{text}")
    write_atomically(path, "\n\n".join(blocks) + "\n")


def _stamp(seconds: float) -> str:
    milliseconds = round(1000 * seconds)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"


def decode(data: bytes) -> str:
    """Decode text: by its byte order mark, else UTF-16, UTF-8 or Windows-1252 by trial."""
    for encoding in ("utf-8", "utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"):
        mark = "\ufeff".encode(encoding)
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, errors="replace")
    head = data[:4000]
    if head.count(0) > len(head) // 4:  # UTF-16: every other byte of western text is 0
        encoding = "utf-16-be" if head[:200:2].count(0) > head[1:200:2].count(0) else "utf-16-le"
        return data.decode(encoding, errors="replace")
    for encoding in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            return data.decode(encoding)
    return data.decode("latin-1")


# --- formats --------------------------------------------------------------------------------------


def _read_subtitles(text: str) -> Iterator[TimedWord]:
    """All formats of pysubs2, detected by content, since suffixes are often wrong."""
    if text.lstrip("\ufeff \t\r\n").startswith("WEBVTT"):
        kind: str | None = "vtt"
    elif "[Script Info]" in text or "[Events]" in text:
        kind = "ssa" if "[V4 Styles]" in text else "ass"
    else:
        kind = "srt" if "-->" in text else None
    # pysubs2 takes any line with two times for the head of a cue.
    text = _INLINE_TIME.sub(lambda found: _inline(_seconds(*found.groups())), text)
    try:
        events = pysubs2.SSAFile.from_string(text, format_=kind, keep_html_tags=True).events
    except Exception as problem:  # pysubs2 raises errors of any type for malformed files
        raise NarrationError(
            f"these subtitles cannot be parsed ({type(problem).__name__}: {problem}); "
            "save them as .srt or .vtt"
        ) from problem
    cues = []
    for event in events:
        if event.is_comment or event.is_drawing:
            continue
        words = event.text if kind in ("srt", "vtt") else event.plaintext
        if kind == "vtt":  # a blank line ends a cue; notes and names of cues follow
            words = words.split("\\N\\N")[0]
        cues.append(Cue(event.start / 1000, event.end / 1000, words))
    return _words_of(cues)


def _read_json3(text: str) -> Iterator[TimedWord]:
    """YouTube's format: events with segments, whose times are relative to the event's."""
    try:
        content = json.loads(text)
        events = content["events"]
        if not isinstance(events, list):
            raise TypeError("events is not a list")
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise NarrationError(
            f"not captions in YouTube's json3 format ({type(problem).__name__}: {problem}); "
            "download them again"
        ) from problem
    cues = []
    for event in events:
        if not isinstance(event, dict) or not isinstance(event.get("segs"), list):
            continue
        start, length = (_milliseconds(event.get(key)) for key in ("tStartMs", "dDurationMs"))
        pieces = []
        for piece in event["segs"]:
            if isinstance(piece, dict) and isinstance(piece.get("utf8"), str):
                said = html.escape(piece["utf8"])
                offset = _milliseconds(piece.get("tOffsetMs"))
                pieces.append(_inline(start + offset) + said if offset else said)
        cues.append(Cue(start, start + length, "".join(pieces)))
    return _words_of(cues)


def _inline(seconds: float) -> str:
    return f"<t{round(1000 * seconds)}>"


def _milliseconds(value: object) -> float:
    """Milliseconds as seconds; 0 for a missing or invalid value."""
    known = isinstance(value, int | float) and math.isfinite(value) and 0 <= value < 1000 * _LONGEST
    return float(value) / 1000 if known else 0.0  # type: ignore[arg-type]


def _read_text(text: str) -> Iterator[TimedWord]:
    """Lines that begin with a time, or continue one: ``0:05 take the wheel``, ``[00:01:02] there``.

    A second time is the end. Times may also be in seconds, separated by tabs.
    """
    if "-->" in text or "[Script Info]" in text:
        return _read_subtitles(text)
    lines: list[tuple[float, float | None, list[str]]] = []
    for line in text.splitlines():
        times, said = _leading_times(line)
        if times:
            lines.append((times[0], times[1] if len(times) > 1 else None, [said]))
        elif lines:
            lines[-1][2].append(line)
    if not lines:
        raise NarrationError("no line begins with a time, such as 1:05; add times")
    lines.sort(key=lambda line: line[0])
    cues = []
    for index, (start, end, texts) in enumerate(lines):
        said = html.escape(" ".join(texts))
        later = lines[index + 1][0] if index + 1 < len(lines) else math.inf
        guess = min(later, start + _SECONDS_PER_WORD * len(split_words(said)))
        cues.append(Cue(start, guess if end is None else end, said))
    return _words_of(cues)


_LEADING_STAMPS = re.compile(
    rf"\s*[\[(]?({_STAMP.pattern})[\])]?(?:\s*[-\u2013]\s*[\[(]?({_STAMP.pattern})[\])]?)?"
    r"(?=\s|$|[:\-\u2013])\s*[:\-\u2013]?"
)
_LEADING_SECONDS = re.compile(r"\s*(\d{1,7}(?:\.\d+)?)s?(?:\t(\d{1,7}(?:\.\d+)?)s?)?\t")


def _leading_times(line: str) -> tuple[list[float], str]:
    if match := _LEADING_STAMPS.match(line):
        stamps = [_seconds(*match.group(2, 3, 4))]
        if match.group(5):
            stamps.append(_seconds(*match.group(6, 7, 8)))
        return stamps, line[match.end() :]
    if match := _LEADING_SECONDS.match(line):
        return [float(time) for time in match.groups() if time], line[match.end() :]
    return [], line


def _seconds(hours: str | None, minutes: str, seconds: str) -> float:
    return 3600 * int(hours or 0) + 60 * int(minutes) + float(seconds.replace(",", "."))


_READERS = {".json": _read_json3, ".json3": _read_json3, ".txt": _read_text}


# --- from cues to words ---------------------------------------------------------------------------


def _words_of(cues: Sequence[Cue]) -> Iterator[TimedWord]:
    """The words of cues in order of time, without those repeated by scrolling."""
    ordered = sorted((cue for cue in cues if cue.text.strip()), key=lambda cue: cue.start)
    starts = [*(cue.start for cue in ordered), math.inf]
    shown: list[str] = []  # words of the previous cue
    until = -math.inf
    for cue in ordered:
        lines = [_timed_line(line) for line in _LINE_BREAK.split(cue.text)]
        lines = [line for line in lines if line]
        flat = [word for line in lines for word in line]
        if not flat:
            continue
        words = [normalised(word) for _, word in flat]
        repeated = 0
        if cue.start <= until + _SCROLL_GAP:
            repeated = _repeated(shown, words, [len(line) for line in lines])
        later = starts[bisect_right(starts, cue.start)]  # the next cue
        end = min(max(cue.end, cue.start), later)
        yield from _with_times(flat[repeated:], cue.start, end)
        shown, until = words, max(until, cue.end)


def _repeated(shown: list[str], words: list[str], lines: list[int]) -> int:
    """How many words at the start of a cue are repeated from the end of the previous one.

    One or two words may really be said twice; three words, a line or the whole cue are repetition.
    """
    for count in range(min(len(shown), len(words), _SCROLLED), 0, -1):
        if shown[-count:] == words[:count]:
            whole_lines = any(sum(lines[: k + 1]) == count for k in range(len(lines)))
            if count >= 3 or count == len(shown) or (whole_lines and len(lines) > 1):
                return count
    return 0


def _timed_line(line: str) -> list[tuple[float | None, str]]:
    """The words of a line, each with the time before it, if there is one."""
    if "<" in line or "{" in line:
        line = _TAG.sub("", line)
    if "[" in line:
        line = _SOUND.sub(" ", line)
    pieces = _INLINE.split(line)  # text, then time, text, time, and so on
    words: list[tuple[float | None, str]] = [(None, word) for word in _plain_words(pieces[0])]
    for milliseconds, said in zip(pieces[1::2], pieces[2::2], strict=True):
        time: float | None = int(milliseconds) / 1000
        for word in _plain_words(said):
            words.append((time, word))
            time = None
    return words


def _plain_words(text: str) -> list[str]:
    return split_words(html.unescape(text) if "&" in text else text)


def _with_times(
    words: Sequence[tuple[float | None, str]], start: float, end: float
) -> Iterator[TimedWord]:
    """Divide the time between two known times among the words between them."""
    known = [i for i, (time, _) in enumerate(words) if i == 0 or time is not None]
    for k, first in enumerate(known):
        last = known[k + 1] if k + 1 < len(known) else len(words)
        begin = words[first][0]
        begin = start if begin is None else begin
        until = words[last][0] if last < len(words) else max(begin, end)
        said = [word for _, word in words[first:last]]
        times = spread(begin, max(begin, until or begin), said)
        yield from ((a, b, word) for (a, b), word in zip(times, said, strict=True))

"""WebVTT captions: states and actions as subtitles of the video."""

from __future__ import annotations

import html
from collections.abc import Iterable
from pathlib import Path

from objectstates.export.names import Names, one_line, video_stem
from objectstates.export.videos import ExportSource
from objectstates.report.clip_parts import Segment
from objectstates.report.clip_view import ClipView


def write_webvtt(source: ExportSource, folder: Path) -> list[str]:
    """One ``VIDEO.vtt`` per video; the videos themselves are not read."""
    problems, names = source.without_video(), Names()
    for video, clips in source.by_video().items():
        cues = [(segment, clip) for clip in clips for segment in clip.segments()]
        early = [clip.name for segment, clip in cues if not _milliseconds(segment.end)]
        problems += [f"clip {name!r}: what ends before 0 s has no caption" for name in early]
        cues = sorted(
            (cue for cue in cues if _milliseconds(cue[0].end)),
            key=lambda cue: (_milliseconds(cue[0].start), cue[0].end),
        )
        path = folder / f"{names.unique(video_stem(video))}.vtt"
        path.write_text(_document(cues, source), encoding="utf-8", newline="\n")
    return problems


def _document(cues: Iterable[tuple[Segment, ClipView]], source: ExportSource) -> str:
    blocks = ["WEBVTT\n"]
    for segment, clip in cues:
        start = _milliseconds(segment.start)
        end = max(_milliseconds(segment.end), start + 1)  # a cue must end after it begins
        blocks.append(
            f"{_identifier(clip.name)}\n"
            f"{_timestamp(start)} --> {_timestamp(end)}\n"
            f"{_text(segment, source)}\n"
        )
    return "\n".join(blocks)


def _text(segment: Segment, source: ExportSource) -> str:
    words = source.names[segment.label]
    if segment.label.startswith("state") and source.object_name:
        words = f"{words}: {one_line(source.object_name)}"
    return html.escape(words, quote=False)  # > too: an arrow would be read as times


def _identifier(clip: str) -> str:
    """The cue's identifier line; an arrow in it would be read as times."""
    return f"clip {one_line(clip)}".replace("-->", "\N{RIGHTWARDS ARROW}")


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def _timestamp(milliseconds: int) -> str:
    """Hours, minutes, seconds.

    >>> _timestamp(3_661_005)
    '01:01:01.005'
    """
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:03d}"

"""WebVTT captions: what a viewer sees while the video plays."""

from __future__ import annotations

import html
from collections.abc import Iterable
from pathlib import Path

from objectstates.export.findings import Findings, FoundClip, Segment
from objectstates.export.names import Names, one_line, video_stem


def write_webvtt(findings: Findings, folder: Path) -> list[str]:
    """One ``VIDEO.vtt`` per video; the videos themselves need not be there."""
    problems, names = findings.without_video(), Names()
    for video, clips in findings.by_video().items():
        cues = [(s, found) for found in clips for s in found.segments()]
        early = [found.clip.id for segment, found in cues if not _milliseconds(segment.end)]
        problems += [f"clip {clip!r}: what ends before 0 s has no caption" for clip in early]
        cues = sorted(
            ((s, found) for s, found in cues if _milliseconds(s.end)),
            key=lambda cue: (_milliseconds(cue[0].start), cue[0].end),
        )
        path = folder / f"{names.unique(video_stem(video))}.vtt"
        path.write_text(_document(cues, findings.object_name), encoding="utf-8", newline="\n")
    return problems


def _document(cues: Iterable[tuple[Segment, FoundClip]], object_name: str | None) -> str:
    blocks = ["WEBVTT\n"]
    for segment, found in cues:
        start = _milliseconds(segment.start)
        end = max(_milliseconds(segment.end), start + 1)  # a cue must end after it begins
        blocks.append(
            f"{_identifier(found.clip.id)}\n"
            f"{_timestamp(start)} --> {_timestamp(end)}\n"
            f"{_text(segment, object_name)}\n"
        )
    return "\n".join(blocks)


def _text(segment: Segment, object_name: str | None) -> str:
    words = segment.what.replace("_", " ")
    if segment.what != "action" and object_name:
        words = f"{words}: {one_line(object_name)}"
    return html.escape(words, quote=False)  # with >, so that no arrow is left


def _identifier(clip: str) -> str:
    """The clip, on a line of its own above the times, where an arrow would be taken for times."""
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

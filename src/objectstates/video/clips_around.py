"""Clips around annotated actions: the paper's are about 10 s before and after each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from objectstates.base.errors import SettingError
from objectstates.video.clip_list import ClipSpan

Seconds = tuple[float, float]
"""Start and end of an interval."""


def span_around(action: Seconds, seconds: float) -> Seconds:
    """From ``seconds`` before the middle of an action to as much after it; a longer one is whole.

    The span does not start before 0. It may end after the video: a clip then ends with it.

    >>> span_around((12.0, 14.0), 10), span_around((2.0, 4.0), 10), span_around((5.0, 9.0), 1)
    ((3.0, 23.0), (0.0, 13.0), (5.0, 9.0))
    """
    if not seconds > 0:
        raise SettingError(f"`around` must be a number of seconds above 0, not {seconds}")
    start, end = action
    middle = (start + end) / 2
    return max(0.0, min(start, middle - seconds)), max(end, middle + seconds)


def clips_around(
    clips: Sequence[ClipSpan], actions: Mapping[str, Sequence[Seconds]], seconds: float
) -> list[ClipSpan]:
    """A clip around every annotated action of each of ``clips``.

    actions : start and end in seconds of the video, by clip id. Several actions of a video give
        ``<id>-1``, ``<id>-2`` and so on, so one video may give several clips.

    >>> from pathlib import Path
    >>> long = ClipSpan("a", Path("a.mp4"))
    >>> [clip.id for clip in clips_around([long], {"a": [(12.0, 14.0), (60.0, 65.0)]}, 10)]
    ['a-1', 'a-2']
    """
    found = []
    for clip in clips:
        intervals = actions.get(clip.id, ())
        for number, action in enumerate(intervals, start=1):
            start, end = span_around(action, seconds)
            start = max(start, clip.start or 0.0)
            end = end if clip.end is None else min(end, clip.end)
            name = clip.id if len(intervals) == 1 else f"{clip.id}-{number}"
            found.append(replace(clip, id=name, start=start, end=end))
    return found

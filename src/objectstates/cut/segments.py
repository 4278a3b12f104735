"""Segments of a clip: before, action, after, on frame boundaries, without gap or overlap.

A segment is a range of the clip's frames. Consecutive segments share their bound: it is the time of
the first frame of the later one. So every frame is in exactly one segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from objectstates.data.corpus import Array
from objectstates.video.frames_at import nearest_index

PARTS = ("before", "action", "after")
LABELS = {"before": "state_1", "action": "action", "after": "state_2"}
"""What users may have named (``data/label_names.py``), by part."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Frames ``first`` to ``last`` (exclusive) of a clip, counted from the clip's first frame.

    part : one of `PARTS`.
    start, end : seconds of the video; ``end`` is when the frame after the last is shown.
    """

    part: str
    first: int
    last: int
    start: float
    end: float

    @property
    def n_frames(self) -> int:
        return self.last - self.first


@dataclass(frozen=True, eq=False)
class ClipFrames:
    """When the frames of a clip are shown.

    times : (F,) seconds of the video. ``end`` : when the last frame ends.
    cuts : (k,) frames at which a segment may start; all of them, unless packets are copied.
    """

    times: Array
    end: float
    cuts: Array

    @classmethod
    def of(cls, times: Array, end: float) -> ClipFrames:
        return cls(times, end, np.arange(len(times)))

    def bound(self, frame: int) -> float:
        """Seconds at which a frame starts; the end of the clip for one past the last."""
        return float(self.times[frame]) if frame < len(self.times) else self.end

    def nearest(self, time: float) -> int:
        """The frame nearest to ``time`` at which a segment may start; one past the last counts."""
        allowed = np.append(self.cuts, len(self.times))
        return int(allowed[nearest_index(np.append(self.times[self.cuts], self.end), time)])


def split(
    frames: ClipFrames, action: tuple[float, float], kept: tuple[int, int] | None = None
) -> list[Segment]:
    """The segments of a clip, those without frames left out.

    action : start and end in seconds. Each is snapped to the nearest frame.
    kept : first and one past the last frame to use; all unless given.
    """
    first, last = kept or (0, len(frames.times))
    start = min(max(frames.nearest(action[0]), first), last)
    end = min(max(frames.nearest(action[1]), start), last)
    if start == end and len(frames.cuts) == len(frames.times):  # an action shorter than a frame
        start, end = (start, end + 1) if end < last else (max(start - 1, first), end)
    bounds = [first, start, end, last]
    return [
        Segment(part, a, b, frames.bound(a), frames.bound(b))
        for part, a, b in zip(PARTS, bounds[:-1], bounds[1:], strict=True)
        if b > a
    ]


def missing_parts(segments: Sequence[Segment]) -> list[str]:
    """The parts that have no frames of their own."""
    found = {segment.part for segment in segments}
    return [part for part in PARTS if part not in found]

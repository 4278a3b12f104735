"""Segments of a clip: before, action, after, or those of a chain, on frame boundaries.

A segment is a range of the clip's frames. Consecutive segments share their bound: it is the time of
the first frame of the later one. So every frame is in exactly one segment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from objectstates.data.corpus import Array
from objectstates.report.phases import Phase, frame_ranges
from objectstates.video.frames_at import nearest_index

_PARTS = {"state_1": "before", "action": "action", "state_2": "after"}
_OF_CHAINS = re.compile(r"(state|action)[1-9]")


def part_of(label: str, n_actions: int) -> str:
    """What files call a label: before, action, after; in a chain state1, action1, state2, ...

    >>> part_of("state_1", 1), part_of("state_1", 2)
    ('before', 'state1')
    """
    return _PARTS[label] if n_actions == 1 else label.replace("_", "")


def label_of(part: str) -> str:
    """The label that `part_of` was given: what users may have named (``data/label_names.py``).

    >>> label_of("before"), label_of("state3")
    ('state_1', 'state_3')
    """
    labels = {name: label for label, name in _PARTS.items()}
    return labels.get(part) or f"{part[:-1]}_{part[-1]}"


def is_part(name: str) -> bool:
    """Whether `part_of` may return it."""
    return name in _PARTS.values() or _OF_CHAINS.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Segment:
    """Frames ``first`` to ``last`` (exclusive) of a clip, counted from the clip's first frame.

    part : as `part_of` returns it.
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
    frames: ClipFrames,
    phases: Sequence[Phase],
    n_actions: int = 1,
    kept: tuple[int, int] | None = None,
) -> list[Segment]:
    """The segments of a clip, those without frames left out; bounds are the nearest frames.

    n_actions : of the result. ``kept`` : first and one past the last frame to use; all by default.
    """
    every = len(frames.cuts) == len(frames.times)
    within = kept or (0, len(frames.times))
    return [
        Segment(
            part_of(found.label, n_actions),
            found.first,
            found.last,
            frames.bound(found.first),
            frames.bound(found.last),
        )
        for found in frame_ranges(phases, frames.nearest, within, widen=every)
    ]


def missing_parts(
    segments: Sequence[Segment], phases: Sequence[Phase], n_actions: int = 1
) -> list[str]:
    """The parts that have no frames of their own."""
    found = {segment.part for segment in segments}
    parts = [part_of(phase.label, n_actions) for phase in phases]
    return [part for part in parts if part not in found]

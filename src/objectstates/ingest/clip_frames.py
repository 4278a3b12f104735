"""The frames of a clip, for its change profile and its observation.

A short clip is decoded once for both, and its frames are kept in memory until they are observed:
the change is found first, since the detector ``motion`` needs it before the first frame. A clip
whose frames would take more than `MOST_BYTES` is decoded once for each.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from objectstates.features.aligned_frames import SIDE, align_frames, rate_for
from objectstates.features.change_profile import ClipChange, change_of
from objectstates.ingest.settings import ObserveSettings
from objectstates.ingest.time_scale import MOST_FPS
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, GrayFrame, Reading, VideoInfo, read_frames

MOST_BYTES = 20 << 20  # of the frames of a clip: 13 s at 320 x 240, 9 s at 640 x 480


class Periodic:
    """True for the first frame of every period of ``1 / fps`` seconds from ``origin``."""

    def __init__(self, fps: float, origin: float) -> None:
        self.fps, self.origin, self.last = fps, origin, -1

    def __call__(self, time: float) -> bool:
        period = int(np.floor((time - self.origin) * self.fps + 1e-6))
        due, self.last = period != self.last, period
        return due


@dataclass(frozen=True, eq=False)
class ClipFrames:
    """The frames that are observed: in gray, and those that the networks run on in colour too.

    frames : in the order of time; each is given out once.
    end : seconds; the end of the last frame, known once all were given out, as ``problems`` are,
        what could not be read.
    """

    frames: Iterator[GrayFrame]
    end: Callable[[], float]
    problems: Callable[[], list[str]]


@contextmanager
def streamed(clip: ClipSpan, settings: ObserveSettings, *, every: bool) -> Iterator[ClipFrames]:
    """The frames of a clip, read as they are used.

    every : at the highest rate, whatever that of tracking.
    """
    with _open(clip, settings, every) as reading:
        frames = reading.in_gray(settings.gray_side, _in_colour(clip, settings))
        yield _clip_frames(reading, frames)


def decoded_with_change(
    clip: ClipSpan, video: VideoInfo, settings: ObserveSettings, *, every: bool
) -> tuple[ClipFrames, ClipChange] | None:
    """The frames of a clip in memory, and what changes in it; None if they take too much."""
    with _open(clip, settings, every) as reading:
        if _expected_bytes(clip, settings, reading, every) > MOST_BYTES:
            return None
        fps = rate_for(video, clip.start, clip.end, clip.origin)
        frames, small, n_bytes = deque[GrayFrame](), list[Frame](), 0
        for frame in reading.in_gray_and_small(
            settings.gray_side, _in_colour(clip, settings), fps, SIDE
        ):
            if isinstance(frame, Frame):
                small.append(frame)
            else:
                frames.append(frame)
                n_bytes += frame.n_bytes
            if n_bytes > 2 * MOST_BYTES:  # the video goes on after its declared end
                return None
        if not small:
            return None
        change = change_of(align_frames(small, fps, clip.origin))
        return _clip_frames(reading, _given_out(frames)), change


def _open(clip: ClipSpan, settings: ObserveSettings, every: bool) -> Reading:
    return read_frames(
        clip.video,
        clip.start,
        clip.end,
        fps=MOST_FPS if every else settings.read_fps,
        max_side=settings.max_side,
        image_fps=clip.image_fps or settings.image_fps,
        origin=clip.origin,
    )


def _in_colour(clip: ClipSpan, settings: ObserveSettings) -> Periodic:
    return Periodic(settings.detect_fps, clip.origin or 0.0)


def _clip_frames(reading: Reading, frames: Iterator[GrayFrame]) -> ClipFrames:
    return ClipFrames(
        frames,
        lambda: reading.last + 1 / max(reading.info.fps, 1.0),
        lambda: reading.problems,
    )


def _given_out(frames: deque[GrayFrame]) -> Iterator[GrayFrame]:
    """The frames, each of which is dropped."""
    while frames:
        yield frames.popleft()


def _expected_bytes(
    clip: ClipSpan, settings: ObserveSettings, reading: Reading, every: bool
) -> float:
    """Of the frames of a clip, by the duration that its file declares."""
    info = reading.info
    seconds = (info.duration if clip.end is None else clip.end) - (clip.start or 0.0)
    rate = min(info.fps, MOST_FPS if every else settings.read_fps)
    gray = math.prod(reading.size_for(settings.gray_side))
    colour = 3 * math.prod(reading.size_for(settings.max_side))
    return seconds * (rate * gray + min(rate, settings.detect_fps) * colour)

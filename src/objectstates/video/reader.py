"""Read the frames of a video file or a folder of images.

`read_frames` yields RGB images with their times, one at a time, so memory does not grow with the
length of the video. Times are presentation timestamps in seconds from the first frame of the video,
which also covers variable frame rates; spans are half-open. Images are upright: the rotation in the
file's metadata is applied.

A video that cannot be read at all raises `VideoError`. One that can be read in part is read, and
`Reading.problems` lists what was lost. ``frames_at.py`` gets the frames nearest to given times.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, Self, TypeVar

from objectstates.base.errors import SettingError, VideoError
from objectstates.base.file_names import existing_path
from objectstates.video.image_folder import ImageFolder, image_series
from objectstates.video.source import (
    VIDEO_SUFFIXES,
    Gray,
    Image,
    VideoInfo,
    as_video_error,
    check_gaps,
)
from objectstates.video.video_file import VideoFile

__all__ = [
    "VIDEO_SUFFIXES",
    "EmptySpanError",
    "Frame",
    "GrayFrame",
    "Image",
    "Reading",
    "VideoInfo",
    "image_series",
    "probe",
    "read_frames",
]

Made = TypeVar("Made")
Timed = tuple[float, Any]  # the time of a frame, and what its pixels are made from


class EmptySpanError(VideoError):
    """A span of a video has no frame, e.g. because it lies after its end."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a video.

    time : seconds from the first frame of the video (not of the span).
    image : (H, W, 3) RGB; a copy, which the caller may modify.
    scale : factors from x and y in the image to pixels of the video.
    """

    time: float
    image: Image
    scale: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True, slots=True)
class GrayFrame:
    """One frame of a video in gray; some have their colours too.

    gray : (h, w), at a size of its own.
    image : (H, W, 3) RGB, or None where no colours were asked for.
    size : width and height of the RGB image, also where there is none.
    scale : factors from x and y in that image to pixels of the video.
    """

    time: float
    gray: Gray
    image: Image | None
    size: tuple[int, int]
    scale: tuple[float, float]

    @property
    def n_bytes(self) -> int:
        """Of the pixels."""
        return self.gray.nbytes + (0 if self.image is None else self.image.nbytes)


class DeferredFrame:
    """A frame whose pixels are made when it is first asked for; only a few may be kept."""

    def __init__(self, time: float, make: Callable[[], Frame]) -> None:
        self.time, self._make = time, make

    @cached_property
    def frame(self) -> Frame:
        return self._make()


def probe(path: str | Path, *, image_fps: float = 25.0) -> VideoInfo:
    """Metadata of a video file or a folder of images; the first frame is decoded as a check."""
    with read_frames(path, image_fps=image_fps) as reading:
        return reading.info


def read_frames(
    source: str | Path,
    start: float | None = None,
    end: float | None = None,
    *,
    fps: float | None = None,
    max_side: int | None = None,
    threads: int = 1,
    image_fps: float = 25.0,
    origin: float | None = None,
) -> Reading:
    """Open a video file, or a folder of numbered images, to iterate over its frames.

    start, end : seconds; frames with ``start <= time < end``. A span without frames is an error.
    fps : resample: keep the frame nearest to each tick ``k / fps``, each frame at most once; a
        slower video keeps all frames. Ticks do not depend on the span, so consecutive spans
        yield the same frames as the whole video.
    max_side : images are downscaled so that the longer side has at most this many pixels.
    threads : of the decoder; 1 because videos are decoded in parallel, 0 for its default.
    image_fps : frame rate of a folder of images; missing numbers are gaps in time.
    origin : seconds; resample the span as if it were a video by itself that starts there: ticks
        are ``origin + k / fps``, and frames outside the span are not considered.
    """
    _require(fps is None or 0 < fps < math.inf, f"`fps`={fps} must be a positive number")
    _require(max_side is None or max_side >= 1, f"`max_side`={max_side} must be at least 1 pixel")
    _require(threads >= 0, f"`threads`={threads} must not be negative")
    _require(0 < image_fps < math.inf, f"`image_fps`={image_fps} must be a positive number")
    span = 0.0 if start is None else float(start), math.inf if end is None else float(end)
    _require(span[0] < span[1], f"`start`={start} must be before `end`={end}")
    path = Path(source)
    is_folder = os.path.isdir(existing_path(path))  # False for a name that none can have
    opened = ImageFolder(path, image_fps) if is_folder else VideoFile(path, threads)
    return Reading(opened, span, fps, max_side, origin)


class Reading:
    """An open video: an iterator over its frames, and a record of what could not be read.

    info : of the whole video.
    last : seconds; of the last frame of the span so far, whether resampling keeps it or not.
    """

    def __init__(
        self,
        source: VideoFile | ImageFolder,
        span: tuple[float, float],
        fps: float | None,
        max_side: int | None,
        origin: float | None = None,
    ) -> None:
        self.info = source.info
        self.last = 0.0
        self._source, self._origin = source, origin
        self._span, self._fps = span, fps
        self._size = self.size_for(max_side)
        self._scale = self.info.width / self._size[0], self.info.height / self._size[1]
        self._frames = self._read(self._frame)

    @property
    def problems(self) -> list[str]:
        """What was lost, each message with the file's name; complete once iteration has ended."""
        return [f"{self.info.path}: {problem}" for problem in self._source.problems()]

    def in_gray(self, max_side: int, in_colour: Callable[[float], bool]) -> Iterator[GrayFrame]:
        """The same frames in gray, instead of iteration.

        max_side : of the gray images, pixels of the longer side at most.
        in_colour : whether the frame at a time is wanted in RGB as well; called once per frame, in
            the order of time.
        """
        return self._read(self._gray_frame(max_side, in_colour))

    def in_gray_and_small(
        self, max_side: int, in_colour: Callable[[float], bool], small_fps: float, small_side: int
    ) -> Iterator[GrayFrame | Frame]:
        """The frames of `in_gray`, and in between those of another rate and size, decoded once.

        small_fps, small_side : as ``fps`` and ``max_side`` of `read_frames`.
        """
        size = self.size_for(small_side)
        in_gray, small = self._gray_frame(max_side, in_colour), partial(self._frame, size=size)
        return self._read(in_gray, small, rates=(self._fps, small_fps))

    def _gray_frame(
        self, max_side: int, in_colour: Callable[[float], bool]
    ) -> Callable[[float, Any], GrayFrame | None]:
        gray_size = self.size_for(max_side)

        def frame(time: float, content: Any) -> GrayFrame | None:
            size = self._size if in_colour(time) else None
            found = self._source.gray_and_image(content, gray_size, size)
            if found is None:
                return None
            gray, image = found
            return GrayFrame(time, gray, image, self._size, self._scale)

        return frame

    def deferred(self) -> Iterator[DeferredFrame]:
        """The same frames, whose pixels are made on demand, instead of iteration."""

        def later(time: float, content: Any) -> DeferredFrame | None:
            if isinstance(self._source, VideoFile):
                image = partial(self._source.image, content, self._size)
                return DeferredFrame(time, lambda: Frame(time, image(), self._scale))
            frame = self._frame(time, content)  # now: unreadable images are passed over
            return None if frame is None else DeferredFrame(time, lambda: frame)

        return self._read(later)

    def size_for(self, max_side: int | None) -> tuple[int, int]:
        """Width and height of images whose longer side has at most ``max_side`` pixels."""
        width, height = self.info.width, self.info.height
        factor = min(1.0, (max_side or math.inf) / max(width, height))
        return max(1, round(width * factor)), max(1, round(height * factor))

    def _frame(
        self, time: float, content: Any, size: tuple[int, int] | None = None
    ) -> Frame | None:
        size = size or self._size
        image = self._source.image(content, size)
        scale = self.info.width / size[0], self.info.height / size[1]
        return None if image is None else Frame(time, image, scale)

    def _read(
        self,
        *makers: Callable[[float, Any], Made | None],
        rates: Sequence[float | None] | None = None,
    ) -> Iterator[Made]:
        """What is made of the frames of the span that resampling keeps; None is left out.

        makers : one for each of the ``rates``, by default for that of the reading alone.
        """
        empty = True
        with as_video_error(self.info.path):
            for index, time, content in self._kept(rates or (self._fps,)):
                made = makers[index](time, content)
                if made is not None:
                    empty = False
                    yield made
        if empty:
            start, end = self._span
            raise EmptySpanError(
                f"{self.info.path}: no frame from {start:g} to {end:g} s; "
                f"the video lasts {self.info.duration:.2f} s, correct the span"
            )

    def _kept(self, rates: Sequence[float | None]) -> Iterator[tuple[int, float, Any]]:
        """The frames of the span that resampling at each rate keeps, with the rate's index.

        A frame that several rates keep comes once for each; the frames of a rate are in order.
        """
        start, end = self._span
        samplers = [_Sampler(fps, self._origin or 0.0) for fps in rates]
        timed = _through(self._in_time(self._source.timed(start)), end)
        if self._origin is not None:
            timed = (frame for frame in timed if start <= frame[0] < end)
        for frame in chain(timed, [None]):
            for index, sampler in enumerate(samplers):
                kept = sampler.next(frame)
                if kept is not None and start <= kept[0] < end:
                    yield index, *kept

    def _in_time(self, frames: Iterable[Timed]) -> Iterator[Timed]:
        """The same frames; raise for times that no recording has."""
        first = 0.0
        for index, frame in enumerate(frames):
            first = frame[0] if index == 0 else first
            check_gaps(self.info.path, first, frame[0], index)
            if frame[0] < self._span[1]:
                self.last = frame[0]
            yield frame

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        return next(self._frames)

    def close(self) -> None:
        """Close the file; iteration ends."""
        self._frames = iter(())
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _through(frames: Iterable[Timed], end: float) -> Iterator[Timed]:
    """Stop after the first frame at or past ``end``: resampling compares with the next one."""
    for frame in frames:
        yield frame
        if frame[0] >= end:
            return


class _Sampler:
    """Keeps the frames that are nearest to some tick ``origin + k / fps``; on ties, the earlier.

    A frame is nearest to the ticks up to half-way to the next frame, so one frame is buffered.
    The microsecond makes ties independent of the rounding of timestamps.

    fps : None to keep all frames.
    """

    def __init__(self, fps: float | None, origin: float) -> None:
        self._fps, self._origin = fps, origin
        self._passed = -1  # the last tick whose frame is known
        self._held: Timed | None = None

    def next(self, frame: Timed | None) -> Timed | None:
        """Take the next frame, None after the last; return the one before if it is kept."""
        if self._fps is None:
            return frame
        held, self._held = self._held, frame
        if held is None:
            return None
        until = held[0] if frame is None else (held[0] + frame[0]) / 2
        tick = math.floor((until - self._origin + 1e-6) * self._fps)
        if tick <= self._passed:
            return None
        self._passed = tick
        return held


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise SettingError(message)

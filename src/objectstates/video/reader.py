"""Frames of videos and of folders of images, behind one small interface.

``read_frames`` is the one verb: it yields RGB images with their times, one at a time, so the memory
needed does not grow with the length of the video. Time is in seconds from the first frame of the
video, by the presentation timestamps, so a varying frame rate needs no care; spans are half-open.
Images stand upright: the rotation that a camera wrote into the file is applied.

What cannot be read at all raises `VideoError`. What can be read in part is read, and the `Reading`
says in its ``problems`` what was lost.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, cast

import av
import cv2
import numpy as np
import numpy.typing as npt
from av.buffer import Buffer
from av.container import InputContainer
from av.stream import Disposition
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from objectstates.base.errors import SettingError, VideoError

Image = npt.NDArray[np.uint8]
T = TypeVar("T")

VIDEO_SUFFIXES = (
    *(".3gp", ".avi", ".flv", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4"),
    *(".mpeg", ".mpg", ".mts", ".ogv", ".ts", ".vob", ".webm", ".wmv"),
)
IMAGE_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """What a video says about itself.

    width, height : pixels of the upright image, before any bound on its size.
    duration : seconds, as the file declares it; a damaged file may end earlier.
    fps : nominal frames per second; the mean where the rate varies.
    rotation : degrees clockwise by which the stored image is turned to stand upright.
    """

    path: Path
    width: int
    height: int
    duration: float
    fps: float
    rotation: int = 0


@dataclass(frozen=True, slots=True)
class Frame:
    """One image of a video.

    time : seconds from the first frame of the video (not of the span).
    image : (H, W, 3) RGB, the caller's own copy.
    scale : what x and y in the image are multiplied by to get pixels of the video.
    """

    time: float
    image: Image
    scale: tuple[float, float] = (1.0, 1.0)


def probe(path: str | Path, *, image_fps: float = 25.0) -> VideoInfo:
    """Describe a video file or a folder of numbered images; decodes a frame to be sure."""
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
) -> Reading:
    """Open a video file, or a folder of numbered images, to iterate over its frames.

    start, end : seconds; frames with ``start <= time < end``. A span without any is an error.
    fps : keep for each tick ``k / fps`` of the video's time the nearest frame, each frame at most
        once; a slower video keeps all its frames. The ticks do not depend on the span: the spans
        that make up a video yield the frames of the whole.
    max_side : the longer side of the images is brought down to this many pixels.
    threads : of the decoder; 1, for videos are decoded in parallel, or 0 for the decoder's choice.
    image_fps : images per second of a folder; a gap in their numbers is a gap in time.
    """
    _require(fps is None or 0 < fps < math.inf, f"fps={fps} must be a positive number")
    _require(max_side is None or max_side >= 1, f"max_side={max_side} must be at least 1 pixel")
    _require(threads >= 0, f"threads={threads} must not be negative")
    _require(0 < image_fps < math.inf, f"image_fps={image_fps} must be a positive number")
    span = 0.0 if start is None else float(start), math.inf if end is None else float(end)
    _require(span[0] < span[1], f"start={start} must be before end={end}")
    path = Path(source)
    opened = _ImageFolder(path, image_fps) if os.path.isdir(path) else _VideoFile(path, threads)
    return Reading(opened, span, fps, max_side)


class Reading:
    """An open video: an iterator over its frames that also knows what could not be read.

    info : about the whole video.
    """

    def __init__(
        self,
        source: _Source[Any],
        span: tuple[float, float],
        fps: float | None,
        max_side: int | None,
    ) -> None:
        self.info = source.info
        self._source = source
        self._frames = self._read(span, fps, max_side)

    @property
    def problems(self) -> list[str]:
        """Messages that name the file and what was lost; complete once the iteration has ended."""
        return [f"{self.info.path}: {problem}" for problem in self._source.problems()]

    def _read(
        self, span: tuple[float, float], fps: float | None, max_side: int | None
    ) -> Iterator[Frame]:
        start, end = span
        width, height = self.info.width, self.info.height
        factor = min(1.0, (max_side or math.inf) / max(width, height))
        size = max(1, round(width * factor)), max(1, round(height * factor))
        scale = width / size[0], height / size[1]
        empty = True
        with as_video_error(self.info.path):
            timed = _through(self._source.timed(start), end)
            for time, content in _sample(timed, fps) if fps else timed:
                if start <= time < end:
                    image = self._source.image(content, size)
                    if image is not None:
                        empty = False
                        yield Frame(time, image, scale)
        if empty:
            raise VideoError(
                f"{self.info.path}: no frame from {start:g} to {end:g} s; "
                f"the video lasts {self.info.duration:.2f} s, correct the span"
            )

    def __iter__(self) -> Iterator[Frame]:
        return self

    def __next__(self) -> Frame:
        return next(self._frames)

    def close(self) -> None:
        """Release the file; there are no frames any more."""
        self._frames = iter(())
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _through(frames: Iterator[tuple[float, T]], end: float) -> Iterator[tuple[float, T]]:
    """Stop after the first frame at or past ``end``: sampling needs to see one neighbour."""
    for frame in frames:
        yield frame
        if frame[0] >= end:
            return


def _sample(frames: Iterator[tuple[float, T]], fps: float) -> Iterator[tuple[float, T]]:
    """Keep the frames that are the nearest to some tick; of two as near, the earlier.

    A frame is the nearest for the ticks up to half-way to the next frame, so one frame is held.
    The microsecond makes ties come out the same way whatever the rounding of the timestamps.
    """
    passed = -1  # the last tick that has found its frame
    held: tuple[float, T] | None = None
    for frame in frames:
        if held is not None:
            tick = math.floor(((held[0] + frame[0]) / 2 + 1e-6) * fps)
            if tick > passed:
                yield held
                passed = tick
        held = frame
    if held is not None and math.floor((held[0] + 1e-6) * fps) > passed:
        yield held


class _Source(Protocol[T]):
    """What a `Reading` needs: cheap timed contents, and images only of those that are kept."""

    info: VideoInfo

    def timed(self, start: float) -> Iterator[tuple[float, T]]:
        """Yield by time, beginning before ``start`` wherever there is a frame before it."""

    def image(self, content: T, size: tuple[int, int]) -> Image | None:
        """Return the image in the given width and height; None, and a problem, if it is lost."""

    def problems(self) -> list[str]: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class _Losses:
    """What went wrong in one pass over a video file.

    damaged : timestamps of the packets and frames with errors.
    ended : seconds, once the file has been read to its end.
    """

    damaged: list[int] = field(default_factory=list)
    unordered: int = 0
    resized: int = 0
    ended: float | None = None
    failure: str = ""


class _VideoFile:
    """A video file, decoded by PyAV."""

    def __init__(self, path: Path, threads: int) -> None:
        self._path = path
        self._threads = threads
        self._origin = 0
        self._reformatter = VideoReformatter()
        with as_video_error(path):
            self._open()

    def _open(self) -> None:
        with self._path.open("rb") as file:  # the system's own words for what is wrong
            self._require(file.read(1), "the file is empty; copy or download it again")
        self._container = _open_container(self._path)
        kind = self._container.format.name
        self._require(
            kind not in ("tty", "image2") and not kind.endswith("_pipe"),
            "this is text or a single picture; give a video or a folder of numbered images",
        )
        self._lost = _Losses()
        self._stream = self._video_stream()
        self._stream.thread_count = self._threads
        self._stream.thread_type = "AUTO"
        frames = self._decode()
        first = next(frames, None)
        if first is None:
            raise VideoError(f"{self._path}: no frame can be decoded; copy or download it again")
        if first[0] is None or self._stream.time_base is None:
            raise VideoError(
                f"{self._path}: the frames carry no times; put them into a container, "
                "as `ffmpeg -i FILE -c copy FILE.mkv` does"
            )
        self._origin = first[0]
        self._time_base = self._stream.time_base
        self._from_origin = chain([first], frames)
        self._describe(first[1])

    def _require(self, condition: object, message: str) -> None:
        if not condition:
            raise VideoError(f"{self._path}: {message}")

    def _video_stream(self) -> VideoStream:
        # The cover of an audio file is a video stream too, of one picture.
        covers = Disposition.attached_pic
        streams = [s for s in self._container.streams.video if not s.disposition & covers]
        self._require(streams, "there is no video in this file; leave it out")
        self._require(
            getattr(streams[0], "codec_context", None),
            "the video is of a kind that cannot be decoded; convert it, "
            "as `ffmpeg -i FILE FILE.mp4` does",
        )
        return streams[0]

    def _describe(self, first: av.VideoFrame) -> None:
        a, b, c, d = _display_matrix(first)
        self._transposed = abs(b) > abs(a)
        x, y = (c, b) if self._transposed else (a, d)
        self._flips = slice(None, None, -1 if y < 0 else 1), slice(None, None, -1 if x < 0 else 1)
        self._stored = first.width, first.height
        width, height = self._stored[::-1] if self._transposed else self._stored
        rate = self._stream.average_rate or self._stream.guessed_rate
        declared = self._declared_duration()
        self._declares = declared is not None
        self.info = VideoInfo(
            path=self._path,
            width=width,
            height=height,
            duration=self._scanned_duration() if declared is None else declared,
            fps=float(rate) if rate else 25.0,
            rotation=round(math.degrees(math.atan2(b, a)) / 90) * 90 % 360,
        )

    def _declared_duration(self) -> float | None:
        """Seconds, where the file states them of the video; what it states of all may be sound."""
        if self._stream.duration:
            return float(self._stream.duration * self._time_base)
        origin = float(self._origin * self._time_base)
        tag = self._stream.metadata.get("DURATION", "")  # Matroska: hours:minutes:seconds
        if match := re.fullmatch(r"(\d+):(\d+):(\d+(?:\.\d+)?)", tag):
            return int(match[1]) * 3600 + int(match[2]) * 60 + float(match[3]) - origin
        if self._container.duration and len(self._container.streams) == 1:
            return self._container.duration / av.time_base - origin
        return None

    def _scanned_duration(self) -> float:
        """Seconds, by the timestamps of the whole file: it is read, not decoded."""
        end = self._origin
        with _open_container(self._path) as container, suppress(av.FFmpegError):
            for packet in container.demux(container.streams[self._stream.index]):
                if packet.pts is not None:
                    end = max(end, packet.pts + (packet.duration or 0))
        return self._seconds(end)

    def _seconds(self, pts: int) -> float:
        # One division of integers rounds correctly: frame 7 at 25 fps is at 0.28, not beside it.
        return (pts - self._origin) * self._time_base.numerator / self._time_base.denominator

    def timed(self, start: float) -> Iterator[tuple[float, av.VideoFrame]]:
        last, step = -math.inf, 0.0
        for stamp, frame in self._decode_from(start):
            if stamp is None or (time := self._seconds(stamp)) <= last:
                self._lost.unordered += 1
                continue
            if frame.is_corrupt and time >= start:
                self._lost.damaged.append(stamp)
            self._lost.resized += (frame.width, frame.height) != self._stored
            last, step = time, float(frame.duration * self._time_base) or 1 / self.info.fps
            yield time, frame
        self._lost.ended = last + step

    def _decode_from(self, start: float) -> Iterator[tuple[int | None, av.VideoFrame]]:
        """Begin at the last key frame before ``start``; further back where seeking is inexact."""
        for back in (0.0, 2.0, 10.0, 60.0):
            if start - back <= 0:
                break
            target = self._origin + math.ceil((start - back) / self._time_base) - 1
            try:
                self._container.seek(target, stream=self._stream)
            except av.FFmpegError:  # this container cannot: read it from its beginning
                break
            self._lost = _Losses()
            frames = self._decode()
            first = next(frames, None)
            if first is not None and first[0] is not None and self._seconds(first[0]) < start:
                return chain([first], frames)
        if start > 0:
            self._container.close()
            self._open()
        return self._from_origin

    def _decode(self) -> Iterator[tuple[int | None, av.VideoFrame]]:
        """Decode what can be decoded, with timestamps; a bad packet costs its own frames only."""
        stamp: int | None = None
        for packet in self._packets():
            try:
                frames = packet.decode()
            except av.FFmpegError:
                self._lost.damaged.append(self._origin if packet.pts is None else packet.pts)
                continue
            for frame in frames:
                stamp = self._timestamp(frame, stamp)
                yield stamp, frame

    def _packets(self) -> Iterator[av.Packet[VideoStream]]:
        """The file's packets, and in any case an empty one that makes the decoder give all out."""
        try:
            yield from self._container.demux(self._stream)
        except (av.FFmpegError, OSError, IndexError) as error:
            # IndexError: PyAV at the end of a damaged file in whose middle new streams begin.
            self._lost.failure = getattr(error, "strerror", None) or "there are unknown streams"
            empty = av.Packet()
            empty.stream = self._stream
            yield cast("av.Packet[VideoStream]", empty)

    def _timestamp(self, frame: av.VideoFrame, previous: int | None) -> int | None:
        if self._container.format.name != "avi":
            return frame.pts
        # AVI knows only the order of decoding. Frames leave the decoder in the order of showing, a
        # constant time after; those that it gives out when the file has ended follow one by one.
        if frame.dts is not None:
            return frame.dts
        return frame.pts if previous is None else previous + 1

    def image(self, content: av.VideoFrame, size: tuple[int, int]) -> Image:
        width, height = size[::-1] if self._transposed else size
        rgb = self._reformatter.reformat(
            content, width, height, "rgb24", interpolation="AREA", threads=1
        ).to_ndarray()
        upright = rgb.swapaxes(0, 1) if self._transposed else rgb
        # PyAV's array is a padded view of memory that the decoder may still refer to.
        return np.array(upright[self._flips], dtype=np.uint8, order="C")

    def problems(self) -> list[str]:
        lost, duration, found = self._lost, self.info.duration, []
        if lost.damaged:
            at = max(0.0, self._seconds(min(lost.damaged)))
            found.append(f"{len(lost.damaged)} damaged frames, the first at {at:.2f} s")
        if lost.unordered:
            found.append(f"{lost.unordered} frames left out, for their times do not increase")
        if lost.resized:
            found.append(f"{lost.resized} frames resized to the size of the first")
        if lost.ended is not None:
            if self._declares and duration - lost.ended > max(0.5, 2 / self.info.fps):
                found.append(f"truncated at {lost.ended:.2f} s of {duration:.2f} s")
            if lost.failure:
                found.append(f"reading failed at {lost.ended:.2f} s: {lost.failure}")
        return found

    def close(self) -> None:
        self._container.close()


def _open_container(path: Path) -> InputContainer:
    # The prefix keeps a colon in a name from being taken for a protocol, and the option a playlist
    # from reaching for the network. Old files have titles in any encoding.
    options = {"protocol_whitelist": "file"}
    return av.open(f"file:{path}", "r", options=options, metadata_errors="replace")


def _display_matrix(frame: av.VideoFrame) -> tuple[int, int, int, int]:
    """Return (a, b, c, d): the stored point (x, y) is to be shown at (ax + cy, bx + dy)."""
    data = cast("Buffer | None", frame.side_data.get("DISPLAYMATRIX"))
    if data is None:
        return 1, 0, 0, 1
    a, b, _, c, d = np.frombuffer(bytes(data), np.int32)[:5].tolist()
    return a, b, c, d


class _ImageFolder:
    """A folder of numbered images; the number is the time."""

    def __init__(self, folder: Path, fps: float) -> None:
        with as_video_error(folder):
            series = image_series(os.listdir(folder))
        if not series:
            raise VideoError(
                f"{folder}: this folder is not one video; it must hold one series of images "
                "numbered like 000001.jpg, each number once"
            )
        self._folder = folder
        self._images = [((number - series[0][0]) / fps, name) for number, name in series]
        self._unreadable: list[str] = []
        self._resized: list[str] = []
        first = self._load(series[0][1])
        if first is None:
            raise VideoError(f"{folder / series[0][1]}: this image cannot be read; remove it")
        height, width = first.shape[:2]
        self.info = VideoInfo(folder, width, height, self._images[-1][0] + 1 / fps, fps)

    def timed(self, start: float) -> Iterator[tuple[float, str]]:
        begin = bisect_left(self._images, start, key=lambda image: image[0])
        yield from self._images[max(0, begin - 1) :]

    def image(self, content: str, size: tuple[int, int]) -> Image | None:
        rgb = self._load(content)
        if rgb is None:
            self._unreadable.append(content)
            return None
        if rgb.shape[1::-1] != (self.info.width, self.info.height):
            self._resized.append(content)
        if rgb.shape[1::-1] == size:
            return rgb
        return cv2.resize(rgb, size, interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)

    def _load(self, name: str) -> Image | None:
        try:
            data = np.fromfile(self._folder / name, np.uint8)
        except OSError:
            return None
        bgr = cv2.imdecode(data, cv2.IMREAD_COLOR) if data.size else None
        if bgr is None:
            return None
        return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB).astype(np.uint8, copy=False)

    def problems(self) -> list[str]:
        found = []
        for what, names in (
            ("images cannot be read", self._unreadable),
            ("images resized to the size of the first", self._resized),
        ):
            if names:
                found.append(f"{len(names)} {what}, beginning with {names[0]}")
        return found

    def close(self) -> None:
        pass


def image_series(names: Iterable[str]) -> list[tuple[int, str]]:
    """Return the numbered images in order, if they are one series; else nothing."""
    images: list[tuple[int, str]] = []
    kinds = set()
    for name in names:
        stem, suffix = os.path.splitext(name)
        match = re.fullmatch(r"(.*?)([0-9]+)", stem)
        if match and suffix.lower() in IMAGE_SUFFIXES and not name.startswith("."):
            images.append((int(match[2]), name))
            kinds.add((match[1], suffix))
    one_series = len(kinds) == 1 and len({number for number, _ in images}) == len(images)
    return sorted(images) if one_series else []


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise SettingError(message)


@contextmanager
def as_video_error(path: Path) -> Iterator[None]:
    """Turn what the system and the decoder raise into an error that says what to do."""
    try:
        yield
    except (av.FFmpegError, OSError) as error:
        match error:
            case FileNotFoundError():
                reason = "this does not exist; check the path"
            case PermissionError():
                reason = "permission denied; make it readable for you"
            case av.error.InvalidDataError():
                reason = (
                    "this is not a video, or its index is missing, as when a file was cut short; "
                    "copy or download it again, and see whether it plays elsewhere"
                )
            case _:
                reason = (
                    f"reading failed ({error.strerror or error}); see whether it plays elsewhere"
                )
        raise VideoError(f"{path}: {reason}") from error

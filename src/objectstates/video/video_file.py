"""Video files, decoded by PyAV: timestamps, seeking, orientation and damaged packets."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.buffer import Buffer
from av.container import InputContainer
from av.stream import Disposition
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from objectstates.base.errors import VideoError
from objectstates.base.file_names import existing_path
from objectstates.video.source import Gray, Image, VideoInfo, as_video_error


@dataclass(slots=True)
class _Losses:
    """What could not be decoded in one pass over a video file.

    damaged : timestamps of corrupt packets and frames.
    unordered, resized : numbers of frames whose time does not increase, or of another size.
    ended : seconds; the end of the last frame, once the file has been read to its end.
    """

    damaged: list[int] = field(default_factory=list)
    unordered: int = 0
    resized: int = 0
    ended: float | None = None
    failure: str = ""


class VideoFile:
    """An open video file, with the same methods as `image_folder.ImageFolder`."""

    def __init__(self, path: Path, threads: int) -> None:
        self._path = path
        self._threads = threads
        self._origin = 0
        self._reformatter = VideoReformatter()
        with as_video_error(path):
            self._open()

    def _open(self) -> None:
        self._require("\0" not in str(self._path), "no file has this name; correct it")
        path = existing_path(self._path)
        _refuse_pipe(path)
        with path.open("rb") as file:  # raises the system's own error
            self._require(file.read(1), "the file is empty; copy or download it again")
        self._container = open_container(self._path)
        kind = self._container.format.name
        self._require(
            kind not in ("tty", "image2") and not kind.endswith("_pipe"),
            "this is text or a single image; give a video or a folder of numbered images",
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
                f"{self._path}: the frames have no timestamps; put them into a container, "
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
        # The cover art of an audio file is a video stream of one frame.
        covers = Disposition.attached_pic
        streams = [s for s in self._container.streams.video if not s.disposition & covers]
        self._require(streams, "there is no video stream in this file; leave it out")
        self._require(
            getattr(streams[0], "codec_context", None),
            "there is no decoder for this codec; convert the video, "
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
        """Seconds, if declared for the video stream; that of the container may be the sound's."""
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
        """Seconds, from the timestamps of all packets, which are read but not decoded."""
        end = self._origin
        with open_container(self._path) as container, suppress(av.FFmpegError):
            for packet in container.demux(container.streams[self._stream.index]):
                if packet.pts is not None:
                    end = max(end, packet.pts + (packet.duration or 0))
        return self._seconds(end)

    def _seconds(self, pts: int) -> float:
        # A single division is correctly rounded: frame 7 at 25 fps is at exactly 0.28.
        return (pts - self._origin) * self._time_base.numerator / self._time_base.denominator

    def timed(self, start: float) -> Iterator[tuple[float, av.VideoFrame]]:
        """Frames in order of time, from at least one before ``start`` on."""
        last, duration = -math.inf, 0
        for stamp, frame in self._decode_from(start):
            if stamp is None or (time := self._seconds(stamp)) <= last:
                self._lost.unordered += 1
                continue
            if frame.is_corrupt and time >= start:
                self._lost.damaged.append(stamp)
            self._lost.resized += (frame.width, frame.height) != self._stored
            last, duration = time, frame.duration
            yield time, frame
        self._lost.ended = last + (float(duration * self._time_base) or 1 / self.info.fps)

    def _decode_from(self, start: float) -> Iterator[tuple[int | None, av.VideoFrame]]:
        """Seek to the last key frame before ``start``; further back if seeking is inexact."""
        for back in (0.0, 2.0, 10.0, 60.0):  # seconds; key frames are usually up to 10 s apart
            if start - back <= 0:
                break
            target = self._origin + math.ceil((start - back) / self._time_base) - 1
            try:
                self._container.seek(target, stream=self._stream)
            except av.FFmpegError:  # not seekable: decode from the beginning
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
        """Decode all that can be decoded, with timestamps; a corrupt packet is skipped."""
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
        """The packets, then in any case an empty one, which flushes the decoder."""
        try:
            yield from self._container.demux(self._stream)
        except (av.FFmpegError, OSError, IndexError) as error:
            # PyAV raises IndexError if a damaged file declares new streams in the middle.
            self._lost.failure = getattr(error, "strerror", None) or "unknown streams"
            empty = av.Packet()
            empty.stream = self._stream
            yield cast("av.Packet[VideoStream]", empty)

    def _timestamp(self, frame: av.VideoFrame, previous: int | None) -> int | None:
        if self._container.format.name != "avi":
            return frame.pts
        # AVI has decoding timestamps only. The decoder reorders frames with a constant delay, so
        # the n-th frame out takes the n-th timestamp; flushed frames have none and count on.
        if frame.dts is not None:
            return frame.dts
        return frame.pts if previous is None else previous + 1

    def image(self, content: av.VideoFrame, size: tuple[int, int]) -> Image:
        """The upright RGB image at the given width and height."""
        return self._pixels(content, size, "rgb24")

    def gray_and_image(
        self, content: av.VideoFrame, gray_size: tuple[int, int], size: tuple[int, int] | None
    ) -> tuple[Gray, Image | None]:
        """The upright gray image at one width and height, and the RGB one at another, if any.

        Gray takes a third of the time of RGB.
        """
        gray = self._pixels(content, gray_size, "gray")
        return gray, self.image(content, size) if size else None

    def _pixels(self, content: av.VideoFrame, size: tuple[int, int], pixels: str) -> Image:
        width, height = size[::-1] if self._transposed else size
        stored = self._reformatter.reformat(
            content,
            width,
            height,
            pixels,
            interpolation="AREA",
            threads=1,
        ).to_ndarray()
        upright = stored.swapaxes(0, 1) if self._transposed else stored
        # Copy: PyAV's array is a padded view of a buffer that the decoder may still use.
        return np.array(upright[self._flips], dtype=np.uint8, order="C")

    # --- for copying frames and packets -----------------------------------------------------------

    @property
    def time_base(self) -> Fraction:
        """Seconds per unit of timestamps."""
        return Fraction(self._time_base)

    @property
    def origin(self) -> Fraction:
        """When the first frame is shown, in seconds of the container's clock."""
        return self._origin * self.time_base

    @property
    def stream_index(self) -> int:
        """Of the video stream in the container."""
        return self._stream.index

    @property
    def pixel_format(self) -> str:
        """FFmpeg's name of the format of stored frames."""
        return self._stream.codec_context.pix_fmt or "yuv420p"

    @property
    def is_turned(self) -> bool:
        """Whether stored frames are not upright."""
        return self._transposed or any(flip.step == -1 for flip in self._flips)

    def upright(self, content: av.VideoFrame, pixels: str) -> av.VideoFrame:
        """The upright frame at full size in a pixel format; the same pixels where it can be."""
        if (content.width, content.height) != self._stored or content.format.name != pixels:
            content = self._reformatter.reformat(content, *self._stored, pixels, threads=1)
        if not self.is_turned:
            return content
        turned = av.VideoFrame(self.info.width, self.info.height, pixels)
        for ours, theirs in zip(turned.planes, content.planes, strict=True):
            plane = np.frombuffer(memoryview(theirs), np.uint8).reshape(
                theirs.height, theirs.line_size
            )
            plane = plane[:, : theirs.width]
            upright = (plane.T if self._transposed else plane)[self._flips]
            rows = np.zeros((ours.height, ours.line_size), np.uint8)
            rows[:, : ours.width] = upright
            ours.update(rows.tobytes())
        return turned

    def copy_colours(self, context: VideoCodecContext) -> None:
        """Tell an encoder how the pixels are meant: range, matrix, primaries, transfer."""
        own = self._stream.codec_context
        for name in ("color_range", "colorspace", "color_primaries", "color_trc"):
            setattr(context, name, getattr(own, name))

    def problems(self) -> list[str]:
        lost, duration, found = self._lost, self.info.duration, []
        if lost.damaged:
            at = max(0.0, self._seconds(min(lost.damaged)))
            found.append(f"{len(lost.damaged)} damaged frames, the first at {at:.2f} s")
        if lost.unordered:
            found.append(f"{lost.unordered} frames left out: their timestamps do not increase")
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


def _refuse_pipe(path: Path) -> None:
    """Opening a pipe would wait for its writer, for ever if there is none."""
    if path.exists() and not path.is_file():
        raise VideoError(f"{path}: this is a pipe or a device, not a file; save the video first")


def open_container(path: Path) -> InputContainer:
    """Open a file for reading, and nothing but a file."""
    _refuse_pipe(path)
    # "file:" keeps a colon in a name from being parsed as a protocol; the whitelist keeps playlists
    # off the network. Titles of old files are in any encoding.
    options = {"protocol_whitelist": "file"}
    return av.open(f"file:{existing_path(path)}", "r", options=options, metadata_errors="replace")


def _display_matrix(frame: av.VideoFrame) -> tuple[int, int, int, int]:
    """(a, b, c, d): the stored pixel (x, y) is displayed at (ax + cy, bx + dy)."""
    data = cast("Buffer | None", frame.side_data.get("DISPLAYMATRIX"))
    if data is None:
        return 1, 0, 0, 1
    a, b, _, c, d = np.frombuffer(bytes(data), np.int32)[:5].tolist()
    return a, b, c, d

"""Segments as new video files with the frames of the source: re-encoded, exactly by default.

The pixels that the decoder yields are encoded losslessly (H.264 at QP 0, or FFV1 where H.264 does
not have the pixel format), at the times that they have in the source: decoding a segment gives the
source's frames, bit by bit. The rotation of a file's metadata is applied, since many readers ignore
it. Sound is copied (``sound.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.container import OutputContainer
from av.video.stream import VideoStream

from objectstates.base.storage import replacing
from objectstates.cut.segments import Segment
from objectstates.cut.sound import IN_MP4, Sound
from objectstates.video.reader import read_frames
from objectstates.video.video_file import VideoFile

H264 = frozenset({"yuv420p", "yuvj420p", "yuv422p", "yuv444p", "yuv420p10le", "gray"})
"""Pixel formats in which players and libraries read H.264."""
FFV1 = frozenset({"yuv410p", "yuv411p", "yuv422p10le", "yuv444p10le", "yuva420p", "bgr0", "bgra"})
TURNED = frozenset({"yuv420p", "yuvj420p", "yuv444p", "gray"})
"""Formats of which planes can be turned by a quarter."""
PSNR_LIMIT = 100.0  # dB; stands for equal pictures


@dataclass(frozen=True)
class Coding:
    """How to encode: codec, options of it, pixel format, and the suffix of the file.

    converted : whether the pixel format is another than the source's.
    """

    codec: str
    options: dict[str, str]
    pixels: str
    suffix: str
    converted: bool


def coding_of(video: VideoFile, sound: str | None, crf: int | None) -> Coding:
    """Lossless unless ``crf`` is given, the quality of H.264 (18 is visually lossless, 51 worst).

    sound : the codec of the sound, which decides on the container.
    """
    pixels = video.pixel_format
    width, height = video.info.width, video.info.height
    if video.is_turned and pixels not in TURNED:
        pixels = "yuv444p"
    odd = pixels in ("yuv420p", "yuvj420p", "yuv420p10le") and (width % 2 or height % 2)
    odd = odd or (pixels == "yuv422p" and width % 2)
    if pixels in H264 and not odd:
        rate = {"qp": "0"} if crf is None else {"crf": str(crf)}
        suffix = ".mp4" if sound is None or sound in IN_MP4 else ".mkv"
        converted = pixels != video.pixel_format
        return Coding("libx264", {"preset": "veryfast", **rate}, pixels, suffix, converted)
    pixels = pixels if pixels in H264 | FFV1 else "bgr0"
    return Coding("ffv1", {}, pixels, ".mkv", pixels != video.pixel_format)


def encode(
    video: VideoFile,
    sound: Sound | None,
    coding: Coding,
    segments: Sequence[tuple[Segment, Path]],
) -> None:
    """Write consecutive segments of one clip, each atomically, in one pass over its frames."""
    frames = video.timed(segments[0][0].start)
    held: Timed | None = None
    for segment, path in segments:
        with replacing(path) as target, _film(target, path.suffix) as film:
            held = _write(film, video, sound, coding, segment, frames, held)


Timed = tuple[float, av.VideoFrame]


def _film(target: Path, suffix: str) -> OutputContainer:
    return av.open(str(target), "w", format=CONTAINERS[suffix])


def _write(
    film: OutputContainer,
    video: VideoFile,
    sound: Sound | None,
    coding: Coding,
    segment: Segment,
    frames: Iterator[Timed],
    held: Timed | None,
) -> Timed | None:
    """Write a segment; return the first frame after it, which has been decoded already."""
    base = video.time_base
    start, end = (round(Fraction(time) / base) for time in (segment.start, segment.end))
    stream = _add_stream(film, video, coding)
    if sound is not None and (audio := sound.add_stream(film)) is not None:
        whole = reaches_the_end(segment, video)
        sound.mux(film, audio, start * base, end * base, to_the_end=whole)
    shown: list[int] = []
    packets: list[av.Packet[VideoStream]] = []
    after: Timed | None = None
    for time, frame in frames if held is None else chain([held], frames):
        pts = round(Fraction(time) / base)
        if pts >= end:
            after = time, frame
            break
        if pts >= start:
            upright = video.upright(frame, coding.pixels)
            upright.pts, upright.time_base = pts - start, base
            upright.pict_type = 0  # the encoder's choice, not the source's
            shown.append(pts - start)
            packets += stream.encode(upright)
    packets += stream.encode()
    until = dict(pairwise([*shown, end - start]))
    for packet in packets:  # each lasts until the next frame: rates may vary
        if packet.pts in until:
            packet.duration = until[packet.pts] - packet.pts
        film.mux(packet)
    return after


def reaches_the_end(segment: Segment, video: VideoFile) -> bool:
    """Whether the last frame of the video is in the segment."""
    return segment.end > video.info.duration - 0.5 / video.info.fps


def _add_stream(film: OutputContainer, video: VideoFile, coding: Coding) -> VideoStream:
    rate = Fraction(video.info.fps).limit_denominator(1001)
    options = dict(coding.options)
    stream = cast(VideoStream, film.add_stream(coding.codec, rate=rate, options=options))
    stream.width, stream.height = video.info.width, video.info.height
    stream.pix_fmt = coding.pixels
    stream.time_base = stream.codec_context.time_base = video.time_base
    video.copy_colours(stream.codec_context)
    return stream


def psnr(source: Path, segment: Segment, written: Path) -> float:
    """Peak signal-to-noise ratio of a written segment in dB, over the RGB values of its frames."""
    squares, count = 0.0, 0
    with read_frames(source, segment.start, segment.end) as theirs, read_frames(written) as ours:
        for expected, found in zip(theirs, ours, strict=True):
            difference = expected.image.astype(np.float64) - found.image
            squares, count = squares + float((difference**2).sum()), count + difference.size
    return PSNR_LIMIT if squares == 0 else float(10 * np.log10(255**2 * count / squares))


CONTAINERS = {".mp4": "mp4", ".mkv": "matroska", ".mov": "mov", ".webm": "webm"}
"""Suffixes of files, and FFmpeg's names of their formats."""

"""Copies of videos that every browser can play, for those that some cannot.

A preview has all frames of the video at their times, so a time in the browser is a time in the
video to the frame. It is smaller, upright, has no sound, and a key frame every few frames, so that
moving in it is fast. It is made once and kept in the cache.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
from av.video.stream import VideoStream

from objectstates.base.cache import cache_folder, digest
from objectstates.base.errors import VideoError
from objectstates.base.storage import replacing
from objectstates.video.reader import Frame, read_frames
from objectstates.video.source import as_video_error

_VERSION = 1  # of the encoding; another one makes previews anew
_SIDE = 960  # pixels of the longer side: more than the pages show
_TIME_BASE = Fraction(1, 90_000)  # exact for all usual frame rates
_KEY_FRAMES = 12  # frames from one key frame to the next
_ENCODERS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("libx264", ".mp4", {"preset": "veryfast", "crf": "24", "bf": "0"}),
    ("libvpx", ".webm", {"deadline": "realtime", "cpu-used": "8", "crf": "20", "b": "4M"}),
)
"""Encoder, suffix and options; the second where PyAV was built without x264."""

_PLAYABLE = {"mov": {"h264"}, "webm": {"vp8", "vp9"}}
"""Codecs that every current browser plays, by container (as FFmpeg calls it)."""

_PIXELS = {"yuv420p", "yuvj420p"}
_SAME_START = 0.001  # seconds between the starts of picture and sound that nobody can see


def needs_preview(video: Path) -> bool:
    """Whether some browser could not play the video, or would show other times than we read."""
    if video.is_dir():
        return True
    options = {"protocol_whitelist": "file"}
    with (
        as_video_error(video),
        av.open(f"file:{video}", "r", options=options, metadata_errors="replace") as container,
    ):
        kind = "webm" if video.suffix.lower() == ".webm" else container.format.name.split(",")[0]
        if not container.streams.video:
            return True
        stream = container.streams.video[0]
        context = getattr(stream, "codec_context", None)
        if context is None or context.name not in _PLAYABLE.get(kind, ()):
            return True
        starts = [
            float(each.start_time * each.time_base)
            for each in container.streams
            if each.start_time is not None and each.time_base is not None
        ]
        own = float((stream.start_time or 0) * (stream.time_base or 0))
        same_start = not starts or own - min(starts) <= _SAME_START
        return context.pix_fmt not in _PIXELS or not same_start


def preview_of(video: Path, *, image_fps: float = 25.0) -> Path:
    """The preview of a video or a folder of images, made unless it is in the cache."""
    encoder, suffix, options = _encoder()
    key = digest("preview", _VERSION, encoder, image_fps, _identity(video))
    place = cache_folder() / "previews" / f"{key}{suffix}"
    if not place.is_file():
        with replacing(place) as temporary:
            _encode(video, temporary, encoder, suffix, options, image_fps)
    return place


def _encoder() -> tuple[str, str, dict[str, str]]:
    for found in _ENCODERS:
        if found[0] in av.codec.codecs_available:
            return found
    raise VideoError("no preview can be made: PyAV has neither libx264 nor libvpx; reinstall it")


def _identity(video: Path) -> list[Any]:
    """What tells a changed video: names, sizes and times of change of its files."""
    with as_video_error(video):
        files = sorted(video.iterdir()) if video.is_dir() else [video]
        return [
            [str(file.resolve()), (facts := file.stat()).st_size, facts.st_mtime_ns]
            for file in files
        ]


def _encode(
    video: Path, out: Path, encoder: str, suffix: str, options: dict[str, str], image_fps: float
) -> None:
    with (
        read_frames(video, max_side=_SIDE, image_fps=image_fps) as frames,
        # The temporary name does not tell the format.
        av.open(
            str(out),
            "w",
            format=suffix.lstrip("."),
            options={"movflags": "+faststart"} if suffix == ".mp4" else {},
        ) as container,
    ):
        stream: VideoStream | None = None
        for frame in frames:
            if stream is None:
                rate = Fraction(frames.info.fps).limit_denominator(90_000) or Fraction(25)
                stream = cast("VideoStream", container.add_stream(encoder, rate, options))
                height, width = frame.image.shape[:2]
                stream.width, stream.height = _even(width), _even(height)
                stream.pix_fmt = "yuv420p"
                stream.gop_size = _KEY_FRAMES
                stream.time_base = stream.codec_context.time_base = _TIME_BASE
            container.mux(stream.encode(_picture(frame, stream)))
        if stream is not None:
            container.mux(stream.encode(None))


def _picture(frame: Frame, stream: VideoStream) -> av.VideoFrame:
    picture = av.VideoFrame.from_ndarray(frame.image, format="rgb24")
    picture = picture.reformat(stream.width, stream.height, "yuv420p")
    picture.time_base, picture.pts = _TIME_BASE, round(frame.time / _TIME_BASE)
    return picture


def _even(side: int) -> int:
    """Encoders halve the colours, so sides are even."""
    return max(2, side - side % 2)

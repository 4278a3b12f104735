"""Audio of a video in segments, so that memory does not grow with its length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame
from av.container import InputContainer

from objectstates.base.errors import NarrationError
from objectstates.base.file_names import existing_path
from objectstates.video.source import as_video_error

RATE = 16_000
"""Samples per second: what speech recognition models are trained on."""

_SEGMENT = 30.0  # seconds, at most: the input length of Whisper
_SEARCH, _PAUSE = 10.0, 0.2  # seconds; a cut is in the quietest pause of the last part of a segment
_GAP = 0.2  # seconds missing in the timestamps that end a segment

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Audio from ``start`` on, in seconds from the first frame of the video.

    samples : (n,) mono at ``RATE``, in [-1, 1].
    """

    start: float
    samples: Samples


def read_audio(path: str | Path, problems: list[str] | None = None) -> Iterator[Segment]:
    """Yield the audio of a video or an audio file, cut where it is quiet.

    problems : receives a message if damaged packets are skipped.
    """
    place = Path(path)
    with as_video_error(place), av.open(str(existing_path(place))) as container:
        if not container.streams.audio:
            raise NarrationError(f"{place}: this video has no audio stream")
        yield from _segments(_decoded(container, place, problems))


def _decoded(
    container: InputContainer, path: Path, problems: list[str] | None
) -> Iterator[tuple[float, Samples]]:
    """Times and samples of frames; a corrupt packet is skipped."""
    stream = container.streams.audio[0]
    origin = 0.0
    if container.streams.video:
        video = container.streams.video[0]
        origin = float((video.start_time or 0) * (video.time_base or 0))
    resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)
    damaged, expected = 0, -origin
    for packet in container.demux(stream):
        try:
            frames: list[AudioFrame | None] = [*packet.decode()]
        except av.FFmpegError:
            damaged += 1
            continue
        if packet.size == 0:
            frames.append(None)  # end of stream: flush the resampler
        for frame in frames:
            for sound in resampler.resample(frame):
                samples = np.asarray(sound.to_ndarray().ravel(), np.float32)
                time = expected if sound.time is None else float(sound.time) - origin
                expected = time + len(samples) / RATE
                yield time, samples
    if damaged and problems is not None:
        problems.append(f"{path}: {damaged} damaged audio packets skipped")


def _segments(frames: Iterator[tuple[float, Samples]]) -> Iterator[Segment]:
    start, held, length = 0.0, list[Samples](), 0
    for time, samples in frames:
        if held and abs(time - (start + length / RATE)) > _GAP:
            yield Segment(start, np.concatenate(held))
            held, length = [], 0
        if not held:
            start = time
        held.append(samples)
        length += len(samples)
        while length >= _SEGMENT * RATE:
            sound = np.concatenate(held)
            cut = _quietest(sound[: int(_SEGMENT * RATE)])
            yield Segment(start, sound[:cut])
            start += cut / RATE
            held, length = [sound[cut:]], len(sound) - cut
    if length:
        yield Segment(start, np.concatenate(held))


def _quietest(sound: Samples) -> int:
    """Index of the middle of the quietest pause in the last seconds, to split no word."""
    first, width = len(sound) - int(_SEARCH * RATE), int(_PAUSE * RATE)
    energy = np.concatenate([[0.0], np.cumsum(sound[first:].astype(np.float64) ** 2)])
    return first + int(np.argmin(energy[width:] - energy[:-width])) + width // 2

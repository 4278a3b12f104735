"""The sound of a video in pieces, so that memory does not grow with its length."""

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
from objectstates.video.source import as_video_error

RATE = 16_000
"""Samples per second: what recognisers of speech were trained on."""

_PIECE, _SEARCH, _PAUSE = 30.0, 10.0, 0.2
"""Seconds: the longest piece, in whose last part the quietest pause is looked for."""

_GAP = 0.2
"""Seconds without sound that end a piece: times after it are those of the file."""

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Sound from ``start`` on, in seconds from the first frame of the video.

    samples : (n,) mono, ``RATE`` a second, between -1 and 1.
    """

    start: float
    samples: Samples


def read_audio(path: str | Path, problems: list[str] | None = None) -> Iterator[Piece]:
    """Yield the sound of a video, or of a sound file, cut where it is quiet.

    What is damaged is passed over, and told in ``problems``.
    """
    place = Path(path)
    with as_video_error(place), av.open(str(place)) as container:
        if not container.streams.audio:
            raise NarrationError(f"{place}: this video has no sound, so nothing can be heard in it")
        yield from _pieces(_decoded(container, place, problems))


def _decoded(
    container: InputContainer, path: Path, problems: list[str] | None
) -> Iterator[tuple[float, Samples]]:
    """Times and samples of frames; a bad packet costs its own frames only."""
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
            frames.append(None)  # the last: what the resampler still holds
        for frame in frames:
            for sound in resampler.resample(frame):
                samples = np.asarray(sound.to_ndarray().ravel(), np.float32)
                time = expected if sound.time is None else float(sound.time) - origin
                expected = time + len(samples) / RATE
                yield time, samples
    if damaged and problems is not None:
        problems.append(f"{path}: {damaged} damaged pieces of sound passed over")


def _pieces(frames: Iterator[tuple[float, Samples]]) -> Iterator[Piece]:
    start, held, length = 0.0, list[Samples](), 0
    for time, samples in frames:
        if held and abs(time - (start + length / RATE)) > _GAP:
            yield Piece(start, np.concatenate(held))
            held, length = [], 0
        if not held:
            start = time
        held.append(samples)
        length += len(samples)
        while length >= _PIECE * RATE:
            sound = np.concatenate(held)
            cut = _quietest(sound[: int(_PIECE * RATE)])
            yield Piece(start, sound[:cut])
            start += cut / RATE
            held, length = [sound[cut:]], len(sound) - cut
    if length:
        yield Piece(start, np.concatenate(held))


def _quietest(sound: Samples) -> int:
    """The middle of the quietest pause in the last seconds: a cut there splits no word."""
    first, width = len(sound) - int(_SEARCH * RATE), int(_PAUSE * RATE)
    energy = np.concatenate([[0.0], np.cumsum(sound[first:].astype(np.float64) ** 2)])
    return first + int(np.argmin(energy[width:] - energy[:-width])) + width // 2

"""Small films in various codecs, whose frames can be told apart."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
import cv2
import numpy as np
import numpy.typing as npt
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.video.stream import VideoStream

from benchmarks.odd_videos import usual_priority
from objectstates.video.source import Image

SIZE = (96, 64)  # width, height


def picture(number: int) -> Image:
    """(64, 96, 3): six squares are the bits of the number, black or white."""
    image = np.full((SIZE[1], SIZE[0], 3), 90, np.uint8)
    for bit in range(6):
        image[16:48, 16 * bit : 16 * bit + 16] = 235 if number >> bit & 1 else 20
    return image


def number_of(image: npt.NDArray[Any]) -> int:
    """The number of a picture that was encoded, scaled and decoded."""
    height, width = image.shape[:2]
    centres = [image[height // 2, round((bit + 0.5) * width / 6)] for bit in range(6)]
    return sum(1 << bit for bit, centre in enumerate(centres) if centre.mean() > 128)


def write_film(
    path: Path, codec: str, times: list[int], pix_fmt: str = "yuv420p", *, sound: bool = False
) -> Path:
    """Encode frame ``n`` at ``times[n]`` milliseconds; sound begins at 0."""
    with usual_priority(), av.open(str(path), "w") as container:
        audio = new_sound(container) if sound else None
        stream = cast("VideoStream", container.add_stream(codec, rate=25))
        stream.width, stream.height = SIZE
        stream.pix_fmt = pix_fmt
        stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        for number, time in enumerate(times):
            frame = av.VideoFrame.from_ndarray(picture(number), format="rgb24")
            frame.time_base, frame.pts = Fraction(1, 1000), time
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if audio is not None:
            write_sound(container, audio)
    return path


def new_sound(container: OutputContainer) -> AudioStream:
    return container.add_stream("aac", rate=16_000, layout="mono")


def write_sound(container: OutputContainer, stream: AudioStream | None = None) -> None:
    """Half a second of silence."""
    stream = stream or new_sound(container)
    for number in range(8):
        silence = np.zeros((1, 1024), np.float32)
        frame = av.AudioFrame.from_ndarray(silence, format="fltp", layout="mono")
        frame.sample_rate, frame.pts = 16_000, 1024 * number
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


def write_images(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        cv2.imwrite(str(folder / f"{number:04d}.png"), picture(number))
    return folder

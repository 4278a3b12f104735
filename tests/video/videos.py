"""Videos and folders of images to test with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
import cv2
import numpy as np
import numpy.typing as npt

from benchmarks.odd_videos import usual_priority
from objectstates.video.reader import Frame, read_frames

Images = Sequence[npt.NDArray[np.uint8]]


def gray(count: int, width: int = 64, height: int = 48) -> list[npt.NDArray[np.uint8]]:
    """Flat images; the brightness tells which one it is, up to 50 of them."""
    return [np.full((height, width, 3), 5 * (i % 50), np.uint8) for i in range(count)]


def number(frame: Frame) -> int:
    return round(float(frame.image.mean()) / 5)


def noise(count: int) -> list[npt.NDArray[np.uint8]]:
    """Coarse noise: unlike each other, not too hard to encode, yet of realistic size."""
    blocks = np.random.default_rng(0).integers(0, 255, (count, 12, 16, 3), np.uint8)
    return list(blocks.repeat(4, axis=1).repeat(4, axis=2))


def most_similar(frame: Frame, images: Images) -> int:
    return int(np.argmin([np.abs(frame.image.astype(int) - image).mean() for image in images]))


def write_video(
    path: Path,
    images: Images,
    *,
    times: Sequence[float] | None = None,
    fps: int = 25,
    codec: str = "libx264",
    pixels: str = "yuv420p",
    options: dict[str, str] | None = None,
    muxer: dict[str, str] | None = None,
    sound: float = 0.0,
    title: str = "",
) -> Path:
    """Encode with a key frame every 12 frames; ``times`` in seconds, kept to the millisecond."""
    with usual_priority(), av.open(f"file:{path}", "w", options=muxer or {}) as container:
        container.metadata["title"] = title
        stream = cast(av.VideoStream, container.add_stream(codec, rate=fps, options=options or {}))
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = pixels
        stream.codec_context.gop_size = 12
        audio = container.add_stream("aac", rate=8000, layout="mono") if sound else None
        if times is not None:
            stream.codec_context.time_base = Fraction(1, 1000)
        for i, image in enumerate(images):
            frame = av.VideoFrame.from_ndarray(image)
            if times is not None:
                frame.pts, frame.time_base = round(times[i] * 1000), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        if audio is not None:
            container.mux(audio.encode(silence(sound)))
            container.mux(audio.encode())
    return path


def silence(seconds: float) -> av.AudioFrame:
    samples = np.zeros((1, round(8000 * seconds)), np.float32)
    frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
    frame.sample_rate = 8000
    return frame


def write_sound(path: Path, cover: bool) -> Path:
    with av.open(str(path), "w") as container:
        audio = container.add_stream("mp3", rate=8000, layout="mono")
        if cover:
            picture = container.add_stream("mjpeg", rate=1)
            picture.width = picture.height = 16
            picture.pix_fmt = "yuvj420p"
            picture.disposition = av.stream.Disposition.attached_pic
            container.mux(picture.encode(av.VideoFrame.from_ndarray(gray(1, 16, 16)[0])))
        container.mux(audio.encode(silence(1.0)))
        container.mux(audio.encode())
    return path


def times_of(path: Path, *args: float, **options: Any) -> list[float]:
    return [frame.time for frame in read_frames(path, *args, **options)]


def assert_same(actual: Sequence[Frame], expected: Sequence[Frame]) -> None:
    assert [frame.time for frame in actual] == [frame.time for frame in expected]
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a.image, b.image)


def corners(width: int = 64, height: int = 48) -> npt.NDArray[np.uint8]:
    """Red, green, blue and white from the top left, by rows."""
    image = np.zeros((height, width, 3), np.uint8)
    image[: height // 2, : width // 2] = 255, 0, 0
    image[: height // 2, width // 2 :] = 0, 255, 0
    image[height // 2 :, : width // 2] = 0, 0, 255
    image[height // 2 :, width // 2 :] = 255, 255, 255
    return image


def assert_near(actual: npt.NDArray[np.uint8], expected: npt.NDArray[Any]) -> None:
    assert actual.shape == expected.shape
    assert np.abs(actual.astype(int) - expected).mean() < 12


def bad_file(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / f"{kind}.mp4"
    match kind:
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("This is not a video.\n" * 500)
        case "noise":
            path.write_bytes(np.random.default_rng(0).bytes(20_000))
        case "pipe":
            os.mkfifo(path)
        case "notes":
            path = tmp_path / "notes.txt"
            path.write_text("A shopping list.\n" * 500)
        case "picture":
            path = tmp_path / "picture.jpg"
            cv2.imwrite(str(path), corners())
        case "playlist":
            path = tmp_path / "playlist.m3u8"
            path.write_text("#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n")
        case "sound":
            path = write_sound(tmp_path / "sound.mp3", cover=False)
        case "cover":
            path = write_sound(tmp_path / "cover.mp3", cover=True)
        case "unindexed":
            whole = write_video(tmp_path / "whole.mp4", gray(50)).read_bytes()
            path.write_bytes(whole[: whole.index(b"moov") - 4])
        case "unknown":
            whole = write_video(tmp_path / "whole.mp4", gray(5)).read_bytes()
            path.write_bytes(whole.replace(b"avc1", b"zzz1"))
        case "hollow":
            whole = write_video(tmp_path / "whole.mp4", gray(5)).read_bytes()
            first, last = whole.index(b"mdat") + 4, whole.index(b"moov") - 4
            path.write_bytes(whole[:first] + bytes(last - first) + whole[last:])
        case "bare":
            path = tmp_path / "bare"
            path.mkdir()
    return path


def write_images(folder: Path, numbers: Sequence[int], pattern: str = "%06d.png") -> Path:
    folder.mkdir()
    for i, image in zip(numbers, gray(len(numbers)), strict=True):
        data = cv2.imencode(os.path.splitext(pattern)[1], image)[1]
        (folder / (pattern % i)).write_bytes(data.tobytes())
    return folder

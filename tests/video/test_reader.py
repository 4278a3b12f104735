from __future__ import annotations

import json
import os
import struct
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import islice, pairwise
from pathlib import Path

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.base.errors import SettingError, VideoError
from objectstates.video.clip_list import find_clips
from objectstates.video.reader import Frame, probe, read_frames

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


def likest(frame: Frame, images: Images) -> int:
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
    with av.open(f"file:{path}", "w", options=muxer or {}) as container:
        container.metadata["title"] = title
        stream = container.add_stream(codec, rate=fps, options=options or {})
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


def times_of(path: Path, *args: float, **options: float) -> list[float]:
    return [frame.time for frame in read_frames(path, *args, **options)]


def assert_same(actual: Sequence[Frame], expected: Sequence[Frame]) -> None:
    assert [frame.time for frame in actual] == [frame.time for frame in expected]
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a.image, b.image)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("videos")


@pytest.fixture(scope="module")
def plain(folder: Path) -> Path:
    """50 frames at 25 fps with B-frames; the index comes first, so a cut file can be opened."""
    return write_video(folder / "plain.mp4", gray(50), muxer={"movflags": "faststart"})


# Time


def test_every_frame_comes_once_in_order_and_on_time(plain: Path) -> None:
    with read_frames(plain) as reading:
        frames = list(reading)
    assert [number(frame) for frame in frames] == list(range(50))
    assert [frame.time for frame in frames] == [i / 25 for i in range(50)]
    assert reading.problems == []


def test_probe_describes_the_video(plain: Path) -> None:
    info = probe(plain)
    assert (info.path, info.width, info.height, info.rotation) == (plain, 64, 48, 0)
    assert info.duration == pytest.approx(2.0)
    assert info.fps == 25


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "mov"])
def test_times_of_a_varying_frame_rate_are_those_of_the_file(folder: Path, suffix: str) -> None:
    times = [0.0, 0.02, 0.5, 0.533, 0.6, 1.9, 1.91, 2.5]
    path = write_video(folder / f"varying.{suffix}", gray(8), times=times, fps=30)
    frames = list(read_frames(path))
    assert [frame.time for frame in frames] == pytest.approx(times, abs=1e-9)
    assert [number(frame) for frame in frames] == list(range(8))


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_time_is_zero_at_the_first_frame(folder: Path, suffix: str) -> None:
    path = write_video(folder / f"late.{suffix}", gray(50), times=[7 + i / 25 for i in range(50)])
    with read_frames(path) as reading:
        assert [frame.time for frame in reading] == pytest.approx([i / 25 for i in range(50)])
        assert reading.info.duration == pytest.approx(2.0, abs=0.05)
        assert reading.problems == []
    assert [number(frame) for frame in read_frames(path, 1.0, 1.12)] == [25, 26, 27]


CONTAINERS = {
    "mp4": ("libx264", {}),
    "open.mp4": ("libx264", {"x264-params": "open-gop=1:bframes=3"}),
    "hevc.mp4": ("libx265", {"x265-params": "log-level=none"}),
    "mkv": ("libx264", {}),
    "webm": ("libvpx", {"deadline": "realtime"}),
    "avi": ("mpeg4", {"bf": "2"}),
    "h264.avi": ("libx264", {}),
    "ts": ("libx264", {}),
    "mpeg2.ts": ("mpeg2video", {"bf": "2"}),
    "flv": ("libx264", {}),
}


@pytest.mark.parametrize("suffix", CONTAINERS)
def test_a_span_holds_what_the_whole_video_holds_there(folder: Path, suffix: str) -> None:
    codec, options = CONTAINERS[suffix]
    images = noise(100)
    path = write_video(folder / f"spans.{suffix}", images, codec=codec, options=options)
    with read_frames(path) as reading:
        whole = list(reading)
        assert reading.problems == []
    assert [frame.time for frame in whole] == pytest.approx([i / 25 for i in range(100)])
    assert [likest(frame, images) for frame in whole] == list(range(100))
    for start, end in [(0, 0.04), (0.44, 0.6), (0.48, 1.0), (1.9, 2.9), (3.96, 9.0)]:
        with read_frames(path, start, end) as reading:
            assert_same(list(reading), [f for f in whole if start <= f.time < end])
            assert reading.problems == []


@settings(deadline=None, max_examples=25)
@given(cuts=st.sets(st.floats(0.001, 1.999), max_size=3), fps=st.none() | st.floats(0.5, 60))
def test_the_spans_of_a_video_make_up_the_video(
    plain: Path, cuts: set[float], fps: float | None
) -> None:
    bounds = [0.0, *sorted(cuts), 10.0]
    pieces: list[float] = []
    for start, end in pairwise(bounds):
        with suppress(VideoError):  # a span may be too short to hold a frame
            pieces += times_of(plain, start, end, fps=fps)
    assert pieces == times_of(plain, fps=fps)


def test_a_span_outside_of_the_video_is_an_error_that_says_how_long_it_is(plain: Path) -> None:
    with pytest.raises(VideoError, match=r"plain\.mp4: no frame from 7 to 9 s.*lasts 2\.00 s"):
        list(read_frames(plain, 7.0, 9.0))


# Sampling


@pytest.mark.parametrize("rate", [8, 25, 30, 50, 60, 120])
def test_sampling_gives_the_wanted_rate_or_all_frames_there_are(folder: Path, rate: int) -> None:
    path = folder / f"rate{rate}.mp4"
    write_video(path, gray(2 * rate, 16, 16), fps=rate, options={"preset": "ultrafast"})
    sampled = times_of(path, fps=25)
    assert len(sampled) == min(2 * rate, 50)
    if rate >= 25:
        assert np.abs(np.subtract(sampled, np.arange(50) / 25)).max() <= 0.5 / rate + 1e-6


@settings(deadline=None, max_examples=40)
@given(
    steps=st.lists(st.integers(1, 400), min_size=1, max_size=30),
    fps=st.sampled_from([0.5, 1, 3, 5, 12.5, 25, 30, 100]),
)
def test_sampling_keeps_the_nearest_frame_of_every_tick(
    folder: Path, steps: list[int], fps: float
) -> None:
    times = np.cumsum([0, *steps]) / 1000
    path = write_video(folder / "ticks.mkv", gray(len(times), 16, 16), times=list(times))
    ticks = np.arange(0, times[-1] + 1e-6, 1 / fps)
    distance = np.abs(ticks[:, None] - times)  # of two as near, the earlier
    nearest = np.argmax(distance <= distance.min(axis=1, keepdims=True) + 1e-5, axis=1)
    assert times_of(path, fps=fps) == pytest.approx(times[np.unique(nearest)].tolist())


# Images


def corners(width: int = 64, height: int = 48) -> npt.NDArray[np.uint8]:
    """Red, green, blue and white from the top left, by rows."""
    image = np.zeros((height, width, 3), np.uint8)
    image[: height // 2, : width // 2] = 255, 0, 0
    image[: height // 2, width // 2 :] = 0, 255, 0
    image[height // 2 :, : width // 2] = 0, 0, 255
    image[height // 2 :, width // 2 :] = 255, 255, 255
    return image


def assert_near(actual: npt.NDArray[np.uint8], expected: npt.NDArray[np.uint8]) -> None:
    assert actual.shape == expected.shape
    assert np.abs(actual.astype(int) - expected).mean() < 12


def set_matrix(path: Path, a: int, b: int, c: int, d: int) -> None:
    """Write a display matrix where a camera does, into the track header of an MP4 file."""
    data = path.read_bytes()
    at = data.index(b"tkhd") + 44
    matrix = struct.pack(">9i", a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30)
    path.write_bytes(data[:at] + matrix + data[at + 36 :])


@pytest.mark.parametrize(
    ("matrix", "rotation", "turn"),
    [
        ((1, 0, 0, 1), 0, lambda image: image),
        ((0, 1, -1, 0), 90, lambda image: np.rot90(image, -1)),
        ((-1, 0, 0, -1), 180, lambda image: np.rot90(image, 2)),
        ((0, -1, 1, 0), 270, lambda image: np.rot90(image, 1)),
        ((1, 0, 0, -1), 0, np.flipud),
        ((-1, 0, 0, 1), 180, np.fliplr),
        ((0, 1, 1, 0), 90, lambda image: image.swapaxes(0, 1)),
    ],
)
def test_images_stand_upright_whichever_way_the_camera_was_held(
    tmp_path: Path,
    matrix: tuple[int, int, int, int],
    rotation: int,
    turn: Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.uint8]],
) -> None:
    path = write_video(tmp_path / "turned.mp4", [corners()] * 3)
    set_matrix(path, *matrix)
    expected = turn(corners())
    info = probe(path)
    assert (info.height, info.width, info.rotation) == (*expected.shape[:2], rotation)
    for frame in read_frames(path):
        assert_near(frame.image, expected)
    small = next(read_frames(path, max_side=32))
    assert max(small.image.shape) == 32
    assert_near(small.image, cv2.resize(np.ascontiguousarray(expected), small.image.shape[1::-1]))


@pytest.mark.parametrize("pixels", ["yuv420p", "yuv444p", "bgr0", "yuv420p10le"])
@pytest.mark.parametrize("size", [(31, 17), (65, 33), (8, 8), (9, 101)])
def test_images_of_odd_and_tiny_sizes_are_right_to_the_last_pixel(
    tmp_path: Path, size: tuple[int, int], pixels: str
) -> None:
    image = np.full((size[1], size[0], 3), (200, 120, 40), np.uint8)
    path = write_video(tmp_path / "odd.mkv", [image] * 2, codec="ffv1", pixels=pixels)
    for frame in read_frames(path):
        assert frame.image.shape == image.shape
        assert np.abs(frame.image.astype(int) - image).max() <= 6


@pytest.mark.parametrize(("tag", "name"), [(1, "ITU709"), (5, "ITU601")])
def test_colours_follow_the_standard_that_the_file_names(
    tmp_path: Path, tag: int, name: str
) -> None:
    path = tmp_path / "colour.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": "1"})
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv444p"
        stream.codec_context.colorspace = tag
        image = np.full((32, 32, 3), (200, 30, 60), np.uint8)
        frame = av.VideoFrame.from_ndarray(image)
        container.mux(stream.encode(frame.reformat(format="yuv444p", dst_colorspace=name)))
        container.mux(stream.encode())
    assert np.abs(next(read_frames(path)).image.astype(int) - image).max() <= 4


def test_a_4k_video_fits_a_bound_and_its_boxes_can_be_mapped_back(tmp_path: Path) -> None:
    image = np.zeros((2160, 3840, 3), np.uint8)
    image[1080:1620, 960:1920] = 255
    path = write_video(tmp_path / "4k.mp4", [image] * 2, options={"preset": "ultrafast"})
    assert next(read_frames(path)).image.shape == (2160, 3840, 3)
    frame = next(read_frames(path, max_side=500))
    assert frame.image.shape == (281, 500, 3)
    rows, columns = np.nonzero(frame.image[:, :, 0] > 127)
    box = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
    assert np.abs(box * (frame.scale * 2) - [960, 1080, 1920, 1620]).max() <= 4


def test_a_bound_larger_than_the_image_changes_nothing(plain: Path) -> None:
    assert_same(list(read_frames(plain, max_side=64)), list(read_frames(plain)))
    assert next(read_frames(plain, max_side=1)).image.shape == (1, 1, 3)


def test_a_video_of_one_frame_has_one_frame(tmp_path: Path) -> None:
    for name in ("one.mp4", "one.mkv"):
        path = write_video(tmp_path / name, [corners()])
        with read_frames(path, fps=25) as reading:
            (frame,) = reading
        assert frame.time == 0
        assert_near(frame.image, corners())
        assert reading.problems == []
        assert reading.info.duration == pytest.approx(0.04)


def test_an_image_belongs_to_the_caller(tmp_path: Path) -> None:
    path = write_video(tmp_path / "own.mov", gray(10), codec="png", pixels="rgb24")
    for i, frame in enumerate(read_frames(path)):
        assert number(frame) == i
        assert frame.image.flags.c_contiguous
        frame.image[:] = 255  # must not reach frames still to come


def test_more_threads_give_the_same_frames(plain: Path) -> None:
    assert_same(list(read_frames(plain, threads=3)), list(read_frames(plain)))
    assert_same(list(read_frames(plain, 1.0, threads=0)), list(read_frames(plain, 1.0)))


def test_memory_does_not_grow_with_the_length_of_the_video(tmp_path: Path) -> None:
    images = gray(400, 320, 240)
    path = write_video(tmp_path / "long.mp4", images, options={"preset": "ultrafast"})
    tracemalloc.start()
    count = sum(1 for _ in read_frames(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 400
    assert peak < 10 * images[0].nbytes


def test_a_closed_reading_has_no_frames_left(plain: Path) -> None:
    with read_frames(plain) as reading:
        next(reading)
    assert list(reading) == []


@pytest.mark.parametrize(
    "name", ["été à la mer.mp4", "日本語.mp4", "take 1: 100% 'ok'.mp4", "-i.mp4", "%03d #2?.mp4"]
)
def test_any_name_can_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "a b").mkdir()
    path = write_video(tmp_path / "a b" / name, gray(3))
    assert [number(frame) for frame in read_frames(path)] == [0, 1, 2]
    assert [span.video for span in find_clips([tmp_path])] == [path]


# Damage


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "webm", "flv"])
def test_a_truncated_file_yields_what_is_there_and_says_so(tmp_path: Path, suffix: str) -> None:
    codec = "libvpx" if suffix == "webm" else "libx264"
    muxer = {"movflags": "faststart"} if suffix == "mp4" else {}
    path = write_video(tmp_path / f"whole.{suffix}", noise(60), codec=codec, muxer=muxer)
    cut = tmp_path / f"cut.{suffix}"
    cut.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    with read_frames(cut) as reading:
        frames = list(reading)
    assert 20 < len(frames) < 45
    assert_same(frames[:-3], list(read_frames(path))[: len(frames) - 3])
    assert f"cut.{suffix}: truncated at 1." in reading.problems[-1]
    assert "of 2.4" in reading.problems[-1]
    with read_frames(cut, 0.2, 0.5) as reading:  # the damage is elsewhere
        list(reading)
    assert reading.problems == []


def test_damage_in_the_middle_costs_a_few_frames_and_is_counted(tmp_path: Path) -> None:
    path = write_video(tmp_path / "damaged.mp4", noise(60))
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 4000] = bytes(4000)
    path.write_bytes(data)
    with read_frames(path) as reading:
        frames = list(reading)
    assert 50 <= len(frames) <= 60
    assert frames[-1].time == pytest.approx(59 / 25)
    assert "damaged frames, the first at 1." in reading.problems[0]


def test_a_change_of_size_and_times_that_go_back_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "both.ts"
    data = b""
    for width, start in ((64, 1), (96, 2)):  # two seconds each, of which one overlaps
        times = [start + i / 25 for i in range(50)]
        data += write_video(path, gray(50, width), times=times).read_bytes()
    path.write_bytes(data)
    with read_frames(path) as reading:
        frames = list(reading)
    assert [frame.time for frame in frames] == pytest.approx([i / 25 for i in range(75)])
    assert {frame.image.shape for frame in frames} == {(48, 64, 3)}
    assert reading.problems == [
        f"{path}: 25 frames left out, for their times do not increase",
        f"{path}: 25 frames resized to the size of the first",
    ]


class FailingDisk:
    """A container whose disk goes away after some packets."""

    def __init__(self, container: av.container.InputContainer, packets: int) -> None:
        self._container, self._packets = container, packets

    def __getattr__(self, name: str) -> object:
        return getattr(self._container, name)

    def demux(self, stream: av.VideoStream) -> Iterator[av.Packet[av.VideoStream]]:
        yield from islice(self._container.demux(stream), self._packets)
        raise OSError(5, "Input/output error")


def test_a_disk_that_fails_ends_the_frames_and_is_reported(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = av.open
    monkeypatch.setattr(
        av, "open", lambda *args, **options: FailingDisk(opened(*args, **options), 30)
    )
    with read_frames(plain) as reading:
        frames = list(reading)
    assert [number(frame) for frame in frames] == [round(frame.time * 25) for frame in frames]
    assert len(frames) == 30
    assert "reading failed at 1." in reading.problems[-1]
    assert "Input/output error" in reading.problems[-1]


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_sound_that_outlasts_the_images_is_no_damage(tmp_path: Path, suffix: str) -> None:
    path = write_video(tmp_path / f"sound.{suffix}", gray(25), sound=5.0)
    with read_frames(path) as reading:
        assert len(list(reading)) == 25
    assert reading.problems == []
    assert reading.info.duration == pytest.approx(1.0, abs=0.1)


def test_a_recording_without_a_duration_has_one_all_the_same(tmp_path: Path) -> None:
    path = write_video(
        tmp_path / "live.webm", gray(50), codec="libvpx", muxer={"live": "1"}, sound=0.0
    )
    with read_frames(path) as reading:
        assert len(list(reading)) == 50
    assert reading.info.duration == pytest.approx(2.0, abs=0.05)
    assert reading.problems == []


def test_a_title_in_another_encoding_does_no_harm(tmp_path: Path) -> None:
    path = write_video(tmp_path / "old.avi", gray(3), codec="mpeg4", title="Caf@")
    path.write_bytes(path.read_bytes().replace(b"Caf@", b"Caf\xe9"))
    assert len(times_of(path)) == 3


def test_frames_without_times_are_refused(tmp_path: Path) -> None:
    path = write_video(tmp_path / "raw.h264", gray(5))
    with pytest.raises(VideoError, match=r"raw\.h264: the frames carry no times.*-c copy"):
        read_frames(path)


def bad_file(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / f"{kind}.mp4"
    match kind:
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("This is not a video.\n" * 500)
        case "noise":
            path.write_bytes(np.random.default_rng(0).bytes(20_000))
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


@pytest.mark.parametrize(
    ("kind", "reason", "remedy"),
    [
        ("empty", "empty", "download it again"),
        ("text", "not a video", "download it again"),
        ("noise", "not a video", "download it again"),
        ("unindexed", "index is missing", "download it again"),
        ("hollow", "no frame can be decoded", "download it again"),
        ("notes", "text or a single picture", "give a video"),
        ("picture", "text or a single picture", "give a video"),
        ("playlist", "", "see whether it plays"),
        ("sound", "no video in this file", "leave it out"),
        ("cover", "no video in this file", "leave it out"),
        ("unknown", "cannot be decoded", "convert it"),
        ("bare", "not one video", "numbered like"),
        ("missing", "does not exist", "check the path"),
    ],
)
def test_what_is_no_video_gives_an_error_with_name_reason_and_remedy(
    tmp_path: Path, kind: str, reason: str, remedy: str
) -> None:
    path = bad_file(tmp_path, kind)
    for call in (probe, read_frames):
        with pytest.raises(VideoError) as caught:
            call(path)
        message = str(caught.value)
        assert message.startswith(f"{path}: ")
        assert reason in message
        assert remedy in message


@pytest.mark.parametrize(
    "options",
    [
        {"fps": 0},
        {"fps": float("nan")},
        {"max_side": 0},
        {"threads": -1},
        {"start": 2, "end": 1},
        {"start": float("nan")},
    ],
)
def test_a_setting_that_makes_no_sense_is_named(plain: Path, options: dict[str, float]) -> None:
    with pytest.raises(SettingError, match=next(iter(options))):
        read_frames(plain, **options)


@pytest.fixture
def as_nobody(tmp_path: Path) -> Iterator[None]:
    """Without the superuser's rights, whom no permission binds."""
    if not hasattr(os, "geteuid"):
        pytest.skip("this system has no such permissions")
    if os.geteuid() != 0:
        yield
        return
    os.chown(tmp_path, 65534, 65534)
    opened = [parent for parent in tmp_path.parents if not parent.stat().st_mode & 0o001]
    modes = [parent.stat().st_mode for parent in opened]
    for parent in opened:
        parent.chmod(0o711)
    os.seteuid(65534)
    yield
    os.seteuid(0)
    for parent, mode in zip(opened, modes, strict=True):
        parent.chmod(mode)


def test_what_may_not_be_read_is_named_and_does_not_hinder_the_rest(
    tmp_path: Path, as_nobody: None
) -> None:
    write_video(tmp_path / "a.mp4", gray(3))
    (tmp_path / "locked").mkdir()
    write_video(tmp_path / "locked" / "b.mp4", gray(3))
    write_video(tmp_path / "secret.mp4", gray(3)).chmod(0)
    (tmp_path / "locked").chmod(0)
    try:
        clips = find_clips([tmp_path])
        assert [clip.id for clip in clips] == ["a", "locked", "secret"]
        assert len(times_of(clips[0].video)) == 3
        for clip in clips[1:]:
            with pytest.raises(VideoError, match=f"{clip.id}.*: permission denied; make it"):
                read_frames(clip.video)
    finally:
        (tmp_path / "locked").chmod(0o700)


# Folders of images


def write_images(folder: Path, numbers: Sequence[int], pattern: str = "%06d.png") -> Path:
    folder.mkdir()
    for i, image in zip(numbers, gray(len(numbers)), strict=True):
        data = cv2.imencode(os.path.splitext(pattern)[1], image)[1]
        (folder / (pattern % i)).write_bytes(data.tobytes())
    return folder


@pytest.mark.parametrize("pattern", ["%06d.jpg", "frame_%d.png", "été %03d.JPG"])
def test_a_folder_of_numbered_images_is_a_video(tmp_path: Path, pattern: str) -> None:
    folder = write_images(tmp_path / "raw", range(1, 31), pattern)
    (folder / "Thumbs.db").write_bytes(b"x")
    with read_frames(folder) as reading:
        frames = list(reading)
    assert [number(frame) for frame in frames] == list(range(30))
    assert [frame.time for frame in frames] == [i / 25 for i in range(30)]
    info = reading.info
    assert (info.width, info.height, info.fps, info.duration) == (64, 48, 25, 30 / 25)
    assert [number(f) for f in read_frames(folder, 0.4, 0.48)] == [10, 11]
    assert [number(f) for f in read_frames(folder, image_fps=10, fps=5, max_side=16)] == [
        *range(0, 30, 2)
    ]


def test_a_folder_of_images_has_rgb_colours(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(cv2.imencode(".png", corners()[:, :, ::-1])[1].tobytes())
    np.testing.assert_array_equal(next(read_frames(tmp_path)).image, corners())


def test_a_gap_in_the_numbers_is_a_gap_in_time(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "gaps", [10, 11, 15])
    assert times_of(folder, image_fps=10) == [0, 0.1, 0.5]
    assert probe(folder, image_fps=10).duration == pytest.approx(0.6)


def test_bad_images_are_left_out_and_named(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "bad", range(5))
    (folder / "000002.png").write_bytes(b"")
    (folder / "000003.png").write_bytes(b"not a picture")
    (folder / "000004.png").write_bytes(cv2.imencode(".png", corners(10, 10))[1].tobytes())
    with read_frames(folder) as reading:
        frames = list(reading)
    assert [frame.time for frame in frames] == [0, 1 / 25, 4 / 25]
    assert {frame.image.shape for frame in frames} == {(48, 64, 3)}
    assert reading.problems == [
        f"{folder}: 2 images cannot be read, beginning with 000002.png",
        f"{folder}: 1 images resized to the size of the first, beginning with 000004.png",
    ]
    (folder / "000000.png").write_bytes(b"")
    with pytest.raises(VideoError, match=r"000000\.png: this image cannot be read"):
        read_frames(folder)


def test_two_series_in_one_folder_are_not_one_video(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "two", range(3))
    cv2.imwrite(str(folder / "left_1.png"), corners())
    with pytest.raises(VideoError, match="one series of images"):
        read_frames(folder)


# The shared clips


def shared_data() -> Path:
    beside = Path(__file__).resolve().parents[3] / "shared"
    data = Path(os.environ.get("OBJECTSTATES_SHARED", beside)) / "data"
    if not data.is_dir():
        pytest.skip(f"no shared clips: {data} is not there, set OBJECTSTATES_SHARED")
    return data


def test_simulated_clips_have_the_frames_of_their_ground_truth() -> None:
    clips = find_clips([shared_data() / "sim"])[::10]
    assert clips
    for clip in clips:
        truth = json.loads(clip.video.with_suffix(".json").read_text())
        with read_frames(clip.video) as reading:
            times = [frame.time for frame in reading]
        assert reading.problems == []
        assert times == [i / truth["fps"] for i in range(truth["n_frames"])]
        assert (reading.info.width, reading.info.height) == (truth["width"], truth["height"])
        assert reading.info.duration == pytest.approx(truth["duration_s"])


def test_real_clips_decode_to_their_end() -> None:
    clips = find_clips([shared_data() / "droid"])[::10]
    assert clips
    for clip in clips:
        with read_frames(clip.video) as reading:
            times = [frame.time for frame in reading]
        assert reading.problems == []
        assert times[-1] + 1 / reading.info.fps == pytest.approx(reading.info.duration, abs=0.05)

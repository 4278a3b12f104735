from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest

from objectstates.base.errors import VideoError
from objectstates.video.reader import probe, read_frames
from tests.video.videos import (
    assert_near,
    assert_same,
    bad_file,
    corners,
    gray,
    most_similar,
    noise,
    number,
    times_of,
    write_video,
)


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
    assert [most_similar(frame, images) for frame in whole] == list(range(100))
    for start, end in [(0, 0.04), (0.44, 0.6), (0.48, 1.0), (1.9, 2.9), (3.96, 9.0)]:
        with read_frames(path, start, end) as reading:
            assert_same(list(reading), [f for f in whole if start <= f.time < end])
            assert reading.problems == []


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
    for shown in read_frames(path).in_gray(64, lambda _time: False):
        assert_near(shown.gray, cv2.cvtColor(np.ascontiguousarray(expected), cv2.COLOR_RGB2GRAY))
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
        f"{path}: 25 frames left out: their timestamps do not increase",
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
    with pytest.raises(VideoError, match=r"raw\.h264: the frames have no timestamps.*-c copy"):
        read_frames(path)


@pytest.mark.parametrize(
    ("kind", "reason", "remedy"),
    [
        ("empty", "empty", "download it again"),
        ("pipe", "a pipe or a device", "save the video first"),
        ("text", "not a video", "download it again"),
        ("noise", "not a video", "download it again"),
        ("unindexed", "index is missing", "download it again"),
        ("hollow", "no frame can be decoded", "download it again"),
        ("notes", "text or a single image", "give a video"),
        ("picture", "text or a single image", "give a video"),
        ("playlist", "", "see whether it plays"),
        ("sound", "no video stream in this file", "leave it out"),
        ("cover", "no video stream in this file", "leave it out"),
        ("unknown", "no decoder for this codec", "convert the video"),
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


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="there are no such priorities")
def test_films_are_made_at_the_usual_priority(tmp_path: Path) -> None:
    """A test process of real-time priority would hold up all others."""
    write_video(tmp_path / "a.mp4", gray(5), codec="libsvtav1")
    assert os.sched_getscheduler(0) == os.SCHED_OTHER

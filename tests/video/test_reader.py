from __future__ import annotations

import json
import os
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.base.errors import SettingError, VideoError
from objectstates.video.clip_list import find_clips
from objectstates.video.reader import probe, read_frames
from tests.video.videos import (
    assert_near,
    assert_same,
    corners,
    gray,
    number,
    times_of,
    write_images,
    write_video,
)


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


def test_frames_far_apart_are_refused_and_slow_ones_read(tmp_path: Path) -> None:
    slow, hostile = tmp_path / "slow.mkv", tmp_path / "hostile.mkv"
    write_video(slow, gray(4), times=[0, 600, 1200, 1800])
    assert len(list(read_frames(slow))) == 4
    write_video(hostile, gray(4), times=[0, 1, 2, 100_000])
    with pytest.raises(VideoError, match=r"hostile\.mkv: frame 3 comes 100000 s after"):
        list(read_frames(hostile))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all names are text")
def test_a_name_that_is_no_text_is_read_by_its_printable_name(tmp_path: Path, plain: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.mp4")).write_bytes(plain.read_bytes())
    assert len(list(read_frames(tmp_path / "caf%E9.mp4"))) == len(list(read_frames(plain)))


@pytest.mark.parametrize(
    "name", ["été à la mer.mp4", "日本語.mp4", "take 1: 100% 'ok'.mp4", "-i.mp4", "%03d #2?.mp4"]
)
def test_any_name_can_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "a b").mkdir()
    path = write_video(tmp_path / "a b" / name, gray(3))
    assert [number(frame) for frame in read_frames(path)] == [0, 1, 2]
    assert [span.video for span in find_clips([tmp_path])] == [path]


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
def test_a_setting_that_makes_no_sense_is_named(plain: Path, options: dict[str, Any]) -> None:
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


@pytest.mark.parametrize("fps", [None, 12.5])
def test_gray_frames_are_the_same_frames_and_some_have_colours(
    plain: Path, fps: float | None
) -> None:
    asked: list[float] = []

    def every_second(time: float) -> bool:
        asked.append(time)
        return len(asked) % 2 == 1

    with read_frames(plain, 0.2, 1.5, fps=fps, max_side=32) as reading:
        frames = list(reading.in_gray(16, every_second))
    with read_frames(plain, 0.2, 1.5, fps=fps, max_side=32) as again:
        in_colour = list(again)
    assert [frame.time for frame in frames] == [frame.time for frame in in_colour] == asked
    for index, (found, expected) in enumerate(zip(frames, in_colour, strict=True)):
        assert found.gray.shape == (12, 16)
        assert (found.size, found.scale) == ((32, 24), expected.scale)
        assert abs(float(found.gray.mean()) - number(expected) * 5) <= 3
        if index % 2:
            assert found.image is None
        else:
            assert found.image is not None
            assert_near(found.image, expected.image)


def test_the_last_frame_of_a_span_is_known_whatever_the_rate(plain: Path) -> None:
    for fps in (None, 3.0, 12.5):
        with read_frames(plain, 0.2, 1.5, fps=fps) as reading:
            list(reading.in_gray(16, lambda _time: False))
        assert reading.last == 37 / 25


def test_images_of_a_folder_are_read_in_gray(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "images", [1, 2, 3])
    (folder / "000002.png").write_bytes(b"damaged")
    with read_frames(folder) as reading:
        frames = list(reading.in_gray(16, lambda time: time > 0))
    assert [frame.time for frame in frames] == [0.0, 2 / 25]
    assert [frame.gray.shape for frame in frames] == [(12, 16)] * 2
    assert [frame.image is None for frame in frames] == [True, False]
    assert "1 images cannot be read" in reading.problems[0]

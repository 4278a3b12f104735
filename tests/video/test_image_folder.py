from __future__ import annotations

import os
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from objectstates.base.errors import VideoError
from objectstates.video.reader import probe, read_frames
from tests.video.videos import (
    corners,
    number,
    times_of,
    write_images,
)


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


@pytest.mark.parametrize("first", [1_690_000_000_000_000_000, 10**240])
def test_images_named_by_nanoseconds_are_refused(tmp_path: Path, first: int) -> None:
    folder = write_images(tmp_path / "ns", [first, first + 33_333_333], "%d.png")
    with pytest.raises(VideoError, match=r"ns.*farther apart"):
        probe(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all names are text")
def test_a_folder_whose_name_is_no_text_is_read_by_its_printable_name(tmp_path: Path) -> None:
    write_images(tmp_path / os.fsdecode(b"caf\xe9"), [1, 2], os.fsdecode(b"\xff%06d.png"))
    assert len(times_of(tmp_path / "caf%E9")) == 2


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

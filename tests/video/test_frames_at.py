from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from objectstates.base.errors import VideoError
from objectstates.video.frames_at import frames_at, nearest_index
from objectstates.video.reader import read_frames
from tests.video.videos import gray, number, write_images, write_video

FRAME_TIMES = [0.0, 0.02, 0.5, 0.533, 0.6, 1.9, 1.91, 2.5, 2.9, 8.0, 8.04]


@pytest.fixture(scope="module")
def varying(folder: Path) -> Path:
    return write_video(folder / "vfr.mkv", gray(len(FRAME_TIMES)), times=FRAME_TIMES)


@settings(deadline=None, max_examples=50)
@given(times=st.lists(st.floats(0, 9), max_size=8), tolerance=st.sampled_from([0.1, 0.5, 3.0]))
@example(times=[0.01, 0.26, 1.905, 2.7], tolerance=0.5)
def test_each_time_gets_the_nearest_frame_within_the_tolerance(
    varying: Path, times: list[float], tolerance: float
) -> None:
    problems: list[str] = []
    found = dict(frames_at(varying, times, tolerance=tolerance, problems=problems))
    assert list(found) == sorted(found)
    for time in times:
        distance = np.abs(np.subtract(FRAME_TIMES, time))
        if distance.min() > tolerance:
            assert time not in found
        else:
            index = int(np.argmax(distance <= distance.min() + 1e-6))  # on ties, the earlier
            assert number(found[time]) == index
            assert found[time].time == pytest.approx(FRAME_TIMES[index])
    assert bool(problems) == (len(found) < len(set(times)))


def test_a_tie_goes_to_the_earlier_frame(plain: Path) -> None:
    found = dict(frames_at(plain, [0.02, 0.02 + 1e-7, 0.021]))
    assert [number(frame) for frame in found.values()] == [0, 0, 1]


def test_a_time_without_a_frame_is_an_error_or_a_problem(plain: Path) -> None:
    with pytest.raises(
        VideoError, match=r"plain\.mp4: 2 frames cannot be read, the first at 3\.00"
    ):
        list(frames_at(plain, [1.0, 3.0, 9.0]))
    problems: list[str] = []
    assert [time for time, _ in frames_at(plain, [9.0, 1.0, 3.0], problems=problems)] == [1.0]
    assert len(problems) == 1
    assert [number(frame) for _, frame in frames_at(plain, [-0.1, 2.2])] == [0, 49]


def test_a_missing_file_is_an_error_or_one_problem(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match="does not exist"):
        list(frames_at(tmp_path / "x.mp4", [1.0]))
    problems: list[str] = []
    assert list(frames_at(tmp_path / "x.mp4", [1.0, 20.0], problems=problems)) == []
    assert len(problems) == 1
    assert "does not exist" in problems[0]


def test_the_video_is_decoded_once_and_long_gaps_are_sought(
    varying: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = []

    def counted(*args, **options):
        spans.append(args[1:])
        return read_frames(*args, **options)

    monkeypatch.setattr("objectstates.video.frames_at.read_frames", counted)
    assert len(list(frames_at(varying, [8.0, 0.5, 0.0, 2.5]))) == 4
    assert [start for start, _ in spans] == [0.0, 7.5]


def test_resampling_size_and_folders_of_images_are_those_of_read_frames(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "raw", range(20))
    found = frames_at(folder, [0.3, 1.1], image_fps=10, fps=5, max_side=32)
    assert [(f.time, f.image.shape) for _, f in found] == [(0.2, (24, 32, 3)), (1.0, (24, 32, 3))]


def test_the_nearest_entry_of_sorted_times() -> None:
    times = np.array([0.0, 1.0, 3.0])
    wanted = [-5.0, 0.5, 0.6, 2.0, 2.1, 99.0]
    assert [nearest_index(times, time) for time in wanted] == [0, 0, 1, 1, 2, 2]
    assert nearest_index(times[:1], 7.0) == 0

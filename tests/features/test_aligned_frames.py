from __future__ import annotations

import numpy as np
import pytest

from objectstates.features import aligned_frames
from objectstates.features.aligned_frames import rate_for, read_aligned
from objectstates.video.reader import probe
from tests.features.films import FPS, film
from tests.video.videos import write_video


@pytest.fixture(scope="module")
def swaying(tmp_path_factory):
    path = tmp_path_factory.mktemp("films") / "swaying.mp4"
    return write_video(path, film(sway=12.0, change=None), fps=FPS, options={"crf": "18"})


def test_a_swaying_camera_is_brought_to_rest(swaying):
    [frames] = read_aligned(swaying, None, None)
    still = np.tile(np.eye(3), (len(frames.times), 1, 1))
    inner = (slice(None), slice(15, -15), slice(15, -15))  # the border leaves the picture
    at_rest = frames.images[inner].astype(float).std(axis=0).mean()
    assert np.abs(frames.cameras - still).max() > 4, "it does sway"
    moving = [aligned_frames._aligned(i, np.eye(3)) for i in _small(film(sway=12.0, change=None))]
    assert at_rest < 0.35 * np.stack(moving)[inner].astype(float).std(axis=0).mean()


def _small(frames):
    import cv2

    return [cv2.resize(f, (160, 120), interpolation=cv2.INTER_AREA) for f in frames]


def test_times_are_those_of_the_video_and_long_clips_are_read_at_fewer_frames(swaying, monkeypatch):
    [frames] = read_aligned(swaying, 1.0, 3.0)
    assert frames.times[0] == pytest.approx(1.0)
    assert len(frames.times) == 2 * FPS
    assert frames.period == pytest.approx(1 / FPS)
    monkeypatch.setattr(aligned_frames, "MAX_FRAMES", 20)
    [fewer] = read_aligned(swaying, None, None)
    assert 18 <= len(fewer.times) <= 22
    assert fewer.images.shape == (len(fewer.times), 120, 160, 3)


def test_a_single_frame_is_aligned_to_itself(swaying):
    [frames] = read_aligned(swaying, 0.0, 0.04)
    assert len(frames.times) == 1
    assert (frames.cameras == np.eye(3)).all()


def test_shots_are_aligned_separately(tmp_path):
    shot = film(sway=12.0, change=None)
    other = [255 - frame[::-1, :, [1, 2, 0]] // 2 for frame in shot]
    path = write_video(tmp_path / "cut.mp4", [*shot, *other], fps=FPS, options={"crf": "18"})
    fps = min(FPS, rate_for(probe(path), None, None, None))
    first, second = read_aligned(path, None, None)
    assert second.times[0] == pytest.approx(len(shot) / FPS, abs=1 / fps)
    for frames in (first, second):
        assert (
            len(frames.images) == len(frames.times) == pytest.approx(fps * len(shot) / FPS, abs=1)
        )
        assert np.abs(frames.cameras[len(frames.times) // 2] - np.eye(3)).max() < 1e-6

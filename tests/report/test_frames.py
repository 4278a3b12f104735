from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from objectstates.report import pictures
from objectstates.report.frames import (
    WHERE,
    FramePlan,
    FrameRequest,
    mean_crop,
    read_requests,
)
from tests.report.scenes import BLUE, FPS, HEIGHT, ORANGE, WIDTH, draw_video, thing_at

PLAN = FramePlan.of(5)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(draw_video(tmp_path_factory.mktemp("video") / "a.mp4"))


def decode(picture: bytes | None) -> np.ndarray:
    """RGB (H, W, 3)."""
    assert picture is not None
    return pictures.decode(picture)


def boxes(*times: float) -> np.ndarray:
    return np.array([[t, *thing_at(t)] for t in times], float)


def test_frames_are_those_nearest_the_requested_times(video: str) -> None:
    times = [5.9, 0.0, 1.0, 5.5, 3.4]
    wanted = [FrameRequest((0, i), time) for i, time in enumerate(times)]
    images = read_requests({video: wanted}, PLAN)
    assert images.problems == {}
    for i, time in enumerate(times):
        image = images.by_moment[0, i]
        assert abs(image.time - time) <= 0.05
        assert (image.width, image.height) == (WIDTH, HEIGHT)
        x1, y1, x2, y2 = thing_at(round(image.time * FPS) / FPS)
        inside = decode(image.picture)[y1 + 5 : y2 - 5, x1 + 5 : x2 - 5].reshape(-1, 3).mean(axis=0)
        np.testing.assert_allclose(inside, BLUE if time < 3 else ORANGE, atol=25)


def test_changed_places_have_a_colour_and_the_others_none(video: str) -> None:
    where = np.zeros((6, 8), np.uint8)
    where[:3] = 255
    images = read_requests({video: [FrameRequest((0, WHERE), 1.0, where=where)]}, PLAN)
    picture = decode(images.by_moment[0, WHERE].picture).astype(int)
    colourful = picture.max(axis=2) - picture.min(axis=2)
    assert (colourful[:50] > 80).all()
    assert (colourful[70:] < 12).all()
    assert np.abs(np.diff(picture[70:].mean(axis=2), axis=1)).max() > 20, "the object still shows"


def test_a_folder_of_images_is_a_video_too(tmp_path: Path) -> None:
    for i in range(20):
        cv2.imwrite(str(tmp_path / f"{i:04d}.png"), np.full((30, 40, 3), 10 * i, np.uint8))
    images = read_requests({str(tmp_path): [FrameRequest((0, 0), 1.2)]}, PLAN, image_fps=10)
    assert decode(images.by_moment[0, 0].picture).mean() == pytest.approx(120, abs=3)


def test_a_crop_is_the_object_and_little_else(video: str) -> None:
    images = read_requests({video: [FrameRequest((0, 0), 1.0, boxes=boxes(0.5, 1.5))]}, PLAN)
    crop = decode(images.by_moment[0, 0].crop)
    assert crop.shape == (120, 120, 3)
    near = (np.abs(crop.astype(int) - BLUE).max(axis=2) < 40).mean()
    assert 0.6 < near < 0.8  # 1 / 1.2 squared


def test_a_box_beyond_the_border_is_cropped_too(video: str) -> None:
    outside = np.array([[1.0, -30, -30, 20, 20]])
    images = read_requests({video: [FrameRequest((0, 0), 1.0, boxes=outside)]}, PLAN)
    assert decode(images.by_moment[0, 0].crop).shape == (120, 120, 3)


def test_an_unreadable_video_is_named_and_the_others_are_read(video: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video at all" * 100)
    wanted = {
        video: [FrameRequest((0, 0), 1.0), FrameRequest((0, 1), 60.0)],
        str(broken): [FrameRequest((1, 0), 1.0)],
    }
    images = read_requests(wanted, PLAN)
    assert set(images.by_moment) == {(0, 0)}
    assert "broken.mp4" in images.problems[str(broken)]
    assert "1 frames cannot be read, the first at 60.00 s" in images.problems[video]


def test_processes_do_not_change_a_byte(video: str, tmp_path: Path) -> None:
    other = str(draw_video(tmp_path / "b.mp4"))
    wanted = {
        v: [FrameRequest((n, 0), 2.0, boxes(2.0), True)] for n, v in enumerate((video, other))
    }
    seen = []
    images = read_requests(wanted, PLAN, processes=1)
    again = read_requests(
        wanted, PLAN, processes=2, progress=lambda done, all_: seen.append((done, all_))
    )
    assert images.by_moment == again.by_moment
    assert images.by_moment[0, 0].large
    assert seen == [(1, 2), (2, 2)]


def test_a_frame_far_from_the_requested_time_is_better_than_none(tmp_path: Path) -> None:
    for i in range(4):
        cv2.imwrite(str(tmp_path / f"{i:04d}.png"), np.full((30, 40, 3), 10 * i, np.uint8))
    wanted = [FrameRequest((0, 0), 1.0), FrameRequest((0, 1), 3.8)]  # the last frame is at 3 s
    images = read_requests({str(tmp_path): wanted}, PLAN, image_fps=1)
    assert [images.by_moment[0, k].time for k in (0, 1)] == [1.0, 3.0]
    assert images.problems == {}


def test_a_frame_is_read_at_the_size_shown_and_its_crop_with_all_details(tmp_path: Path) -> None:
    image = np.zeros((480, 640, 3), np.uint8)
    image[::2, 300:340] = 255  # lines of one pixel
    cv2.imwrite(str(tmp_path / "0001.png"), image)
    detail = np.array([[0.0, 300, 200, 340, 240]])
    wanted = [FrameRequest((0, 0), 0.0), FrameRequest((0, 1), 0.0, boxes=detail)]
    plain = read_requests({str(tmp_path): wanted[:1]}, PLAN).by_moment[0, 0]
    both = read_requests({str(tmp_path): wanted}, PLAN).by_moment
    for frame in (plain, both[0, 1]):
        assert max(decode(frame.picture).shape) == PLAN.side
        assert (frame.width, frame.height) == (640, 480)
    assert decode(both[0, 1].crop)[40:80, 40:80].std() > 50


@pytest.mark.parametrize("n_clips", [1, 60, 61, 150, 500, 701, 5000])
def test_the_size_of_all_frames_is_bounded(n_clips: int) -> None:
    plan = FramePlan.of(n_clips)
    frames = min(n_clips, plan.clips) * (3 + plan.key_frames)
    assert frames * plan.bytes * 4 / 3 < 15e6


def test_the_mean_of_crops(video: str) -> None:
    wanted = [FrameRequest((0, i), t, boxes(t)) for i, t in enumerate((1.0, 5.0))]
    images = read_requests({video: wanted}, PLAN).by_moment
    mean = decode(mean_crop([images[0, i].crop or b"" for i in (0, 1)]))
    middle = mean[40:80, 40:80].reshape(-1, 3).mean(axis=0)
    np.testing.assert_allclose(middle, (np.array(BLUE) + ORANGE) / 2, atol=20)
    assert mean_crop([]) is None

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from benchmarks.detector import known
from benchmarks.motion_detector import judge
from objectstates.base.errors import DetectorError
from objectstates.base.geometry import iou
from objectstates.detect.change_detector import BOXES, ClipProposals, MotionDetector
from objectstates.detect.detections import Detections
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Image, probe, read_frames
from tests.detect.pictures import background, simulated, thing
from tests.video.videos import write_video

SIZE = (240, 180)
BEFORE = np.array([[70, 60, 130, 105]])
AFTER = np.array([[90, 60, 150, 105]])


def scene(pan: float = 0.0, *, moves: bool = True) -> list[Image]:
    """Four seconds at 10 fps: a thing is pushed aside at 2 s, and a disc wanders all the time.

    pan : pixels per frame by which the camera moves.
    """
    rng = np.random.default_rng(0)
    wall = background(rng, (SIZE[0] + 80, SIZE[1]))
    grain = np.asarray(cv2.GaussianBlur(rng.normal(size=wall.shape[:2]), (0, 0), 2.5))
    wall = np.clip(wall + 25 * (grain / grain.std())[..., None], 0, 255).astype(np.uint8)
    cv2.rectangle(wall, (10, 130), (60, 160), (200, 40, 160), -1)  # rests
    images = []
    for k in range(40):
        progress = float(np.clip((k - 18) / 4, 0, 1)) if moves else 0.0
        frame = wall.copy()
        x = 70 + round(20 * progress)
        frame[60:105, x : x + 60] = thing(60, 45)
        at = round(120 + 70 * np.cos(k * 1.3)), round(50 + 45 * np.sin(k * 0.9))
        cv2.circle(frame, at, 14, (240, 200, 180), -1)
        left = round(pan * k)
        images.append(np.ascontiguousarray(frame[:, left : left + SIZE[0]]))
    return images


def propose(path: Path, start: float | None = None, end: float | None = None) -> ClipProposals:
    return MotionDetector().for_clip(ClipSpan("c", path, start, end), probe(path))


def detections(path: Path) -> list[tuple[float, Detections]]:
    detector = propose(path)
    with read_frames(path) as frames:
        return [(frame.time, detector.detect([frame])[0]) for frame in frames]


@pytest.mark.parametrize("pan", [0.0, 1.0])
def test_what_was_moved_is_among_the_boxes(tmp_path: Path, pan: float):
    path = write_video(tmp_path / "v.mp4", scene(pan), fps=10)
    hits = []
    for time, found in detections(path):
        if not 1.7 < time < 2.3:
            truth = (BEFORE if time < 2 else AFTER) - np.array([pan * 10 * time, 0] * 2)
            hits.append(iou(found.boxes, truth).max() >= 0.5)
        assert 1 <= len(found) <= BOXES
    assert np.mean(hits) > 0.9


def test_boxes_are_of_the_frames_size(tmp_path: Path):
    path = write_video(tmp_path / "v.mp4", scene(), fps=10)
    detector = propose(path)
    with read_frames(path) as whole, read_frames(path, max_side=120) as small:
        large, half = (detector.detect([next(frames)])[0] for frames in (whole, small))
    np.testing.assert_allclose(large.boxes, 2 * half.boxes, atol=0.1)
    assert (large.boxes >= 0).all()
    assert (large.boxes <= [*SIZE, *SIZE]).all()


def test_more_trust_where_something_changed(tmp_path: Path):
    moved = write_video(tmp_path / "moved.mp4", scene(), fps=10)
    still = write_video(tmp_path / "still.mp4", scene(moves=False), fps=10)
    best = [max(found.scores.max() for _, found in detections(path)) for path in (moved, still)]
    assert best[0] > best[1] + 0.1


def test_the_same_clip_gives_the_same_boxes(tmp_path: Path):
    path = write_video(tmp_path / "v.mp4", scene(), fps=10)
    for (_, one), (_, other) in zip(detections(path), detections(path), strict=True):
        np.testing.assert_array_equal(one.boxes, other.boxes)
        assert (np.diff(one.scores) <= 0).all()
        assert ((one.scores >= 0) & (one.scores <= 1)).all()
    assert MotionDetector().fingerprint == propose(path).fingerprint
    assert MotionDetector(3).fingerprint != MotionDetector().fingerprint


def test_other_shots_get_no_boxes(tmp_path: Path):
    other = [255 - image[::-1, :, [1, 2, 0]] // 2 for image in scene(moves=False)[:20]]
    path = write_video(tmp_path / "v.mp4", [*other, *scene()], fps=10)
    for time, found in detections(path):
        assert (len(found) > 0) == (time > 1.99)


def test_only_the_clip_is_watched(tmp_path: Path):
    """In the part of the video in which nothing moves, nothing tells of the rest."""
    path = write_video(tmp_path / "v.mp4", scene(moves=False) + scene(), fps=10)
    with read_frames(path) as frames:
        first = next(frames)
    part = propose(path, 0.0, 4.0).detect([first])[0]
    whole = propose(path).detect([first])[0]
    assert whole.scores.max() > part.scores.max()


@pytest.mark.parametrize(("count", "size"), [(1, (64, 48)), (2, (64, 48)), (30, (16, 16))])
def test_clips_with_nothing_to_see_still_get_boxes(
    tmp_path: Path, count: int, size: tuple[int, int]
):
    image = background(np.random.default_rng(1), (64, 48))
    small = np.ascontiguousarray(image[: size[1], : size[0]])
    path = write_video(tmp_path / "v.mp4", [small] * count, fps=10)
    for _, found in detections(path):
        assert len(found) >= 1
        assert (found.boxes[:, 2:] > found.boxes[:, :2]).all()


def test_flat_and_narrow_frames_are_no_trouble(tmp_path: Path):
    path = write_video(tmp_path / "v.mp4", [np.full((8, 320, 3), 90, np.uint8)] * 8, fps=10)
    assert all(len(found) >= 1 for _, found in detections(path))


def test_without_a_clip_it_says_what_to_do():
    with pytest.raises(DetectorError, match="for_clip"):
        MotionDetector().detect([])


def test_an_opened_drawer_is_among_the_boxes_and_covered_by_tracklets():
    for clip, truth in known(simulated("drawer-open"), (1, 3)):
        row = judge(clip, truth)
        assert min(row.hits, row.covered) >= 0.8
        assert row.on_object > 0.1 * row.tracklets

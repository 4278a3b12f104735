from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from objectstates.base.errors import SettingError
from objectstates.base.geometry import paired_iou
from objectstates.detect.detections import Detections
from objectstates.track.klt import is_cut
from objectstates.track.tracker import Tracker
from objectstates.track.tracklets import cut_tracks
from objectstates.track.tracks import Track
from objectstates.video.reader import read_frames
from tests.features.scenes import SIZE, affine, texture

FPS = 25
BOX = np.array([120.0, 80, 190, 140])
WALL, SKINS = texture(1), [texture(2), texture(3)]
Boxes = npt.NDArray[Any]  # (4,)
Gray = npt.NDArray[np.uint8]


def moved(box: Boxes, dx: float = 0, dy: float = 0, zoom: float = 1) -> Boxes:
    centre, half = (box[:2] + box[2:]) / 2 + (dx, dy), (box[2:] - box[:2]) / 2 * zoom
    return np.concatenate([centre - half, centre + half])


def scene(*boxes: Boxes, pan: float = 0, wall: Gray = WALL) -> Gray:
    """A textured wall and textured objects before it, the last in front; their home is BOX."""
    frame = _draw(wall, affine(dx=pan))
    for box, skin in zip(boxes, SKINS, strict=False):
        zoom = (box[2] - box[0]) / (BOX[2] - BOX[0])
        shift = (box[:2] + box[2:] - BOX[:2] - BOX[2:]) / 2
        centre = tuple((BOX[:2] + BOX[2:]) / 2)
        thing = _draw(skin, affine(shift[0], shift[1], zoom=zoom, centre=centre))
        x1, y1, x2, y2 = np.round(box).astype(int).clip(0)
        frame[y1:y2, x1:x2] = thing[y1:y2, x1:x2]
    return frame


def _draw(image: Gray, motion: npt.NDArray[Any]) -> Gray:
    offset = motion.copy()
    offset[:, 2] -= motion[:, :2] @ [100, 100]
    return np.asarray(cv2.warpAffine(image, offset, SIZE, flags=cv2.INTER_CUBIC), np.uint8)


def found(*boxes: npt.ArrayLike, scores: Sequence[float] | None = None) -> Detections:
    each = scores or [0.9] * len(boxes)
    return Detections(np.array(boxes, np.float32).reshape(-1, 4), np.array(each, np.float32))


def run(
    frames: Sequence[Gray], detections: Callable[[int], Detections | None], **options: Any
) -> list[Track]:
    tracker = Tracker(**options)
    for i, frame in enumerate(frames):
        tracker.update(i / FPS, frame, detections(i))
    return tracker.finish()


def every(step: int, boxes: Sequence[Boxes]) -> Callable[[int], Detections | None]:
    return lambda i: found(boxes[i]) if i % step == 0 else None


def overlaps(track: Track, boxes: Sequence[Boxes]) -> npt.NDArray[np.float64]:
    frames = np.round(track.times * FPS).astype(int)
    return paired_iou(track.boxes, np.array(boxes)[frames])


PATHS = {
    "at rest": [BOX] * 50,
    "sideways": [moved(BOX, dx=2.0 * i - 50) for i in range(50)],
    "fast": [moved(BOX, dx=90 * np.sin(i / 8), dy=30 * np.cos(i / 8)) for i in range(50)],
    "nearer": [moved(BOX, zoom=1.012**i) for i in range(50)],
    "farther": [moved(BOX, dx=0.5 * i, zoom=0.985**i) for i in range(50)],
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_boxes_between_detections_follow_the_object(path: list[Boxes]) -> None:
    (track,) = run([scene(box) for box in path], every(10, path))
    assert np.round(track.times * FPS).tolist() == list(range(50))
    assert overlaps(track, path).min() > 0.85
    assert np.flatnonzero(np.isfinite(track.scores)).tolist() == [0, 10, 20, 30, 40]


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_detection_is_propagated_in_both_directions(path: list[Boxes]) -> None:
    def detect(i: int) -> Detections | None:
        return found(path[i]) if i == 25 else None

    (track,) = run([scene(box) for box in path], detect, patience=2, reach=0.6)
    assert np.round(track.times * FPS).tolist() == list(range(10, 41))
    assert overlaps(track, path).min() > 0.75


def test_the_camera_may_move() -> None:
    path = [moved(BOX, dx=-2 * i) for i in range(40)]
    (track,) = run([scene(box, pan=-2 * i) for i, box in enumerate(path)], every(20, path))
    assert overlaps(track, path).min() > 0.85


@pytest.mark.parametrize("seed", range(3))
def test_jitter_of_the_detections_is_smoothed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    path = [moved(BOX, dx=i - 25) for i in range(50)]
    seen = [box + rng.normal(size=4) * 4 for box in path]
    (track,) = run([scene(box) for box in path], every(5, seen))
    raw = np.mean([paired_iou(seen[i], path[i]) for i in range(0, 50, 5)])
    assert overlaps(track, path).mean() > raw + 0.02


def test_missed_detections_are_bridged() -> None:
    path = [moved(BOX, dx=i - 40) for i in range(80)]

    def detect(i: int) -> Detections | None:
        if i % 5:
            return None
        return found() if 20 <= i <= 55 else found(path[i])

    (track,) = run([scene(box) for box in path], detect)
    assert len(track) == 80
    assert overlaps(track, path).min() > 0.85


def test_a_gap_longer_than_patience_ends_a_track() -> None:
    def detect(i: int) -> Detections | None:
        return found(BOX) if i in (0, 5, 10, 90, 95) else None

    first, second = run([scene(BOX)] * 100, detect, patience=1, reach=0.2)
    assert (first.times[-1], second.times[0]) == (15 / FPS, 85 / FPS)
    assert first.end == 16 / FPS
    assert first.number != second.number


@pytest.mark.parametrize("seed", range(3))
def test_false_positives_give_no_tracks_of_their_own(seed: int) -> None:
    rng = np.random.default_rng(seed)
    path = [moved(BOX, dx=i - 50) for i in range(100)]

    def detect(i: int) -> Detections | None:
        x, y = rng.uniform((0, 0), (240, 180))
        w, h = rng.uniform(30, 80, 2)
        return found([x, y, x + w, y + h], path[i], scores=[0.95, 0.6]) if i % 5 == 0 else None

    tracks = run([scene(box) for box in path], detect)
    longest = max(tracks, key=len)
    assert len(longest) == 100
    assert overlaps(longest, path).min() > 0.7
    assert sum(len(track) for track in tracks) < 150


def test_one_false_box_does_not_break_a_track() -> None:
    def detect(i: int) -> Detections | None:
        if i % 5:
            return None
        return found([145, 70, 215, 130]) if i == 50 else found(BOX)

    (track,) = run([scene(BOX)] * 100, detect)
    assert len(track) == 100
    assert overlaps(track, [BOX] * 100).min() > 0.4


def test_two_detections_of_one_object_give_one_track() -> None:
    near = moved(BOX, dx=4)
    frames = [scene(BOX)] * 50
    both = found(BOX, near, scores=[0.8, 0.7])
    assert len(run(frames, lambda i: both)) == 1
    assert len(run(frames, lambda i: found(near if i % 2 else BOX))) == 1


def test_an_occluder_is_not_tracked() -> None:
    hands = [np.array([x, 60, x + 40, 160]) for x in np.linspace(0, 280, 70)]
    frames = [scene(BOX, hand) for hand in hands]
    (track,) = run(frames, lambda i: found(BOX) if i == 0 else None, patience=5, reach=5)
    assert overlaps(track, [BOX] * 70).min() > 0.8
    assert len(track) == 70


def test_an_object_is_not_tracked_while_it_is_occluded_for_long() -> None:
    cover = np.array([100.0, 50, 210, 170])
    away = np.array([320.0, 50, 430, 170])
    hidden = range(30, 90)
    frames = [scene(BOX, cover if i in hidden else away) for i in range(120)]

    def detect(i: int) -> Detections | None:
        return None if i % 5 else found() if i in hidden else found(BOX)

    tracks = run(frames, detect)
    boxed = {round(t * FPS) for track in tracks for t in track.times}
    assert boxed >= set(range(30)) | set(range(90, 120))
    assert len(boxed & set(range(45, 75))) == 0


def test_objects_that_cross_keep_their_identity() -> None:
    left = [moved(BOX, dx=3 * i - 100, dy=-15) for i in range(70)]
    right = [moved(BOX, dx=100 - 3 * i, dy=15) for i in range(70)]
    frames = [scene(a, b) for a, b in zip(left, right, strict=True)]

    def detect(i: int) -> Detections | None:
        if i % 5:
            return None
        hidden = paired_iou(left[i], right[i]) > 0.3
        return found(right[i]) if hidden else found(left[i], right[i])

    tracks = run(frames, detect)
    for track in tracks:
        assert max(np.mean(overlaps(track, path) > 0.5) for path in (left, right)) > 0.9
    for path in (left, right):
        boxed = {
            round(t.times[k] * FPS) for t in tracks for k in np.flatnonzero(overlaps(t, path) > 0.5)
        }
        assert len(boxed) > 60


def test_tracks_end_at_a_cut() -> None:
    frames = [scene(BOX)] * 33 + [scene(wall=texture(7))] * 40
    tracker = Tracker()
    cuts = []
    for i, frame in enumerate(frames):
        tracker.update(i / FPS, frame, found(BOX) if i % 5 == 0 else None)
        if tracker.cut:
            cuts.append(i)
    tracks = tracker.finish()
    assert cuts == [33]
    assert len(tracks) == 2
    assert tracks[0].end == tracks[1].times[0] == 33 / FPS


def test_a_change_of_light_is_no_cut() -> None:
    frames = [(scene(BOX) * light).astype(np.uint8) for light in np.linspace(0.5, 1, 50)]
    assert len(run(frames, every(5, [BOX] * 50))) == 1
    assert not any(is_cut(a, b) for a, b in pairwise(frames))


def test_another_frame_size_or_a_gap_in_time_begins_a_shot() -> None:
    small = np.asarray(cv2.resize(scene(BOX), (160, 120)), np.uint8)
    tracker = Tracker()
    for i in range(60):
        shown = i / FPS + (5 if i >= 40 else 0)
        half = i >= 20
        tracker.update(shown, small if half else scene(BOX), found(BOX / 2 if half else BOX))
        assert tracker.cut == (i in (20, 40))
    tracks = tracker.finish()
    assert [len(track) for track in tracks] == [20, 20, 20]
    np.testing.assert_allclose([t.end - t.times[0] for t in tracks], 0.8)
    np.testing.assert_allclose(tracks[1].boxes * 2, tracks[0].boxes, atol=2)


@pytest.mark.parametrize("things", [(), (np.array([60.0, 60, 100, 100]),)])
def test_objects_without_points_stay_in_place_in_a_static_scene(things: tuple[Boxes, ...]) -> None:
    frames = [np.full(SIZE[::-1], 90, np.uint8) for _ in range(33)]
    for frame in frames:
        for x1, y1, x2, y2 in np.array(things, int).reshape(-1, 4):
            frame[y1:y2, x1:x2] = 200
    (track,) = run(frames, lambda i: found(BOX) if i % 20 == 0 else None)
    np.testing.assert_allclose(track.boxes, np.tile(BOX, (33, 1)), atol=0.1)


def test_objects_without_points_move_with_the_scene() -> None:
    path = [moved(BOX, dx=-i) for i in range(40)]
    frames = []
    for i, box in enumerate(path):
        frame = scene(pan=-i)
        x1, y1, x2, y2 = np.round(box).astype(int)
        frame[y1:y2, x1:x2] = 128
        frames.append(frame)
    (track,) = run(frames, lambda i: found(path[i]) if i == 20 else None, reach=1)
    assert overlaps(track, path).min() > 0.8


def test_a_track_ends_where_the_object_leaves_the_frame() -> None:
    path = [moved(BOX, dx=4 * i) for i in range(60)]
    (track,) = run(
        [scene(box) for box in path],
        lambda i: found(path[i]) if i % 5 == 0 and path[i][2] < SIZE[0] else None,
    )
    assert path[len(track) - 1][2] > SIZE[0]
    assert path[len(track) - 1][0] < SIZE[0]
    assert track.boxes.min() >= 0
    assert track.boxes[:, 2].max() <= SIZE[0]


def test_no_detections_no_tracks() -> None:
    assert run([scene(BOX)] * 10, lambda i: None) == []
    assert run([scene(BOX)] * 10, lambda i: found()) == []
    assert run([], lambda i: None) == []


def test_one_frame_lasts_a_frame() -> None:
    (track,) = run([scene(BOX)], lambda i: found(BOX))
    np.testing.assert_allclose(track.boxes, BOX[None])
    assert (track.times.tolist(), track.end) == ([0.0], 0.04)
    assert cut_tracks([track]) == []
    assert len(cut_tracks([track], min_seconds=0)) == 1


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (8, 8), (15, 30), (17, 17)])
def test_tiny_frames(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 255, size, np.uint8)] * 20
    whole = np.array([0, 0, size[1], size[0]])
    tracks = run(frames, lambda i: found(whole))
    assert len(tracks) == (1 if min(size) > 1 else 0)


def test_boxes_that_are_empty_or_not_finite_are_left_out() -> None:
    bad: list[list[float]] = [
        [5, 5, 5, 50],
        [50, 50, 20, 20],
        [np.nan, 0, 9, 9],
        [400, 10, 500, 90],
    ]
    tracks = run([scene(BOX)] * 20, lambda i: found(BOX, *bad))
    assert len(tracks) == 1


def test_large_frames_give_boxes_in_their_own_pixels() -> None:
    path = [moved(BOX, dx=i - 15) for i in range(30)]
    frames = [np.asarray(cv2.resize(scene(box), (960, 720)), np.uint8) for box in path]
    (track,) = run(frames, lambda i: found(path[i] * 3) if i % 10 == 0 else None)
    assert overlaps(track, [box * 3 for box in path]).min() > 0.85


def test_boxes_are_in_pixels_of_the_size_that_is_given() -> None:
    """Gray frames may be smaller than the frames of the detector."""
    path = [moved(BOX, dx=i - 15) for i in range(30)]
    tracker = Tracker()
    for i, box in enumerate(path):
        tracker.update(i / FPS, scene(box), found(box * 3) if i % 10 == 0 else None, (960, 720))
    (track,) = tracker.finish()
    assert overlaps(track, [box * 3 for box in path]).min() > 0.85


def test_long_tracks_come_in_parts_and_memory_stays_bounded() -> None:
    frames = [scene(moved(BOX, dx=20 * np.sin(i / 10))) for i in range(63)]
    tracker = Tracker(longest=4)
    tracks, peaks = [], []
    tracemalloc.start()
    for i in range(1500):
        tracker.update(i / FPS, frames[i % 63], found(BOX) if i % 10 == 0 else None)
        tracks += [(t.number, t.times[0], t.end, len(t)) for t in tracker.pop_finished()]
        assert all(t[1] >= 0 for t in tracks)
        assert i / FPS - tracker.settled < 5
        if i in (500, 1499):
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.reset_peak()
    tracemalloc.stop()
    tracks += [(t.number, t.times[0], t.end, len(t)) for t in tracker.finish()]
    assert peaks[1] < 1.1 * peaks[0]
    assert {number for number, *_ in tracks} == {0}
    assert sum(n for *_, n in tracks) == 1500
    assert [t[1] for t in tracks[1:]] == [t[2] for t in tracks[:-1]]


def test_settled_time_is_kept() -> None:
    rng = np.random.default_rng(0)
    path = [moved(BOX, dx=50 * np.sin(i / 10)) for i in range(150)]
    tracker = Tracker(longest=1, patience=1)
    for i, box in enumerate(path):
        seen = found(box) if rng.random() < 0.1 else None
        before = tracker.settled
        tracker.update(i / FPS, scene(box), seen)
        assert all(track.times[0] >= before - 1e-6 for track in tracker.pop_finished())


@pytest.mark.parametrize("fps", [0.1, 1, 25, 240])
@pytest.mark.parametrize("limit", [0, 0.1, 3])
def test_any_frame_rate_and_any_limits(fps: float, limit: float) -> None:
    tracker = Tracker(patience=limit, reach=limit, longest=limit)
    for i in range(12):
        tracker.update(i / fps, scene(BOX), found(BOX) if i % 3 == 0 else None)
    tracks = tracker.finish()
    pieces = cut_tracks(tracks, min_seconds=0)
    assert sum(len(track) for track in tracks) == sum(len(piece.times) for piece in pieces) >= 4
    assert all(np.isfinite(track.scores).any() for track in tracks)
    assert max(np.abs(track.boxes - BOX).max() for track in tracks) < 0.5
    spans = [(piece.start, piece.end) for piece in pieces]
    assert all(a[1] <= b[0] + 1e-6 for a, b in pairwise(spans))


def test_the_same_whatever_the_number_of_threads() -> None:
    path = [moved(BOX, dx=i - 20, zoom=1.01**i) for i in range(40)]
    frames = [scene(box) for box in path]
    threads = cv2.getNumThreads()
    results = []
    for n in (1, 4):
        cv2.setNumThreads(n)
        results.append(run(frames, every(5, path))[0].boxes.tobytes())
    cv2.setNumThreads(threads)
    assert results[0] == results[1]


def test_frames_must_come_in_order_and_be_gray() -> None:
    tracker = Tracker()
    tracker.update(1.0, scene(BOX), None)
    with pytest.raises(SettingError, match="must be after"):
        tracker.update(1.0, scene(BOX), None)
    with pytest.raises(SettingError, match="uint8"):
        tracker.update(2.0, np.zeros((4, 4, 3), np.uint8), None)
    with pytest.raises(SettingError, match="patience"):
        Tracker(patience=-1)
    tracker.finish()
    tracker.update(0.0, scene(BOX), None)


@pytest.mark.parametrize("seed", range(2))
def test_simulated_clip_is_covered_in_spite_of_a_poor_detector(seed: int) -> None:
    beside = Path(__file__).resolve().parents[3] / "shared"
    folder = Path(os.environ.get("OBJECTSTATES_SHARED", beside)) / "data" / "sim"
    if not folder.is_dir():
        pytest.skip(f"needs the simulated clips in {folder}")
    clip = folder / "door-open" / "door-open_003"
    truth = json.loads(clip.with_suffix(".json").read_text())
    path = [np.array(box, float) for box in truth["object"]["box"]]
    rng = np.random.default_rng(seed)
    tracker = Tracker()
    with read_frames(clip.with_suffix(".mp4")) as frames:
        for i, frame in enumerate(frames):
            seen = []
            if rng.random() > 0.2:
                sides = np.tile(path[i][2:] - path[i][:2], 2)
                seen.append(path[i] + rng.normal(size=4) * 0.05 * sides)
            if rng.random() < 0.3:
                corner = rng.uniform((0, 0), (240, 180))
                seen.append(np.concatenate([corner, corner + rng.uniform(20, 80, 2)]))
            gray = np.asarray(cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY), np.uint8)
            tracker.update(frame.time, gray, found(*seen) if i % 5 == 0 else None)
    covered = {
        i
        for piece in cut_tracks(tracker.finish())
        for i, box in zip(np.round(piece.times * FPS).astype(int), piece.boxes, strict=True)
        if paired_iou(box, path[i]) >= 0.5
    }
    assert len(covered) > 0.95 * len(path)

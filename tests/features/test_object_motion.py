from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from objectstates.base.errors import SettingError
from objectstates.features.chunks import chunk_averages, chunk_intervals
from objectstates.features.flow import FlowEstimator
from objectstates.features.object_motion import (
    OBJECT_MOTION_DIM,
    MotionField,
    motion_field,
    object_motion,
)

BOX = (110, 70, 210, 170)  # 100 pixels a side


def field(before, after, seconds=0.04):
    estimator = FlowEstimator()
    estimator.update(0.0, before)
    step = estimator.update(seconds, after)
    assert step is not None
    return motion_field(step)


def cells(descriptor):
    """The moving share (3, 3), and by direction (3, 3, 8)."""
    grid = descriptor[:-1].reshape(3, 3, 9)
    return grid[..., 0], grid[..., 1:]


def uniform(velocity, size=(320, 240)):
    shape = (size[1] // 4, size[0] // 4, 2)
    return MotionField(0.0, 0.04, size, np.full(shape, velocity, np.float16))


@pytest.mark.parametrize("direction", range(8))
def test_the_object_moves_its_way_and_the_rest_is_still(render, move, direction):
    angle = direction * np.pi / 4
    shift = 2 * np.array([np.cos(angle), np.sin(angle)])
    found = field(render(box=BOX), render(thing=move(*shift), box=BOX))
    moving, ways = cells(object_motion(found, [BOX]))
    assert moving[1, 1] > 0.9  # 2 pixels a frame are half a box a second
    assert ways[1, 1].argmax() == direction
    assert ways[1, 1, direction] > 0.8 * moving[1, 1]
    beside, _ = cells(object_motion(found, [(10, 60, 60, 160)]))
    assert beside.max() < 0.05


def test_shares_by_direction_add_up_to_the_moving_share(render, move):
    found = field(render(box=BOX), render(thing=move(degrees=3), box=BOX))
    descriptor = object_motion(found, [BOX, (0, 0, 100, 100)], [0.9, 0.3])
    assert descriptor.shape == (OBJECT_MOTION_DIM,)
    assert descriptor.dtype == np.float32
    moving, ways = cells(descriptor)
    np.testing.assert_allclose(ways.sum(axis=2), moving, atol=1e-5)
    assert descriptor.min() >= 0
    assert descriptor.max() <= 1


@pytest.mark.parametrize("camera", [{"dx": 2, "dy": 1}, {"degrees": 1}, {"zoom": 1.015}], ids=str)
def test_the_camera_alone_moves_no_object(render, move, camera):
    pose = move(**camera)
    moving, _ = cells(object_motion(field(render(box=BOX), render(pose, pose, BOX)), [BOX]))
    assert moving.max() < 0.15
    carried, _ = cells(object_motion(field(render(box=BOX), render(None, pose, BOX)), [BOX]))
    assert carried.mean() > 5 * moving.mean()


def test_the_object_shows_under_a_pan(render, move):
    found = field(render(box=BOX), render(move(3, 0), move(3, 2), BOX))
    moving, ways = cells(object_motion(found, [BOX]))
    assert moving[1, 1] > 0.9
    assert ways[1, 1].argmax() == 2  # downwards, though on the screen it goes right


def test_speed_is_per_second_not_per_frame(render, move):
    frames = [render(thing=move(0.8 * i, 0), box=BOX) for i in range(3)]
    every = object_motion(field(frames[0], frames[1], 0.04), [BOX])
    second = object_motion(field(frames[0], frames[2], 0.08), [BOX])
    np.testing.assert_allclose(cells(every)[0], cells(second)[0], atol=0.1)
    assert 0.5 < cells(every)[0][1, 1] < 0.95  # far from saturation, where all would agree


def test_the_size_of_the_picture_does_not_matter(render, move):
    frames = render(box=BOX), render(thing=move(1, 0.5), box=BOX)
    small = object_motion(field(*frames), [BOX])
    tripled = [np.kron(frame, np.ones((3, 3), np.uint8)) for frame in frames]
    large = object_motion(field(*tripled), [3 * np.array(BOX)])
    np.testing.assert_allclose(large, small, atol=0.03)


def test_a_larger_object_needs_to_move_faster():
    small, _ = cells(object_motion(uniform([8, 0]), [(100, 100, 140, 140)]))
    large, _ = cells(object_motion(uniform([16, 0]), [(80, 80, 160, 160)]))
    np.testing.assert_allclose(small, large, atol=1e-3)


def test_boxes_count_by_their_scores(render, move):
    found = field(render(box=BOX), render(thing=move(2, 0), box=BOX))
    boxes = [BOX, (0, 0, 60, 60), (150, 100, 320, 240)]
    alone = [object_motion(found, [box]) for box in boxes]
    together = object_motion(found, boxes, [0.2, 0.5, 0.3])
    np.testing.assert_allclose(together, np.average(alone, axis=0, weights=[2, 5, 3]), atol=1e-6)


@pytest.mark.parametrize(
    ("boxes", "scores"), [([], []), ([(5, 5, 5, 30)], [1.0]), ([BOX], [0.0])], ids=str
)
def test_without_a_box_the_frame_stands_in_and_says_so(render, move, boxes, scores):
    found = field(render(box=BOX), render(thing=move(2, 0), box=BOX))
    descriptor = object_motion(found, boxes, scores)
    assert descriptor[-1] == 1
    assert object_motion(found, [BOX])[-1] == 0
    moving, ways = cells(descriptor)
    assert moving.argmax() == 4  # the middle of the frame, where the object is
    assert ways[1, 1].argmax() == 0


def test_what_lies_outside_the_frame_counts_as_still():
    moving, _ = cells(object_motion(uniform([500, 0]), [(-60, 40, 60, 160)], context=1.0))
    np.testing.assert_allclose(moving, np.tile([0, 0.5, 1], (3, 1)), atol=0.01)
    outside, _ = cells(object_motion(uniform([500, 0]), [(400, 40, 500, 160)]))
    assert outside.max() == 0


def test_tiny_boxes_and_frames_will_do():
    moving, _ = cells(object_motion(uniform([50, 0]), [(100, 100, 101, 101)]))
    assert moving.min() > 0.9
    rng = np.random.default_rng(0)
    tiny = field(*rng.integers(0, 255, (2, 8, 8), dtype=np.uint8))
    assert np.isfinite(object_motion(tiny, [(1, 1, 7, 7)])).all()


def test_scores_must_match():
    with pytest.raises(SettingError, match="2 boxes"):
        object_motion(uniform([0, 0]), [BOX, BOX], [1.0])


def _clip_peaks_in_action(video: Path) -> tuple[bool, float]:
    """Whether the chunk where most of the object moves lies in the action, and chance."""
    av = pytest.importorskip("av")
    truth = json.loads(video.with_suffix(".json").read_text())
    estimator, times, values = FlowEstimator(), [], []
    with av.open(str(video)) as container:
        for i, frame in enumerate(container.decode(video=0)):
            if i % 2:
                continue
            step = estimator.update(i / truth["fps"], frame.to_ndarray(format="gray"))
            if step is not None:
                box = truth["object"]["box"][i - 2]
                found = motion_field(step)
                times.append(found.time)
                values.append(object_motion(found, [box] if box else []))
    chunks = chunk_intervals(0, truth["duration_s"])
    averages = chunk_averages(np.array(times), np.array(values), chunks)
    moving = averages[:, :-1].reshape(-1, 9, 9)[..., 0].mean(axis=1)
    start, end = truth["action_interval_s"]
    inside = (chunks.mean(axis=1) >= start) & (chunks.mean(axis=1) < end)
    return bool(inside[moving.argmax()]), float(inside.mean())


def test_the_object_moves_most_during_the_action(simulated_clips):
    """With true boxes, and where the object itself changes, not its place beside another."""
    videos = [
        simulated_clips / task / f"{task}_{n:03d}.mp4"
        for task in ("drawer-open", "door-open", "faucet-open")
        for n in (0, 1)
    ]
    hits, chance = zip(*map(_clip_peaks_in_action, videos), strict=True)
    assert np.mean(chance) < 0.25
    assert np.mean(hits) >= 0.8

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest

from objectstates.base.errors import SettingError
from objectstates.features.flow import FlowEstimator

INSIDE = np.s_[30:-30, 30:-30]


def working_step(*frames, **settings):
    estimator = FlowEstimator(**settings)
    assert estimator.update(0.0, frames[0]) is None
    return estimator.update(0.04, frames[1])


def step(*frames, **settings):
    """The motion between two frames, in their pixels whatever the working size."""
    found = working_step(*frames, **settings)
    size = frames[0].shape[::-1]
    flow, motion = (
        cv2.resize(field, size).reshape(*size[::-1], 2) / found.scale
        for field in (found.flow, found.motion)
    )
    return replace(found, flow=flow, motion=motion)


def speed(motion):
    return np.hypot(motion[..., 0], motion[..., 1])


@pytest.mark.parametrize(("dx", "dy"), [(0.5, 0), (0, -1.5), (3, 2), (-9, 4)])
def test_translation_is_measured_to_a_tenth_of_a_pixel(render, move, dx, dy):
    found = step(render(), render(move(dx, dy)))
    assert np.median(speed(found.flow - [dx, dy])[INSIDE]) < 0.1


@pytest.mark.parametrize(
    "camera",
    [{"dx": 3, "dy": -1}, {"dx": 0.6}, {"degrees": 1.5}, {"zoom": 1.02}, {"zoom": 0.98, "dy": 2}],
    ids=str,
)
def test_camera_motion_is_removed(render, move, camera):
    found = step(render(), render(move(**camera)))
    assert np.median(speed(found.flow)[INSIDE]) > 0.5
    assert np.quantile(speed(found.motion)[INSIDE], 0.9) < 0.3
    assert found.support > 0.9


def test_an_object_still_shows_under_a_pan(render, move):
    box = (120, 80, 200, 160)
    pan, object_shift = move(4, 1), move(4 - 3, 1 + 2)  # the object moves by (-3, 2) on the wall
    found = step(render(box=box), render(pan, object_shift, box))
    core = found.motion[90:150, 130:190]
    np.testing.assert_allclose(np.median(core, axis=(0, 1)), [-3, 2], atol=0.3)
    beside = np.concatenate([found.motion[30:-30, 30:100], found.motion[30:-30, 220:-30]], axis=1)
    assert np.quantile(speed(beside), 0.9) < 0.25


@pytest.mark.parametrize("camera", [(0, 0), (2.5, 0)], ids=["at rest", "panning"])
def test_a_foreground_that_fills_half_the_frame_is_not_taken_for_the_camera(render, move, camera):
    box = (45, 35, 275, 205)  # 51 % of the frame
    found = step(render(box=box), render(move(*camera), move(camera[0] - 2, 3), box))
    np.testing.assert_allclose(
        np.median(found.motion[60:180, 70:250], axis=(0, 1)), [-2, 3], atol=0.3
    )
    assert np.median(speed(found.motion[5:25, 20:-20])) < 0.3


def test_a_resting_camera_is_exactly_at_rest(render, move):
    box = (120, 80, 200, 160)
    found = step(render(box=box), render(None, move(2, 0), box))
    np.testing.assert_array_equal(found.camera, np.eye(3))
    assert speed(found.motion)[INSIDE][:, :40].max() < 0.2


def test_blank_frames_have_an_unknown_camera_and_no_motion():
    blank = np.full((120, 160), 90, np.uint8)
    found = step(blank, blank)
    assert found.support == 0
    assert speed(found.motion).max() == 0


def test_large_frames_are_worked_on_small(render, move):
    frames = [np.kron(f, np.ones((3, 3), np.uint8)) for f in (render(), render(move(2, 0)))]
    found = working_step(*frames, max_side=320)
    assert found.flow.shape == (240, 320, 2)
    assert found.scale == (1 / 3, 1 / 3)
    np.testing.assert_allclose(np.median(found.flow[INSIDE], axis=(0, 1)), [2, 0], atol=0.1)


def test_the_scale_is_that_of_the_size_that_is_given(render, move):
    estimator = FlowEstimator()
    estimator.update(0.0, render(), (640, 480))
    found = estimator.update(0.1, render(move(2, 0)), (640, 480))
    assert found is not None
    assert found.scale == (0.25, 0.25)


@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (1, 400), (12, 3), (2160, 3840)])
def test_any_frame_size_will_do(shape):
    rng = np.random.default_rng(0)
    found = working_step(*rng.integers(0, 255, (2, *shape), dtype=np.uint8))
    assert found.flow.shape[:2] == found.texture.shape
    assert max(found.flow.shape[:2]) <= 160
    assert np.isfinite(found.motion).all()


def test_another_frame_size_or_a_reset_begins_a_new_shot(render):
    estimator = FlowEstimator()
    frame = render()
    assert estimator.update(0.0, frame) is None
    assert estimator.update(0.1, frame[:200]) is None
    assert estimator.update(0.2, frame[:200]) is not None
    estimator.reset()
    assert estimator.update(0.1, frame[:200]) is None


def test_time_must_go_on(render):
    estimator = FlowEstimator()
    estimator.update(1.0, render())
    with pytest.raises(SettingError, match=r"1\.0 s follows the one at 1\.0 s"):
        estimator.update(1.0, render())


def test_colour_frames_are_refused(render):
    with pytest.raises(SettingError, match=r"\(240, 320, 3\)"):
        FlowEstimator().update(0.0, np.dstack([render()] * 3))


def test_the_same_frames_give_the_same_bytes(render, move):
    frames = render(box=(60, 60, 150, 150)), render(move(1, 1), move(5, 0), (60, 60, 150, 150))
    one, two = step(*frames), step(*frames)
    assert one.motion.tobytes() == two.motion.tobytes()
    assert one.camera.tobytes() == two.camera.tobytes()

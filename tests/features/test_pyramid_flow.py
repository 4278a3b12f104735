from __future__ import annotations

import numpy as np
import pytest

from objectstates.base.errors import SettingError
from objectstates.features.pyramid_flow import PyramidFlow, factors

BOX = (110, 70, 210, 170)


def step_between(one, other):
    flow = PyramidFlow()
    assert flow.update(0.0, one) is None
    return flow.update(0.04, other)


def inner(level, margin=24):
    cut = round(margin / level.factor)
    return slice(cut, -cut), slice(cut, -cut)


@pytest.mark.parametrize(
    ("shape", "count"),
    [((480, 640), 8), ((360, 480), 7), ((240, 320), 6), ((2160, 3840), 8), ((20, 90), 1)],
)
def test_scales_are_those_of_the_program(shape, count):
    """A factor of the root of 2 apart, while the shorter side has 32 pixels, at most 8."""
    found = factors(shape)
    assert len(found) == count
    np.testing.assert_allclose(np.diff(np.log2(found)), 0.5)


def test_the_same_motion_is_seen_at_every_scale(render, move):
    step = step_between(render(), render(move(3, -2)))
    for level in step.levels[:4]:
        flow = level.flow[inner(level)] * level.factor
        np.testing.assert_allclose(np.median(flow, axis=(0, 1)), [3, -2], atol=0.35)
        assert level.texture.shape == level.flow.shape[:2] == level.motion.shape[:2]


@pytest.mark.parametrize(
    "camera", [{"dx": 3.0}, {"dx": -2, "dy": 4}, {"degrees": 1.5}, {"zoom": 1.02}], ids=str
)
def test_the_cameras_motion_is_removed(render, move, camera):
    step = step_between(render(), render(move(**camera)))
    for level in step.levels[:3]:
        whole, own = (np.abs(a[inner(level)]).mean() for a in (level.flow, level.motion))
        assert own < 0.15 * whole


def test_an_object_moves_against_the_cameras_motion(render, move):
    step = step_between(render(None, None, BOX), render(move(3, 0), move(3, 2), BOX))
    np.testing.assert_allclose(step.camera[:2, 2], [3, 0], atol=0.5)
    own = step.levels[0].motion[100:140, 140:180]
    np.testing.assert_allclose(np.median(own, axis=(0, 1)), [0, 2], atol=0.4)


def test_without_matches_the_camera_is_static():
    flat = np.full((120, 160), 128, np.uint8)
    step = step_between(flat, flat)
    np.testing.assert_array_equal(step.camera, np.eye(3))
    assert np.abs(step.levels[0].motion).max() < 1e-3


@pytest.mark.parametrize("shape", [(8, 8), (3, 200), (20, 20), (33, 33)])
def test_small_frames_will_do(shape):
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 255, (2, *shape), dtype=np.uint8)
    step = step_between(one, other)
    assert step.levels[0].flow.shape == (*shape, 2)
    assert all(np.isfinite(level.motion).all() for level in step.levels)


def test_another_size_begins_a_new_shot(render):
    flow = PyramidFlow()
    flow.update(0.0, render())
    assert flow.update(0.04, render()[:100]) is None
    with pytest.raises(SettingError, match="follows"):
        flow.update(0.04, render())

from __future__ import annotations

import numpy as np
import pytest

from objectstates.detect.change_groups import certain_change, find_groups
from objectstates.features.aligned_frames import AlignedFrames
from objectstates.features.change_profile import find_change

SIZE = (60, 80)


def steps(*parts: tuple[slice, slice, float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Amount and step of a picture in which each part (rows, columns) steps at its own time."""
    amount, step = np.zeros(SIZE, np.float32), np.zeros((*SIZE, 2), np.float32)
    for rows, columns, much, when in parts:
        amount[rows, columns], step[rows, columns] = much, when
    return amount, step


def test_adjacent_things_that_step_at_different_times_are_two_groups():
    amount, step = steps(
        (slice(10, 30), slice(10, 25), 0.9, 2.0), (slice(10, 30), slice(25, 50), 0.9, 5.0)
    )
    boxes = {tuple(group.box.tolist()): group for group in find_groups(amount, step)}
    assert boxes.keys() == {(10, 10, 25, 30), (25, 10, 50, 30), (10, 10, 50, 30)}
    assert boxes[10, 10, 25, 30].start == boxes[10, 10, 25, 30].end == 2.0
    assert boxes[10, 10, 50, 30].mask.sum() == 20 * 40


def test_a_slow_thing_is_one_group():
    """Its pixels step one column after the other, for five seconds."""
    amount, step = steps((slice(10, 30), slice(10, 60), 0.9, 0.0))
    step[:, :, :] = np.arange(SIZE[1])[None, :, None] * 0.1
    (group,) = find_groups(amount, step)
    assert group.box.tolist() == [10, 10, 60, 30]
    assert group.pixels == 1000
    assert group.start == pytest.approx(1.5, abs=0.2)
    assert group.end == pytest.approx(5.4, abs=0.2)


def test_a_shadow_around_a_thing_is_apart_though_it_steps_at_the_same_time():
    amount, step = steps(
        (slice(5, 50), slice(5, 70), 0.4, 3.0), (slice(20, 30), slice(30, 45), 0.9, 3.0)
    )
    boxes = {tuple(group.box.tolist()) for group in find_groups(amount, step)}
    assert boxes == {(5, 5, 70, 50), (30, 20, 45, 30)}


def test_a_few_pixels_are_no_group():
    amount, step = steps((slice(10, 12), slice(10, 13), 1.0, 2.0))
    assert find_groups(amount, step) == []


def pushed(shift: int) -> AlignedFrames:
    """Forty frames of noise; in the later half all is shifted, and a bright thing appears."""
    wall = np.random.default_rng(0).integers(100, 150, (SIZE[0], SIZE[1] + 10, 3)).astype(np.uint8)
    images = np.stack([wall[:, shift * (k >= 20) :][:, : SIZE[1]] for k in range(40)])
    images[20:, 20:35, 30:50] = (250, 128, 128)
    return AlignedFrames(np.arange(40) / 10, 0.1, images, np.tile(np.eye(3), (40, 1, 1)))


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_misalignment_is_no_change(shift: int):
    change = find_change(pushed(shift))
    amount = certain_change(change)
    elsewhere = np.zeros(SIZE, bool)
    elsewhere[:, 4:-4] = True  # seen before and after
    elsewhere[15:40, 25:55] = False
    assert amount[elsewhere].max() < 0.2
    assert np.median(amount[20:35, 30:50]) > 0.8

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from objectstates.base.geometry import iou
from objectstates.detect.change_boxes import ChangeBoxes, contrast, propose, windows
from objectstates.features.change_profile import ClipChange

SIZE = (90, 160)
BOARD = np.array([40, 30, 90, 70])  # of a plain colour
LID = np.array([40, 30, 60, 70])  # its part, which changes its colour
ELSEWHERE = np.array([120, 20, 140, 40])


def fill(image: np.ndarray, box: np.ndarray, value: object) -> None:
    x1, y1, x2, y2 = box
    image[y1:y2, x1:x2] = value


@pytest.fixture
def change() -> ClipChange:
    """At 3 s a part of a board changes; at 6 s something comes to rest elsewhere."""
    rng = np.random.default_rng(0)
    before = rng.normal((120, 128, 128), 4, (*SIZE, 3)).astype(np.float32)
    fill(before, BOARD, (90, 170, 150))
    after = before.copy()
    amount, step = np.zeros(SIZE, np.float32), np.zeros((*SIZE, 2), np.float32)
    for box, colour, when in ((LID, (90, 150, 190), 3.0), (ELSEWHERE, (60, 110, 90), 6.0)):
        fill(after, box, colour)
        fill(amount, box, 0.95)
        fill(step, box, (when, when + 0.1))
    times = np.arange(100) / 10
    cameras = np.tile(np.eye(3), (100, 1, 1))
    curve = np.zeros(100, np.float32)
    shown = np.ones(len(times), bool)
    return ClipChange(times, 0.1, cameras, before, after, amount, step, curve, amount, shown)


def test_the_moved_part_and_the_whole_object_are_among_the_boxes(change: ClipChange):
    for time in (0.0, 9.0):
        boxes, scores = propose(change).best(time, 6)
        assert iou(boxes, BOARD[None]).max() > 0.7
        assert (np.diff(scores) <= 0).all()
    np.testing.assert_allclose(iou(boxes, LID[None]).max(), 1)


def test_a_place_counts_while_something_is_there(change: ClipChange):
    """Before 6 s the other place looks like its surroundings."""
    candidates = propose(change)
    (at,) = np.flatnonzero((candidates.boxes == ELSEWHERE).all(axis=1) & (candidates.moved[1] > 0))
    before, after = candidates.whole[:, at]
    assert after > 5 * before
    assert candidates.time[at] == pytest.approx(6.0, abs=0.2)
    boxes, _ = candidates.best(7.0, 6)
    assert (boxes == ELSEWHERE).all(axis=1).any()


def test_boxes_of_both_kinds_alternate():
    boxes = np.array([[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10], [60, 0, 70, 10]], float)
    whole = np.array([[0.9, 0.8, 0.7, 0.1]] * 2)
    moved = np.array([[0.0, 0.0, 0.0, 0.1]] * 2)
    chosen, scores = ChangeBoxes(boxes, whole, moved, np.zeros(4)).best(1.0, 3)
    np.testing.assert_array_equal(chosen, boxes[[0, 1, 3]])
    np.testing.assert_array_equal(scores, [0.9, 0.8, 0.1])


def test_where_nothing_changed_boxes_of_contrast_remain(change: ClipChange):
    still = replace(change, after=change.before, possible=np.zeros(SIZE, np.float32))
    boxes, scores = propose(still).best(0.0, 3)
    assert iou(boxes[:1], BOARD[None]).item() > 0.6
    assert scores.max() < 0.2


def test_contrast_is_that_of_the_box_that_fits(change: ClipChange):
    boxes = np.array([BOARD, BOARD + np.array([20, 0, 20, 0]), [100, 60, 130, 80]], float)
    fits, aside, empty = contrast(change.before, boxes)
    assert fits > 0.9
    assert fits > aside + 0.2
    assert empty < 0.3


@pytest.mark.parametrize("size", [(90, 160), (4, 160), (16, 16), (1, 1)])
def test_windows_lie_in_the_frame(size: tuple[int, int]):
    boxes = windows(size)
    assert len(boxes) >= 1
    assert (boxes[:, 2:] > boxes[:, :2]).all()
    assert (boxes >= 0).all()
    assert (boxes[:, 2:] <= [size[1], size[0]]).all()

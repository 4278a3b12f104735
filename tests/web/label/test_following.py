from __future__ import annotations

from pathlib import Path

import numpy as np

from objectstates.base.geometry import paired_iou
from objectstates.web.label.following import PER_SECOND, SECONDS, follow
from tests.web.label.films import box_at, write_moving_square


def test_a_box_is_followed_in_both_directions(tmp_path: Path):
    video = write_moving_square(tmp_path / "v.mp4")
    found = follow(video, 4.0, box_at(4.0))
    times = [time for time, _ in found]
    assert times[0] == 4.0 - SECONDS
    assert times[-1] == 4.0 + SECONDS
    assert len(times) == 2 * SECONDS * PER_SECOND
    assert 4.0 not in times
    for time, box in found:
        assert paired_iou(box, box_at(time))[0] > 0.8


def test_it_ends_at_a_cut_and_at_the_ends_of_the_clip(tmp_path: Path):
    video = write_moving_square(tmp_path / "v.mp4", cut=5.0)
    times = [time for time, _ in follow(video, 4.0, box_at(4.0), start=2.9)]
    assert min(times) == 3.0
    assert max(times) < 5.0


def test_several_boxes_are_followed_together(tmp_path: Path):
    video = write_moving_square(tmp_path / "v.mp4")
    still = np.array([[100.0, 5.0, 140.0, 35.0]])
    found = follow(video, 2.0, np.concatenate([box_at(2.0), still]))
    assert found
    for time, boxes in found:
        assert boxes.shape == (2, 4)
        assert paired_iou(boxes[0], box_at(time)[0]) > 0.8
        assert paired_iou(boxes[1], still[0]) > 0.8

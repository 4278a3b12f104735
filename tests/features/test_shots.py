from __future__ import annotations

import cv2
import numpy as np
import pytest

from objectstates.features.shots import find_cuts
from tests.features.films import film


def small(frames: list[np.ndarray]) -> list[np.ndarray]:
    return [cv2.resize(frame, (160, 120), interpolation=cv2.INTER_AREA) for frame in frames]


def other_place(frames: list[np.ndarray]) -> list[np.ndarray]:
    """Upside down, and in other colours."""
    return [(255 - frame[::-1, :, [1, 2, 0]] // 2).copy() for frame in frames]


def test_cuts_are_where_shots_begin():
    first, second = film(seconds=1.6), other_place(film(seconds=1.2, seed=2))
    assert find_cuts(small([*first, *second, *first])) == [40, 70]


@pytest.mark.parametrize(
    "options",
    [{}, {"sway": 12.0}, {"flicker": 25.0}, {"hand": (1.2, 2.6)}],
    ids=["plain", "a swaying camera", "changing light", "a hand"],
)
def test_a_single_shot_has_none(options):
    assert find_cuts(small(film(**options))) == []


def test_frames_far_apart_of_a_moving_camera_are_of_one_shot():
    assert find_cuts(small(film(sway=12.0)[::5])) == []


def test_a_single_frame_has_none():
    assert find_cuts(small(film(seconds=0.04))) == []

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectstates.data.corpus import Array
from objectstates.report.box_data import packed_boxes


def unpacked(differences: list[int]) -> Array:
    """(B, 5) time, x1, y1, x2, y2, as the page computes them."""
    rows = np.cumsum(np.array(differences, float).reshape(-1, 5), axis=0)
    rows[:, 3:] += rows[:, 1:3]
    return rows / [100, 1, 1, 1, 1]


def boxes(times: Array, x: Array) -> Array:
    return np.column_stack([times, x, x + 5, x + 80, x + 65])


def test_of_a_uniform_motion_two_boxes_are_stored() -> None:
    times = np.linspace(0, 2, 50)
    (still,) = packed_boxes([boxes(times, np.full(50, 30.0))], most=9)
    (moving,) = packed_boxes([boxes(times, 10 + 60 * times)], most=9)
    assert still == [0, 30, 35, 80, 60, 200, 0, 0, 0, 0]
    np.testing.assert_allclose(unpacked(moving)[:, 1], [10, 130])


def test_a_motion_that_turns_is_followed() -> None:
    times = np.linspace(0, 2, 81)
    (packed,) = packed_boxes([boxes(times, 100 + 50 * np.sin(3 * times))], most=9)
    rows = unpacked(packed)
    assert len(rows) == 9
    np.testing.assert_allclose(rows[:, 1], 100 + 50 * np.sin(3 * rows[:, 0]), atol=1)


def test_tracklets_with_few_boxes_or_none_keep_their_place() -> None:
    one, none = np.array([[1.0, 2, 3, 4, 5]]), np.zeros((0, 5))
    assert packed_boxes([none, one, none], most=5) == [[], [100, 2, 3, 2, 2], []]
    assert packed_boxes([none], most=5) == [[]]
    assert packed_boxes([], most=5) == []


@given(st.integers(1, 12), st.integers(1, 9), st.integers(0, 99))
def test_stored_boxes_are_rounded_boxes_of_the_tracklet(n: int, most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.uniform(0.02, 0.5, n))
    table = boxes(times, rng.uniform(0, 300, n))
    (packed,) = packed_boxes([table], most=most)
    rows = unpacked(packed)
    assert 1 <= len(rows) <= most
    assert all(a[0] < b[0] for a, b in pairwise(rows))
    for row in rows:
        nearest = table[np.abs(table[:, 0] - row[0]).argmin()]
        assert row == pytest.approx(nearest, abs=1.001)
    if most > 1:
        assert rows[[0, -1], 0] == pytest.approx(table[[0, -1], 0], abs=0.006)

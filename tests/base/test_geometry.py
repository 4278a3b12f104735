from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from objectstates.base.geometry import areas, clip, enlarge, intersections, iou, paired_iou


def grid_boxes(seed: int, count: int = 8) -> npt.NDArray[np.float64]:
    """Boxes whose corners are whole pixels; some have no area."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 12, (count, 2))
    return np.hstack([low, low + rng.integers(0, 8, (count, 2))]).astype(np.float64)


def pixels(box: npt.NDArray[np.float64]) -> set[tuple[int, int]]:
    x1, y1, x2, y2 = box.astype(int)
    return {(x, y) for x in range(x1, x2) for y in range(y1, y2)}


def test_iou_of_known_boxes() -> None:
    a = np.array([[0, 0, 10, 10], [5, 5, 5, 9]])
    b = np.array([[0, 0, 10, 10], [5, 0, 15, 10], [10, 0, 20, 10], [2, 2, 4, 7]])
    np.testing.assert_allclose(iou(a, b), [[1.0, 1 / 3, 0.0, 0.1], [0.0] * 4])


@given(st.integers(0, 10**6))
def test_overlap_counts_common_pixels(seed: int) -> None:
    a, b = grid_boxes(seed), grid_boxes(seed + 1)
    common = [[len(pixels(x) & pixels(y)) for y in b] for x in a]
    union = [[max(1, len(pixels(x) | pixels(y))) for y in b] for x in a]
    np.testing.assert_array_equal(intersections(a[:, None], b[None]), common)
    np.testing.assert_allclose(iou(a, b), np.divide(common, union))
    np.testing.assert_array_equal(paired_iou(a, b), iou(a, b).diagonal())
    np.testing.assert_array_equal(areas(a), [len(pixels(x)) for x in a])


def test_a_missing_box_overlaps_nothing() -> None:
    box, missing = np.array([[0.0, 0, 10, 10]]), np.full((1, 4), np.nan)
    assert paired_iou(box, missing).tolist() == [0.0]
    assert iou(np.empty((0, 4)), box).shape == (0, 1)


def test_enlarging_keeps_the_centre_and_scales_the_sides() -> None:
    boxes = np.array([[40.0, 50, 60, 90], [0, 0, 10, 10]])
    np.testing.assert_allclose(
        enlarge(boxes, 1.5), [[35.0, 40.0, 65.0, 100.0], [-2.5, -2.5, 12.5, 12.5]]
    )


@given(st.integers(0, 10**6))
def test_clipping_keeps_what_is_inside_the_frame(seed: int) -> None:
    boxes = (grid_boxes(seed) - 4).astype(np.float32)
    clipped = clip(boxes, (6, 9))
    assert clipped.dtype == np.float32
    frame = np.array([[0, 0, 9, 6]], np.float32)
    np.testing.assert_array_equal(areas(clipped), intersections(boxes, frame))

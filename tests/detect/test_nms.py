from __future__ import annotations

import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.base.geometry import iou
from objectstates.detect.nms import MAX_DETECTIONS, best_detections, suppress

Floats = npt.NDArray[np.float64]


def random_boxes(seed: int, count: int, side: int = 40) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, side, (count, 2))
    boxes = np.hstack([corner, corner + rng.integers(0, side, (count, 2))]).astype(float)
    return boxes, rng.integers(0, 8, count) / 8  # with many ties


def by_definition(boxes: Floats, scores: Floats, overlap: float) -> list[int]:
    kept: list[int] = []
    for i in sorted(range(len(boxes)), key=lambda i: (-scores[i], i)):
        if all(iou(boxes[[i]], boxes[[k]])[0, 0] <= overlap for k in kept):
            kept.append(i)
    return kept


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 30), st.sampled_from([0.0, 0.3, 0.5, 0.9]))
def test_suppression_is_the_greedy_one(seed: int, count: int, overlap: float) -> None:
    boxes, scores = random_boxes(seed, count)
    kept = suppress(boxes, scores, overlap).tolist()
    assert kept == by_definition(boxes, scores, overlap)
    assert suppress(boxes, scores, overlap, limit=3).tolist() == kept[:3]


def test_memory_of_suppression_is_linear_in_the_boxes() -> None:
    """A matrix of all pairs of YOLO's 8,400 boxes would take 560 MB."""
    boxes, scores = random_boxes(0, 8400, 600)
    tracemalloc.start()
    suppress(boxes, scores, 0.5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * boxes.nbytes


def test_detections_are_within_the_frame_and_best_first() -> None:
    boxes = [
        [-5, -5, 10, 10],
        [-4, -4, 10, 10],  # the same thing, worse
        [30, 10, 60, 90],
        [70, 10, 90, 20],  # outside
        [np.nan, 0, 5, 5],
        [1, 1, 3, 3],  # below the threshold
    ]
    found = best_detections(
        np.array(boxes), np.array([0.6, 0.5, 0.9, 0.8, 0.8, 0.1]), (40, 50), threshold=0.4
    )
    np.testing.assert_array_equal(found.boxes, [[30, 10, 50, 40], [0, 0, 10, 10]])
    np.testing.assert_allclose(found.scores, [0.9, 0.6])
    assert {found.boxes.dtype, found.scores.dtype} == {np.dtype(np.float32)}


@pytest.mark.parametrize("overlap", [None, 0.5])
def test_the_number_of_detections_is_bounded(overlap: float | None) -> None:
    corners = np.arange(3 * MAX_DETECTIONS)[:, None] * [2, 0]
    boxes = np.hstack([corners, corners + 1])
    scores = np.linspace(0.5, 1, len(boxes))
    found = best_detections(boxes, scores, (10, 10_000), threshold=0.4, overlap=overlap)
    np.testing.assert_allclose(found.scores, scores[::-1][:MAX_DETECTIONS], rtol=1e-6)


def test_nothing_found_is_an_empty_answer() -> None:
    found = best_detections(np.empty((0, 4)), np.empty(0), (10, 10), threshold=0.4)
    assert (found.boxes.shape, found.scores.shape) == ((0, 4), (0,))

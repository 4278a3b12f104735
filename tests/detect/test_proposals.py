from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.base.geometry import iou
from objectstates.detect.proposals import (
    dense_boxes,
    describe_bins,
    score_boxes,
    shapes_like,
)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_fast_scores_are_those_of_the_description(seed: int):
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(9, 13, 5)).astype(np.float32)
    low = rng.uniform([0, 0], [12, 8], (20, 2))
    boxes = np.hstack([low, low + rng.uniform(0.2, 1, (20, 2)) * ([13, 9] - low)])
    weights = rng.normal(size=(9, 5)).astype(np.float32)
    slow = np.tensordot(describe_bins(cells, boxes, 3), weights, 2)
    fast = score_boxes(cells, weights, boxes)
    np.testing.assert_allclose(fast, slow, atol=1e-3)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_some_proposal_lies_on_any_box_of_the_trained_shapes(seed: int):
    rng = np.random.default_rng(seed)
    sides = rng.uniform(30, 120, (5, 2))
    low = rng.uniform(0, [320, 240] - sides)
    boxes = np.hstack([low, low + sides])
    proposals = dense_boxes(shapes_like(boxes), (240, 320), 8)
    assert iou(boxes, proposals).max(axis=1).min() > 0.65

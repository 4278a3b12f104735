from __future__ import annotations

import numpy as np
import pytest

from objectstates.detect.metrics import average_precision, match


def test_an_object_is_found_once():
    truth = np.array([[0, 0, 10, 10], [20, 0, 30, 10]])
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 9], [20, 0, 30, 12], [50, 0, 60, 10]])
    assert match(boxes, truth).tolist() == [True, False, True, False]
    assert not match(boxes, np.empty((0, 4))).any()


def test_average_precision_by_hand():
    # Right, wrong, right of 4 objects: a quarter at precision 1, a quarter at 2/3.
    scores, right = np.array([0.2, 0.9, 0.5]), np.array([True, True, False])
    assert average_precision(scores, right, 4) == pytest.approx(0.25 * 1 + 0.25 * 2 / 3)
    assert average_precision(np.empty(0), np.empty(0, bool), 3) == 0

from pathlib import Path

import numpy as np
import pytest

from objectstates.base.errors import LabelError
from objectstates.data.truth import ClipTruth
from objectstates.detect.from_truth import JUDGE_EVERY, judge_labels, train_labels
from objectstates.video.clip_list import ClipSpan

NOWHERE = (np.nan,) * 4


def clip(n_frames=100, fps=25.0, start=None, end=None, hidden=()):
    boxes = [NOWHERE if n in hidden else (n, 0, n + 10, 10) for n in range(n_frames)]
    truth = ClipTruth.single("a", (1.0, 2.0), np.arange(n_frames) / fps, np.array(boxes, float))
    return ClipSpan("a", Path("a.mp4"), start, end), truth


def test_frames_to_train_on_are_spread_evenly():
    labels = train_labels([clip(hidden=[6])], "thing")
    frames = [round((image.time or 0.0) * 25) for image in labels.images]
    assert frames == [6, 18, 31, 43, 56, 68, 81, 93]
    assert [len(image.boxes) for image in labels.images] == [0, 1, 1, 1, 1, 1, 1, 1]
    np.testing.assert_array_equal(labels.images[1].boxes, [[18, 0, 28, 10]])


def test_where_only_two_moments_are_known_both_are_taken_once():
    assert len(train_labels([clip(n_frames=2)], "thing").images) == 2
    assert len(judge_labels([clip(n_frames=2, fps=1.0)], "thing").images) == 2


def test_a_detector_is_judged_within_the_clip():
    labels = judge_labels([clip(start=1.0, end=3.0)], "thing")
    times = [image.time or 0.0 for image in labels.images]
    assert times[0] == 1.0
    assert times[-1] < 3.0
    np.testing.assert_allclose(np.diff(times), JUDGE_EVERY)


def test_truth_without_boxes_makes_no_detector():
    with pytest.raises(LabelError, match="has no box"):
        train_labels([clip(hidden=range(100))], "thing")

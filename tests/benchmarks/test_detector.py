"""The coverage of tracklets that the benchmark of detectors reports."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.detector import covered


def test_coverage_counts_visible_frames_with_a_tracklet_on_the_object():
    truth = {
        "fps": 10,
        "object": {
            "box": [[0, 0, 10, 10]] * 8,
            "visible_fraction": [1, 1, 1, 1, 1, 1, 0.2, None],
        },
    }
    on, off = [0, 0, 10, 9], [5, 5, 15, 15]
    # Tracklets: frames 1 to 3 on the object, 4 beside it; 5 and 6 (hidden) on it; 2, 3 beside it.
    rows = [(1, on), (2, on), (3, on), (4, off), (5, on), (6, on), (2, off), (3, off)]
    seen: Any = SimpleNamespace(
        boxes=np.array([[frame / 10, *box] for frame, box in rows]),
        box_offsets=np.array([0, 4, 6, 8]),
        tracklet_span=np.zeros((3, 2)),
    )
    visible, hit, tracklets, on_object = covered(seen, truth, 0, 8)
    assert (visible, hit) == (6, 4)
    assert (tracklets, on_object) == (3, 2)
    assert covered(seen, truth, 3, 6)[:2] == (3, 2)

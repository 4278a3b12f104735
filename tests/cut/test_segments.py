"""Segments: on frames, gap-free, whatever the action and what is kept."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from objectstates.cut.segments import PARTS, ClipFrames, missing_parts, split

TIMES = st.lists(st.floats(0.01, 0.5), min_size=1, max_size=40).map(
    lambda steps: np.cumsum([0.0, *steps])
)


@given(TIMES, st.floats(-1, 20), st.floats(0, 5), st.data())
def test_every_kept_frame_is_in_exactly_one_segment(times, start, length, data):
    frames = ClipFrames.of(times[:-1], float(times[-1]))
    first = data.draw(st.integers(0, len(frames.times) - 1))
    last = data.draw(st.integers(first + 1, len(frames.times)))
    segments = split(frames, (start, start + length), (first, last))
    covered = [frame for segment in segments for frame in range(segment.first, segment.last)]
    assert covered == list(range(first, last))
    assert [segment.part for segment in segments] == [
        part for part in PARTS if part not in missing_parts(segments)
    ]
    assert "action" not in missing_parts(segments)
    for a, b in pairwise(segments):
        assert a.end == b.start


@given(TIMES, st.floats(0, 20))
def test_bounds_are_the_nearest_frames(times, time):
    frames = ClipFrames.of(times[:-1], float(times[-1]))
    bound = frames.bound(frames.nearest(time))
    assert abs(bound - time) <= np.abs(times - time).min() + 1e-5

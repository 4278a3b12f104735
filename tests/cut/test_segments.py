"""Segments: on frames, gap-free, whatever the actions and what is kept."""

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from objectstates.cut.segments import ClipFrames, is_part, label_of, missing_parts, part_of, split
from objectstates.report.phases import Phase

TIMES = st.lists(st.floats(0.01, 0.5), min_size=1, max_size=40).map(
    lambda steps: np.cumsum([0.0, *steps])
)
EDGES = st.lists(st.floats(-1, 20), min_size=2, max_size=14).map(sorted)


def phases(edges: list[float]) -> list[Phase]:
    """States and actions with these bounds: starts and ends of the actions in turn."""
    bounds = [-math.inf, *edges[: len(edges) // 2 * 2], math.inf]
    chain = len(bounds) > 4
    return [
        Phase(f"state_{k // 2 + 1}" if k % 2 == 0 else f"action_{k // 2 + 1}", a, b)
        if chain
        else Phase(("state_1", "action", "state_2")[k], a, b)
        for k, (a, b) in enumerate(pairwise(bounds))
    ]


@given(TIMES, EDGES, st.data())
def test_every_kept_frame_is_in_exactly_one_segment(times, edges, data):
    frames = ClipFrames.of(times[:-1], float(times[-1]))
    first = data.draw(st.integers(0, len(frames.times) - 1))
    last = data.draw(st.integers(first + 1, len(frames.times)))
    of_clip, n_actions = phases(edges), len(edges) // 2
    segments = split(frames, of_clip, n_actions, (first, last))
    covered = [frame for segment in segments for frame in range(segment.first, segment.last)]
    assert covered == list(range(first, last))
    missing = missing_parts(segments, of_clip, n_actions)
    parts = [part_of(phase.label, n_actions) for phase in of_clip]
    assert [segment.part for segment in segments] == [p for p in parts if p not in missing]
    if n_actions == 1:
        assert "action" not in missing
    for a, b in pairwise(segments):
        assert a.end == b.start


@given(TIMES, st.floats(0, 20))
def test_bounds_are_the_nearest_frames(times, time):
    frames = ClipFrames.of(times[:-1], float(times[-1]))
    bound = frames.bound(frames.nearest(time))
    assert abs(bound - time) <= np.abs(times - time).min() + 1e-5


def test_parts_are_told_from_other_names_and_lead_back_to_labels():
    for n_actions, labels in (
        (1, ("state_1", "action", "state_2")),
        (7, ("state_1", "action_1", "action_7", "state_8")),
    ):
        for label in labels:
            part = part_of(label, n_actions)
            assert is_part(part)
            assert "_" not in part, "the part is what follows the last underscore of a file's name"
            assert label_of(part) == label
    assert not any(map(is_part, ("state", "state0", "state12", "film", "")))

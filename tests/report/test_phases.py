"""Phases: states and actions without gaps, in time and in frames."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from objectstates.data.actions import Actions
from objectstates.report.clip_view import view_clips
from objectstates.report.phases import FrameRange, Phase, frame_ranges, phases_of
from tests.chains import action_span, chain_result


def test_a_chain_is_its_states_and_actions_in_order() -> None:
    clip, *_, short = view_clips(chain_result(3))
    assert [(p.label, p.start) for p in phases_of(clip)] == [
        ("state_1", -math.inf),
        ("action_1", 1.6),
        ("state_2", 2.0),
        ("action_2", 3.6),
        ("state_3", 4.0),
        ("action_3", 5.6),
        ("state_4", 6.0),
    ]
    labels = [p.label for p in phases_of(short)]
    assert labels == ["state_1", "action_1", "state_2", "action_3", "state_4"], "without action 2"
    for found in (phases_of(clip), phases_of(short)):
        assert [p.end for p in found[:-1]] == [p.start for p in found[1:]]
        assert found[-1].end == math.inf


def test_without_actions_states_change_in_the_middle_between_them() -> None:
    result = chain_result(2)
    bare = replace(result, actions=Actions.none(3, len(result.corpus.chunks.start), 2))
    clip, *_, short = view_clips(bare)
    found = phases_of(clip)
    assert [p.label for p in found] == ["state_1", "state_2", "state_3"]
    gap = (action_span(1)[0] + action_span(1)[1]) / 2
    assert found[0].end == pytest.approx(gap)
    assert [p.label for p in phases_of(short)] == ["state_1", "state_2"]


def test_an_action_shorter_than_a_frame_takes_one() -> None:
    def ranges(start: float, end: float, *, widen: bool = True) -> list[FrameRange]:
        phases = [
            Phase("state_1", -math.inf, start),
            Phase("action", start, end),
            Phase("state_2", end, math.inf),
        ]
        return frame_ranges(phases, lambda time: min(max(round(time), 0), 10), (0, 10), widen=widen)

    assert ranges(4.1, 4.2) == [
        FrameRange("state_1", 0, 4),
        FrameRange("action", 4, 5),
        FrameRange("state_2", 5, 10),
    ]
    assert ranges(30, 31) == [FrameRange("state_1", 0, 9), FrameRange("action", 9, 10)]
    assert ranges(-5, -4) == [FrameRange("action", 0, 1), FrameRange("state_2", 1, 10)]
    assert [r.label for r in ranges(4.1, 4.2, widen=False)] == ["state_1", "state_2"]

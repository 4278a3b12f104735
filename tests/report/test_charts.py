from __future__ import annotations

import re

import numpy as np
import pytest

from objectstates import Result
from objectstates.report.charts import Line, average_clip, line_chart
from objectstates.report.clip_view import view_clips
from tests.chains import chain_result
from tests.report.scenes import make_result


def test_the_average_clip_is_aligned_at_the_action(result: Result) -> None:
    average = average_clip(view_clips(result))
    assert average is not None
    assert average.peak == 1, "all clips are cut alike"
    assert (0.5, "action") in average.ticks
    areas = re.findall(r'state-(\d)" points="([^"]*)"', average.shapes)
    for state, points in areas:
        xy = np.array([point.split(",") for point in points.split()[1:-1]], float)
        mass = 100 - xy[:, 1]
        centre = float((xy[:, 0] * mass).sum() / mass.sum())
        assert (centre < 400) if state == "1" else (centre > 600), "of 1000, the action at 500"


def test_states_alone_are_aligned_between_the_states() -> None:
    average = average_clip(view_clips(make_result(target="state")))
    assert average is not None
    assert average.peak == 1


def test_without_states_there_is_no_average_clip() -> None:
    assert average_clip(view_clips(make_result(target="action"))) is None


def test_a_log_scale_leaves_out_zeros() -> None:
    passes, values = np.arange(1.0, 5.0), np.array([1.0, 0.1, 0.0, 0.01])
    chart = line_chart(passes, [Line("gap", "gap", values)], label="gap", log=True)
    (points,) = re.findall(r'class="gap" points="([^"]*)"', chart)
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert len(heights) == 3
    assert np.diff(heights) == pytest.approx(np.diff(heights)[0], abs=0.11), "a decade each"
    assert line_chart(passes, [Line("gap", "gap", 0 * values)], label="gap", log=True) == ""


def test_a_chain_is_aligned_at_each_action() -> None:
    result = chain_result(3)
    result.actions.time[0] += 0.5  # the first clip acts later
    average = average_clip(view_clips(result))
    assert average is not None
    assert average.shapes.count("<polygon") == 4
    assert len(average.marks) == 3
    assert list(average.marks) == sorted(average.marks)
    assert [text for _, text in average.ticks] == ["action 1", "action 2", "action 3"]
    many = average_clip(view_clips(chain_result(6)))
    assert many is not None
    assert [text for _, text in many.ticks] == list("123456")

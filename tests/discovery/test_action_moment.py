from __future__ import annotations

import numpy as np
import pytest

from objectstates.data.clips import ChangeProfile
from objectstates.discovery.action_moment import (
    CHAIN_EXTENT_SMOOTHING,
    EXTENT_SMOOTHING,
    moment_and_extent,
)

STEP = 0.04


def profile(*bumps: tuple[float, float, float], seconds: float = 10.0) -> ChangeProfile:
    """A curve of Gaussian bumps: time, standard deviation (s), height."""
    times = STEP * (np.arange(round(seconds / STEP)) + 0.5)
    curve = sum(h * np.exp(-0.5 * ((times - t) / s) ** 2) for t, s, h in bumps)
    curve = np.zeros(len(times)) + curve
    return ChangeProfile(0.0, STEP, curve.astype(np.float32), np.zeros((2, 3), np.uint8))


def test_the_moment_is_the_peak_near_the_chunk_and_not_a_higher_one_elsewhere():
    two = profile((3.1, 0.2, 1.0), (8.0, 0.2, 2.0))
    found = moment_and_extent(two, 3.2, 3.6)
    assert found is not None
    time, (start, end) = found
    assert time == pytest.approx(3.1, abs=STEP)
    assert start < 2.9
    assert 3.3 < end < 4.5


def test_the_extent_grows_with_the_change():
    spans = []
    for deviation in (0.1, 0.4, 1.2):
        found = moment_and_extent(profile((5.0, deviation, 1.0)), 4.8, 5.2)
        assert found is not None
        spans.append(found[1][1] - found[1][0])
    assert spans == sorted(spans)
    assert spans[0] < 1.4
    assert spans[2] > 3.0


def test_where_little_changes_there_is_no_moment():
    assert moment_and_extent(profile((8.0, 0.2, 1.0)), 2.0, 2.4) is None
    assert moment_and_extent(profile(), 2.0, 2.4) is None


def test_more_smoothing_bridges_a_longer_pause():
    """Of a change whose start and end are seen, but not what is between."""
    twice = profile((4.0, 0.1, 1.0), (6.0, 0.1, 0.8))
    short, long = (
        moment_and_extent(twice, 3.8, 4.2, smoothing=smoothing)
        for smoothing in (EXTENT_SMOOTHING, CHAIN_EXTENT_SMOOTHING)
    )
    assert short is not None
    assert long is not None
    assert short[0] == pytest.approx(long[0])
    assert short[1][1] < 5.5
    assert long[1][1] > 6.0

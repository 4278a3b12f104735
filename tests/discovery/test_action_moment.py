from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from objectstates.data.clips import ChangeProfile
from objectstates.discovery.action_moment import moment_and_extent

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


def moving(curve: ChangeProfile, *bumps: tuple[float, float, float]) -> ChangeProfile:
    return replace(curve, motion=profile(*bumps).curve)


def test_the_moment_is_when_the_changed_places_move_fastest():
    long = profile((5.0, 0.7, 1.0))
    fast_early = moving(long, (4.4, 0.2, 0.02), (5.6, 0.2, 0.01))
    found = moment_and_extent(fast_early, 5.0, 5.4)
    assert found is not None
    assert found[0] == pytest.approx(4.4, abs=2 * STEP)
    alone = moment_and_extent(long, 5.0, 5.4)
    assert alone is not None
    assert alone[0] == pytest.approx(5.0, abs=2 * STEP)
    assert found[1] == alone[1], "the extent is that of the change"


def test_a_motion_that_changes_nothing_for_good_is_not_the_moment():
    passing = moving(profile((5.0, 0.3, 1.0)), (3.6, 0.2, 0.09), (5.1, 0.3, 0.01))
    found = moment_and_extent(passing, 5.0, 5.4)
    assert found is not None
    assert found[0] == pytest.approx(5.1, abs=3 * STEP)


def test_a_change_in_which_nothing_moves_has_the_moment_of_its_peak():
    still = moving(profile((5.0, 0.3, 1.0)), (1.0, 0.01, 0.01))
    found = moment_and_extent(still, 5.0, 5.4)
    assert found == moment_and_extent(profile((5.0, 0.3, 1.0)), 5.0, 5.4)

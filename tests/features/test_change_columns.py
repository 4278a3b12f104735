from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from objectstates.data.clips import ChangeProfile
from objectstates.features.change_columns import (
    CHAIN_COLUMN_SCALE,
    COLUMN_SCALE,
    chunk_columns,
    intensity,
)

STEP, CHUNK = 0.1, 0.4
TIMES = STEP * (np.arange(100) + 0.5)


def profile(curve: list[float], start: float = 0.0, step: float = 0.1) -> ChangeProfile:
    return ChangeProfile(start, step, np.array(curve, np.float32), np.zeros((2, 3), np.uint8))


def test_the_columns_of_chunks_are_greatest_at_the_change():
    chunks = np.stack([np.arange(10) * 0.4, np.arange(1, 11) * 0.4], axis=1)
    change = np.zeros(40)
    change[22] = 0.03  # 2.2 to 2.3 s, in chunk 5
    columns = chunk_columns(profile(change.tolist()), chunks)
    assert columns.max(axis=0) == pytest.approx([COLUMN_SCALE] * 2)
    assert np.flatnonzero(columns[:, 0] > 0).tolist() == [5, 6]  # within 0.4 s of their middles
    assert np.flatnonzero(columns[:, 1] > 0).tolist() == [4, 5, 6, 7]
    assert chunk_columns(profile((7 * change).tolist()), chunks) == pytest.approx(columns)


def test_the_columns_of_a_chain_show_its_changes_at_the_same_height():
    chunks = np.stack([np.arange(20) * 0.4, np.arange(1, 21) * 0.4], axis=1)
    change = np.zeros(80)
    change[[10, 50]] = 0.03, 0.01  # in chunks 2 and 12
    change[70] = 0.001
    columns = chunk_columns(profile(change.tolist()), chunks, changes=2)
    assert columns[[2, 12]] == pytest.approx(CHAIN_COLUMN_SCALE)
    assert columns[17] == pytest.approx(CHAIN_COLUMN_SCALE / 10)
    three = chunk_columns(profile(change.tolist()), chunks, changes=3)
    assert (three == columns).all(), "the third peak is too low to be a change"


def test_the_columns_are_zero_where_nothing_is_known_or_changes():
    chunks = np.array([[0, 0.4], [0.4, 0.9]])
    assert not chunk_columns(None, chunks).any()
    assert not chunk_columns(profile([0.0] * 9), chunks).any()


def bumps(*times: float) -> list[float]:
    """(n,) Gaussians of half a second at these times."""
    return [sum(np.exp(-0.5 * ((t - at) / 0.5) ** 2) for at in times) for t in TIMES]


def moment(known: ChangeProfile) -> float:
    return float(TIMES[intensity(known, CHUNK).argmax()])


def test_without_a_motion_the_change_is_intense_where_it_is_greatest():
    known = profile(bumps(4.0))
    assert moment(known) == pytest.approx(4.0, abs=STEP)
    still = replace(known, motion=np.zeros(100, np.float32))
    assert (intensity(still, CHUNK) == intensity(known, CHUNK)).all()


def test_of_two_changes_that_with_motion_is_more_intense():
    """A hand that leaves shows what it hid, and the place itself does not move."""
    twice = profile(bumps(3.0, 7.0))
    for at in (3.0, 7.0):
        moving = replace(twice, motion=np.array(bumps(at), np.float32))
        assert moment(moving) == pytest.approx(at, abs=2 * STEP)


def test_motion_without_change_is_not_intense():
    """Carrying a thing changes nothing where it passes."""
    lifted = profile(bumps(3.0))
    carried = replace(lifted, motion=np.array(bumps(3.0, 7.0, 7.0, 7.0), np.float32))
    assert moment(carried) == pytest.approx(3.0, abs=2 * STEP)


def test_in_a_long_change_it_is_when_the_place_moves_fastest():
    even = profile([float(2.0 <= t < 6.0) for t in TIMES])
    known = replace(even, motion=np.array(bumps(5.0), np.float32))
    assert moment(known) == pytest.approx(5.0, abs=2 * STEP)


def test_the_narrow_column_follows_the_motion_and_the_wide_one_the_change():
    chunks = np.stack([np.arange(25) * CHUNK, np.arange(1, 26) * CHUNK], axis=1)
    twice = profile(bumps(3.0, 7.0))
    known = replace(twice, motion=np.array(bumps(7.0), np.float32))
    still, moving = chunk_columns(twice, chunks), chunk_columns(known, chunks)
    assert (moving[:, 1] == still[:, 1]).all()
    early = chunks.mean(axis=1) < 5.0
    assert moving[early, 0].max() < 0.2 * COLUMN_SCALE < still[early, 0].max()
    assert chunks[moving[:, 0].argmax()].mean() == pytest.approx(7.0, abs=CHUNK)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.features.change_profile import SHORTEST_BIN, ClipChange, profile_of


def change(times: np.ndarray, curve: np.ndarray, amount: np.ndarray) -> ClipChange:
    height, width = amount.shape
    return ClipChange(
        times=times,
        period=float(np.median(np.diff(times))) if len(times) > 1 else 0.04,
        cameras=np.tile(np.eye(3), (len(times), 1, 1)),
        before=np.zeros((height, width, 3), np.float32),
        after=np.zeros((height, width, 3), np.float32),
        amount=amount.astype(np.float32),
        step=np.zeros((height, width, 2), np.float32),
        curve=curve.astype(np.float32),
    )


@given(
    gaps=st.lists(st.floats(0.005, 0.5), max_size=40),
    start=st.floats(0, 1000),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_bins_of_equal_length_hold_what_the_frames_hold(
    gaps: list[float], start: float, seed: int
) -> None:
    times = start + np.cumsum([0.0, *gaps])
    curve = np.random.default_rng(seed).random(len(times)) * (np.arange(len(times)) > 0)
    profile = profile_of(change(times, curve, np.zeros((9, 16))))
    assert profile.start == times[0]
    assert profile.step >= SHORTEST_BIN
    edges = profile.start + profile.step * np.arange(len(profile.curve) + 1)
    assert edges[-1] >= times[-1] - 1e-4
    assert (profile.curve >= 0).all()
    assert profile.curve.sum() == pytest.approx(curve.sum(), rel=1e-4)
    for edge, until in zip(edges[1:-1], np.cumsum(profile.curve), strict=False):
        least, most = curve[times <= edge].sum(), curve[: (times <= edge).sum() + 1].sum()
        assert least - 1e-3 <= until <= most + 1e-3, "no change is moved beyond its two frames"


def test_a_change_lies_between_its_two_frames() -> None:
    times = np.arange(20) / 20
    curve = np.zeros(20)
    curve[7] = 0.25
    profile = profile_of(change(times, curve, np.zeros((9, 16))))
    assert np.flatnonzero(profile.curve > 1e-6).tolist() == [6]  # from 0.30 s to 0.35 s
    assert profile.curve[6] == pytest.approx(0.25)


def test_where_is_the_amount_at_low_resolution() -> None:
    amount = np.zeros((90, 160))
    amount[:45, :80] = 1.0
    where = profile_of(change(np.arange(5) / 25, np.zeros(5), amount)).where
    assert where.dtype == np.uint8
    assert where.shape == (22, 40)
    assert (where[:10, :20] == 255).all()
    assert where[12:].max() == where[:, 20:].max() == 0
    tall = profile_of(change(np.arange(5) / 25, np.zeros(5), np.ones((160, 30)))).where
    assert tall.shape == (160, 30)


def test_one_frame_has_one_bin() -> None:
    profile = profile_of(change(np.array([2.0]), np.zeros(1), np.zeros((2, 3))))
    assert profile.curve.tolist() == [0.0]
    assert (profile.start, profile.step) == (2.0, 0.04)

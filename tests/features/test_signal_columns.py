"""Chunk features from joint states."""

import numpy as np
import pytest

from objectstates.features.signal_columns import LENGTH, SignalScale, learn_scale
from objectstates.robots.signals import EpisodeSignals

FPS, WINDOW = 30, 1.2
CHUNKS = np.stack([np.arange(0, 4, 0.4), np.arange(0.4, 4.4, 0.4)], axis=1)
GRIPPER = np.array([False, True, False])


def episode(unit: float = 1.0, moment: float = 2.0) -> EpisodeSignals:
    """A joint that moves around a moment, a gripper that closes there, a joint at rest."""
    times = np.arange(round(4 * FPS)) / FPS
    joint = unit / (1 + np.exp(-8 * (times - moment)))
    gripper = unit * (times < moment)
    return EpisodeSignals(times, np.stack([joint, gripper, np.full(len(times), 7.0)], axis=1))


def learned(signals):
    return learn_scale(signals, [CHUNKS] * len(signals), GRIPPER, window=WINDOW)


def test_speed_is_highest_where_the_joint_moves_and_the_level_follows_the_gripper():
    rows = learned([episode()]).columns(episode(), CHUNKS, window=WINDOW)
    assert rows.shape == (len(CHUNKS), 4)
    at = int(np.argmax(rows[:, 0]))
    assert CHUNKS[at, 0] <= 2.0 <= CHUNKS[at, 1]
    assert rows[0, 3] > rows[-1, 3]
    assert np.ptp(rows[:, 2]) == 0  # the joint at rest


def test_units_do_not_matter():
    a, b = ([episode(unit), episode(unit, 1.5)] for unit in (1.0, 1e-4))
    for x, y in zip(a, b, strict=True):
        first, second = learned(a), learned(b)
        assert np.allclose(
            first.columns(x, CHUNKS, window=WINDOW), second.columns(y, CHUNKS, window=WINDOW),
            atol=1e-6,
        )  # fmt: skip


def test_columns_are_centred_and_of_a_given_length():
    signals = [episode(), episode(moment=1.2), episode(moment=2.9)]
    scale = learned(signals)
    rows = np.concatenate([scale.columns(s, CHUNKS, window=WINDOW) for s in signals])
    assert np.allclose(rows.mean(axis=0), 0, atol=1e-6)
    assert np.sqrt((rows**2).sum(axis=1).mean()) == pytest.approx(LENGTH, rel=1e-5)


def test_signals_that_never_move_give_zeros():
    still = EpisodeSignals(np.arange(10) / FPS, np.full((10, 3), 2.0))
    rows = learned([still]).columns(still, CHUNKS, window=WINDOW)
    assert not rows.any()


def test_a_single_frame_has_no_speed():
    one = EpisodeSignals(np.zeros(1), np.ones((1, 3)))
    rows = learned([episode()]).columns(one, CHUNKS[:1], window=WINDOW)
    assert np.isfinite(rows).all()


def test_a_scale_survives_the_arrays_of_a_corpus():
    scale = learned([episode()])
    again = SignalScale.from_arrays(scale.arrays())
    assert again is not None
    expected = scale.columns(episode(), CHUNKS, window=WINDOW)
    assert np.array_equal(again.columns(episode(), CHUNKS, window=WINDOW), expected)
    assert SignalScale.from_arrays({}) is None

"""Rounding of chains against trying all pairs of labellings, on thousands of small clips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from objectstates.base.errors import CorpusError
from objectstates.solver.chain_rounding import times_in_order
from objectstates.solver.oracle import Constraints, feasible, one_row, ordered_states
from objectstates.solver.problem import Scales
from objectstates.solver.rounding import joint_rounding
from tests.solver.problems import all_labellings, with_absence


@dataclass(frozen=True)
class Clip:
    """A random clip with scores, and all labellings of both sides."""

    action: Constraints
    state: Constraints
    scores: tuple[Any, Any]
    scales: Scales
    candidates: tuple[Any, Any]

    def values(self, z, y):
        """The rounding's objective of all pairs of labellings (a, T) and (b, M), (a, b)."""
        costs = [
            weight * (1 - 2 * scores) + side.linear
            for weight, scores, side in zip(
                self.scales.rounding_weights, self.scores, (self.action, self.state), strict=True
            )
        ]
        total = with_absence(z, costs[0], self.action.absent)[:, None] + with_absence(
            y, costs[1], self.state.absent
        )
        late = self.state.times - self.action.times[:, None]
        for k in range(self.action.n_states):
            for label, seconds in ((k + 1, np.maximum(late, 0)), (k + 2, np.maximum(-late, 0))):
                pairs = (z == k + 1).astype(float) @ seconds @ (y == label).T
                total = total + self.scales.coupling * pairs
        return total


def random_clip(rng, n_states, *, exactly_one, optional) -> Clip | None:
    """Rows on a coarse grid, where equal times and overlaps abound; some labels are forbidden."""
    n_actions = n_states - 1
    m, n_rows = rng.integers(n_actions, 6), rng.integers(max(n_actions - 1, 1), 6)
    start, begin = rng.choice(9, m) * 1.0, rng.choice(9, n_rows) * 1.0
    end, finish = start + rng.integers(1, 4, m), begin + rng.integers(1, 3, n_rows)
    linear = np.where(rng.random((m, n_states)) < 0.1, np.inf, rng.standard_normal((m, n_states)))
    blocked = np.where(rng.random((n_rows, n_actions)) < 0.1, np.inf, 0.0)
    prices = [np.full(n_actions, np.inf), np.full(n_states, np.inf)]
    if optional:
        lacks = rng.random(n_actions) < 0.6
        prices[0][lacks] = rng.uniform(0, 0.5, lacks.sum())
        prices[1][1:][lacks] = rng.uniform(0, 0.5, lacks.sum())
    shares = rng.random(m), rng.random(n_rows)  # times lie anywhere in their intervals
    state = ordered_states(
        start, end, np.array([0, m]), linear=0.1 * linear, exactly_one=exactly_one,
        times=start + shares[0] * (end - start), absent=prices[1],
    )  # fmt: skip
    times = begin + shares[1] * (finish - begin)
    offsets = np.array([0, n_rows])
    if n_actions == 1:
        action = one_row(offsets, linear=blocked, times=times, absent=prices[0])
    else:
        action = ordered_states(
            begin, finish, offsets, linear=blocked, exactly_one=True, times=times, absent=prices[0]
        )
    scores = rng.standard_normal((n_rows, n_actions)), rng.standard_normal((m, n_states))
    if rng.random() < 0.3:
        scores[1][:, -1] = scores[1][:, 0]  # a cycle: the last state looks like the first
    nu = rng.choice([0.0, 0.01, 0.3, 10.0])
    if not (feasible(action).all() and feasible(state).all()):
        return None  # joint rounding is for feasible clips
    candidates = (
        all_labellings(begin, finish, n_actions, True, np.isinf(blocked), np.isfinite(prices[0])),
        all_labellings(start, end, n_states, exactly_one, np.isinf(linear), np.isfinite(prices[1])),
    )
    return Clip(action, state, scores, Scales(3, 5, 3 * nu), candidates)


def uses(labellings, states):
    return np.stack([(labellings == k).any(axis=1) for k in states], axis=1)


@pytest.mark.parametrize("exactly_one", [False, True])
@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize(("n_states", "count"), [(2, 300), (3, 600), (4, 600)])
def test_rounding_equals_trying_all_pairs(n_states, count, exactly_one, optional):
    """An action and the state after it are absent together, at the price of both."""
    rng = np.random.default_rng(n_states)
    compared, lacking = 0, 0
    while compared < count:
        clip = random_clip(rng, n_states, exactly_one=exactly_one, optional=optional)
        if clip is None:
            continue
        z, y = clip.candidates
        actions = range(1, n_states)
        together = (uses(z, actions)[:, None] == uses(y, range(2, n_states + 1))).all(axis=2)
        best = np.where(together, clip.values(z, y), np.inf).min()
        found = joint_rounding(clip.action, clip.state, *clip.scores, clip.scales)
        here = [np.flatnonzero((c == x).all(axis=1)) for c, x in zip((z, y), found, strict=True)]
        assert [len(x) for x in here] == [1, 1], "a labelling breaks a constraint"
        assert together[here[0][0], here[1][0]]
        value = clip.values(found[0][None], found[1][None])[0, 0]
        assert value == pytest.approx(best, rel=1e-7, abs=1e-7)
        lacking += (found[0] > 0).sum() < n_states - 1
        compared += 1
    assert (lacking > count / 20) == optional


def test_of_equally_good_actions_the_first_is_taken():
    """All scores alike, no coupling: the earliest chunks, and the earliest tracklets."""
    start = np.arange(6.0)
    state = ordered_states(start, start + 1, np.array([0, 6]), linear=np.zeros((6, 3)))
    action = ordered_states(
        start, start + 1, np.array([0, 6]), linear=np.zeros((6, 2)), exactly_one=True
    )
    noise = 1e-14 * np.random.default_rng(0).standard_normal((2, 6, 3))
    z, y = joint_rounding(action, state, noise[0, :, :2], noise[1], Scales(6, 6, 0.0))
    assert z.tolist() == [1, 2, 0, 0, 0, 0]
    assert y.tolist() == [1, 2, 3, 0, 0, 0]


def test_strong_coupling_puts_each_action_between_its_states():
    rng = np.random.default_rng(1)
    start = np.arange(12.0)
    state = ordered_states(start, start + 1, np.array([0, 12]), linear=np.zeros((12, 4)))
    begin = np.linspace(0, 12, 25)[:-1]
    action = ordered_states(
        begin, begin + 0.5, np.array([0, 24]), linear=np.zeros((24, 3)), exactly_one=True
    )
    for _ in range(20):
        z, y = joint_rounding(
            action, state, rng.standard_normal((24, 3)), rng.standard_normal((12, 4)),
            Scales(24, 12, 1e4),
        )  # fmt: skip
        for k in (1, 2, 3):
            time = action.times[z == k]
            assert len(time) == 1
            assert state.times[y == k].max() <= time[0] + 1e-9
            assert state.times[y == k + 1].min() >= time[0] - 1e-9


def test_times_outside_their_intervals_are_refused():
    start = np.arange(4.0)
    state = ordered_states(
        start, start + 1, np.array([0, 4]), linear=np.zeros((4, 3)), times=start[::-1].copy()
    )
    action = ordered_states(
        start, start + 1, np.array([0, 4]), linear=np.zeros((4, 2)), exactly_one=True
    )
    assert times_in_order(action)
    assert not times_in_order(state)
    with pytest.raises(CorpusError, match="outside its interval"):
        joint_rounding(action, state, np.zeros((4, 2)), np.zeros((4, 3)), Scales(4, 4, 1.0))

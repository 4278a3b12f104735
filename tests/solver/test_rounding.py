import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.discovery.constraints import no_action, no_states
from objectstates.solver.oracle import one_row, ordered_states
from objectstates.solver.problem import Scales
from objectstates.solver.rounding import joint_rounding
from tests.solver.problems import all_labellings, random_intervals


def rounding_cost(t, labels, scores, weights, coupling, action, state):
    """The rounding's objective (eq. 12 of the paper, less its constants), written out."""
    cost = weights[0] * (1 - 2 * scores[0][t, 0]) + action.linear[t, 0]
    for i, k in enumerate(labels):
        if k > 0:
            cost += weights[1] * (1 - 2 * scores[1][i, k - 1]) + state.linear[i, k - 1]
            late = state.times[i] - action.times[t]
            cost += coupling * max(late if k == 1 else -late, 0)
    return cost


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    exactly_one=st.booleans(),
    coupling=st.sampled_from([0.0, 0.01, 1.0, 100.0]),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_joint_rounding_equals_trying_all_pairs(seed, exactly_one, coupling, scale):
    rng = np.random.default_rng(seed)
    m, n_times = rng.integers(2, 6), rng.integers(1, 6)
    start, end = random_intervals(rng, m, grid=2)
    linear = np.where(rng.random((m, 2)) < 0.15, np.inf, 0.1 * rng.standard_normal((m, 2)))
    candidates = all_labellings(start, end, exactly_one=exactly_one, forbidden=np.isinf(linear))
    blocked = np.where(rng.random((n_times, 1)) < 0.2, np.inf, 0.0)
    if len(candidates) == 0 or np.isinf(blocked).all():
        return  # joint rounding is for feasible clips
    offsets = np.array([0, m])
    state = ordered_states(start, end, offsets, linear=linear, exactly_one=exactly_one)
    action = one_row(
        np.array([0, n_times]), linear=blocked, times=np.sort(rng.uniform(0, 8, n_times))
    )
    scores = (
        scale * rng.standard_normal((n_times, 1)),
        scale * rng.standard_normal((m, 2)),
    )
    weights = (1 / 6, 1 / 10)
    z, y = joint_rounding(action, state, *scores, Scales(3, 5, 3 * coupling))
    assert z.sum() == 1
    assert (candidates == y).all(axis=1).any(), "the labelling breaks a constraint"
    allowed = np.flatnonzero(np.isfinite(blocked[:, 0]))
    best = min(
        rounding_cost(t, labels, scores, weights, coupling, action, state)
        for t in allowed
        for labels in candidates
    )
    found = rounding_cost(int(z.argmax()), y, scores, weights, coupling, action, state)
    assert found == pytest.approx(best, rel=1e-9, abs=1e-9 * scale)


def test_several_clips_and_absent_sides():
    rng = np.random.default_rng(0)
    sizes, chunks = [4, 6], [5, 3]
    start = np.concatenate([np.arange(m, dtype=float) for m in sizes])
    state = ordered_states(start, start + 1, np.cumsum([0, *sizes]), linear=np.zeros((10, 2)))
    times = np.concatenate([np.linspace(0, 4, t) for t in chunks])
    action = one_row(np.cumsum([0, *chunks]), linear=np.zeros((8, 1)), times=times)
    scores = rng.standard_normal((8, 1)), rng.standard_normal((10, 2))
    z, y = joint_rounding(action, state, *scores, Scales(8, 10, 0.0))
    # Without coupling, each side alone gives the same.
    z_alone, none = joint_rounding(
        action, no_states(2), scores[0], np.empty((0, 2)), Scales(8, 0, 8.0)
    )
    assert len(none) == 0
    assert (z_alone == z).all()
    assert [int(np.argmax(scores[0][a:b])) for a, b in ((0, 5), (5, 8))] == [
        int(np.argmax(z[a:b])) for a, b in ((0, 5), (5, 8))
    ]
    none, y_alone = joint_rounding(
        no_action(2), state, np.empty((0, 1)), scores[1], Scales(0, 10, 8.0)
    )
    assert len(none) == 0
    assert (y_alone == y).all()


def test_strong_coupling_puts_the_action_between_the_states():
    rng = np.random.default_rng(1)
    start = np.arange(10, dtype=float)
    state = ordered_states(start, start + 1, np.array([0, 10]), linear=np.zeros((10, 2)))
    action = one_row(np.array([0, 20]), linear=np.zeros((20, 1)), times=np.linspace(0, 10, 20))
    for _ in range(20):
        z, y = joint_rounding(
            action,
            state,
            rng.standard_normal((20, 1)),
            rng.standard_normal((10, 2)),
            Scales(20, 10, 1e4),
        )
        time = action.times[z.argmax()]
        assert state.times[y == 1].max() <= time + 1e-9
        assert state.times[y == 2].min() >= time - 1e-9

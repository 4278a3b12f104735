from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from objectstates.base.errors import SettingError
from objectstates.solver.oracle import (
    TIE,
    cheapest_labels,
    feasible,
    label_clips,
    one_row,
    ordered_states,
)
from tests.solver.problems import all_labellings, total_costs, with_absence

# Costs of every kind: ties, ordinary, huge, tiny, forbidden.
costs_of_all_sizes = st.one_of(
    st.integers(-2, 2).map(float),
    st.floats(-1, 1),
    st.floats(-1e150, 1e150),
    st.floats(-1e-150, 1e-150),
    st.just(np.inf),
)


@st.composite
def clips(draw):
    """A clip of at most six rows on a coarse grid, where equal times and overlaps abound."""
    m = draw(st.integers(0, 6))
    start = np.array(draw(st.lists(st.integers(0, 6), min_size=m, max_size=m)), float)
    length = np.array(draw(st.lists(st.integers(1, 4), min_size=m, max_size=m)), float)
    flat = draw(st.lists(costs_of_all_sizes, min_size=2 * m, max_size=2 * m))
    return start, start + length, np.array(flat).reshape(m, 2)


def solve(start, end, costs, exactly_one):
    constraints = ordered_states(
        start, end, np.array([0, len(start)]), linear=np.zeros_like(costs), exactly_one=exactly_one
    )
    values, labels = label_clips(costs, constraints)
    return values[0], labels


@settings(max_examples=2500, deadline=None)
@given(clip=clips())
@example(clip=(np.array([0.0, 1]), np.array([1.0, 2]), np.full((2, 2), 600.0)))
@example(clip=(np.array([0.0, 0.5]), np.array([1.0, 2]), np.zeros((2, 2))))
def test_oracle_equals_trying_all_labellings(clip):
    start, end, costs = clip
    sizes = np.abs(costs[np.isfinite(costs)])
    rounding = 1e-14 * sizes.sum()
    ties = TIE * len(costs) * sizes.max(initial=0)  # of which the first labelling is taken
    several = all_labellings(start, end, forbidden=np.isinf(costs))
    one = several[(several > 0).sum(axis=1) == 2]
    for candidates, exactly_one in ((several, False), (one, True)):
        value, labels = solve(start, end, costs, exactly_one)
        if len(candidates) == 0:
            assert value == np.inf
            assert not labels.any()
            continue
        assert (candidates == labels).all(axis=1).any(), "the labelling breaks a constraint"
        best = total_costs(candidates, costs).min()
        assert total_costs(labels[None], costs)[0] <= best + rounding + ties
        assert value == pytest.approx(best, rel=1e-12, abs=rounding)


@settings(max_examples=1000, deadline=None)
@given(clip=clips(), seed=st.integers(0, 2**32 - 1))
def test_three_ordered_states(clip, seed):
    start, end, _ = clip
    costs = np.random.default_rng(seed).standard_normal((len(start), 3))
    value, labels = solve(start, end, costs, False)
    candidates = all_labellings(start, end, n_states=3)
    if len(candidates) == 0:
        assert value == np.inf
    else:
        assert (candidates == labels).all(axis=1).any()
        assert value == pytest.approx(total_costs(candidates, costs).min())


@pytest.mark.parametrize("exactly_one", [False, True])
@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize("n_states", [2, 3, 4])
def test_chains_equal_trying_all_labellings(n_states, optional, exactly_one):
    """500 clips each: overlaps, equal times, ties, forbidden labels, states that may be absent."""
    rng = np.random.default_rng(n_states)
    found, lacking = 0, 0
    for _ in range(500):
        m = rng.integers(0, 6)
        start = rng.integers(0, 8, m).astype(float)
        end = start + rng.integers(1, 3, m).astype(float)
        costs = rng.standard_normal((m, n_states))
        costs = np.round(2 * costs) if rng.random() < 0.3 else costs
        costs[rng.random(costs.shape) < 0.15] = np.inf
        absent = np.full(n_states, np.inf)
        if optional:
            lacks = rng.random(n_states) < 0.5
            absent[lacks] = np.round(rng.uniform(0, 2, lacks.sum()), 1)
        constraints = ordered_states(
            start, end, np.array([0, m]), linear=costs, exactly_one=exactly_one, absent=absent
        )
        values, labels = label_clips(costs, constraints)
        candidates = all_labellings(
            start, end, n_states, exactly_one, np.isinf(costs), np.isfinite(absent)
        )
        if not m:
            assert values[0] == pytest.approx(absent.sum())
        elif not len(candidates):
            assert values[0] == np.inf
        else:
            assert (candidates == labels).all(axis=1).any(), "the labelling breaks a constraint"
            best = with_absence(candidates, costs, absent).min()
            assert values[0] == pytest.approx(best, abs=1e-12)
            assert with_absence(labels[None], costs, absent)[0] == pytest.approx(best, abs=1e-7)
            found += 1
            lacking += len(set(labels.tolist()) - {0}) < n_states
    assert found > 25
    assert (lacking > 0) == optional


def test_a_price_of_absence_is_not_negative():
    start = np.arange(3.0)
    for absent in (np.array([-1.0, 0.0]), np.zeros(3)):
        with pytest.raises(SettingError, match="`absent` must be"):
            ordered_states(
                start, start + 1, np.array([0, 3]), linear=np.zeros((3, 2)), absent=absent
            )


@settings(max_examples=300, deadline=None)
@given(st.lists(costs_of_all_sizes, min_size=1, max_size=8))
def test_action_oracle_takes_one_cheapest_allowed_row(costs):
    matrix = np.array(costs)[:, None]
    constraints = one_row(
        np.array([0, len(costs)]), linear=np.zeros_like(matrix), times=np.arange(1.0 * len(costs))
    )
    values, labels = label_clips(matrix, constraints)
    assert values[0] == min(costs)
    if np.isfinite(min(costs)):
        assert labels.sum() == 1
        size = max(abs(cost) for cost in costs if np.isfinite(cost))
        assert costs[int(np.argmax(labels))] <= min(costs) + TIE * size
    else:
        assert labels.sum() == 0


def test_touching_intervals_do_not_overlap():
    value, labels = solve(np.array([0.0, 1]), np.array([1.0, 2]), np.ones((2, 2)), False)
    assert value == 2
    assert labels.tolist() == [1, 2]


def test_order_of_rows_is_no_matter():
    rng = np.random.default_rng(0)
    for _ in range(50):
        start = rng.uniform(0, 10, 12)
        end = start + rng.uniform(0.5, 2, 12)
        costs = rng.standard_normal((12, 2))
        shuffle = rng.permutation(12)
        value, labels = solve(start, end, costs, False)
        other, shuffled = solve(start[shuffle], end[shuffle], costs[shuffle], False)
        assert other == pytest.approx(value)
        assert (shuffled == labels[shuffle]).all()


def test_clips_are_independent():
    rng = np.random.default_rng(1)
    sizes = [3, 7, 5]
    start = np.concatenate([np.sort(rng.uniform(0, 8, m)) for m in sizes])
    end, costs = start + 1, rng.standard_normal((15, 2))
    offsets = np.cumsum([0, *sizes])
    together = ordered_states(start, end, offsets, linear=np.zeros((15, 2)))
    values, labels = label_clips(costs, together)
    for n, (lo, hi) in enumerate(pairwise(offsets)):
        value, alone = solve(start[lo:hi], end[lo:hi], costs[lo:hi], False)
        assert value == values[n]
        assert (alone == labels[lo:hi]).all()


def test_feasible_knows_overlap_and_forbidden_entries():
    start, end = np.array([0.0, 0.5, 0, 2, 0, 2]), np.array([1.0, 1.5, 1, 3, 1, 3])
    linear = np.zeros((6, 2))
    linear[4, 0] = np.inf  # the third clip's first row may not be state 1
    constraints = ordered_states(start, end, np.array([0, 2, 4, 6]), linear=linear)
    assert feasible(constraints).tolist() == [False, True, False]


def test_long_clip_is_labelled_throughout():
    """Rewards everywhere: all rows of a sequence get a label, and the switch is where it pays."""
    m, switch = 2000, 700
    costs = -np.ones((m, 2))
    costs[:switch, 1] = costs[switch:, 0] = 1
    value, labels = solve(np.arange(m, dtype=float), np.arange(m) + 1.0, costs, False)
    assert value == -m
    assert (labels[:switch] == 1).all()
    assert (labels[switch:] == 2).all()


def test_kernel_leaves_costs_alone():
    costs = np.array([[1.0, 2], [3, 4]])
    before = costs.copy()
    labels = np.zeros(2, np.int8)
    required = np.full(2, np.inf)
    cheapest_labels(costs, np.arange(2), np.array([0, 1]), False, required, labels)
    assert (costs == before).all()

"""Many clips at once must be answered as each of them alone is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.solver.oracle import label_clips, one_row, ordered_states
from objectstates.solver.problem import Scales
from objectstates.solver.rounding import joint_rounding
from tests.solver.problems import random_constraints

torch = pytest.importorskip("torch", reason="needs the extra torch")

from objectstates.solver.scale import batched_torch as padded  # noqa: E402


def clips_of(rng, sizes, *, exactly_one, grid, forbid):
    """Clips with overlaps, ties in time, and costs forbidden; some of them admit no labelling."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    start = rng.uniform(0, 4, offsets[-1])
    end = start + rng.uniform(0.2, 2, offsets[-1])
    if grid:
        start, end = np.round(start * 2) / 2, np.round(end * 2) / 2 + 0.5
    linear = np.where(rng.random((offsets[-1], 2)) < forbid, np.inf, 0.0)
    return ordered_states(start, end, offsets, linear=linear, exactly_one=exactly_one)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=6),
    exactly_one=st.booleans(),
    grid=st.booleans(),
    forbid=st.sampled_from([0.0, 0.3]),
    whole_costs=st.booleans(),
)
def test_paths_are_the_oracle_s_labellings(seed, sizes, exactly_one, grid, forbid, whole_costs):
    """Ties are broken alike, so that labels are the same, not only their costs."""
    rng = np.random.default_rng(seed)
    constraints = clips_of(rng, sizes, exactly_one=exactly_one, grid=grid, forbid=forbid)
    costs = rng.standard_normal(constraints.linear.shape)
    if whole_costs:
        costs = np.round(costs * 2)
    costs = costs + constraints.linear
    expected, labels = label_clips(costs, constraints)
    clips = rng.permutation(len(sizes))  # any order of the clips
    side = padded.pad(constraints, clips, "cpu")
    rows = np.concatenate(
        [np.arange(constraints.offsets[n], constraints.offsets[n + 1]) for n in clips]
    )
    wide = side.spread(torch.as_tensor(costs[rows]), beyond=float("inf"))
    least, path = padded.cheapest_paths(wide, side.before, side.closed)
    assert least.numpy() == pytest.approx(expected[clips])
    found = side.collect(padded.labels_of(path), len(rows)).numpy() @ [1, 2]
    possible = np.repeat(np.isfinite(expected[clips]), np.diff(constraints.offsets)[clips])
    assert (found[possible] == labels[rows][possible]).all()


@pytest.mark.parametrize("exactly_one", [False, True])
@pytest.mark.parametrize("pairwise", [False, True])
def test_steps_reach_the_nearest_point_of_the_hull(exactly_one, pairwise):
    """Of |Y|^2 / 2 + <c, Y>: the gap that is met goes to 0, and labels stay in the hull."""
    rng = np.random.default_rng(0)
    constraints = random_constraints(rng, (6, 9, 4, 7), forbid=0.1, exactly_one=exactly_one)
    side = padded.pad(constraints, np.arange(4), "cpu")
    costs = side.spread(torch.as_tensor(rng.standard_normal(constraints.linear.shape)))
    costs = costs + side.linear
    _, flow = padded.cheapest_paths(
        torch.where(costs.isinf(), costs, 0.0), side.before, side.closed
    )
    values, gaps = [], []
    for _ in range(60):
        gaps.append(float(padded.descend(side, costs, flow, steps=3, pairwise=pairwise).sum()))
        labels = padded.labels_of(flow)
        values.append(float(labels.square().sum() / 2 + padded.weigh(costs, labels).sum()))
    assert (np.diff(values) <= 1e-12).all()
    assert -1e-12 < gaps[-1] < (1e-9 if pairwise else 0.1 * gaps[0])
    best, _ = padded.least_costs(costs + labels, side.before, side.closed)
    assert float((padded.weigh(costs + labels, labels) - best).sum()) == pytest.approx(
        gaps[-1], abs=1e-2
    )
    # A point of the hull costs no less than the best labelling, whatever the costs.
    for _ in range(20):
        any_costs = side.spread(torch.as_tensor(rng.standard_normal(constraints.linear.shape)))
        any_costs = any_costs + side.linear
        least, _ = padded.least_costs(any_costs, side.before, side.closed)
        assert (padded.weigh(any_costs, labels) >= least - 1e-9).all()


@pytest.mark.parametrize("exactly_one", [False, True])
def test_joint_rounding_of_many_clips(exactly_one):
    rng = np.random.default_rng(1)
    state = random_constraints(rng, (5, 8, 6), forbid=0.1, exactly_one=exactly_one)
    offsets = np.array([0, 4, 5, 11])
    action = one_row(offsets, linear=np.zeros((11, 1)), times=rng.uniform(0, 7, 11))
    scores = rng.standard_normal((11, 1)), rng.standard_normal((state.n_rows, 2))
    expected = joint_rounding(action, state, *scores, Scales(5, 10, 0.5))
    sides = [padded.pad(c, np.arange(3), "cpu") for c in (action, state)]
    costs = [
        side.linear + side.spread(torch.as_tensor(weight * (1 - 2 * s)))
        for side, s, weight in zip(sides, scores, (0.1, 0.05), strict=True)
    ]
    found = padded.round_jointly(*sides, *costs, 0.1)
    for side, labels, answer in zip(sides, found, expected, strict=True):
        columns = side.collect(labels, len(answer)).numpy()
        assert (columns @ np.arange(1, columns.shape[1] + 1) == answer).all()

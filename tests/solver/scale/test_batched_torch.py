"""What ``test_backends.py`` does not see of batches: padding, and how far steps converge."""

import numpy as np
import pytest

from tests.solver.problems import random_constraints

torch = pytest.importorskip("torch", reason="needs the extra torch")

from objectstates.solver.scale import batched_torch as batched  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def tensor(array):
    return torch.as_tensor(array, device=DEVICE)


def test_padding_is_undone():
    """Clips in any order, each with its rows in order of end time."""
    rng = np.random.default_rng(0)
    constraints, clips = random_constraints(rng, (6, 2, 4)), np.array([2, 0, 1])
    batch = batched.batch_clips(constraints, clips, DEVICE)
    source = np.concatenate([np.arange(8, 12), np.arange(6), np.arange(6, 8)])
    columns = tensor(rng.standard_normal((12, 2)))
    padded = batch.pad(columns)
    assert padded.shape == (2, 6, 3)
    assert (batch.unpad(padded, 12) == columns).all()
    assert (batch.pad(tensor(constraints.times[source][:, None]))[0] == batch.times).all()
    assert batch.linear.isinf().sum() == 2 * (18 - 12)  # in the padding alone


@pytest.mark.parametrize("exactly_one", [False, True])
@pytest.mark.parametrize("pairwise", [False, True])
def test_steps_reach_the_nearest_point_of_the_hull(exactly_one, pairwise):
    """Of |Y|^2 / 2 + <c, Y>: the gap goes to 0, and labels stay in the hull."""
    rng = np.random.default_rng(0)
    constraints = random_constraints(rng, (6, 9, 4, 7), forbid=0.1, exactly_one=exactly_one)
    batch = batched.batch_clips(constraints, np.arange(4), DEVICE)
    scores = tensor(rng.standard_normal(constraints.linear.shape))
    costs = batch.linear - batch.pad(scores)
    forbidden = torch.where(costs.isinf(), costs, 0.0)
    _, flow = batched.cheapest_paths(forbidden, batch.before, batch.blocked)
    weights = tensor(np.ones(2))
    values, gaps = [], []
    for _ in range(60):
        _, sums = batched.frank_wolfe_steps(
            batch, scores, None, flow, weights=weights, steps=3, pairwise=pairwise
        )
        labels = batched.labels_of(flow)
        values.append(float(sums[1] / 2 + batched.inner_products(costs, labels).sum()))
        gaps.append(float(sums[0]))
    assert (np.diff(values) <= 1e-12).all()
    assert -1e-12 < gaps[-1] < (1e-8 if pairwise else 0.1 * gaps[0])
    for _ in range(20):  # no point of the hull is cheaper than the best labelling, at any costs
        any_costs = batch.linear + batch.pad(tensor(rng.standard_normal(scores.shape)))
        least = batched.path_values(any_costs, batch.before, batch.blocked)[-1, -1]
        assert (batched.inner_products(any_costs, labels) >= least - 1e-9).all()

"""The authors' solver, as we measure it, solves the same problem as ours."""

import numpy as np
import pytest

from benchmarks.authors import cheapest_path, predecessors, projection, solve_as_authors
from objectstates import JointDiscovery
from objectstates.data.synthetic import synthetic_corpus
from objectstates.solver.cost import factorise
from objectstates.solver.oracle import label_clips, ordered_states
from tests.solver.problems import random_intervals


def test_the_cheapest_path_costs_what_the_oracle_finds():
    rng = np.random.default_rng(0)
    compared = 0
    for _ in range(300):
        start, end = random_intervals(rng, 9, grid=4)
        costs = rng.standard_normal((9, 2))
        constraints = ordered_states(start, end, np.array([0, 9]), linear=np.zeros((9, 2)))
        values, _ = label_clips(costs, constraints)
        if np.isfinite(values[0]):
            labels = cheapest_path(costs, predecessors(start, end))
            assert (labels * costs).sum() == pytest.approx(values[0])
            compared += 1
    assert compared > 200


@pytest.mark.parametrize("shape", [(20, 5), (8, 30)])
def test_the_projection_is_that_of_our_cost(shape):
    rng = np.random.default_rng(1)
    features, labels = rng.standard_normal(shape), rng.random((shape[0], 2))
    ours = factorise(features, 1e-2).residual(labels)
    np.testing.assert_allclose(projection(features, 1e-2) @ labels, ours, atol=1e-10)


def test_it_converges_to_what_our_full_steps_reach():
    corpus = synthetic_corpus(n_clips=5, tracklets_per_clip=12, chunks_per_clip=15)
    theirs = [solve_as_authors(corpus, steps=150, seed=seed) for seed in range(3)]
    full = {"solver": "full", "max_passes": 180, "verdict": False}
    ours = [JointDiscovery.paper(**full, seed=seed).fit(corpus) for seed in range(3)]
    relaxed, rounded = (
        np.mean([getattr(t, name) for t in theirs]) for name in ("relaxed", "rounded")
    )
    assert relaxed == pytest.approx(np.mean([o.relaxed_objective_ for o in ours]), rel=0.05)
    assert rounded == pytest.approx(np.mean([o.objective_ for o in ours]), rel=0.05)
    assert all(t.gap / t.relaxed < 0.5 for t in theirs)

"""The dense reference against its own definitions: regression, differences, all labellings."""

from dataclasses import replace

import numpy as np
import pytest

from objectstates.solver import reference
from objectstates.solver.reference import Problem
from tests.solver.problems import all_labellings, random_intervals, total_costs
from tests.solver.test_backends import actions, is_labelling, random_point, states


@pytest.fixture
def problem() -> Problem:
    rng = np.random.default_rng(0)
    return Problem(actions(rng, (3, 4)), states(rng, (4, 5)), nu=2.0)


def test_cost_is_that_of_the_best_ridge_classifier(problem):
    side = problem.state
    y = np.random.default_rng(1).random((9, 2))
    centred = side.features - side.features.mean(axis=0)
    ridge = np.sqrt(9 * side.ridge) * np.eye(8)  # |Y - XW - b|^2 + M ridge |W|^2 as least squares
    target = np.vstack([y - y.mean(axis=0), np.zeros((8, 2))])
    weights, *_ = np.linalg.lstsq(np.vstack([centred, ridge]), target, rcond=None)
    left = target - np.vstack([centred, ridge]) @ weights
    assert np.vdot(y, side.form @ y) == pytest.approx(np.vdot(left, left))
    assert reference.scores(side, y) == pytest.approx(centred @ weights + y.mean(axis=0))


def test_gradient_is_the_limit_of_differences(problem):
    finite = [replace(s, linear=np.where(np.isinf(s.linear), 0, s.linear)) for s in problem.sides]
    problem = Problem(finite[0], finite[1], problem.nu)
    z, y = random_point(np.random.default_rng(2), problem).labels
    by_z, by_y = reference.gradient(problem, z, y)
    for labels, gradient in ((z, by_z), (y, by_y)):
        for entry in np.ndindex(labels.shape):
            values = []
            for step in (1e-4, -1e-4):
                labels[entry] += step
                values.append(sum(reference.terms(problem, z, y)))
                labels[entry] -= step
            difference = (values[0] - values[1]) / 2e-4
            assert difference == pytest.approx(gradient[entry], abs=1e-7)


@pytest.mark.parametrize("n_states", [1, 2, 3])
@pytest.mark.parametrize("exactly_one", [False, True])
def test_oracle_equals_trying_all_labellings(n_states, exactly_one):
    rng = np.random.default_rng(3)
    for _ in range(30):
        start, end = random_intervals(rng, rng.integers(1, 7), grid=2)
        costs = rng.standard_normal((len(start), n_states))
        value, labels = reference.oracle(costs, start, end, exactly_one)
        candidates = all_labellings(start, end, n_states, exactly_one)
        if not len(candidates):
            assert value == np.inf
            continue
        assert (candidates == labels).all(axis=1).any()
        assert value == pytest.approx(total_costs(candidates, costs).min())


def test_rounding_and_steps_keep_to_the_constraints(problem):
    point = random_point(np.random.default_rng(4), problem)
    found = reference.round_jointly(
        problem, *(reference.scores(s, x) for s, x in zip(problem.sides, point.labels, strict=True))
    )
    for side, labels in zip(problem.sides, found, strict=True):
        assert all(is_labelling(side, n, labels[n]) for n in side.clips)
    before, (z, y) = np.inf, point.labels
    for _ in range(20):
        value = sum(reference.terms(problem, z, y))
        assert value <= before
        before, (z, y, gap) = value, reference.full_step(problem, z, y)
        assert gap >= -1e-12

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from objectstates.discovery.constraints import no_action, no_states
from objectstates.solver.block_steps import exact_step
from objectstates.solver.cost import factorise
from objectstates.solver.frank_wolfe import minimise
from objectstates.solver.in_memory import full_step
from objectstates.solver.oracle import one_row, ordered_states
from objectstates.solver.problem import JointProblem, make_side, merge_alike, one_hot, vertex
from tests.solver.problems import (
    all_labellings,
    at_start,
    dense_matrix,
    dense_objective,
    random_chain,
    random_constraints,
    random_problem,
    solve,
    with_absence,
)

SOLVERS = ["block", "full"]
SMALL = {"state_sizes": (4, 4), "action_sizes": (3, 3)}


def quadratic_optimum(side, candidates_per_clip):
    """The least of tr(Y'AY)/2M + <linear, Y> over the hull, by a general-purpose solver (SLSQP) on
    the weights of all vertices."""
    offsets, linear = side.constraints.offsets, side.constraints.linear
    n_rows, n_states = linear.shape
    vertices: list[Any] = []
    sums = []
    for n, candidates in enumerate(candidates_per_clip):
        row = np.zeros(sum(map(len, candidates_per_clip)))
        row[len(vertices) : len(vertices) + len(candidates)] = 1
        sums.append(row)
        for labels in candidates:
            full = np.zeros((n_rows, n_states))
            full[offsets[n] : offsets[n + 1]] = one_hot(labels, n_states)
            vertices.append(full.ravel())
    basis = np.array(vertices).T
    finite = np.where(np.isinf(linear), 0, linear).ravel()
    alike = side.classes[:, None] == side.classes
    matrix = basis.T @ np.kron(dense_matrix(side), alike) @ basis / n_rows
    absent = side.constraints.absent
    prices = [
        with_absence(x, np.zeros((x.shape[1], n_states)), absent) for x in candidates_per_clip
    ]
    vector = basis.T @ finite + np.concatenate(prices)
    start = np.concatenate([np.full(len(c), 1 / len(c)) for c in candidates_per_clip])
    general_solver: Any = minimize  # whose stubs know no Jacobian of a constraint
    answer = general_solver(
        lambda w: w @ matrix @ w / 2 + vector @ w,
        start,
        jac=lambda w: matrix @ w + vector,
        bounds=[(0, 1)] * len(start),
        constraints={"type": "eq", "fun": lambda w: np.array(sums) @ w - 1,
                     "jac": lambda w: np.array(sums)},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )  # fmt: skip
    assert answer.success
    return answer.fun


def intervals(constraints, n):
    """Intervals that realise a clip's precedence: positions in the order by end time."""
    lo, hi = constraints.offsets[n], constraints.offsets[n + 1]
    start, end = np.empty(hi - lo), np.empty(hi - lo)
    start[constraints.order[lo:hi]] = constraints.before[lo:hi]
    end[constraints.order[lo:hi]] = np.arange(1, hi - lo + 1)
    return start, end


def convex_optimum(problem):
    total = 0.0
    for side in (problem.action, problem.state):
        constraints = side.constraints
        total += quadratic_optimum(
            side,
            [
                all_labellings(
                    start,
                    end,
                    n_states=constraints.n_states,
                    exactly_one=constraints.exactly_one,
                    forbidden=np.isinf(constraints.clips(n, n + 1).linear),
                    optional=np.isfinite(constraints.absent),
                )
                for n in range(problem.n_clips)
                for start, end in [intervals(constraints, n)]
            ],
        )
    return total


CHAINS: list[dict[str, Any]] = [
    {},
    {"exactly_one": True},
    {"optional": True},
    {"cycle": True},
    {"optional": True, "cycle": True, "size": 3},
]


@pytest.mark.parametrize("kind", CHAINS, ids=str)
def test_convex_chains_are_solved_and_certified(kind):
    problem, _ = random_chain(np.random.default_rng(0), [5, 4, 5], nu=0.0, **kind)
    optimum = convex_optimum(problem)
    block, at = solve(problem, tol=1e-6, max_passes=3000)
    full, _ = solve(problem, solver="full", tol=1e-3, max_passes=3000)
    for solution in (block, full):
        assert solution.terms.total >= optimum - 1e-7, "below the optimum: not feasible"
        assert solution.terms.total - solution.gap <= optimum + 1e-7, "no bound"
    assert block.terms.total == pytest.approx(optimum, abs=1e-6)
    assert full.terms.total == pytest.approx(optimum, abs=2e-3)
    prices = problem.state.constraints.absent
    lacked = np.where(np.isfinite(prices), prices, 0.0) * at.state.missing
    expected = dense_objective(problem, at.action.labels, at.state.labels) + lacked.sum()
    prices = problem.action.constraints.absent
    expected += (np.where(np.isfinite(prices), prices, 0.0) * at.action.missing).sum()
    assert block.terms.total == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", CHAINS, ids=str)
@pytest.mark.parametrize("solver", SOLVERS)
def test_objective_of_chains_never_rises_and_sums_stay_true(solver, kind):
    problem, _ = random_chain(np.random.default_rng(1), [7] * 5, nu=0.5, **kind)
    seen = []

    def watch(progress):
        if progress.stage == "joint":
            seen.append(progress.objective)

    _, last = solve(problem, solver=solver, tol=1e-9, max_passes=120, callback=watch)
    assert len(seen) > 10
    assert max(np.diff(seen)) <= 1e-13
    last.run_pass(solver, 1.0)
    for side, at in ((problem.action, last.action), (problem.state, last.state)):
        merged = merge_alike(at.labels, side.classes)
        np.testing.assert_allclose(at.factor_sums, merged.T @ side.rows, atol=1e-10)
        assert at.labels.min() >= -1e-15
        present = at.missing.sum() if kind.get("optional") else 0.0
        if side.constraints.exactly_one:
            assert at.labels.sum() + present == pytest.approx(
                3 * 5 if side is problem.state else 10
            )


def test_full_step_of_a_chain_goes_to_the_lowest_point_of_its_segment():
    problem, _ = random_chain(np.random.default_rng(2), [6] * 4, nu=0.2)
    _, at = solve(problem, solver="full", tol=1e-9, max_passes=3)  # an interior point
    (z0, y0), (z1, y1) = step_along(problem, at.action, at.state)
    here = dense_objective(problem, z1, y1)
    assert here < dense_objective(problem, z0, y0)
    for share in (0.9, 0.99, 1.01, 1.1):
        z, y = z0 + share * (z1 - z0), y0 + share * (y1 - y0)
        if min(z.min(), y.min()) >= 0:
            assert dense_objective(problem, z, y) >= here - 1e-15


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("form", [{"d_state": 3, "d_action": 2}, {"d_state": 20, "d_action": 12}])
def test_convex_problem_is_solved_and_certified(seed, form):
    problem = random_problem(
        np.random.default_rng(seed), nu=0.0, linear=0.05, forbid=0.1, **SMALL, **form
    )
    optimum = convex_optimum(problem)
    tolerance = 1e-7
    block = solve(problem, tol=1e-6, max_passes=3000)
    full = solve(problem, solver="full", tol=1e-3, max_passes=3000)
    for solution, at in (block, full):
        value = solution.terms.total
        assert value == pytest.approx(
            dense_objective(problem, at.action.labels, at.state.labels), abs=1e-12
        )
        assert value >= optimum - tolerance, "below the optimum: not feasible"
        assert value - solution.gap <= optimum + tolerance, "the certificate does not bound"
    assert block[0].terms.total == pytest.approx(optimum, abs=1e-6)
    assert full[0].terms.total == pytest.approx(optimum, abs=2e-3)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("nu", [0.0, 0.3, 5.0])
def test_objective_never_rises(solver, nu):
    problem = random_problem(np.random.default_rng(7), nu=nu, linear=0.01)
    seen, at = [], at_start(problem)

    def watch(progress):
        if progress.stage == "joint" or nu == 0:
            seen.append(progress.objective)
            assert progress.objective == pytest.approx(
                dense_objective(problem, at.action.labels, at.state.labels)
            )

    minimise(at, solver=solver, tol=1e-9, max_passes=150, callback=watch)
    assert len(seen) > 10
    assert max(np.diff(seen)) <= 1e-14


def test_block_reaches_a_stationary_point_of_the_joint_problem():
    problem = random_problem(
        np.random.default_rng(8), state_sizes=[8] * 6, action_sizes=[10] * 6, nu=1.0
    )
    solution, at = solve(problem, tol=1e-4, max_passes=2000)
    assert solution.converged
    assert solution.gap <= 1e-4 * solution.terms.total
    assert solution.gap == pytest.approx(problem.gap(at.action, at.state))


@pytest.mark.parametrize("solver", SOLVERS)
def test_forbidden_labels_stay_unused_and_rows_feasible(solver):
    problem = random_problem(np.random.default_rng(9), forbid=0.3)
    _, found = solve(problem, solver=solver, max_passes=100)
    for side, at in ((problem.action, found.action), (problem.state, found.state)):
        assert not at.labels[np.isinf(side.constraints.linear)].any()
        assert at.labels.min() >= 0
        assert at.labels.sum(axis=1).max() <= 1 + 1e-12


def test_running_sums_and_convex_combination_stay_true():
    problem = random_problem(np.random.default_rng(10), d_state=30, nu=0.5)
    _, last = solve(problem, tol=1e-12, max_passes=120)
    last.run_pass("block", 1.0)  # an evaluation recomputes the sums; a pass updates them
    for side, at in ((problem.action, last.action), (problem.state, last.state)):
        np.testing.assert_allclose(at.factor_sums, at.labels.T @ side.rows, atol=1e-10)
        for n in range(problem.n_clips):
            rows = slice(side.constraints.offsets[n], side.constraints.offsets[n + 1])
            weights = at.weights[n, : at.counts[n]]
            assert weights.min() > 0
            assert weights.sum() == pytest.approx(1)
            mixture = sum(
                weight * one_hot(at.vertices[rows, q], at.labels.shape[1])
                for q, weight in enumerate(weights)
            )
            np.testing.assert_allclose(mixture, at.labels[rows], atol=1e-10)


@pytest.mark.parametrize(
    ("slope", "curvature", "limit"),
    [
        (0.0, 0.0, 1.0),
        (-1.0, 2.0, 1.0),
        (-1.0, 0.5, 1.0),
        (-1.0, 0.0, 0.7),
        (-1.0, -3.0, 1.0),
        (-1e-9, 1.0, 0.2),
        (-2.0, 100.0, 0.01),
    ],
)
def test_line_search_is_exact(slope, curvature, limit):
    steps = np.linspace(0, limit, 100001)
    best = steps[np.argmin(slope * steps + curvature * steps**2 / 2)]
    assert exact_step(slope, curvature, limit) == pytest.approx(best, abs=2e-5 * limit)


def step_along(problem, action, state):
    """One full step, and the objective along its direction by the dense reference."""
    before = action.labels.copy(), state.labels.copy()
    full_step(problem, action, state)
    after = action.labels.copy(), state.labels.copy()
    return before, after


def test_full_step_goes_to_the_lowest_point_of_its_segment():
    rng = np.random.default_rng(11)
    problem = random_problem(rng, nu=0.2)
    _, at = solve(problem, solver="full", tol=1e-9, max_passes=3)  # an interior point
    (z0, y0), (z1, y1) = step_along(problem, at.action, at.state)
    here = dense_objective(problem, z1, y1)
    assert here < dense_objective(problem, z0, y0)
    for share in (0.9, 0.99, 1.01, 1.1):  # neither less nor more of the step does better
        z, y = z0 + share * (z1 - z0), y0 + share * (y1 - y0)
        if min(z.min(), y.min()) >= 0:
            assert dense_objective(problem, z, y) >= here - 1e-15


def test_negative_curvature_takes_the_whole_step():
    """Action and states early, or all late, agree with one another; half-way they do not, so that
    the objective is concave along the way from the one to the other and the step must be 1."""
    reward = -20.0  # of being late, more than the disagreement that the first order sees
    start = np.array([0.0, 1, 8, 9])
    linear = np.zeros((4, 2))
    linear[2, 0] = linear[3, 1] = reward
    states = ordered_states(start, start + 1, np.array([0, 4]), linear=linear)
    actions = one_row(
        np.array([0, 2]), linear=np.array([[0.0], [reward]]), times=np.array([1.0, 9.0])
    )
    rng = np.random.default_rng(0)
    problem = JointProblem(
        make_side(factorise(rng.standard_normal((2, 3)), 1e-2), actions),
        make_side(factorise(rng.standard_normal((4, 3)), 1e-2), states),
        nu=2.0,
    )
    action = vertex(problem.action, np.array([1, 0], np.int8))
    state = vertex(problem.state, np.array([1, 2, 0, 0], np.int8))
    (z0, y0), (z1, y1) = step_along(problem, action, state)
    middle = dense_objective(problem, (z0 + z1) / 2, (y0 + y1) / 2)
    ends = dense_objective(problem, z0, y0), dense_objective(problem, z1, y1)
    assert middle > sum(ends) / 2 + 1, "not concave: negative curvature is not exercised"
    assert z1.ravel().tolist() == [0, 1]
    assert y1.tolist() == [[0, 0], [0, 0], [1, 0], [0, 1]]
    assert ends[1] < ends[0]


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_seed_same_answer(solver):
    problem = random_problem(np.random.default_rng(12))
    one, two = (solve(problem, solver=solver, max_passes=60, seed=3) for _ in range(2))
    assert (one[1].state.labels == two[1].state.labels).all()
    assert one[0] == two[0]
    _, other = solve(problem, solver=solver, max_passes=60, seed=4)
    assert (one[1].state.labels != other.state.labels).any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_either_side_may_be_absent(solver):
    rng = np.random.default_rng(13)
    both = random_problem(rng, nu=1.0)
    nothing = make_side(factorise(np.empty((0, 3)), 1.0), no_action(both.n_clips))
    states = JointProblem(nothing, both.state, 1.0)
    nothing = make_side(factorise(np.empty((0, 3)), 1.0), no_states(both.n_clips))
    actions = JointProblem(both.action, nothing, 1.0)
    apart = [solve(p, solver=solver, tol=1e-3, max_passes=2000)[0] for p in (states, actions)]
    together, _ = solve(both.with_nu(0.0), solver=solver, tol=1e-3, max_passes=2000)
    total = sum(solution.terms.total for solution in apart)
    bound = together.gap + sum(solution.gap for solution in apart)
    assert total == pytest.approx(together.terms.total, abs=bound)


def test_callback_can_stop():
    problem = random_problem(np.random.default_rng(14))
    solution, at = solve(problem, callback=lambda progress: progress.passes == 7)
    assert solution.passes == 7
    assert not solution.converged
    assert solution.gap == pytest.approx(problem.gap(at.action, at.state))


def test_exactly_one_constraint_is_kept():
    rng = np.random.default_rng(15)
    constraints = random_constraints(rng, (5, 6), exactly_one=True)
    side = make_side(factorise(rng.standard_normal((11, 4)), 1e-2), constraints)
    nothing = make_side(factorise(np.empty((0, 3)), 1.0), no_action(2))
    _, at = solve(JointProblem(nothing, side, 0.0), max_passes=200)
    for lo, hi in ((0, 5), (5, 11)):
        np.testing.assert_allclose(at.state.labels[lo:hi].sum(axis=0), 1)

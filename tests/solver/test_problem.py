import numpy as np
import pytest

from objectstates.base.errors import SettingError
from objectstates.solver.distortion import action_distortion, state_distortion
from objectstates.solver.in_memory import InMemoryProblem
from objectstates.solver.oracle import label_clips, random_labels
from objectstates.solver.problem import (
    JointProblem,
    block_gradient,
    classes_of,
    classifier_scores,
    mean_of_vertices,
    one_hot,
    refresh,
    residual,
    vertex,
)
from tests.solver.problems import dense_matrix, dense_objective, random_chain, random_problem

FORMS = [
    {"d_state": 3, "d_action": 3},
    {"d_state": 40, "d_action": 30},
    {"d_state": 40, "d_action": 3},
]


def random_point(problem, rng):
    """A point inside both hulls: a mixture of random labellings, with its sums."""
    sides = []
    for side in (problem.action, problem.state):
        at = vertex(side, np.zeros(side.constraints.n_rows, np.int8))
        for weight in (0.5, 0.3, 0.2):
            labels = random_labels(side.constraints, rng)
            at.labels[:] += weight * one_hot(labels, side.constraints.n_states)
        refresh(side, at)
        sides.append(at)
    return sides


def clip_gradients(problem, action, state, n):
    """Of h in clip n's entries of Z and Y."""
    both, coupling = (
        (problem.action.constraints, problem.state.constraints),
        problem.scales.coupling,
    )
    by_z = action_distortion(*both, n, state.labels)
    by_y = state_distortion(*both, n, action.labels)
    return (
        block_gradient(problem.action, action.labels, action.factor_sums, n, coupling, by_z),
        block_gradient(problem.state, state.labels, state.factor_sums, n, coupling, by_y),
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("linear", [0.0, 0.1])
def test_objective_equals_the_sum_written_out(form, linear):
    rng = np.random.default_rng(0)
    problem = random_problem(rng, linear=linear, forbid=0.1, **form)
    action, state = random_point(problem, rng)
    expected = dense_objective(problem, action.labels, state.labels)
    assert problem.terms(action, state).total == pytest.approx(expected)
    for side, at in ((problem.action, action), (problem.state, state)):
        np.testing.assert_allclose(residual(side, at), dense_matrix(side) @ at.labels, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_integer_objective_equals_the_relaxed_one(form):
    rng = np.random.default_rng(1)
    problem = random_problem(rng, linear=0.1, **form)
    for _ in range(10):
        z, y = (
            label_clips(rng.standard_normal(side.constraints.linear.shape), side.constraints)[1]
            for side in (problem.action, problem.state)
        )
        integer = problem.integer_terms(z, y)
        relaxed = problem.terms(vertex(problem.action, z), vertex(problem.state, y))
        assert integer.total == pytest.approx(relaxed.total)
        assert integer.joint == pytest.approx(relaxed.joint)


@pytest.mark.parametrize("form", FORMS)
def test_gradient_equals_finite_differences(form):
    rng = np.random.default_rng(2)
    problem = random_problem(rng, linear=0.1, nu=2.0, **form)
    action, state = random_point(problem, rng)
    z, y, step = action.labels, state.labels, 1e-6
    for n in range(problem.n_clips):
        gradients = clip_gradients(problem, action, state, n)
        for gradient, labels, side in (
            (gradients[0], z, problem.action),
            (gradients[1], y, problem.state),
        ):
            lo = side.constraints.offsets[n]
            for i, k in np.ndindex(gradient.shape):
                kept = labels[lo + i, k]
                labels[lo + i, k] = kept + step
                above = dense_objective(problem, z, y)
                labels[lo + i, k] = kept - step
                below = dense_objective(problem, z, y)
                labels[lo + i, k] = kept
                slope = (above - below) / (2 * step)
                assert gradient[i, k] == pytest.approx(slope, abs=1e-7)


def test_gap_is_the_largest_decrease_of_the_linearised_objective():
    rng = np.random.default_rng(3)
    problem = random_problem(rng, nu=1.0)
    action, state = random_point(problem, rng)
    gap = problem.gap(action, state)
    assert gap > 0
    for _ in range(200):  # no labelling does better than the oracle's
        other = random_point(problem, rng)
        slope = 0.0
        for n in range(problem.n_clips):
            gradients = clip_gradients(problem, action, state, n)
            for side, at, there, gradient in zip(
                (problem.action, problem.state), (action, state), other, gradients, strict=True
            ):
                rows = slice(side.constraints.offsets[n], side.constraints.offsets[n + 1])
                slope += (gradient * (at.labels[rows] - there.labels[rows])).sum()
        assert slope <= gap + 1e-12


def test_distortion_is_the_papers_on_integer_labels():
    problem = random_problem(np.random.default_rng(4), nu=3.0)
    action, state = problem.action.constraints, problem.state.constraints
    z, y = np.zeros(action.n_rows, np.int8), np.zeros(state.n_rows, np.int8)
    z[action.offsets[:-1]] = 1  # the action comes first ...
    y[state.offsets[:-1]], y[state.offsets[1:] - 1] = 1, 2
    late = np.maximum(state.times[state.offsets[:-1]] - action.times[action.offsets[:-1]], 0)
    early = np.maximum(action.times[action.offsets[:-1]] - state.times[state.offsets[1:] - 1], 0)
    expected = 3.0 / action.n_rows * (late + early).sum()  # ... so that state 1 is late
    assert problem.integer_terms(z, y).joint == pytest.approx(expected)
    assert expected > 0


def test_classes_number_looks_in_order_of_first_use():
    assert classes_of(3).tolist() == [0, 1, 2]
    assert classes_of(3, np.array([0, 1, 0])).tolist() == [0, 1, 0]
    for wrong in ([0, 1], [1, 0, 1], [0, 2, 1]):
        with pytest.raises(SettingError, match="`classes` must number"):
            classes_of(3, np.array(wrong))


def test_states_that_look_alike_share_a_classifier():
    """As one state would that has the labels of both."""
    rng = np.random.default_rng(5)
    problem, _ = random_chain(rng, [6, 7], cycle=True)
    state = vertex(problem.state, random_labels(problem.state.constraints, rng))
    scores = classifier_scores(problem.state, state)
    merged = state.labels[:, [0, 1]] + np.outer(state.labels[:, 2], [1, 0])
    known = merged - dense_matrix(problem.state) @ merged
    np.testing.assert_allclose(scores, known[:, [0, 1, 0]], atol=1e-12)


def test_what_a_clip_lacks_is_paid_for():
    problem, _ = random_chain(np.random.default_rng(6), [5, 5], optional=True)
    z, y = (
        np.tile(np.array([0, 1, 0, 0, 2], np.int8), 2),
        np.tile(np.array([1, 0, 2, 0, 3], np.int8), 2),
    )
    whole = problem.integer_terms(z, y)
    z[4], y[4] = 0, 0
    lacking = problem.integer_terms(z, y)
    relaxed = problem.terms(vertex(problem.action, z), vertex(problem.state, y))
    assert lacking.total == pytest.approx(relaxed.total)
    free = problem.state._replace(
        constraints=problem.state.constraints._replace(absent=np.zeros(3))
    )
    without = JointProblem(problem.action, free, problem.nu).integer_terms(z, y)
    assert lacking.state - without.state == pytest.approx(0.002)
    assert lacking.joint <= whole.joint + 1e-12


def test_the_mean_of_labellings_is_their_mean():
    problem = random_problem(np.random.default_rng(3))
    side = problem.state
    rng = np.random.default_rng(4)
    drawn = [random_labels(side.constraints, rng) for _ in range(5)]
    at = mean_of_vertices(side, drawn)
    np.testing.assert_allclose(at.labels, np.mean([one_hot(d, 2) for d in drawn], axis=0))
    np.testing.assert_array_equal(at.counts, 5)
    points = [vertex(side, labels) for labels in drawn]
    expected = np.mean([point.factor_sums for point in points], axis=0)
    np.testing.assert_allclose(at.factor_sums, expected, atol=1e-12)


def test_full_steps_start_at_the_mean_of_random_labellings():
    problem = random_problem(np.random.default_rng(3))
    at = InMemoryProblem(problem, lambda *_: (np.zeros((1, 1)), np.zeros(1)), starts=5)
    at.start(0)
    for point in (at.action, at.state):
        np.testing.assert_allclose(5 * point.labels, np.rint(5 * point.labels), atol=1e-9)
        assert ((point.labels > 0) & (point.labels < 1)).any()

"""Every backend computes what the dense reference defines: oracle, gap, steps and rounding."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from objectstates.solver import reference
from objectstates.solver.reference import Problem, Side
from tests.solver.backends import STEPS, Backend, Pass, Point, constraints_of

# None shrunk: that takes minutes where kernels are interpreted.
many = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
seeds = st.integers(0, 2**32 - 1)
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in multiply")  # 0 inf


def too_many(backend: Backend, seed: int) -> bool:
    """Whether to leave out an example: a slow backend sees one in six."""
    return backend.slow and seed % 6 != 0


def states(rng, sizes, *, exactly_one=False, grid=False, forbid=0.2) -> Side:
    """Clips of overlapping rows. The first row and the last, long after, admit a labelling."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    start = rng.uniform(0, 4, offsets[-1])
    end = start + rng.uniform(0.2, 2, offsets[-1])
    if grid:  # equal times, rows that touch
        start, end = np.round(start), np.round(end) + 1
    start[offsets[1:] - 1], end[offsets[1:] - 1] = 8.0, 9.0
    linear = 0.1 * rng.standard_normal((offsets[-1], 2))
    blocked = rng.random(linear.shape) < forbid
    blocked[offsets[:-1], 0] = blocked[offsets[1:] - 1, 1] = False
    linear[blocked] = np.inf
    features = rng.standard_normal((offsets[-1], 8))  # fewer rows and more, than features
    return Side(features, 1e-2, offsets, start, end, linear, exactly_one)


def actions(rng, sizes, *, forbid=0.2) -> Side:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    start = rng.uniform(0, 8, offsets[-1])
    linear = np.where(rng.random((offsets[-1], 1)) < forbid, np.inf, 0.0)
    linear[offsets[:-1]] = 0.0
    features = rng.standard_normal((offsets[-1], 8))
    return Side(features, 1e-2, offsets, start, start + 0.4, linear, exactly_one=True)


@st.composite
def problems(draw, nu=(0.0, 0.1, 10.0), absent=("none", "action", "state")) -> Problem:
    """Clips of different sizes, ties in time, forbidden labels, either side absent."""
    rng = np.random.default_rng(draw(seeds))
    n_clips = draw(st.integers(1, 4))
    missing = draw(st.sampled_from(absent))
    sizes, chunks = rng.integers(2, 7, n_clips), rng.integers(1, 6, n_clips)
    state = _none(n_clips, 2)
    if missing != "state":
        state = states(rng, sizes, exactly_one=draw(st.booleans()), grid=draw(st.booleans()))
    action = actions(rng, chunks) if missing != "action" else _none(n_clips, 1)
    return Problem(action, state, draw(st.sampled_from(nu)))


def _none(n_clips, n_states) -> Side:
    """A side without rows."""
    nothing = np.empty(0)
    return Side(
        np.empty((0, 8)), 1e-2, np.zeros(n_clips + 1, np.int64), nothing, nothing,
        np.empty((0, n_states)), exactly_one=n_states == 1,
    )  # fmt: skip


def random_point(rng, problem: Problem, most=4) -> Point:
    """In every clip a random convex combination of up to ``most`` labellings."""
    sides = []
    for side in problem.sides:
        clips = []
        for n in side.clips:
            count = rng.integers(1, most + 1)
            weights = rng.dirichlet(np.ones(count))
            found: reference.Combination = {}
            for weight in weights.tolist():
                costs = rng.standard_normal(side.linear[n].shape)
                costs[np.isinf(side.linear[n])] = np.inf
                _, labels = reference.cheapest(side, n, costs)
                found[labels] = found.get(labels, 0.0) + weight
            clips.append(found)
        sides.append(clips)
    return Point(sides[0], sides[1], problem.state.linear.shape[1])


def is_labelling(side: Side, n: slice, labels) -> bool:
    """Whether labels of one clip respect overlap, order, use of states and what is forbidden."""
    used = [(i, k) for i, k in enumerate(labels) if k > 0]
    n_states = side.linear.shape[1]
    counts = np.bincount([k for _, k in used], minlength=n_states + 1)[1:]
    counts[(counts == 0) & np.isfinite(side.prices)] = 1  # a state that is absent
    if len(labels) and ((counts != 1).any() if side.exactly_one else (counts < 1).any()):
        return False
    for (i, k), (j, other) in itertools.permutations(used, 2):
        apart = side.end[n][i] <= side.start[n][j]
        if not apart and side.end[n][j] > side.start[n][i]:
            return False
        if apart and k > other:
            return False
    return bool(np.isfinite([side.linear[n][i, k - 1] for i, k in used]).all())


# --- oracle ---------------------------------------------------------------------------------------


@many
@given(seed=seeds, exactly_one=st.booleans(), grid=st.booleans(), whole=st.booleans())
def test_oracle_finds_the_cheapest_labelling(backend: Backend, seed, exactly_one, grid, whole):
    """Whole costs have ties, broken towards fewer, earlier rows; some clips have no labelling."""
    if too_many(backend, seed):
        return
    rng = np.random.default_rng(seed)
    side = states(rng, rng.integers(1, 8, 4), exactly_one=exactly_one, grid=grid, forbid=0.4)
    costs = rng.standard_normal(side.linear.shape)
    if whole:
        costs = np.round(2 * costs)
    costs[np.isinf(side.linear)] = np.inf
    values, labels = backend.oracle(constraints_of(side), costs)
    for value, n in zip(values, side.clips, strict=True):
        least, expected = reference.oracle(costs[n], side.start[n], side.end[n], exactly_one)
        assert value == pytest.approx(least, abs=1e-12)
        if np.isfinite(least):
            assert is_labelling(side, n, labels[n])
            cost = reference.inner(costs[n], reference.one_hot(labels[n].tolist(), 2))
            assert cost == pytest.approx(least, abs=1e-12)
            if backend.breaks_ties:
                assert tuple(labels[n]) == expected


# --- gap ------------------------------------------------------------------------------------------


@many
@given(problem=problems(), seed=seeds)
def test_gap_is_that_of_the_reference(backend: Backend, problem, seed):
    if too_many(backend, seed):
        return
    point = random_point(np.random.default_rng(seed), problem)
    expected = reference.duality_gap(problem, *point.labels)
    assert backend.gap(problem, point) == pytest.approx(expected, rel=1e-9, abs=1e-12)


# --- steps ----------------------------------------------------------------------------------------


def reference_pass(
    problem: Problem, point: Point, order, *, at_once: bool, pairwise: bool = False
) -> tuple[Pass, float]:
    """A few steps on each side of each clip: clip after clip, or all clips at once.

    Also the least difference of cost between two labellings of a clip that was met.
    """
    sides: dict[str, Any] = {"action": list(point.action), "state": list(point.state)}
    n_states = point.n_states
    visits = [(k, [n]) for n in order for k in (0, 1)]
    if at_once:
        visits = [(k, order) for k in (0, 1)]
    gap, margin = 0.0, np.inf
    for k, clips in visits:
        side, combinations = problem.sides[k], list(sides.values())[k]
        slopes = reference.gradient(problem, *Point(**sides, n_states=n_states).labels)[k]
        for n in clips:
            rows = side.clips[n]
            here = slopes[rows]
            form = np.eye(len(here)) if at_once else side.form[rows, rows]
            for step in range(STEPS if len(here) else 0):
                costs = [
                    reference.inner(here, reference.one_hot(labels, here.shape[1]))
                    for labels in combinations[n]
                ]
                here, combinations[n], met = reference.block_step(
                    side, rows, here, form / len(slopes), combinations[n], pairwise
                )
                gap += met if step == 0 else 0.0
                if len(costs) > 1 and met > 1e-12:
                    margin = min(margin, float(np.diff(np.sort(costs)).min()))
    end = Point(**sides, n_states=n_states)
    objective = sum(reference.terms(problem, *end.labels, end.missing(problem)))
    return Pass(*end.labels, objective, gap), margin


def assert_same_pass(found: Pass, expected: Pass) -> None:
    assert found.z == pytest.approx(expected.z, abs=1e-9)
    assert found.y == pytest.approx(expected.y, abs=1e-9)
    assert found.objective == pytest.approx(expected.objective, rel=1e-9, abs=1e-12)
    assert found.gap == pytest.approx(expected.gap, rel=1e-9, abs=1e-12)


@many
@given(problem=problems(), seed=seeds)
def test_a_pass_of_plain_steps_is_that_of_the_reference(backend: Backend, problem, seed):
    if too_many(backend, seed):
        return
    point = random_point(np.random.default_rng(seed), problem)
    (found,) = backend.passes(problem, point, [False], seed)
    order = np.random.default_rng(seed).permutation(len(problem.state.clips))
    expected, _ = reference_pass(problem, point, order, at_once=backend.at_once)
    assert_same_pass(found, expected)


def test_a_pass_of_pairwise_steps_is_that_of_the_reference(backend: Backend):
    """Where no two labellings of a clip become equal but for rounding, as after many a step."""
    if backend.at_once:
        pytest.skip("keeps a flow, in which the worst labelling is another than in a list")
    compared = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        problem = Problem(actions(rng, (2, 4)), states(rng, (3, 5)), nu=0.1)
        point = random_point(rng, problem, most=8)
        (found,) = backend.passes(problem, point, [True], seed)
        order = np.random.default_rng(seed).permutation(2)
        expected, margin = reference_pass(problem, point, order, at_once=False, pairwise=True)
        if margin > 1e-9:
            assert_same_pass(found, expected)
            compared += 1
    assert compared >= 5


@many
@given(problem=problems(), seed=seeds)
def test_passes_lower_the_objective_and_stay_in_the_hull(backend: Backend, problem, seed):
    """And where h is convex, no point is lower than the first by more than its gap."""
    if too_many(backend, seed):
        return
    rng = np.random.default_rng(seed)
    point = random_point(rng, problem)
    found = backend.passes(problem, point, [False, True], seed)
    objectives = [sum(reference.terms(problem, *point.labels)), *(one.objective for one in found)]
    assert (np.diff(objectives) <= 1e-12).all()
    assert found[-1].objective == pytest.approx(
        sum(reference.terms(problem, found[-1].z, found[-1].y)), rel=1e-9, abs=1e-12
    )
    if not problem.distortion.any():
        assert objectives[0] - objectives[-1] <= backend.gap(problem, point) + 1e-12
    for side, labels in zip(problem.sides, (found[-1].z, found[-1].y), strict=True):
        assert (labels >= 0).all()
        assert (labels[np.isinf(side.linear)] == 0).all()
        for n in side.clips:  # the support function of the hull, in random directions
            for costs in rng.standard_normal((5, *side.linear[n].shape)):
                costs[np.isinf(side.linear[n])] = np.inf
                least, _ = reference.oracle(costs, side.start[n], side.end[n], side.exactly_one)
                assert not len(costs) or reference.inner(costs, labels[n]) >= least - 1e-9


@pytest.mark.parametrize("exactly_one", [False, True])
def test_pairwise_steps_converge(backend: Backend, exactly_one):
    """On a convex problem to its optimum, which the gap certifies."""
    rng = np.random.default_rng(0)
    problem = Problem(actions(rng, (3,)), states(rng, (5,), exactly_one=exactly_one), nu=0.0)
    point = random_point(rng, problem)
    last = backend.passes(problem, point, [True] * 10, 0)[-1]
    before = reference.duality_gap(problem, *point.labels)
    assert reference.duality_gap(problem, last.z, last.y) < 0.02 * before


@many
@given(problem=problems(nu=(0.1, 30.0), absent=("none",)), seed=seeds)
def test_a_full_step_is_that_of_the_reference(backend: Backend, problem, seed):
    """With a strong coupling the curvature is negative more often than not: the step is 1."""
    if too_many(backend, seed):
        return
    point = random_point(np.random.default_rng(seed), problem)
    z, y, gap = reference.full_step(problem, *point.labels)
    expected = Pass(z, y, sum(reference.terms(problem, z, y)), gap)
    assert_same_pass(backend.full_step(problem, point), expected)


# --- rounding -------------------------------------------------------------------------------------


def rounding_cost(problem: Problem, point: Point, z, y) -> float:
    """h at integer labels with the classifiers held fixed, less what no label changes."""
    cost = 0.0
    n_states = point.n_states
    hot = reference.one_hot(z, n_states - 1), reference.one_hot(y, n_states)
    for side, relaxed, integer, labels in zip(
        problem.sides, point.labels, (z, y), hot, strict=True
    ):
        costs = (1 - 2 * reference.scores(side, relaxed)) / (2 * max(len(labels), 1))
        cost += reference.inner(costs + side.linear, labels)
        cost += sum(reference.absence(side, reference.lacks(side, integer[n])) for n in side.clips)
    return cost + float(np.einsum("tq,tqik,ik->", hot[0], problem.distortion, hot[1]))


@many
@given(problem=problems(), seed=seeds)
def test_rounding_is_that_of_the_reference(backend: Backend, problem, seed):
    if too_many(backend, seed):
        return
    point = random_point(np.random.default_rng(seed), problem)
    z, y = backend.rounding(problem, point)
    for side, labels in zip(problem.sides, (z, y), strict=True):
        assert all(is_labelling(side, n, labels[n]) for n in side.clips)
    scores = (reference.scores(s, x) for s, x in zip(problem.sides, point.labels, strict=True))
    expected = rounding_cost(problem, point, *reference.round_jointly(problem, *scores))
    assert rounding_cost(problem, point, z, y) == pytest.approx(expected, rel=1e-9, abs=1e-12)


# --- chains ---------------------------------------------------------------------------------------


def chain(rng, n_states, *, optional=False, cycle=False, nu=0.3) -> Problem:
    """Three clips; the last rows of each, one after another, admit a labelling."""
    sides = []
    for k in (n_states - 1, n_states):
        sizes = rng.integers(k, 7, 3)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        start = rng.uniform(0, 6, offsets[-1])
        end = start + rng.uniform(0.2, 2, offsets[-1])
        linear = 0.1 * rng.standard_normal((offsets[-1], k))
        linear[rng.random(linear.shape) < 0.2] = np.inf
        for last in offsets[1:]:
            start[last - k : last] = 8.0 + 2 * np.arange(k)
            end[last - k : last] = 9.0 + 2 * np.arange(k)
            linear[range(last - k, last), range(k)] = 0.05
        absent = None
        if optional:
            absent = np.full(k, np.inf)
            absent[-1] = 0.02 * rng.random()
        side = Side(rng.standard_normal((offsets[-1], 8)), 1e-2, offsets, start, end, linear)
        sides.append(replace(side, absent=absent, exactly_one=k < n_states or rng.random() < 0.5))
    if cycle:
        classes = np.append(np.arange(n_states - 1), 0)
        sides[1] = replace(sides[1], classes=classes)
    return Problem(sides[0], sides[1], nu)


KINDS = [
    {"n_states": 3},
    {"n_states": 4},
    {"n_states": 2, "optional": True},
    {"n_states": 3, "optional": True},
    {"n_states": 3, "cycle": True},
    {"n_states": 4, "optional": True, "cycle": True},
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_chains_are_solved_as_the_reference_defines(backend: Backend, kind):
    """Gap, a pass of plain steps and the rounding, from random points."""
    if not backend.chains:
        pytest.skip("refuses chains")
    for seed in range(15):
        rng = np.random.default_rng(seed)
        problem = chain(rng, **kind, nu=(0.0, 0.3, 10.0)[seed % 3])
        point = random_point(rng, problem)
        gap = reference.duality_gap(problem, *point.labels, point.missing(problem))
        assert backend.gap(problem, point) == pytest.approx(gap, rel=1e-9, abs=1e-12)
        (found,) = backend.passes(problem, point, [False], seed)
        order = np.random.default_rng(seed).permutation(3)
        assert_same_pass(found, reference_pass(problem, point, order, at_once=False)[0])
        z, y = backend.rounding(problem, point)
        for side, labels in zip(problem.sides, (z, y), strict=True):
            assert all(is_labelling(side, n, labels[n]) for n in side.clips)
        scores = (reference.scores(s, x) for s, x in zip(problem.sides, point.labels, strict=True))
        expected = rounding_cost(problem, point, *reference.round_jointly(problem, *scores))
        assert rounding_cost(problem, point, z, y) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_pairwise_steps_converge_on_chains(backend: Backend, kind):
    """Passes never raise the objective, and on a convex problem the gap vanishes."""
    if not backend.chains:
        pytest.skip("refuses chains")
    rng = np.random.default_rng(0)
    problem = chain(rng, **kind, nu=0.0)
    point = random_point(rng, problem)
    start = sum(reference.terms(problem, *point.labels, point.missing(problem)))
    gap = reference.duality_gap(problem, *point.labels, point.missing(problem))
    found = backend.passes(problem, point, [True] * 40, 0)
    objectives = [start, *(one.objective for one in found)]
    assert (np.diff(objectives) <= 1e-12).all()
    assert start - objectives[-1] <= gap + 1e-12
    assert found[-1].gap < 1e-3 * gap


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_full_step_of_a_chain_is_that_of_the_reference(backend: Backend, kind):
    """Where all clips have all states; else only the objective is known to fall."""
    if not backend.chains:
        pytest.skip("refuses chains")
    for seed in range(10):
        rng = np.random.default_rng(seed)
        problem = chain(rng, **kind, nu=(0.3, 30.0)[seed % 2])
        point = random_point(rng, problem)
        found = backend.full_step(problem, point)
        before = sum(reference.terms(problem, *point.labels, point.missing(problem)))
        assert found.objective <= before + 1e-12
        if "optional" not in kind:
            z, y, gap = reference.full_step(problem, *point.labels)
            assert_same_pass(found, Pass(z, y, sum(reference.terms(problem, z, y)), gap))

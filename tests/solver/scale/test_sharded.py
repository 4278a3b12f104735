"""Out of core and in shards, the solver must go where it goes in memory."""

import numpy as np
import pytest

from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.constraints import action_constraints, state_constraints
from objectstates.parallel.actors import LocalActors
from objectstates.solver.cost import factorise, linear_classifier
from objectstates.solver.frank_wolfe import Progress, minimise
from objectstates.solver.held_out import held_out_scores
from objectstates.solver.oracle import label_clips
from objectstates.solver.problem import (
    JointProblem,
    classifier_scores,
    make_side,
    merge_alike,
    one_hot,
    vertex,
)
from objectstates.solver.scale import disk_rows
from objectstates.solver.scale.disk_shard import Shard
from objectstates.solver.scale.moments import ArrayRows, measure, shift_of
from objectstates.solver.scale.sharded import (
    ROUND_EVERY,
    ShardedProblem,
    divide,
    part_of,
    step_sizes,
)
from tests.solver.problems import random_chain
from tests.solver.problems import solve as solve_in_memory
from tests.solver.scale.shards import make_actors

NU, MU, LAM = 0.3, 1e-4, 1e-2


@pytest.fixture(scope="module")
def corpus():
    """More rows than four times the features: factor rows are kept in float32."""
    return synthetic_corpus(
        n_clips=12, tracklets_per_clip=13, chunks_per_clip=15, state_size=30, action_size=20
    )


def in_memory(corpus):
    return JointProblem(
        make_side(factorise(corpus.chunks.features, LAM), action_constraints(corpus)),
        make_side(factorise(corpus.tracklets.features, MU), state_constraints(corpus)),
        NU,
    )


def on_disk(corpus, folder, n_shards, *, single=None, batch_bytes=1 << 24, target="joint"):
    def shard(action, state, number):
        alone = n_shards == 1 if single is None else single
        return Shard(action, state, folder / str(number), single=alone, batch_bytes=batch_bytes)

    return make_actors(corpus, n_shards, shard, target=target)


def solve(
    corpus, folder, n_shards, *, solver="block", single=None, batch_bytes=1 << 24, **settings
):
    actors, shifts = on_disk(corpus, folder, n_shards, single=single, batch_bytes=batch_bytes)
    trace: list[Progress] = []
    with actors:
        problem = ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM)
        solution = minimise(
            problem,
            solver=solver,
            round_every=ROUND_EVERY,
            evaluate_every=ROUND_EVERY,
            callback=trace.append,
            **settings,
        )
        found = problem.kept_rounding()
    return solution, found, trace


@pytest.mark.parametrize(("single_from", "exact"), [(4, 2e-6), (10**6, 1e-9)])
def test_one_shard_goes_where_the_solver_in_memory_goes(
    corpus, tmp_path, monkeypatch, single_from, exact
):
    """To rounding error of the factor rows, which are float32, or float64.

    Pairwise steps soon meet labellings that cost the same, and rounding chooses between them: from
    then on (nu times 1 + 1e-14 shows it as well) two runs only end alike.
    """
    monkeypatch.setattr(disk_rows, "SINGLE_FROM", single_from)
    for passes in (5, 30, 52):
        expected, _ = solve_in_memory(in_memory(corpus), tol=1e-9, max_passes=passes, seed=3)
        found, _, _ = solve(corpus, tmp_path, 1, tol=1e-9, max_passes=passes, seed=3)
        assert found.terms.total == pytest.approx(expected.terms.total, rel=exact)
        assert found.gap == pytest.approx(expected.gap, rel=1e4 * exact)
    expected, _ = solve_in_memory(in_memory(corpus), tol=1e-4, max_passes=500, seed=3)
    found, _, _ = solve(corpus, tmp_path, 1, tol=1e-4, max_passes=500, seed=3)
    assert expected.converged
    assert found.converged
    assert found.terms.total == pytest.approx(expected.terms.total, rel=1e-5)


@pytest.mark.parametrize("n_shards", [1, 3, 12])
def test_full_steps_over_shards_are_full_steps(corpus, tmp_path, n_shards):
    """From the same point: shards draw random labels of their own, so they are given these."""
    problem = in_memory(corpus)
    expected, _ = solve_in_memory(problem, solver="full", tol=1e-9, max_passes=60, seed=0)
    actors, shifts = on_disk(corpus, tmp_path, n_shards, single=False)
    same_start(actors, problem)
    with actors:
        sharded = ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM)
        found = minimise(sharded, solver="full", tol=1e-9, max_passes=60, seed=0)
    assert found.terms.total == pytest.approx(expected.terms.total, rel=1e-6)
    assert found.gap == pytest.approx(expected.gap, rel=1e-4)


def same_start(actors, problem):
    """Make all shards start where ``minimise(seed=0)`` does."""
    rng = np.random.default_rng(0)
    labels = []
    for side in (problem.action, problem.state):
        costs = rng.standard_normal(side.constraints.linear.shape)
        labels.append(label_clips(costs, side.constraints)[1])
    done = [0, 0]
    for shard in actors._actors:
        for k, side in enumerate((shard._action, shard._state)):
            mine = labels[k][done[k] : done[k] + len(side.labels)]
            done[k] += len(side.labels)
            side.start = lambda _, side=side, mine=mine: type(side).start(side, mine)


@pytest.mark.parametrize(("n_shards", "batch_bytes"), [(1, 5000), (2, 1 << 24), (4, 3000)])
def test_shards_and_batches_converge_and_never_rise(corpus, tmp_path, n_shards, batch_bytes):
    alone, _ = solve_in_memory(in_memory(corpus), tol=1e-3, seed=0)
    found, _, trace = solve(
        corpus, tmp_path, n_shards, batch_bytes=batch_bytes, tol=1e-3, max_passes=2000
    )
    assert found.converged
    assert found.gap <= 1e-3 * found.terms.total
    joint = [p.objective for p in trace if p.stage == "joint"]
    assert (np.diff(joint) <= 1e-12).all()
    assert found.terms.total < 1.15 * alone.terms.total  # not convex: another stationary point


def test_alone_each_side_reaches_the_optimum(corpus, tmp_path):
    """Without coupling the problem is convex, and the gap bounds the distance to its optimum."""
    for target in ("state", "action"):
        totals = []
        for n_shards in (1, 3):
            actors, shifts = on_disk(corpus, tmp_path, n_shards, target=target)
            with actors:
                problem = ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM)
                found = minimise(problem, tol=1e-4, max_passes=5000)
            assert found.converged
            assert not problem.coupled
            totals.append(found.terms.total)
        assert totals[0] == pytest.approx(totals[1], rel=2e-4, abs=1e-8)


def test_objective_gap_and_rounding_are_those_of_the_whole(corpus, tmp_path):
    """What shards tell adds up to what the whole problem says of the same labels."""
    problem = in_memory(corpus)
    found, rounding, _ = solve(corpus, tmp_path, 3, tol=1e-2, max_passes=200)
    action, state = rounding.action, rounding.state
    terms = problem.integer_terms(action, state)
    assert found.rounded_terms.total == pytest.approx(terms.total, rel=1e-5)
    assert found.rounded_terms.joint == pytest.approx(terms.joint, abs=1e-9)
    assert (np.add.reduceat(action, corpus.chunks.offsets[:-1]) == 1).all()
    assert rounding.action_scores.shape == (len(action), 1)
    assert rounding.state_scores.shape == (len(state), 2)


def test_labels_held_out_are_the_same(corpus, tmp_path):
    problem = in_memory(corpus)
    rng = np.random.default_rng(0)
    labels = [
        label_clips(rng.standard_normal(side.constraints.linear.shape), side.constraints)[1]
        for side in (problem.action, problem.state)
    ]
    actors, shifts = on_disk(corpus, tmp_path, 1)
    with actors:
        sharded = ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM)
        learned = [sharded.learn("action", labels[0]), sharded.learn("state", labels[1])]
        terms = sharded.integer_terms(*labels)
    assert terms.total == pytest.approx(problem.integer_terms(*labels).total, rel=1e-5)
    for k, (side, features, ridge) in enumerate([
        (problem.action, corpus.chunks.features, LAM),
        (problem.state, corpus.tracklets.features, MU),
    ]):  # fmt: skip
        hot = one_hot(labels[k], side.constraints.n_states)
        expected, residual = held_out_scores(side, hot)
        np.testing.assert_allclose(learned[k].scores, expected, atol=1e-4)
        at = vertex(side, labels[k])
        np.testing.assert_allclose(classifier_scores(side, at), hot - residual, atol=1e-12)
        weights, bias = learned[k].classifier()
        for found, known in zip(
            (weights, bias), linear_classifier(features, hot, residual, ridge), strict=True
        ):
            np.testing.assert_allclose(found, known, atol=1e-4)


CHAINS = [
    {"n_states": 3},
    {"n_states": 3, "optional": True, "cycle": True},
]


def chain_on_disk(whole: JointProblem, features, folder, n_shards, solver):
    """The problem of a chain in shards, and the shards' actors."""
    sides = whole.action.constraints, whole.state.constraints
    rows = [ArrayRows(x) for x in features]
    ranges = divide(*sides, n_shards)
    shards = [
        Shard(
            part_of(sides[0], rows[0], *clips), part_of(sides[1], rows[1], *clips),
            folder / str(number), single=n_shards == 1 and solver == "block",
            classes=whole.state.classes,
        )
        for number, clips in enumerate(ranges)
    ]  # fmt: skip
    actors = LocalActors(shards)
    firsts = np.array([first for first, _ in ranges[1:]], np.int64)
    problem = ShardedProblem(
        actors, (shift_of(rows[0]), shift_of(rows[1])), nu=whole.nu, mu=1e-2, lam=1e-2,
        row_cuts={"action": sides[0].offsets[firsts], "state": sides[1].offsets[firsts]},
        classes=whole.state.classes,
    )  # fmt: skip
    return actors, problem


@pytest.mark.parametrize("kind", CHAINS, ids=str)
@pytest.mark.parametrize("solver", ["block", "full"])
def test_chains_go_where_they_go_in_memory(tmp_path, kind, solver):
    """With one shard step by step; with three to as low an objective, which never rises."""
    whole, features = random_chain(np.random.default_rng(0), [9] * 8, **kind)
    for passes in (5, 40):
        expected, _ = solve_in_memory(whole, solver=solver, tol=1e-9, max_passes=passes, seed=3)
        actors, problem = chain_on_disk(whole, features, tmp_path, 1, solver)
        with actors:
            found = minimise(problem, solver=solver, tol=1e-9, max_passes=passes, seed=3)
        assert found.terms.total == pytest.approx(expected.terms.total, rel=1e-5)
        assert found.gap == pytest.approx(expected.gap, rel=1e-3)
    expected, _ = solve_in_memory(whole, solver=solver, tol=1e-2, max_passes=300)
    actors, problem = chain_on_disk(whole, features, tmp_path, 3, solver)
    trace: list[Progress] = []
    with actors:
        found = minimise(problem, solver=solver, tol=1e-2, max_passes=300, callback=trace.append)
        kept = problem.kept_rounding()
        scores = problem.learn("state", kept.state)
        assert found.rounded_terms.total == pytest.approx(
            whole.integer_terms(kept.action, kept.state).total, rel=1e-5
        )
    joint = [p.objective for p in trace if p.stage == "joint"]
    assert (np.diff(joint) <= 1e-12).all()
    assert found.terms.total < 1.3 * expected.terms.total
    hot = merge_alike(one_hot(kept.state, 3), whole.state.classes)
    known, residual = held_out_scores(whole.state, hot)
    np.testing.assert_allclose(scores.scores, known[:, whole.state.classes], atol=1e-4)
    weights = linear_classifier(features[1], hot, residual, 1e-2)[0]
    np.testing.assert_allclose(scores.classifier()[0], weights[:, whole.state.classes], atol=1e-4)


def test_moments_add_up_far_from_the_origin():
    """A mean of 1e4 with deviations of 1 costs no digits, whatever the parts."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((300, 5)) + 1e4
    shift = shift_of(ArrayRows(features[:7]))
    parts = [measure(ArrayRows(part), shift) for part in np.split(features, [100, 130])]
    whole = (parts[0] + parts[1] + parts[2]).whiten(1e-3)
    centred = features - features.mean(axis=0)
    gram = centred.T @ centred + 300 * 1e-3 * np.eye(5)
    np.testing.assert_allclose(whole.lower @ whole.lower.T, gram, rtol=1e-9, atol=1e-9)
    rows, cost = whole.factor(features), factorise(features, 1e-3)
    np.testing.assert_allclose(rows @ rows.T, cost.rows @ cost.rows.T, atol=1e-9)


def test_step_sizes_are_at_least_as_good_as_the_best_shard_alone():
    rng = np.random.default_rng(1)
    for _ in range(50):
        polynomials = np.column_stack([np.zeros(4), rng.standard_normal((4, 2))])
        here, directions = rng.standard_normal(6), rng.standard_normal((4, 6))

        def value(x, polynomials=polynomials, here=here, directions=directions):
            separable = polynomials[:, 1] @ x + polynomials[:, 2] @ x**2
            return separable - np.square(here + x @ directions).sum()

        steps = step_sizes(polynomials, here, directions)
        assert ((steps >= 0) & (steps <= 1)).all()
        assert value(steps) <= min(value(x) for x in [np.zeros(4), *np.eye(4)]) + 1e-9


def test_clips_are_divided_by_their_rows(corpus):
    action, state = action_constraints(corpus), state_constraints(corpus)
    assert divide(action, state, 1) == [(0, 12)]
    assert divide(action, state, 4) == [(0, 3), (3, 6), (6, 9), (9, 12)]
    assert divide(action, state, 99) == [(n, n + 1) for n in range(12)]


def test_files_are_removed(corpus, tmp_path):
    solve(corpus, tmp_path, 2, max_passes=60)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

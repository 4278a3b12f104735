"""On a device the solver must answer for the same problem, with a true certificate."""

import numpy as np
import pytest

from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.constraints import (
    action_constraints,
    no_action,
    no_states,
    state_constraints,
)
from objectstates.solver.frank_wolfe import minimise
from objectstates.solver.held_out import held_out_scores
from objectstates.solver.problem import one_hot
from objectstates.solver.scale import disk_rows as shard_rows
from objectstates.solver.scale import gpu_rows as resident_rows
from objectstates.solver.scale.moments import ArrayRows, shift_of
from objectstates.solver.scale.shard_messages import Wholes
from objectstates.solver.scale.sharded import LocalActors, ShardedProblem, divide, part_of
from tests.solver.problems import dense_objective
from tests.solver.scale.test_sharded import LAM, MU, NU, in_memory
from tests.solver.scale.test_sharded import make_actors as on_disk

torch = pytest.importorskip("torch", reason="needs the extra torch")

from objectstates.solver.scale.gpu_shard import ResidentShard, mini_batches_of  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="there is no GPU here"))]  # fmt: skip


@pytest.fixture(scope="module")
def corpus():
    """Many rows per feature, as where a device is of use; clips of different lengths."""
    rng = np.random.default_rng(0)
    return synthetic_corpus(
        n_clips=40,
        tracklets_per_clip=rng.integers(5, 16, 40).tolist(),
        chunks_per_clip=9,
        state_size=12,
        action_size=8,
    )


def make_actors(corpus, n_shards=1, *, device="cpu", alone=None, target="joint", exactly_one=False):
    action = action_constraints(corpus)
    state = state_constraints(corpus, exactly_one=exactly_one)
    chunks, tracklets = corpus.chunks.features, corpus.tracklets.features
    if target == "state":
        action, chunks = no_action(len(corpus)), chunks[:0]
    if target == "action":
        state, tracklets = no_states(len(corpus)), tracklets[:0]
    features = ArrayRows(chunks), ArrayRows(tracklets)
    shards = [
        ResidentShard(
            part_of(action, features[0], *clips),
            part_of(state, features[1], *clips),
            torch.device(device),
            alone=n_shards == 1 if alone is None else alone,
            mini_batches=3,
        )
        for clips in divide(action, state, n_shards)
    ]
    return LocalActors(shards), tuple(shift_of(rows) for rows in features)


def relaxed_labels(actors):
    """Z (T, 1) and Y (M, 2) where the shards stand."""
    found = []
    for kind in ("_action", "_state"):
        parts = [getattr(shard, kind) for shard in actors._actors]
        found.append(
            np.concatenate(
                [part.gather([part.labels(b) for b in range(len(part.spans))]) for part in parts]
            )
        )
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("exactly_one", [False, True])
def test_objective_and_gap_are_those_of_the_labels(corpus, device, exactly_one):
    """Recomputed from the labels alone by code that shares nothing, and as good as in memory."""
    problem = in_memory(corpus)
    if exactly_one:
        side = problem.state
        constraints = side.constraints._replace(exactly_one=True)
        problem = type(problem)(problem.action, side._replace(constraints=constraints), NU)
    actors, shifts = make_actors(corpus, device=device, exactly_one=exactly_one)
    trace = []
    with actors:
        sharded = ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM)
        found = sharded.minimise(
            tol=1e-3, max_passes=2000, callback=lambda p: trace.append(p) and None
        )
        z, y = relaxed_labels(actors)
        rounded = [np.concatenate(x) for x in zip(*actors.call("rounding", [()]), strict=True)]
    assert found.converged
    assert found.terms.total == pytest.approx(dense_objective(problem, z, y), rel=1e-6)
    at = minimise(problem, max_passes=1)  # for its shapes
    action, state = at.action._replace(labels=z), at.state._replace(labels=y)
    _refresh(problem, action, state)
    assert problem.gap(action, state) == pytest.approx(found.gap, rel=1e-3)
    joint = [p.objective for p in trace if p.stage == "joint"]
    assert (np.diff(joint) <= 1e-9 * joint[0]).all()
    expected = minimise(problem, tol=1e-3, max_passes=2000)
    assert found.terms.total < 1.15 * expected.terms.total  # not convex: another stationary point
    terms = problem.integer_terms(rounded[0].astype(np.int8), rounded[1].astype(np.int8))
    assert found.rounded_terms.total == pytest.approx(terms.total, rel=1e-6)


def _refresh(problem, action, state):
    from objectstates.solver.problem import refresh

    refresh(problem.action, action)
    refresh(problem.state, state)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("target", ["state", "action"])
@pytest.mark.parametrize("n_shards", [1, 3])
def test_alone_each_side_reaches_the_optimum(corpus, device, target, n_shards):
    """Without coupling the problem is convex, and the gap bounds the distance to its optimum."""
    whole = in_memory(corpus)
    alone = {"state": "action", "action": "state"}[target]
    actors, shifts = make_actors(corpus, n_shards, device=device, target=target)
    with actors:
        found = ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM).minimise(
            tol=1e-2, max_passes=3000
        )
    expected = minimise(whole.with_nu(0.0), tol=1e-4, max_passes=3000)
    best = getattr(expected.terms, target)
    assert getattr(found.terms, alone) == 0
    assert found.converged
    assert best - expected.gap <= found.terms.total <= best + found.gap + 1e-9


@pytest.mark.parametrize("device", DEVICES)
def test_parts_of_a_mini_batch_move_as_one(corpus, device, monkeypatch):
    """Parts decide when rows are read and clips visited, not by which classifiers.

    (Only the starting passes: pairwise steps soon meet labellings equal but for rounding.)
    """
    monkeypatch.setattr(resident_rows, "_FEWEST", 2)
    labels = []
    for parts in (1, 3):
        monkeypatch.setattr(resident_rows, "PARTS", parts)
        actors, shifts = make_actors(corpus, device=device)
        with actors:
            assert [len(x) for x in actors._actors[0]._state.parts] == [parts] * 3
            ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM).minimise(tol=0, max_passes=50)
            labels.append(relaxed_labels(actors))
    for one, other in zip(*labels, strict=True):
        assert one == pytest.approx(other, abs=1e-9)


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_seed_gives_the_same_bytes(corpus, device):
    """On a GPU too, where the second run replays what the first one recorded."""
    actors, shifts = make_actors(corpus, device=device)
    with actors:
        problem = ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM)
        for seed in (0, 1):
            runs = []
            for _ in range(2):
                problem.minimise(tol=0, max_passes=55, seed=seed)
                runs.append([labels.tobytes() for labels in relaxed_labels(actors)])
            assert runs[0] == runs[1]


@pytest.mark.parametrize("solver", ["block", "full"])
def test_several_shards_never_rise(corpus, solver):
    actors, shifts = make_actors(corpus, 3, alone=False)
    trace = []
    with actors:
        found = ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM).minimise(
            solver=solver, tol=0.02, max_passes=200, callback=lambda p: trace.append(p) and None
        )
        z, y = relaxed_labels(actors)
    joint = [p.objective for p in trace if p.stage == "joint"]
    assert (np.diff(joint) <= 1e-9 * joint[0]).all()
    assert found.terms.total == pytest.approx(dense_objective(in_memory(corpus), z, y), rel=1e-6)


def test_scores_without_a_clip_are_those_in_memory(corpus):
    problem, actors_and_shifts = in_memory(corpus), make_actors(corpus)
    rng = np.random.default_rng(0)
    with actors_and_shifts[0] as actors:
        sharded = ShardedProblem(actors, actors_and_shifts[1], nu=NU, mu=MU, lam=LAM)
        sharded.minimise(max_passes=2)
        for kind, side in (("action", problem.action), ("state", problem.state)):
            n_states = side.constraints.linear.shape[1]
            labels = rng.integers(0, n_states + 1, side.constraints.n_rows).astype(np.int8)
            expected, _ = held_out_scores(side, one_hot(labels, n_states))
            whole = actors.call("whole", [(kind, labels)])[0]
            found = actors.call("held_out", [(kind, labels, whole)])[0]
            assert found == pytest.approx(expected, abs=1e-4)


def test_mini_batches_hold_every_clip_once_and_alike_ones_together(corpus):
    action, state = action_constraints(corpus), state_constraints(corpus)
    batches = mini_batches_of(action, state, 4)
    assert sorted(np.concatenate(batches)) == list(range(len(corpus)))
    sizes = np.diff(state.offsets)
    longest = [sizes[clips].max() for clips in batches]
    shortest = [sizes[clips].min() for clips in batches]
    assert len(batches) == 4
    assert all(a <= b for a, b in zip(longest, shortest[1:], strict=False))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("single", [True, False])
def test_reduced_rows_are_those_on_disk(corpus, tmp_path, monkeypatch, device, single):
    """The same narrow problem: sums, scores and the objective of the same labels."""
    for module in (shard_rows, resident_rows):
        monkeypatch.setattr(module, "SINGLE_FROM", 4 if single else 10**6)
    rng = np.random.default_rng(2)
    labels = [rng.integers(0, 2, len(corpus.chunks.start)).astype(np.int8),
              rng.integers(0, 3, len(corpus.tracklets.start)).astype(np.int8)]  # fmt: skip
    found = []
    for actors, shifts in (make_actors(corpus, device=device), on_disk(corpus, tmp_path, 1)):
        with actors:
            problem = ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM, reduce=5)
            solution = problem.minimise(tol=1e-3, max_passes=2000)
            assert solution.converged
            sides = list(zip(("action", "state"), labels, strict=True))
            wholes = Wholes(*(actors.call("whole", [side])[0] for side in sides))
            assert [whole.shape for whole in wholes] == [(1, 6), (2, 6)]
            told = [
                actors.call("held_out", [(*side, w)])[0]
                for side, w in zip(sides, wholes, strict=True)
            ]
            terms = problem.terms(actors.call("ledger", [tuple(labels)]), wholes)
            found.append((*wholes, *told, solution.terms.total, terms.total))
    here, there = found
    for one, other in zip(here[:4], there[:4], strict=True):
        assert one == pytest.approx(other, abs=1e-5 if single else 1e-9)
    assert here[5] == pytest.approx(there[5], rel=1e-6)
    assert here[4] < 1.15 * there[4]  # not convex: another stationary point

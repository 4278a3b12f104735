"""A shard on a device solves the same problem, with a valid certificate."""

import numpy as np
import pytest

from objectstates.base.errors import SettingError
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.constraints import (
    action_constraints,
    state_constraints,
)
from objectstates.solver.frank_wolfe import Progress, minimise
from objectstates.solver.held_out import held_out_scores
from objectstates.solver.in_memory import SIDES
from objectstates.solver.problem import one_hot
from objectstates.solver.scale import disk_rows, gpu_rows
from objectstates.solver.scale.sharded import ShardedProblem
from tests.solver.problems import dense_objective, random_chain, solve
from tests.solver.scale.shards import make_actors
from tests.solver.scale.test_sharded import LAM, MU, NU, in_memory, on_disk

torch = pytest.importorskip("torch", reason="needs the extra torch")

from objectstates.solver.scale import gpu_shard  # noqa: E402
from objectstates.solver.scale.gpu_shard import (  # noqa: E402
    GpuShard,
    check_one_change,
    mini_batches_of,
)

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


def on_device(corpus, n_shards=1, *, device="cpu", single=None, **problem):
    def shard(action, state, _):
        alone = n_shards == 1 if single is None else single
        return GpuShard(action, state, torch.device(device), single=alone, mini_batches=3)

    return make_actors(corpus, n_shards, shard, **problem)


def relaxed_labels(actors):
    """The shards' Z (T, 1) and Y (M, 2)."""
    sides = zip(*(shard.sides for shard in actors._actors), strict=True)
    return [np.concatenate([side.labels for side in parts]) for parts in sides]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("exactly_one", [False, True])
def test_objective_and_gap_are_those_of_the_labels(corpus, device, exactly_one):
    """Recomputed from the labels alone by code that shares nothing, and as good as in memory."""
    problem = in_memory(corpus)
    if exactly_one:
        side = problem.state
        constraints = side.constraints._replace(exactly_one=True)
        problem = type(problem)(problem.action, side._replace(constraints=constraints), NU)
    actors, shifts = on_device(corpus, device=device, exactly_one=exactly_one)
    trace: list[Progress] = []
    with actors:
        sharded = ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM)
        found = minimise(
            sharded,
            tol=1e-3,
            max_passes=2000,
            round_every=5,
            evaluate_every=5,
            callback=trace.append,
        )
        z, y = relaxed_labels(actors)
        rounding = sharded.kept_rounding()
    assert found.converged
    assert found.terms.total == pytest.approx(dense_objective(problem, z, y), rel=1e-6)
    _, at = solve(problem, max_passes=1)  # for its shapes
    action, state = at.action._replace(labels=z), at.state._replace(labels=y)
    _refresh(problem, action, state)
    assert problem.gap(action, state) == pytest.approx(found.gap, rel=1e-3)
    joint = [p.objective for p in trace if p.stage == "joint"]
    assert (np.diff(joint) <= 1e-9 * joint[0]).all()
    expected, _ = solve(problem, tol=1e-3, max_passes=2000)
    assert found.terms.total < 1.15 * expected.terms.total  # not convex: another stationary point
    terms = problem.integer_terms(rounding.action, rounding.state)
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
    actors, shifts = on_device(corpus, n_shards, device=device, target=target)
    with actors:
        problem = ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM)
        found = minimise(problem, tol=1e-2, max_passes=3000, round_every=5, evaluate_every=5)
    expected, _ = solve(whole.with_nu(0.0), tol=1e-4, max_passes=3000)
    best = getattr(expected.terms, target)
    assert getattr(found.terms, alone) == 0
    assert found.converged
    assert best - expected.gap <= found.terms.total <= best + found.gap + 1e-9


@pytest.mark.parametrize("device", DEVICES)
def test_parts_of_a_mini_batch_move_as_one(corpus, device, monkeypatch):
    """Parts decide when rows are read and steps taken, not at which classifiers.

    Starting passes only: pairwise steps soon meet labellings equal but for rounding.
    """
    monkeypatch.setattr(gpu_shard, "_MIN_CLIPS", 2)
    labels = []
    for parts in (1, 3):
        monkeypatch.setattr(gpu_shard, "PARTS", parts)
        actors, shifts = on_device(corpus, device=device)
        with actors:
            assert [len(x) for x in actors._actors[0]._state.batches] == [parts] * 3
            problem = ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM)
            minimise(problem, tol=0, max_passes=50)
            labels.append(relaxed_labels(actors))
    for one, other in zip(*labels, strict=True):
        assert one == pytest.approx(other, abs=1e-9)


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_seed_gives_the_same_bytes(corpus, device):
    """On a GPU too, where the second run replays the graphs captured in the first."""
    actors, shifts = on_device(corpus, device=device)
    with actors:
        problem = ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM)
        for seed in (0, 1):
            runs = []
            for _ in range(2):
                minimise(problem, tol=0, max_passes=55, seed=seed, round_every=5)
                runs.append([labels.tobytes() for labels in relaxed_labels(actors)])
            assert runs[0] == runs[1]


@pytest.mark.parametrize("solver", ["block", "full"])
def test_several_shards_never_rise(corpus, solver):
    actors, shifts = on_device(corpus, 3, single=False)
    trace: list[Progress] = []
    with actors:
        found = minimise(
            ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM),
            solver=solver,
            tol=0.02,
            max_passes=200,
            round_every=5,
            callback=trace.append,
        )
        z, y = relaxed_labels(actors)
    joint = [p.objective for p in trace if p.stage == "joint"]
    assert (np.diff(joint) <= 1e-9 * joint[0]).all()
    assert found.terms.total == pytest.approx(dense_objective(in_memory(corpus), z, y), rel=1e-6)


def test_scores_without_a_clip_are_those_in_memory(corpus):
    problem, actors_and_shifts = in_memory(corpus), on_device(corpus)
    rng = np.random.default_rng(0)
    with actors_and_shifts[0] as actors:
        sharded = ShardedProblem(actors, actors_and_shifts[1], nu=NU, mu=MU, lam=LAM)
        minimise(sharded, max_passes=2)
        for kind, side in zip(SIDES, (problem.action, problem.state), strict=True):
            n_states = side.constraints.linear.shape[1]
            labels = rng.integers(0, n_states + 1, side.constraints.n_rows).astype(np.int8)
            expected, _ = held_out_scores(side, one_hot(labels, n_states))
            found = sharded.learn(kind, labels).scores
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
    for module in (disk_rows, gpu_rows):
        monkeypatch.setattr(module, "SINGLE_FROM", 4 if single else 10**6)
    rng = np.random.default_rng(2)
    labels = [rng.integers(0, 2, len(corpus.chunks.start)).astype(np.int8),
              rng.integers(0, 3, len(corpus.tracklets.start)).astype(np.int8)]  # fmt: skip
    found, objectives = [], []
    for actors, shifts in (on_device(corpus, device=device), on_disk(corpus, tmp_path, 1)):
        with actors:
            problem = ShardedProblem(actors, shifts, nu=NU, mu=MU, lam=LAM, reduce=5)
            solution = minimise(problem, tol=1e-3, max_passes=2000, round_every=5, evaluate_every=5)
            assert solution.converged
            sums = [problem.factor_sums(name, y) for name, y in zip(SIDES, labels, strict=True)]
            assert [own.shape for own in sums] == [(1, 6), (2, 6)]
            learned = [problem.learn(name, y) for name, y in zip(SIDES, labels, strict=True)]
            found.append([*sums, *(each.scores for each in learned)])
            objectives.append((solution.terms.total, problem.integer_terms(*labels).total))
    for one, other in zip(*found, strict=True):
        assert one == pytest.approx(other, abs=1e-5 if single else 1e-9)
    (here, here_rounded), (there, there_rounded) = objectives
    assert here_rounded == pytest.approx(there_rounded, rel=1e-6)
    assert here < 1.15 * there  # not convex: another stationary point


@pytest.mark.parametrize("kind", [{}, {"n_states": 2, "optional": True}], ids=str)
def test_chains_are_refused(kind):
    whole, _ = random_chain(np.random.default_rng(0), [6, 6], **kind)
    with pytest.raises(SettingError, match="`device` must be cpu"):
        check_one_change(whole.action.constraints, whole.state.constraints)

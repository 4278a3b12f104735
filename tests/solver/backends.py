"""Adapters: each backend of the solver behind the same few calls, for ``test_backends.py``.

A backend is put at a point of the relaxed problem, given as the convex combination of labellings
of each clip, and asked for the oracle, the gap, a pass of steps or the rounding there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from unittest.mock import patch

import numpy as np
import pytest

from objectstates.parallel.actors import LocalActors
from objectstates.solver import reference
from objectstates.solver.block_steps import STEPS_PER_BLOCK, sweep, with_capacity
from objectstates.solver.cost import factorise
from objectstates.solver.in_memory import full_step
from objectstates.solver.oracle import (
    Constraints,
    Floats,
    Labels,
    label_clips,
    one_row,
    ordered_states,
)
from objectstates.solver.problem import (
    Iterate,
    JointProblem,
    Side,
    classes_of,
    classifier_scores,
    make_side,
    merge_alike,
    refresh,
)
from objectstates.solver.reference import Combination, Problem
from objectstates.solver.rounding import joint_rounding
from objectstates.solver.scale.disk_shard import Shard
from objectstates.solver.scale.moments import ArrayRows, shift_of
from objectstates.solver.scale.shard_messages import FactorSums
from objectstates.solver.scale.sharded import ShardedProblem, part_of


@dataclass(frozen=True)
class Point:
    """A point of the relaxed problem: per side and clip a convex combination of labellings."""

    action: list[Combination]
    state: list[Combination]
    n_states: int = 2

    @property
    def labels(self) -> tuple[Floats, Floats]:
        """Z (T, K - 1) and Y (M, K)."""
        z, y = (
            np.concatenate([reference.mean_of(clip, k) for clip in clips])
            for k, clips in ((self.n_states - 1, self.action), (self.n_states, self.state))
        )
        return z, y

    def missing(self, problem: Problem) -> reference.Missing:
        """What clips lack, (N, K - 1) and (N, K)."""
        return (
            reference.missing_of(problem.action, self.action),
            reference.missing_of(problem.state, self.state),
        )


@dataclass(frozen=True)
class Pass:
    """Labels after a pass of steps, the objective there, and the sum of the gaps before steps."""

    z: Floats
    y: Floats
    objective: float
    gap: float


class Backend(Protocol):
    """What a backend of the solver computes.

    at_once : all clips of a pass move at once, on the bound A <= I; else one after another.
    breaks_ties : of equally cheap labellings the oracle takes the reference's.
    slow : kernels are interpreted, or compiled anew for every kind of shape.
    chains : more than one change, absent steps and states that look alike are known.
    """

    at_once: bool
    breaks_ties: bool
    slow: bool
    chains: bool

    def oracle(self, constraints: Constraints, costs: Floats) -> tuple[Floats, Labels]: ...

    def gap(self, problem: Problem, point: Point) -> float: ...

    def rounding(self, problem: Problem, point: Point) -> tuple[Labels, Labels]:
        """At the scores of the classifiers that the point implies."""
        ...

    def passes(
        self, problem: Problem, point: Point, pairwise: list[bool], seed: int
    ) -> list[Pass]: ...

    def full_step(self, problem: Problem, point: Point) -> Pass: ...


STEPS = STEPS_PER_BLOCK


def constraints_of(side: reference.Side) -> Constraints:
    if side.linear.shape[1] == 1:
        return one_row(side.offsets, linear=side.linear, times=side.times, absent=side.absent)
    return ordered_states(
        side.start,
        side.end,
        side.offsets,
        linear=side.linear,
        exactly_one=side.exactly_one,
        absent=side.absent,
    )


def listed(clips: list[Combination]) -> tuple[Labels, Floats, Any]:
    """Combinations as arrays: labellings (M, Q), weights (N, Q), counts (N,)."""
    most = max(map(len, clips))
    padded = [list(clip) + [next(iter(clip))] * (most - len(clip)) for clip in clips]
    weights = np.zeros((len(clips), most))
    for n, clip in enumerate(clips):
        weights[n, : len(clip)] = list(clip.values())
    labellings = [np.array(clip, np.int8).reshape(most, -1).T for clip in padded]
    vertices = np.concatenate(labellings).copy(order="C")  # as kernels are compiled for
    return vertices, weights, np.array([len(clip) for clip in clips])


def missing_of(constraints: Constraints, clips: list[Combination]) -> Floats:
    """(N, K) weight of the labellings that lack a state that clips may lack."""
    missing = np.zeros((len(clips), constraints.n_states))
    for n, clip in enumerate(clips):
        for labels, weight in clip.items():
            lacks = ~np.isin(np.arange(1, constraints.n_states + 1), labels)
            missing[n] += weight * (lacks & np.isfinite(constraints.absent) & (len(labels) > 0))
    return missing


# --- in memory ------------------------------------------------------------------------------------


class NumbaBackend:
    """``frank_wolfe.py`` and what it calls, with all rows in memory."""

    at_once, breaks_ties, slow, chains = False, True, False, True

    def oracle(self, constraints: Constraints, costs: Floats) -> tuple[Floats, Labels]:
        return label_clips(costs, constraints)

    def gap(self, problem: Problem, point: Point) -> float:
        joint, *at = self._placed(problem, point)
        return joint.gap(*at)

    def rounding(self, problem: Problem, point: Point) -> tuple[Labels, Labels]:
        joint, action, state = self._placed(problem, point)
        return joint_rounding(
            joint.action.constraints,
            joint.state.constraints,
            classifier_scores(joint.action, action),
            classifier_scores(joint.state, state),
            joint.scales,
        )

    def passes(self, problem: Problem, point: Point, pairwise: list[bool], seed: int) -> list[Pass]:
        joint, action, state = self._placed(problem, point)
        rng, found = np.random.default_rng(seed), []
        for kind in pairwise:
            action, state = with_capacity(action, STEPS), with_capacity(state, STEPS)
            clips = rng.permutation(joint.n_clips)
            coupling = joint.scales.coupling
            gap = sweep(joint.action, joint.state, coupling, action, state, clips, kind)
            found.append(self._pass(joint, action, state, gap))
        return found

    def full_step(self, problem: Problem, point: Point) -> Pass:
        joint, action, state = self._placed(problem, point)
        return self._pass(joint, action, state, full_step(joint, action, state))

    @staticmethod
    def _pass(joint: JointProblem, action: Iterate, state: Iterate, gap: float) -> Pass:
        objective = joint.terms(action, state).total
        return Pass(action.labels.copy(), state.labels.copy(), objective, gap)

    @staticmethod
    def _placed(problem: Problem, point: Point) -> tuple[JointProblem, Iterate, Iterate]:
        sides = [
            make_side(factorise(s.features, s.ridge), constraints_of(s), s.classes)
            for s in problem.sides
        ]
        at = [
            _iterate(side, labels, clips)
            for side, labels, clips in zip(
                sides, point.labels, (point.action, point.state), strict=True
            )
        ]
        return JointProblem(sides[0], sides[1], problem.nu), at[0], at[1]


def _iterate(side: Side, labels: Floats, clips: list[Combination]) -> Iterate:
    n_classes, width = int(side.classes.max()) + 1, side.rows.shape[1]
    parts, whole = np.empty((len(clips), n_classes, width)), np.empty((n_classes, width))
    iterate = Iterate(labels, parts, whole, *listed(clips), missing_of(side.constraints, clips))
    refresh(side, iterate)
    return iterate


# --- shards ---------------------------------------------------------------------------------------


class ShardBackend:
    """One shard with all clips: on disk, or in a device's memory.

    shard : makes one of both sides' constraints and features. place : puts it at a point.
    """

    def __init__(
        self, shard: Callable[..., Any], place: Callable[[Any, Point, FactorSums], None]
    ) -> None:
        self._shard, self._place = shard, place

    at_once, breaks_ties, slow, chains = False, True, False, True

    def oracle(self, constraints: Constraints, costs: Floats) -> tuple[Floats, Labels]:
        return label_clips(costs, constraints)

    def gap(self, problem: Problem, point: Point) -> float:
        with self._placed(problem, point) as (sharded, shard, sums):
            return float(shard.evaluate(sums, sharded.scales).gap)

    def rounding(self, problem: Problem, point: Point) -> tuple[Labels, Labels]:
        with self._placed(problem, point) as (sharded, shard, sums):
            shard.evaluate(sums, sharded.scales)
            shard.keep_rounding()
            z, y, _, _ = shard.kept_rounding()
            return z, y

    def passes(self, problem: Problem, point: Point, pairwise: list[bool], seed: int) -> list[Pass]:
        found = []
        with self._placed(problem, point, seed) as (sharded, shard, start):
            sums = start
            for kind in pairwise:
                result = shard.sweep(sums, sharded.scales, kind)
                sums = result.sums
                explained = sharded._scaled(sums)
                objective = result.polynomial[0] - float(explained @ explained)
                found.append(Pass(*self._labels(shard), objective, result.gap))
        return found

    def full_step(self, problem: Problem, point: Point) -> Pass:
        with self._placed(problem, point, single=False) as (sharded, shard, sums):
            sharded._move_to([sums])
            objective, gap = sharded.run_pass("full", 1.0)
            return Pass(*self._labels(shard), objective, gap)

    @contextmanager
    def _placed(
        self, problem: Problem, point: Point, seed: int = 0, *, single: bool = True
    ) -> Iterator[tuple[ShardedProblem, Any, FactorSums]]:
        sides = [(constraints_of(side), ArrayRows(side.features)) for side in problem.sides]
        lam, mu = problem.action.ridge, problem.state.ridge
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            alike = {} if problem.state.classes is None else {"classes": problem.state.classes}
            shard = self._shard(*sides, folder, single=single, **alike)
            actors = stack.enter_context(LocalActors([shard]))
            shifts = shift_of(sides[0][1]), shift_of(sides[1][1])
            sharded = ShardedProblem(actors, shifts, nu=problem.nu, mu=mu, lam=lam)
            shard.start(seed, sharded.scales)
            shard._rng = np.random.default_rng(seed)
            sums = FactorSums(
                *(
                    merge_alike(labels, classes_of(labels.shape[1], side.classes)).T
                    @ whitening.factor(side.features)
                    for labels, whitening, side in zip(
                        point.labels, sharded.whitenings.values(), problem.sides, strict=True
                    )
                )
            )
            self._place(shard, point, sums)
            yield sharded, shard, sums

    def _labels(self, shard: Any) -> tuple[Floats, Floats]:
        return shard._action.labels.copy(), shard._state.labels.copy()


def disk_backend() -> Backend:
    def place(shard: Any, point: Point, _: FactorSums) -> None:
        for side, labels, clips in zip(
            (shard._action, shard._state), point.labels, (point.action, point.state), strict=True
        ):
            side.labels = labels
            side.vertices, side.weights, side.counts = listed(clips)
            side.missing = missing_of(side.constraints, clips)

    return ShardBackend(Shard, place)


# --- devices --------------------------------------------------------------------------------------


def device_name() -> str:
    """A GPU where there is one; else torch on the CPU, where Triton is interpreted."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are defined
    return "cpu"


class TorchBackend(ShardBackend):
    """A shard in a device's memory, with the steps of ``batched_torch.py``."""

    at_once, chains = True, False

    def __init__(self) -> None:
        pytest.importorskip("torch", reason="needs the extra torch")
        self.device = device_name()
        self.kernels = self._kernels()
        super().__init__(self._make, self._put)

    def _kernels(self) -> Any:
        from objectstates.solver.scale import batched_torch

        return batched_torch

    def oracle(self, constraints: Constraints, costs: Floats) -> tuple[Floats, Labels]:
        import torch

        from objectstates.solver.scale import batched_torch

        finite, forbidden = (
            np.where(np.isinf(costs), 0.0, costs),
            np.where(np.isinf(costs), costs, 0.0),
        )
        constraints = constraints._replace(linear=forbidden)
        batch = batched_torch.batch_clips(constraints, np.arange(constraints.n_clips), self.device)
        padded = batch.linear + batch.pad(torch.as_tensor(finite, device=self.device))
        least, path = batched_torch.cheapest_paths(padded, batch.before, batch.blocked)
        labels = batch.unpad(batched_torch.labels_of(path), len(costs)).cpu().numpy()
        found = labels @ np.arange(1, costs.shape[1] + 1)
        return least.cpu().numpy(), found.astype(np.int8)

    def _make(self, action: Any, state: Any, _folder: Path, single: bool) -> Any:
        import torch

        from objectstates.solver.scale import gpu_rows, gpu_shard

        with (
            patch.object(gpu_rows, "kernels_for", lambda _: self.kernels),
            patch.object(gpu_shard, "kernels_for", lambda _: self.kernels),
        ):
            return gpu_shard.GpuShard(action, state, torch.device(self.device), single=single)

    def _put(self, shard: Any, point: Point, sums: FactorSums) -> None:
        import torch

        from objectstates.solver.scale import batched_torch
        from objectstates.solver.scale.gpu_shard import mini_batches_of

        sides = shard._action.constraints, shard._state.constraints
        shard._own = dict(zip(shard.sides, sums, strict=True))
        (order,) = mini_batches_of(*sides, 1)  # few clips: one mini-batch
        for side, clips in (shard._action, point.action), (shard._state, point.state):
            labellings, weights, _ = listed(clips)
            (part,) = side.parts
            batch, flow = part.clips, part.flow.zero_()
            for labels, weight in zip(labellings.T, weights.T, strict=True):
                costs = 1 - 2 * batch.pad(side.one_hot(labels))  # this labelling is the cheapest
                _, path = batched_torch.cheapest_paths(costs, batch.before, batch.blocked)
                flow += torch.as_tensor(weight[order], device=self.device) * path


class TritonBackend(TorchBackend):
    """The same with the kernels of ``triton_kernels.py``."""

    breaks_ties, slow = False, True

    def _kernels(self) -> Any:
        pytest.importorskip("triton", reason="Triton is not part of torch everywhere")
        from objectstates.solver.scale import triton_kernels

        return triton_kernels

    def oracle(self, constraints: Constraints, costs: Floats) -> tuple[Floats, Labels]:
        """One step from each clip's worst labelling shows the kernel's target and gap."""
        values, labels = super().oracle(constraints, np.where(np.isinf(costs), np.inf, -costs))
        start = reference.one_hot(labels.tolist(), costs.shape[1])
        for n in np.flatnonzero(np.isfinite(values)).tolist():
            rows = slice(*constraints.offsets[n : n + 2])
            clip, _ = part_of(constraints, ArrayRows(costs), n, n + 1)
            change, gap = self._step(clip, costs[rows], start[rows])
            values[n] = reference.inner(costs[rows], start[rows]) - gap
            target = start[rows] + change / max(np.abs(change).max(), 1e-300)
            labels[rows] = target.round() @ np.arange(1, costs.shape[1] + 1)
        return values, labels

    def _step(self, clip: Constraints, costs: Floats, start: Floats) -> tuple[Floats, float]:
        """How labels change in a step from an integer labelling whose gradient is ``costs``."""
        import torch

        from objectstates.solver.scale import batched_torch

        forbidden = np.isinf(costs)
        clip = clip._replace(linear=np.where(forbidden, np.inf, 0.0))
        batch = batched_torch.batch_clips(clip, np.zeros(1, np.int64), self.device)
        there = torch.as_tensor(start, device=self.device)
        _, flow = batched_torch.cheapest_paths(
            1 - 2 * batch.pad(there), batch.before, batch.blocked
        )
        changes, sums = self.kernels.frank_wolfe_steps(
            batch,
            there - torch.as_tensor(np.where(forbidden, 0.0, costs), device=self.device),
            None,
            flow,
            weights=torch.ones(2, dtype=torch.float64, device=self.device),
            steps=1,
            pairwise=False,
        )
        return changes.cpu().numpy(), float(sums[0])


BACKENDS: dict[str, Callable[[], Backend]] = {
    "numba": NumbaBackend,
    "disk": disk_backend,
    "torch": TorchBackend,
    "triton": TritonBackend,
}

"""The joint problem over shards: disjoint sets of clips, with rows on disk or on a device.

The ``Problem`` of ``frank_wolfe.py`` with messages of the size of a classifier, whatever the number
of clips. Each pass sends the sums F'Y of all clips to every shard; each shard reads its rows once
and answers with its own F'Y, its part of the gap, and three numbers that describe the rest of the
objective along its step (``shard_messages.py``).

``full``
    every shard moves to the oracle's labellings; one exact line search over all of them. The same
    steps as in memory: only the order of sums differs.
``block``
    every shard sweeps over its own clips as in memory, while the other shards are fixed. With one
    shard and one batch of clips the steps and their order are those in memory.

    Several shards move at once, so each shard's step size is chosen afterwards: the objective is a
    quadratic of the step sizes s in [0, 1]^S, known exactly from the answers, and is minimised by
    coordinate descent from s = 0, the shard with the largest decrease first (``step_sizes``). So a
    pass lowers the objective at least as much as that shard alone would have: the objective never
    rises, and since a sweep lowers it whenever its clips' gaps are not 0, the limit points are
    stationary points of the relaxed problem (optima for nu = 0), as for block-coordinate
    Frank-Wolfe with the greediest of S blocks. In the worst case that is S times slower than one
    shard; where shards hold similar clips, the step sizes are near 1.

The final gap is evaluated afresh, as in memory. With factor rows in float32, objectives are exact
to about 1e-7 of the objective at the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.choices import SideName, Solver
from objectstates.parallel.actors import Actors
from objectstates.solver.block_steps import exact_step
from objectstates.solver.frank_wolfe import Evaluation, Learned, Rounding
from objectstates.solver.oracle import Constraints, Floats, Ints, Labels
from objectstates.solver.problem import Scales, Terms, repeat_alike
from objectstates.solver.scale.moments import FeatureRows, Moments, Reduction, Whitening
from objectstates.solver.scale.shard_messages import (
    FactorSums,
    PassResult,
    SeparableTerms,
    ShardEvaluation,
    total_terms,
)

ROUND_EVERY = 5  # joint passes between roundings (and evaluations), which read the rows once more
_SWEEPS = 100  # at most, of coordinate descent over the step sizes


class ShardedProblem:
    """Factored when made.

    shards : the actors that hold the shards.
    shifts : of the action's and the states' moments (``moments.shift_of``).
    nu, mu, lam : weights of the coupling, and ridges of states and action.
    reduce : number of principal directions to reduce each side to (``moments.Reduction``).
    row_cuts : per side, (S - 1,) first rows of all shards but the first.
    classes : (K,) which states look alike, as in ``problem.Side``; the shards know them too.
    """

    def __init__(
        self,
        shards: Actors,
        shifts: tuple[Floats, Floats],
        *,
        nu: float,
        mu: float,
        lam: float,
        reduce: int | None = None,
        row_cuts: dict[SideName, Ints] | None = None,
        classes: Ints | None = None,
    ) -> None:
        self.shards, self._classes = shards, classes
        self._row_cuts = row_cuts or {}
        self._evaluated: tuple[Evaluation, Terms] | None = None
        moments: list[tuple[Moments, Moments]] = self._all("measure", *shifts)
        action, state = moments[0]
        for more_action, more_state in moments[1:]:
            action, state = action + more_action, state + more_state
        self.whitenings: dict[SideName, Whitening] = {
            "action": action.whiten(lam, reduce),
            "state": state.whiten(mu, reduce),
        }
        self.scales = Scales(action.n_rows, state.n_rows, nu)
        self._all("prepare", *self.whitenings.values())

    @property
    def coupled(self) -> bool:
        return self.scales.coupling > 0

    def start(self, seed: int) -> float:
        count = len(self.shards)
        seeds = [(seed if count == 1 else (seed, s), self.scales) for s in range(count)]
        results: list[PassResult] = self.shards.call("start", seeds)
        self._move_to([result.sums for result in results])
        explained = self._scaled(self._total)
        return float(sum(result.polynomial[0] for result in results) - explained @ explained)

    def run_pass(self, solver: Solver, share: float) -> tuple[float, float]:
        scales, sums = replace(self.scales, share=share), self._sums
        results: list[PassResult]
        if solver == "full":
            results = self._all("step", self._total, scales)
        else:
            results = self._all("sweep", self._total, scales, share == 1.0)
        directions = [_subtract(r.sums, before) for r, before in zip(results, sums, strict=True)]
        polynomials = np.array([result.polynomial for result in results])
        gap = float(sum(result.gap for result in results))
        flat = np.array([self._scaled(direction) for direction in directions])
        if solver == "full":
            joint = flat.sum(axis=0)
            step = exact_step(-gap, 2 * float(polynomials[:, 2].sum() - joint @ joint), 1.0)
            steps = np.full(len(results), step)
        elif len(results) == 1:
            steps = np.ones(1)
        else:
            steps = step_sizes(polynomials, self._scaled(self._total), flat)
        self.shards.call("scale_step", [(float(step),) for step in steps])
        self._move_to([_add(a, d, s) for a, d, s in zip(sums, directions, steps, strict=True)])
        explained = self._scaled(self._total)
        separable = float((polynomials * steps[:, None] ** np.arange(3)).sum())
        return separable - float(explained @ explained), gap

    def evaluate(self) -> Evaluation:
        if self._evaluated is None:
            found: list[ShardEvaluation] = self._all("evaluate", self._total, self.scales)
            rounded = _sum([each.rounded_sums for each in found])
            self._evaluated = (
                Evaluation(
                    total_terms([each.terms for each in found], self._total, self.scales),
                    sum(each.gap for each in found),
                ),
                total_terms([each.rounded for each in found], rounded, self.scales),
            )
        return self._evaluated[0]

    def round(self) -> Terms:
        """A shard rounds whenever it evaluates: both read the rows."""
        self.evaluate()
        assert self._evaluated is not None
        return self._evaluated[1]

    def keep_rounding(self) -> None:
        self._all("keep_rounding")
        self._kept_sums = self._total

    def kept_rounding(self) -> Rounding:
        found = zip(*self._all("kept_rounding"), strict=True)
        columns = [np.concatenate(column) for column in found]
        sums = self._kept_sums

        def classifiers() -> dict[SideName, tuple[Floats, Floats]]:
            sides = zip(self.whitenings.items(), sums, strict=True)
            return {name: self._classifier(name, own) for (name, of), own in sides if of.n_rows}

        return Rounding(columns[0], columns[1], columns[2], columns[3], classifiers)

    def integer_terms(self, action: Labels, state: Labels) -> Terms:
        both = zip(self._split("action", action), self._split("state", state), strict=True)
        parts: list[SeparableTerms] = self.shards.call("integer_terms", list(both))
        sums = FactorSums(self.factor_sums("action", action), self.factor_sums("state", state))
        return total_terms(parts, sums, self.scales)

    def learn(self, side: SideName, labels: Labels) -> Learned:
        sums = self.factor_sums(side, labels)
        parts = [(side, part, sums) for part in self._split(side, labels)]
        scores = np.concatenate(self.shards.call("held_out_scores", parts))
        return Learned(scores, lambda: self._classifier(side, sums))

    def reductions(self) -> dict[SideName, Reduction]:
        """What was lost when the features of each side that has rows were reduced."""
        return {name: of.reduction for name, of in self.whitenings.items() if of.n_rows}

    def factor_sums(self, side: SideName, labels: Labels) -> Floats:
        """F'Y (C, 1 + d) of integer labels of one side."""
        parts = [(side, part) for part in self._split(side, labels)]
        return np.asarray(np.sum(self.shards.call("factor_sums", parts), axis=0))

    def _classifier(self, side: SideName, sums: Floats) -> tuple[Floats, Floats]:
        """(W, b), (d, K) and (K,), of F'Y (C, 1 + d)."""
        weights, bias = self.whitenings[side].classifier(sums)
        if side == "action" or self._classes is None:
            return weights, bias
        return repeat_alike(weights, self._classes), repeat_alike(bias, self._classes)

    def _all(self, method: str, *given: Any) -> list[Any]:
        return self.shards.call(method, [given] * len(self.shards))

    def _split(self, side: SideName, labels: Labels) -> list[Labels]:
        return np.split(labels, self._row_cuts.get(side, []))

    def _move_to(self, sums: list[FactorSums]) -> None:
        """The shards are at another point, with these F'Y each."""
        self._sums, self._total = sums, _sum(sums)
        self._evaluated = None

    def _scaled(self, sums: FactorSums) -> Floats:
        """F'Y as one vector, whose square is what it subtracts from the objective."""
        pairs = zip(sums, self.scales.normalisers, strict=True)
        return np.concatenate([own.ravel() / n**0.5 for own, n in pairs])


def step_sizes(polynomials: Floats, here: Floats, directions: Floats) -> Floats:
    """The step size of each shard, (S,) from 0 to 1: coordinate descent on

        sum_s (c1_s x_s + c2_s x_s^2)  -  |here + sum_s x_s directions_s|^2

    from x = 0, first the coordinate that gains most on its own.
    """
    slope, square = polynomials[:, 1] - 2 * directions @ here, polynomials[:, 2]
    shared = directions @ directions.T
    steps = np.zeros(len(polynomials))
    alone = square - np.diag(shared)
    order = np.argsort(slope + alone)
    for _ in range(_SWEEPS):
        before = steps.copy()
        for s in order:
            others = slope[s] - 2 * (shared[s] @ steps - shared[s, s] * steps[s])
            steps[s] = _line_search(float(others), float(alone[s]))
        if np.abs(steps - before).max() < 1e-9:
            break
    return steps


def _line_search(slope: float, square: float) -> float:
    """The x in [0, 1] that minimises slope x + square x^2, whatever the sign of the slope."""
    if slope < 0:
        return float(exact_step(slope, 2 * square, 1.0))
    return 1.0 if slope + square < 0 else 0.0


def _sum(parts: Sequence[FactorSums]) -> FactorSums:
    return FactorSums(
        np.sum([part.action for part in parts], axis=0),
        np.sum([part.state for part in parts], axis=0),
    )


def _subtract(one: FactorSums, other: FactorSums) -> FactorSums:
    return FactorSums(one.action - other.action, one.state - other.state)


def _add(start: FactorSums, direction: FactorSums, step: float) -> FactorSums:
    return FactorSums(start.action + step * direction.action, start.state + step * direction.state)


# --- dividing clips among shards -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowRange:
    """The rows first to last of other features."""

    features: FeatureRows
    first: int
    last: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.last - self.first, self.features.shape[1]

    def read(self, lo: int, hi: int) -> npt.NDArray[np.float32]:
        return self.features.read(self.first + lo, self.first + hi)


def divide(action: Constraints, state: Constraints, n_shards: int) -> list[tuple[int, int]]:
    """Ranges of clips (first, last) of about equal row counts; at most as many as clips."""
    filled = action.offsets + state.offsets
    cuts = np.searchsorted(filled, np.linspace(0, filled[-1], n_shards + 1)[1:-1])
    cuts = np.unique(np.clip(cuts, 1, action.n_clips))
    edges = [0, *(int(c) for c in cuts if c < action.n_clips), action.n_clips]
    return list(pairwise(edges))


def part_of(
    constraints: Constraints, features: FeatureRows, first: int, last: int
) -> tuple[Constraints, FeatureRows]:
    """One side of the clips first to last."""
    lo, hi = int(constraints.offsets[first]), int(constraints.offsets[last])
    return constraints.clips(first, last), RowRange(features, lo, hi)

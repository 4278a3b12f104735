"""Frank-Wolfe over shards: clips in several places, no place with all of them, rows on disk.

Both solvers of ``frank_wolfe.py``, with messages of the size of a classifier whatever the number of
clips. Each pass sends the sums F'Y of all clips (``Wholes``) to every shard; each shard reads its
rows once and answers with its own F'Y, its share of the gap, and three numbers that describe the
rest of the objective along its way.

``full``
    every shard goes to the oracle's labellings; one exact line search over all of them. The same
    steps as in memory: only the order of sums differs.
``block``
    every shard sweeps over its own clips, one after another as in memory, as if the others stood
    still. With one shard, that is the solver in memory (and with one batch of clips, in the same
    order of visits).

    Several shards move at once, so how far each goes is decided afterwards: the objective is a
    quadratic of the shares s in [0, 1]^S, known exactly from what they told, and is minimised
    coordinate by coordinate from s = 0, the shard that gained most first (``shares_of_way``). So a
    pass lowers the objective at least as much as that shard alone would have: the objective never
    rises, and since a sweep gains whenever its clips' gaps are not 0, the limit points are
    stationary points of the relaxed problem (optima for nu = 0), as for block-coordinate
    Frank-Wolfe with the greediest of S blocks. In the worst case that is S times slower than one
    shard; where shards hold clips of the same kind they pull the same way, and the shares are near
    1.

The gap that is returned is computed afresh at the point returned, as in memory. Where factor rows
are kept in float32, objectives are exact to about 1e-7 of the objective at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from objectstates.base.choices import Solver
from objectstates.parallel.actors import Actors
from objectstates.parallel.actors import (
    LocalActors as LocalActors,  # the simplest, for whoever solves here
)
from objectstates.solver.block_steps import exact_step
from objectstates.solver.frank_wolfe import UNCOUPLED_STEPS, coupling_shares
from objectstates.solver.oracle import Constraints, Floats
from objectstates.solver.problem import Terms
from objectstates.solver.scale.moments import FeatureRows, Moments, Whitening
from objectstates.solver.scale.shard_messages import Examination, Ledger, Report, Wholes

EXAMINE_EVERY = 5  # joint passes between roundings, each of which reads the rows once more
_NEGLIGIBLE = 1e-8  # a gap of this share of the objective at the start is none
_ROUNDS = 100  # of coordinate descent over the shards' shares


@dataclass(frozen=True)
class ShardedProgress:
    """Where a run stands after a pass; ``rounded`` is the lowest objective of integer labels."""

    stage: Literal["start", "joint"]
    passes: int
    objective: float
    gap: float
    rounded: float


@dataclass(frozen=True, eq=False)
class ShardedSolution:
    """A relaxed solution's certificate, and the best rounding met.

    The labels of the rounding are with the shards (``Shard.rounding``). ``relaxed`` is F'Y at the
    point that was rounded, from which its classifiers follow (``Whitening.classifier``).
    """

    terms: Terms
    gap: float
    passes: int
    converged: bool
    rounded_terms: Terms
    rounded_at_pass: int
    relaxed: Wholes


class ShardedProblem:
    """The joint problem over the actors' clips: factored when made, minimised by :meth:`minimise`.

    nu : the coupling, as in ``JointProblem``. mu and lam are the ridges of states and action.
    shifts : of the action's and the states' moments, see ``moments.shift_of``.
    reduce : to how many directions the features of each side are reduced (``moments.Reduction``).
    """

    def __init__(
        self,
        actors: Actors,
        shifts: tuple[Floats, Floats],
        *,
        nu: float,
        mu: float,
        lam: float,
        reduce: int | None = None,
    ) -> None:
        self.actors = actors
        moments: list[tuple[Moments, Moments]] = self._all("measure", *shifts)
        action, state = moments[0]
        for more_action, more_state in moments[1:]:
            action, state = action + more_action, state + more_state
        self.action: Whitening = action.whiten(lam, reduce)
        self.state: Whitening = state.whiten(mu, reduce)
        both = self.action.n_rows and self.state.n_rows
        self.coupling = nu / self.action.n_rows if both else 0.0
        self._all("prepare", self.action, self.state)

    def _all(self, method: str, *given: Any) -> list[Any]:
        return self.actors.call(method, [given] * len(self.actors))

    def minimise(
        self,
        *,
        solver: Solver = "block",
        tol: float = 0.01,
        max_passes: int = 500,
        seed: int = 0,
        examine_every: int = EXAMINE_EVERY,
        callback: Callable[[ShardedProgress], bool | None] | None = None,
    ) -> ShardedSolution:
        """As ``frank_wolfe.minimise``, with the best rounding that was met."""
        n_shards = len(self.actors)
        seeds = [(seed if n_shards == 1 else (seed, s), self.coupling) for s in range(n_shards)]
        parts = [report.wholes for report in self.actors.call("start", seeds)]
        best = _Best(self)
        first = self._examined(parts)
        negligible = _NEGLIGIBLE * first.terms.total
        passes, converged, stopped = 0, False, False
        for passes, share in enumerate(self._shares(solver, max_passes), start=1):
            stage: Literal["start", "joint"] = "joint" if share == 1.0 else "start"
            parts, objective, gap = self._pass(parts, solver, share)
            enough = max(tol * objective, negligible)
            if stage == "joint" and (gap <= enough or passes % examine_every == 0):
                looked = self._examined(parts)
                best.consider(looked, passes)
                objective, gap = looked.terms.total, looked.gap
                converged = gap <= max(tol * objective, negligible)
            if callback is not None:
                rounded = best.terms.total if best.passes >= 0 else np.inf
                stopped = bool(callback(ShardedProgress(stage, passes, objective, gap, rounded)))
            if converged or stopped:
                break
        last = self._examined(parts)
        best.consider(last, passes)
        return ShardedSolution(
            last.terms, last.gap, passes, converged, best.terms, best.passes, best.relaxed
        )

    def _shares(self, solver: Solver, max_passes: int) -> Iterator[float]:
        """The share of the coupling at each pass."""
        if solver == "block":
            return coupling_shares(self.coupling > 0, max_passes)
        return (0.0 if done < UNCOUPLED_STEPS else 1.0 for done in range(max_passes))

    def _pass(
        self, parts: list[Wholes], solver: Solver, share: float
    ) -> tuple[list[Wholes], float, float]:
        """One pass: the new F'Y of every shard, the objective and the gap that was met."""
        coupling, here = share * self.coupling, _sum(parts)
        reports: list[Report]
        if solver == "full":
            reports = self._all("step", here, coupling)
        else:
            reports = self._all("sweep", here, coupling, share == 1.0)
        ways = [_minus(r.wholes, part) for r, part in zip(reports, parts, strict=True)]
        own = np.array([report.own for report in reports])
        gap = float(sum(report.gap for report in reports))
        flat_here, flat_ways = self._flat(here), np.array([self._flat(way) for way in ways])
        if solver == "full":
            way = flat_ways.sum(axis=0)
            step = exact_step(-gap, 2 * float(own[:, 2].sum() - way @ way), 1.0)
            shares = np.full(len(parts), step)
        elif len(parts) == 1:
            shares = np.ones(1)
        else:
            shares = shares_of_way(own, flat_here, flat_ways)
        self.actors.call("settle", [(float(share),) for share in shares])
        parts = [_go(part, way, s) for part, way, s in zip(parts, ways, shares, strict=True)]
        explained = self._flat(_sum(parts))
        objective = float((own * shares[:, None] ** np.arange(3)).sum() - explained @ explained)
        return parts, objective, gap

    def _flat(self, wholes: Wholes) -> Floats:
        """F'Y such that its square is what it takes off the objective."""
        counts = self.action.n_rows, self.state.n_rows
        return np.concatenate(
            [w.ravel() / (2 * max(n, 1)) ** 0.5 for w, n in zip(wholes, counts, strict=True)]
        )

    def _examined(self, parts: list[Wholes]) -> _Examined:
        wholes = _sum(parts)
        found: list[Examination] = self._all("examine", wholes, self.coupling)
        rounded = _sum([each.rounded_wholes for each in found])
        return _Examined(
            sum(each.gap for each in found),
            self.terms([each.ledger for each in found], wholes),
            self.terms([each.rounded for each in found], rounded),
            wholes,
        )

    def terms(self, ledgers: Sequence[Ledger], wholes: Wholes) -> Terms:
        """The objective of labels whose ledgers and F'Y these are."""
        sides = []
        for k, n in enumerate((self.action.n_rows, self.state.n_rows)):
            squares = sum(ledger.squares[k] for ledger in ledgers)
            explained = float(np.vdot(wholes[k], wholes[k]))
            linear = sum(ledger.linear[k] for ledger in ledgers)
            sides.append((squares - explained) / (2 * max(n, 1)) + linear)
        disorder = sum(ledger.disorder for ledger in ledgers)
        return Terms(sides[0], sides[1], self.coupling * disorder)


@dataclass(frozen=True, eq=False)
class _Examined:
    gap: float
    terms: Terms
    rounded: Terms
    wholes: Wholes


class _Best:
    """The rounding of lowest objective; its labels stay with the shards."""

    def __init__(self, problem: ShardedProblem) -> None:
        self._problem, self.passes = problem, -1
        self.terms: Terms
        self.relaxed: Wholes

    def consider(self, looked: _Examined, passes: int) -> None:
        if self.passes < 0 or looked.rounded.total < self.terms.total:
            self.terms, self.passes, self.relaxed = looked.rounded, passes, looked.wholes
            self._problem._all("keep")


def shares_of_way(own: Floats, here: Floats, ways: Floats) -> Floats:
    """How far each shard should go, (S,) from 0 to 1: coordinate descent on

        sum_s (c1_s x_s + c2_s x_s^2)  -  |here + sum_s x_s ways_s|^2

    from x = 0, first the coordinate that gains most on its own.
    """
    slope, square = own[:, 1] - 2 * ways @ here, own[:, 2]
    shared = ways @ ways.T
    shares = np.zeros(len(own))
    alone = square - np.diag(shared)
    order = np.argsort(slope + alone)
    for _ in range(_ROUNDS):
        before = shares.copy()
        for s in order:
            others = slope[s] - 2 * (shared[s] @ shares - shared[s, s] * shares[s])
            shares[s] = _least(float(others), float(alone[s]))
        if np.abs(shares - before).max() < 1e-9:
            break
    return shares


def _least(slope: float, square: float) -> float:
    """The x in [0, 1] that minimises slope x + square x^2."""
    if square > 0:
        return min(max(-slope / (2 * square), 0.0), 1.0)
    return 1.0 if slope + square < 0 else 0.0


def _sum(parts: Sequence[Wholes]) -> Wholes:
    return Wholes(
        np.sum([part.action for part in parts], axis=0),
        np.sum([part.state for part in parts], axis=0),
    )


def _minus(one: Wholes, other: Wholes) -> Wholes:
    return Wholes(one.action - other.action, one.state - other.state)


def _go(start: Wholes, way: Wholes, share: float) -> Wholes:
    return Wholes(start.action + share * way.action, start.state + share * way.state)


# --- dividing clips among shards -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowsOf:
    """The rows first to last of other features."""

    features: FeatureRows
    first: int
    last: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.last - self.first, self.features.shape[1]

    def read(self, lo: int, hi: int) -> Any:
        return self.features.read(self.first + lo, self.first + hi)


def divide(action: Constraints, state: Constraints, n_shards: int) -> list[tuple[int, int]]:
    """Runs of clips of about as many rows each; at most as many runs as clips."""
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
    part = Constraints(
        constraints.offsets[first : last + 1] - lo,
        constraints.order[lo:hi],
        constraints.before[lo:hi],
        constraints.exactly_one,
        constraints.linear[lo:hi],
        constraints.times[lo:hi],
    )
    return part, RowsOf(features, lo, hi)

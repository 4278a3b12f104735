"""What shards are told and tell: of the size of a classifier, however many clips they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from objectstates.solver.oracle import Constraints, Floats
from objectstates.solver.problem import Side, disorder, linear_cost


class Wholes(NamedTuple):
    """F'Y of both sides, as rows: (1, 1 + d) of the action and (2, 1 + d) of the states."""

    action: Floats
    state: Floats


@dataclass(frozen=True, eq=False)
class Ledger:
    """The parts of the objective that are sums over clips: all but the |F'Y|^2.

    squares : |Z|^2, |Y|^2. linear : of both sides. disorder : in seconds.
    """

    squares: tuple[float, float]
    linear: tuple[float, float]
    disorder: float


@dataclass(frozen=True, eq=False)
class Report:
    """What a shard tells after a pass.

    gap : the sum of the gaps met. wholes : F'Y of its clips alone, as they are now.
    own : c of c0 + c1 s + c2 s^2, the shard's own part of the objective (all but |F'Y|^2) when it
        goes the share s of its way from where it was to where it is.
    """

    gap: float
    wholes: Wholes
    own: tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Examination:
    """The gap at a point, its ledger, and the same of the integer labels it is rounded to."""

    gap: float
    ledger: Ledger
    rounded: Ledger
    rounded_wholes: Wholes


def ledger_of(action: Constraints, state: Constraints, z: Floats, y: Floats) -> Ledger:
    """The ledger of labels (T, 1) and (M, 2)."""
    sides = _featureless(action), _featureless(state)
    return Ledger(
        (float(np.vdot(z, z)), float(np.vdot(y, y))),
        (linear_cost(sides[0], z), linear_cost(sides[1], y)),
        disorder(*sides, z, y),
    )


def value_of(ledger: Ledger, counts: tuple[int, int], coupling: float) -> float:
    """A ledger's share of the objective; counts : the rows T and M of all clips of all shards."""
    squares = sum(x / (2 * max(n, 1)) for x, n in zip(ledger.squares, counts, strict=True))
    return squares + sum(ledger.linear) + coupling * ledger.disorder


def _featureless(constraints: Constraints) -> Side:
    """Enough of a side for what does not look at features."""
    nothing, none = np.empty(0), np.empty(0, np.int64)
    return Side(constraints, np.empty((0, 0)), False, nothing, none, constraints.n_rows)

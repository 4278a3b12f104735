"""Messages between the coordinator and a shard: O(K d) numbers per pass, whatever its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from objectstates.solver.distortion import distortion
from objectstates.solver.oracle import Constraints, Floats
from objectstates.solver.problem import Scales, Terms, inner_product


class FactorSums(NamedTuple):
    """F'Y of both sides, transposed: (1, 1 + d) of the action and (2, 1 + d) of the states."""

    action: Floats
    state: Floats


@dataclass(frozen=True, eq=False)
class SeparableTerms:
    """The parts of the objective that are sums over clips: all but the |F'Y|^2.

    squares : |Z|^2, |Y|^2. linear : <linear, labels> of both sides. distortion : in seconds.
    """

    squares: tuple[float, float]
    linear: tuple[float, float]
    distortion: float

    def value(self, scales: Scales) -> float:
        """What they add to the objective."""
        squares = sum(x / n for x, n in zip(self.squares, scales.normalisers, strict=True))
        return squares + sum(self.linear) + scales.coupling * self.distortion


@dataclass(frozen=True, eq=False)
class PassResult:
    """A shard's answer to a pass.

    gap : the sum of the block gaps. sums : F'Y of its clips after the pass.
    polynomial : c0, c1, c2: at step size s, from 0 (before) to 1 (after the pass), the shard's
        separable terms have the value c0 + c1 s + c2 s^2.
    """

    gap: float
    sums: FactorSums
    polynomial: tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class ShardEvaluation:
    """A shard's part of the gap and of the objective, at its labels and at their rounding."""

    gap: float
    terms: SeparableTerms
    rounded: SeparableTerms
    rounded_sums: FactorSums


def separable_terms(
    action: Constraints, state: Constraints, z: Floats, y: Floats
) -> SeparableTerms:
    """Those of labels (T, 1) and (M, 2)."""
    return SeparableTerms(
        (float(np.vdot(z, z)), float(np.vdot(y, y))),
        (inner_product(action.linear, z), inner_product(state.linear, y)),
        distortion(action, state, z, y),
    )


def total_terms(parts: Sequence[SeparableTerms], sums: FactorSums, scales: Scales) -> Terms:
    """The objective of labels, from the terms of each shard and the F'Y of all."""
    sides = []
    for k, normaliser in enumerate(scales.normalisers):
        squares = sum(part.squares[k] for part in parts) - float(np.vdot(sums[k], sums[k]))
        sides.append(squares / normaliser + sum(part.linear[k] for part in parts))
    return Terms(sides[0], sides[1], scales.coupling * sum(part.distortion for part in parts))

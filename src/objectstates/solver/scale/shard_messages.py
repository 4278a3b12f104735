"""Messages between the coordinator and a shard: O(K d) numbers per pass, whatever its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from objectstates.solver.distortion import distortion
from objectstates.solver.oracle import Constraints, Floats, Ints
from objectstates.solver.problem import Scales, Terms, absence_cost, inner_product, merge_alike


class FactorSums(NamedTuple):
    """F'Y of both sides, transposed: (C, 1 + d) each, C as in ``problem.Side``."""

    action: Floats
    state: Floats


@dataclass(frozen=True, eq=False)
class SeparableTerms:
    """The parts of the objective that are sums over clips: all but the |F'Y|^2.

    squares : |Z|^2, |Y|^2, where labels of states that look alike are added. linear : <linear,
        labels> of both sides, and what clips pay for states they lack. distortion : in seconds.
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
    action: Constraints,
    state: Constraints,
    z: Floats,
    y: Floats,
    *,
    missing: tuple[Floats, Floats] | None = None,
    classes: tuple[Ints, Ints] | None = None,
) -> SeparableTerms:
    """Those of labels (T, K - 1) and (M, K).

    missing, classes : as in ``problem.Iterate`` and ``problem.Side``; by default no clip lacks a
        state, and no two states look alike.
    """
    hot, absent = (z, y), (0.0, 0.0)
    if classes is not None:
        hot = merge_alike(z, classes[0]), merge_alike(y, classes[1])
    if missing is not None:
        absent = absence_cost(action, missing[0]), absence_cost(state, missing[1])
    return SeparableTerms(
        (float(np.vdot(hot[0], hot[0])), float(np.vdot(hot[1], hot[1]))),
        (inner_product(action.linear, z) + absent[0], inner_product(state.linear, y) + absent[1]),
        distortion(action, state, z, y),
    )


def total_terms(parts: Sequence[SeparableTerms], sums: FactorSums, scales: Scales) -> Terms:
    """The objective of labels, from the terms of each shard and the F'Y of all."""
    sides = []
    for k, normaliser in enumerate(scales.normalisers):
        squares = sum(part.squares[k] for part in parts) - float(np.vdot(sums[k], sums[k]))
        sides.append(squares / normaliser + sum(part.linear[k] for part in parts))
    return Terms(sides[0], sides[1], scales.coupling * sum(part.distortion for part in parts))

"""What passes over rows in a device's memory are told and tell, by copies of a few numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from objectstates.solver.oracle import Floats
from objectstates.solver.scale.gpu_rows import ResidentSide
from objectstates.solver.scale.shard_messages import FactorSums


class Told(NamedTuple):
    """What a pass tells of one side.

    The sum of the gaps met in units of 1/M; of the labels now, the sum of squares, the linear cost
    and the disorder; F'Y, (K, 1 + d).
    """

    gap: float
    square: float
    linear: float
    disorder: float
    whole: Floats


class Desk:
    """What passes are told and tell, in one tensor on the device: one copy there, and one back.

    weights, facts, wholes : of a side, the weights (2,) of its costs, the sums (4,) of what visits
        tell, and F'Y (K, 1 + d). All stay in their place, where recorded work looks for them.
    """

    def __init__(self, *sides: ResidentSide) -> None:
        import torch

        sizes = [6 + side.n_states * side.width for side in sides]
        device = sides[0].device
        self._there = torch.zeros(sum(sizes), dtype=torch.float64, device=device)
        self._here = torch.zeros(sum(sizes), dtype=torch.float64, pin_memory=device.type == "cuda")
        self._mine = dict(
            zip(sides, np.split(self._here.numpy(), np.cumsum(sizes)[:-1]), strict=True)
        )
        self.weights, self.facts, self.wholes = {}, {}, {}
        for side, some in zip(sides, self._there.split(sizes), strict=True):
            self.weights[side], self.facts[side] = some[:2], some[2:6]
            self.wholes[side] = some[6:].view(side.n_states, side.width)

    def put(self, wholes: FactorSums, coupling: float) -> None:
        for (side, some), whole in zip(self._mine.items(), wholes, strict=True):
            some[:2], some[2:6], some[6:] = side.weights(coupling), 0.0, whole.ravel()
        self._there.copy_(self._here, non_blocking=True)

    def take(self) -> dict[ResidentSide, Told]:
        """Wait for all that was asked for."""
        self._here.copy_(self._there)
        told = {}
        for side, some in self._mine.items():
            gap, square, linear, disorder = some[2:6].tolist()
            whole = some[6:].reshape(side.n_states, side.width).copy()
            told[side] = Told(gap, square, linear, disorder, whole)
        return told

"""``cost.py`` for features reduced to their leading principal directions, in memory.

Factor rows become narrower and passes cheaper; the loss is bounded (``moments.Reduction``).
Classifiers apply to the original features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from objectstates.solver.cost import ClusteringCost
from objectstates.solver.oracle import Floats
from objectstates.solver.scale.factor_gpu import HostAlgebra, name_of
from objectstates.solver.scale.moments import (
    ArrayRows,
    Reduction,
    Whitening,
    leading,
    measure,
    reduced,
    shift_of,
)

_COLUMNS = 512  # columns converted to float64 at a time, to need little memory


class ReducedAlgebra(HostAlgebra):
    """The functions of ``cost.py`` for features reduced to ``keep`` directions.

    Features of no higher rank than that are not reduced.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._known: dict[Any, tuple[npt.NDArray[Any], Whitening, Floats]] = {}

    def factorise(self, features: npt.NDArray[Any], ridge: float) -> ClusteringCost:
        m, d = features.shape
        if self._keep >= min(m - 1, d):  # centred, M rows have a rank of M - 1 at most
            return super().factorise(features, ridge)
        if m <= d:
            whitening = _whiten_few(features, ridge, self._keep)
        else:
            every = ArrayRows(features)
            whitening = measure(every, shift_of(every)).whiten(ridge, self._keep)
        rows = whitening.factor(features)
        self._known[name_of(features)] = features, whitening, rows
        return ClusteringCost(rows, False, ridge)

    def linear_classifier(
        self, features: npt.NDArray[Any], labels: Floats, residual: Floats, ridge: float
    ) -> tuple[Floats, Floats]:
        known = self._known.get(name_of(features))
        if known is None:
            return super().linear_classifier(features, labels, residual, ridge)
        _, whitening, rows = known
        return whitening.classifier(labels.T @ rows)

    def reduction(self, features: npt.NDArray[Any]) -> Reduction:
        """What was lost of features that were factored here."""
        known = self._known.get(name_of(features))
        if known is None:
            return Reduction(features.shape[1], features.shape[1], 0.0, 0.0)
        return known[1].reduction


def _whiten_few(features: npt.NDArray[Any], ridge: float, keep: int) -> Whitening:
    """As ``Moments.whiten``, from the smaller PXX'P when there are fewer rows than features.

    With PXX'P U = U S, the directions are X'P U S^(-1/2). Those with an eigenvalue of 0 to rounding
    error explain nothing, and are omitted.
    """
    m, d = features.shape
    mean = features.mean(axis=0, dtype=np.float64)
    gram = np.zeros((m, m), order="F")
    for columns in _blocks(d):
        block = features[:, columns] - mean[columns]
        gram = blas.dsyrk(1.0, block.T, beta=1.0, c=gram, trans=1, lower=1, overwrite_c=1)
    variance = float(np.trace(gram))
    values, vectors = leading(gram, keep)
    rank = int((values[:keep] > d * np.finfo(np.float64).eps * values[0]).sum())
    rank = max(rank, 1)  # 0 if all rows are equal: then any direction will do
    values, vectors = values[: rank + 1], vectors[:, :rank]
    basis = np.empty((d, rank))
    for columns in _blocks(d):
        basis[columns] = (features[:, columns] - mean[columns]).T @ vectors
    basis /= np.sqrt(np.maximum(values[:rank], np.finfo(np.float64).tiny))
    return reduced(mean, m, ridge, values, basis, variance)


def _blocks(size: int) -> list[slice]:
    return [slice(first, first + _COLUMNS) for first in range(0, size, _COLUMNS)]

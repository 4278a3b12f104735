"""``cost.py`` for features reduced to their leading principal directions, in memory.

Factor rows become narrower and passes cheaper; the loss is bounded (``moments.Reduction``).
Classifiers apply to the original features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from objectstates.solver.cost import ClusteringCost, Factored, factored
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


def factored_reduced(
    features: npt.NDArray[Any], ridge: float, keep: int
) -> tuple[Factored, Reduction]:
    """`cost.factored` of features reduced to ``keep`` directions, and what that loses.

    Features of no higher rank than that are not reduced.
    """
    m, d = features.shape
    if keep >= min(m - 1, d):  # centred, M rows have a rank of M - 1 at most
        return factored(features, ridge), Reduction(d, d, 0.0, 0.0)
    if m <= d:
        whitening = _whiten_few(features, ridge, keep)
    else:
        every = ArrayRows(features)
        whitening = measure(every, shift_of(every)).whiten(ridge, keep)
    rows = whitening.factor(features)
    cost = ClusteringCost(rows, False, ridge)
    return Factored(cost, lambda y, _: whitening.classifier(y.T @ rows)), whitening.reduction


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

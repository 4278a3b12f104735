"""The discriminative clustering cost, with the classifier minimised out.

For labels Y (M, K) and features X (M, d), with a bias b that is not regularised,

    g(Y) = min_{W,b}  1/(2M) |Y - XW - b|^2 + ridge/2 |W|^2  =  1/(2M) tr(Y' A Y),

    A = P - PX (X'PX + M ridge I)^-1 X'P,        P = I - 11'/M  (centring).

A is factored once, on the smaller side, and everything else reads rows of the factor:

* few samples (M <= d): A itself, as M ridge (PXX'P + M ridge I)^-1 less its part along 1;
* few features: A = I - F F', with F = [1/sqrt(M), P X L^-T] and L L' = X'PX + M ridge I.

The residual of the best classifier is Y - XW - b = A Y, so its scores are Y - A Y.

``reference.py`` defines the same cost densely: change it there first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack

from objectstates.base.errors import SettingError
from objectstates.base.jit import compiled_exactly
from objectstates.solver.oracle import Floats, Ints

TOO_LARGE = (
    "the features are too large for so small a ridge: scale them to unit length, or raise "
    "`mu` (states) or `lam` (action)"
)
_COLUMNS = 1024  # columns (or rows) converted to float64 at a time, to need little memory
_ROWS = 64  # the same for thin products: these fit into the processor's cache


def normaliser(n_rows: int) -> int:
    """2M, by which sums of squares over M rows are divided; 2 where there are none."""
    return 2 * max(n_rows, 1)


@dataclass(frozen=True)
class ClusteringCost:
    """The quadratic form A of one set of features.

    rows : (M, r) float64, A itself when ``dense`` (r = M), else the factor F of A = I - F F'.
    ridge : weight of |W|^2 / 2.
    """

    rows: Floats
    dense: bool
    ridge: float

    @property
    def n_samples(self) -> int:
        return len(self.rows)

    def residual(self, labels: Floats) -> Floats:
        """A Y: the residual of the best classifier, (M, K)."""
        if self.dense:
            return self.rows @ labels
        return labels - self.rows @ (self.rows.T @ labels)

    def value(self, labels: Floats) -> float:
        """g(Y)."""
        return float(np.vdot(labels, self.residual(labels))) / normaliser(self.n_samples)


def factorise(features: npt.NDArray[np.floating], ridge: float) -> ClusteringCost:
    """Factor the clustering cost of ``features`` (M, d), in float64 whatever their type."""
    m, d = features.shape
    if m == 0:
        return ClusteringCost(np.empty((0, 0)), True, ridge)
    if m <= d:
        return ClusteringCost(_dense(features, ridge), True, ridge)
    return ClusteringCost(_low_rank(features, ridge), False, ridge)


@dataclass(frozen=True, eq=False)
class Factored:
    """The cost of some features, and the classifiers that it minimises out.

    classifier : computes (W, b), (d, K) and (K,), from labels (M, K) and their residual A Y.
    """

    cost: ClusteringCost
    classifier: Callable[[Floats, Floats], tuple[Floats, Floats]]


def factored(features: npt.NDArray[np.floating], ridge: float) -> Factored:
    """`factorise` and `linear_classifier` of the same features."""
    return Factored(
        factorise(features, ridge),
        lambda labels, residual: linear_classifier(features, labels, residual, ridge),
    )


def linear_classifier(
    features: npt.NDArray[np.floating], labels: Floats, residual: Floats, ridge: float
) -> tuple[Floats, Floats]:
    """The classifier (W, b) that attains the cost's minimum, from the residual A Y.

    W = X'P A Y / (M ridge) holds on both sides of the factorisation. Centring the residual is the
    same as centring the features, which are read once.
    """
    return part_classifier(features, np.arange(len(features)), labels, residual, ridge)


def part_classifier(
    features: npt.NDArray[np.floating], rows: Ints, labels: Floats, residual: Floats, ridge: float
) -> tuple[Floats, Floats]:
    """The same for ``rows`` (m,) of the features alone, which labels and residual (m, K) are of."""
    m = len(rows)
    left = np.zeros((len(features), labels.shape[1] + 1))
    left[rows, :-1] = residual - residual.mean(axis=0)
    left[rows, -1] = 1.0  # sums the features, for their mean
    sums = np.zeros((left.shape[1], features.shape[1]))
    for first in range(0, len(features), _ROWS):
        some = slice(first, first + _ROWS)
        sums += left[some].T @ features[some].astype(np.float64)
    weights = sums[:-1].T / (m * ridge)
    return weights, labels.mean(axis=0) - sums[-1] / m @ weights


def _dense(features: npt.NDArray[np.floating], ridge: float) -> Floats:
    m, d = features.shape
    gram = np.zeros((m, m), order="F")
    for first in range(0, d, _COLUMNS):
        block = features[:, first : first + _COLUMNS].astype(np.float64)
        block -= block.mean(axis=0)
        gram = blas.dsyrk(1.0, block.T, beta=1.0, c=gram, trans=1, lower=1, overwrite_c=1)
    # Centred, the Gram matrix is singular along 1: there its inverse is 1/(M ridge) and A is 0, a
    # difference of large numbers. A shift to the size of the other eigenvalues avoids cancellation.
    lift = float(np.trace(gram)) / m + m * ridge
    gram += lift / m
    _add_to_diagonal(gram, m * ridge)
    inverse, _ = lapack.dpotri(_cholesky(gram), lower=1, overwrite_c=1)
    mirror(inverse.T, m * ridge, -m * ridge / (m * ridge + lift) / m)
    return np.ascontiguousarray(inverse.T)


def _low_rank(features: npt.NDArray[np.floating], ridge: float) -> Floats:
    m, d = features.shape
    mean = features.mean(axis=0, dtype=np.float64)
    gram = np.zeros((d, d), order="F")
    factor = np.empty((m, d + 1))
    factor[:, 0] = m**-0.5
    for first in range(0, m, _COLUMNS):
        block = features[first : first + _COLUMNS] - mean
        factor[first : first + _COLUMNS, 1:] = block
        gram = blas.dsyrk(1.0, block.T, beta=1.0, c=gram, trans=0, lower=1, overwrite_c=1)
    lower = cholesky_of_gram(gram, m * ridge)
    for first in range(0, m, _COLUMNS):
        block = factor[first : first + _COLUMNS, 1:].T  # L^-1 (PX)' is the transpose of P X L^-T
        factor[first : first + _COLUMNS, 1:] = blas.dtrsm(1.0, lower, block, lower=1).T
    return factor


def cholesky_of_gram(gram: Floats, ridge: float) -> Floats:
    """The lower factor of gram + ridge I; only the lower triangles are read and written.

    ``gram`` (Fortran order) is overwritten.
    """
    _add_to_diagonal(gram, ridge)
    return _cholesky(gram)


def _add_to_diagonal(matrix: Floats, value: float) -> None:
    matrix[np.diag_indices(len(matrix))] += value


def _cholesky(matrix: Floats) -> Floats:
    lower, info = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    if info != 0:
        raise SettingError(TOO_LARGE)
    return lower  # type: ignore[no-any-return]


@compiled_exactly
def mirror(matrix: Floats, scale: float = 1.0, shift: float = 0.0) -> None:
    """Copy the upper triangle onto the lower one, tile by tile, as ``scale * x + shift``."""
    m, tile = len(matrix), 64
    for top in range(0, m, tile):
        for left in range(top, m, tile):
            for i in range(top, min(top + tile, m)):
                for j in range(max(left, i), min(left + tile, m)):
                    value = scale * matrix[i, j] + shift
                    matrix[i, j] = value
                    matrix[j, i] = value

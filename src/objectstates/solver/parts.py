"""The clustering cost of some of the rows, from that of all of them.

With S the rows that are kept and D the others, the labels of D are left free and minimised out:

    A_S = A_SS - A_SD (A_DD)^-1 A_DS,

the Schur complement. It is the quadratic form of the features of S alone, centred anew, with the
same ridge per sum of squared errors: c = M ridge for M rows becomes c / |S| per row. That takes
|S|^2 |D| operations, where a Gram matrix of the features, its Cholesky factor and the inverse take
several times as many. In the other form, A = I - F F', it is

    A_S = I - F_S (I - F_D' F_D)^-1 F_S'.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack

from objectstates.base.errors import SettingError
from objectstates.base.jit import compiled_exactly
from objectstates.solver.cost import TOO_LARGE, ClusteringCost, mirror
from objectstates.solver.oracle import Floats, Ints


def cost_of_part(cost: ClusteringCost, rows: Ints) -> ClusteringCost:
    """The cost of ``rows`` (m,) alone, in increasing order, with the ridge in the same units."""
    left = np.ones(cost.n_samples, np.bool_)
    left[rows] = False
    m, others = len(rows), np.flatnonzero(left)
    if not m:
        return ClusteringCost(np.empty((0, 0)), True, cost.ridge)
    ridge = cost.ridge * cost.n_samples / m
    if not len(others):
        return ClusteringCost(cost.rows, cost.dense, ridge)
    if cost.dense:
        return ClusteringCost(_dense_part(cost.rows, rows, others), True, ridge)
    return ClusteringCost(_low_rank_part(cost.rows, rows, others), False, ridge)


def cost_without_columns(cost: ClusteringCost, columns: npt.NDArray[np.floating]) -> ClusteringCost:
    """The dense cost of features without their ``columns`` (M, k), which are few.

    With c = M ridge and the columns C it is A + A C (c I - C' A C)^-1 C' A.
    """
    assert cost.dense
    c = cost.n_samples * cost.ridge
    product = cost.rows @ columns.astype(np.float64)
    inner = np.diag(np.full(product.shape[1], c)) - columns.T.astype(np.float64) @ product
    lower = _cholesky(np.asfortranarray(inner))
    half = blas.dtrsm(1.0, lower, np.asfortranarray(product.T), lower=1)
    return ClusteringCost(_plus_square(cost.rows.copy(), half, 1.0), True, cost.ridge)


def _dense_part(rows: Floats, kept: Ints, others: Ints) -> Floats:
    lower = _cholesky(_block(rows, others, others).T)  # symmetric, in Fortran order
    half = blas.dtrsm(1.0, lower, _block(rows, kept, others).T, lower=1, overwrite_b=1)
    return _plus_square(_block(rows, kept, kept), half, -1.0)


@compiled_exactly
def _block(matrix: Floats, rows: Ints, columns: Ints) -> Floats:
    """``matrix[rows][:, columns]`` without a copy of the rows."""
    block = np.empty((len(rows), len(columns)))
    for i in range(len(rows)):
        for j in range(len(columns)):
            block[i, j] = matrix[rows[i], columns[j]]
    return block


def _plus_square(matrix: Floats, half: Floats, scale: float) -> Floats:
    """The symmetric ``matrix`` + scale H'H of ``half`` H (Fortran order); it is overwritten."""
    blas.dsyrk(scale, half, beta=1.0, c=matrix.T, trans=1, lower=1, overwrite_c=1)
    mirror(matrix)
    return matrix


def _low_rank_part(rows: Floats, kept: Ints, others: Ints) -> Floats:
    inner = blas.dsyrk(-1.0, rows[others].T, lower=1)
    inner[np.diag_indices(len(inner))] += 1.0
    lower = _cholesky(inner)
    return np.ascontiguousarray(blas.dtrsm(1.0, lower, rows[kept].T, lower=1, overwrite_b=1).T)


def _cholesky(matrix: Floats) -> Floats:
    lower, info = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    if info != 0:
        raise SettingError(TOO_LARGE)
    return lower  # type: ignore[no-any-return]

"""The clustering cost of features that do not fit in memory, from their moments.

The cost needs X'PX, a d x d matrix that is a sum over rows: each shard sums its part (``measure``),
the parts are added and factored once (``Moments.whiten``). Row i of the factor is then
F_i = [1/sqrt(M), L^-1 (x_i - mean)], with A = I - F F' (``cost.py``).

Wide features can be reduced to their K leading principal directions V, the eigenvectors of X'PX:
F_i = [1/sqrt(M), L^-1 V'(x_i - mean)] with L L' = V'X'PXV + M ridge I is then K wide. That is the
same cost with the classifier's weights restricted to the span of V, so no labels cost less; the
eigenvalues bound how much more they cost (``Reduction``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, eigh

from objectstates.base.errors import SettingError
from objectstates.solver.cost import TOO_LARGE, cholesky_of_gram, normaliser
from objectstates.solver.oracle import Floats, Labels

_ROWS = 4096  # read and converted to float64 at a time


class FeatureRows(Protocol):
    """Features (M, d) that need not be in memory."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    def read(self, lo: int, hi: int) -> npt.NDArray[np.float32]:
        """The rows lo to hi."""
        ...


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Features that are an array, or a memory-mapped one."""

    array: npt.NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        return self.array.shape[0], self.array.shape[1]

    def read(self, lo: int, hi: int) -> npt.NDArray[Any]:
        return self.array[lo:hi]


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over rows, in float64, of x - shift and of its products with itself.

    The shift, some point among the rows, avoids cancellation when the mean's square is subtracted.
    Only the lower triangle of ``products`` is used.
    """

    shift: Floats  # (d,)
    n_rows: int
    total: Floats  # (d,)
    products: Floats  # (d, d)

    def __add__(self, other: Moments) -> Moments:
        """The moments of both sets of rows; the shift must be the same."""
        return Moments(
            self.shift,
            self.n_rows + other.n_rows,
            self.total + other.total,
            self.products + other.products,
        )

    def whiten(self, ridge: float, keep: int | None = None) -> Whitening:
        """Factor X'PX + M ridge I, or its restriction to the ``keep`` leading directions."""
        m, d = self.n_rows, len(self.shift)
        offset = self.total / max(m, 1)
        mean = self.shift + offset
        gram = np.asfortranarray(self.products - m * np.outer(offset, offset))
        if keep is not None and keep < d and m:
            variance = float(np.trace(gram))
            values, basis = leading(gram, keep)
            return reduced(mean, m, ridge, values, basis, variance)
        lower = cholesky_of_gram(gram, m * ridge) if m else np.eye(d)
        return Whitening(mean, np.tril(lower), m)


def shift_of(features: FeatureRows) -> Floats:
    """The mean of the first rows."""
    rows = features.read(0, min(_ROWS, features.shape[0]))
    return rows.mean(axis=0, dtype=np.float64) if len(rows) else np.zeros(features.shape[1])


def measure(features: FeatureRows, shift: Floats) -> Moments:
    """The moments of ``features``, read once."""
    m, d = features.shape
    total, products = np.zeros(d), np.zeros((d, d), order="F")
    for lo in range(0, m, _ROWS):
        rows = features.read(lo, min(lo + _ROWS, m)) - shift
        total += rows.sum(axis=0)
        products = blas.dsyrk(1.0, rows.T, beta=1.0, c=products, trans=0, lower=1, overwrite_c=1)
    return Moments(shift, m, total, products)


@dataclass(frozen=True, eq=False)
class Whitening:
    """The map from features to factor rows; the same for all rows of all shards.

    mean : (d,) of all rows. lower : (r, r) the L of L L' = X'PX + M ridge I. n_rows : M.
    basis : (d, r) orthonormal columns that the centred features are projected on first; None if
        they are not reduced, r = d.
    variance_lost, error_share : as in ``Reduction``.
    """

    mean: Floats
    lower: Floats
    n_rows: int
    basis: Floats | None = None
    variance_lost: float = 0.0
    error_share: float = 0.0

    @property
    def n_kept(self) -> int:
        """r, the size of the reduced features."""
        return len(self.lower)

    @property
    def reduction(self) -> Reduction:
        """What the projection loses."""
        return Reduction(len(self.mean), self.n_kept, self.variance_lost, self.error_share)

    def factor(self, features: npt.NDArray[Any]) -> Floats:
        """The factor rows (m, 1 + r) of features (m, d)."""
        rows = np.empty((len(features), 1 + self.n_kept))
        rows[:, 0] = max(self.n_rows, 1) ** -0.5
        centred = features - self.mean
        if self.basis is not None:
            centred = centred @ self.basis
        columns = np.asfortranarray(centred.T)
        rows[:, 1:] = blas.dtrsm(1.0, self.lower, columns, lower=1, overwrite_b=1).T
        return rows

    def classifier(self, factor_sums: Floats) -> tuple[Floats, Floats]:
        """The classifier (W, b), (d, K) and (K,), of labels with these factor sums (K, 1 + r).

        It applies to the original features, reduced or not.
        """
        right = np.asfortranarray(factor_sums[:, 1:].T)
        weights = blas.dtrsm(1.0, self.lower, right, lower=1, trans_a=1)
        if self.basis is not None:
            weights = self.basis @ weights
        label_means = factor_sums[:, 0] * max(self.n_rows, 1) ** -0.5
        return weights, label_means - self.mean @ weights


@dataclass(frozen=True)
class Reduction:
    """What is lost when features are reduced to their leading directions.

    size, kept : size of the features before and after; equal if nothing was reduced.
    variance_lost : share of the features' variance in the omitted directions.
    error_share : labels Y cost at most this share of |PY|^2 / 2M more than with all features, and
        never less. It is s / (s + M ridge) for the largest omitted eigenvalue s of X'PX: with
        PX = U S^(1/2) V', A = P - sum_i s_i / (s_i + M ridge) u_i u_i', and the reduced A is the
        same sum over the kept directions. The omitted terms are orthogonal, the first the largest.
    """

    size: int
    kept: int
    variance_lost: float
    error_share: float

    def cost_error(self, labels: Labels) -> float:
        """An upper bound on the error of the cost of integer labels (M,), 0 for unlabelled."""
        m = max(len(labels), 1)
        counts = np.bincount(labels)[1:]
        return self.error_share * float((counts * (1 - counts / m)).sum()) / normaliser(m)


def leading(gram: Floats, keep: int) -> tuple[Floats, Floats]:
    """The ``keep + 1`` largest eigenvalues, descending, and the ``keep`` first eigenvectors.

    ``gram``, whose lower triangle is read, is overwritten; it must be larger than ``keep``.
    """
    size = len(gram)
    if not np.isfinite(np.trace(gram)):  # the sum of all squares
        raise SettingError(TOO_LARGE)
    values, vectors = eigh(
        gram, lower=True, subset_by_index=(size - keep - 1, size - 1), overwrite_a=True,
        check_finite=False,
    )  # fmt: skip
    return np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors[:, :0:-1])


def reduced(
    mean: Floats, n_rows: int, ridge: float, values: Floats, basis: Floats, variance: float
) -> Whitening:
    """The whitening of centred features times ``basis`` (d, r).

    values : the first eigenvalues of X'PX, descending, one more than the basis has columns.
    variance : the sum of all eigenvalues.
    """
    kept, omitted = values[:-1], float(values[-1])
    omitted += len(mean) * float(np.finfo(np.float64).eps * values[0])  # rounding error
    return Whitening(
        mean,
        np.diag(np.sqrt(kept + n_rows * ridge)),
        n_rows,
        basis,
        variance_lost=max(1 - float(kept.sum()) / variance, 0.0) if variance > 0 else 0.0,
        error_share=omitted / (omitted + n_rows * ridge),
    )

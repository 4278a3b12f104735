"""The clustering cost of features that are read a few rows at a time, and never all held.

The cost needs X'PX, a d x d matrix that is a sum over rows: parts of it are measured wherever the
rows are (``measure``), added, and factored once (``Moments.whiten``). Then each row has its factor
row F_i = [1/sqrt(M), L^-1 (x_i - mean)], of which A = I - F F' (``cost.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from objectstates.solver.cost import cholesky_of_gram
from objectstates.solver.oracle import Floats

_ROWS = 4096  # read and widened to float64 at a time


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

    The shift, some point among the rows, is there for the digits: without it the mean's square
    would be added here only to be taken off again. The lower triangle of ``products`` counts.
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

    def whiten(self, ridge: float) -> Whitening:
        """Factor X'PX + M ridge I."""
        m, d = self.n_rows, len(self.shift)
        offset = self.total / max(m, 1)
        gram = np.asfortranarray(self.products - m * np.outer(offset, offset))
        lower = cholesky_of_gram(gram, m * ridge) if m else np.eye(d)
        return Whitening(self.shift + offset, np.tril(lower), m)


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
    """What makes factor rows of features; the same for all rows, wherever they are.

    mean : (d,) of all rows. lower : (d, d) the L of L L' = X'PX + M ridge I. n_rows : M.
    """

    mean: Floats
    lower: Floats
    n_rows: int

    def factor(self, features: npt.NDArray[Any]) -> Floats:
        """The factor rows (m, 1 + d) of features (m, d)."""
        rows = np.empty((len(features), 1 + len(self.mean)))
        rows[:, 0] = max(self.n_rows, 1) ** -0.5
        centred = np.asfortranarray((features - self.mean).T)
        rows[:, 1:] = blas.dtrsm(1.0, self.lower, centred, lower=1, overwrite_b=1).T
        return rows

    def classifier(self, whole: Floats) -> tuple[Floats, Floats]:
        """The classifier (W, b), (d, K) and (K,), of labels whose F'Y is ``whole`` (K, 1 + d)."""
        right = np.asfortranarray(whole[:, 1:].T)
        weights = blas.dtrsm(1.0, self.lower, right, lower=1, trans_a=1)
        label_means = whole[:, 0] * max(self.n_rows, 1) ** -0.5
        return weights, label_means - self.mean @ weights

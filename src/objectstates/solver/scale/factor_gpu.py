"""``cost.py`` on a GPU: factorisation and classifiers by torch, in float64.

Results are arrays in host memory, where the solver takes its steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import SettingError
from objectstates.base.torch_utils import solver_device
from objectstates.solver import cost
from objectstates.solver.cost import ClusteringCost
from objectstates.solver.oracle import Floats


class HostAlgebra:
    """The functions of ``cost.py``."""

    def factorise(self, features: npt.NDArray[Any], ridge: float) -> ClusteringCost:
        return cost.factorise(features, ridge)

    def linear_classifier(
        self, features: npt.NDArray[Any], labels: Floats, residual: Floats, ridge: float
    ) -> tuple[Floats, Floats]:
        return cost.linear_classifier(features, labels, residual, ridge)


class DeviceAlgebra(HostAlgebra):
    """The same on a ``torch.device``; features are copied there once and cached."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._cache: dict[Any, tuple[npt.NDArray[Any], Any]] = {}

    def factorise(self, features: npt.NDArray[Any], ridge: float) -> ClusteringCost:
        m, d = features.shape
        if m == 0 or d == 0:
            return cost.factorise(features, ridge)
        centred = self._on_device(features).double()
        centred -= centred.mean(0)
        if m <= d:
            return ClusteringCost(_host(self._dense(centred, ridge)), True, ridge)
        return ClusteringCost(_host(self._low_rank(centred, ridge)), False, ridge)

    def linear_classifier(
        self, features: npt.NDArray[Any], labels: Floats, residual: Floats, ridge: float
    ) -> tuple[Floats, Floats]:
        import torch

        m = len(features)
        rows = self._on_device(features).double()
        mean = rows.mean(0)
        right = torch.as_tensor(np.ascontiguousarray(residual), device=self._device)
        weights = ((rows - mean).T @ right) / (m * ridge)
        bias = labels.mean(axis=0) - _host(mean @ weights)
        return _host(weights), bias

    def _on_device(self, features: npt.NDArray[Any]) -> Any:
        import torch

        key = name_of(features)
        if key not in self._cache:  # with the array, so that its address is not reused
            self._cache[key] = features, torch.tensor(features, device=self._device)
        return self._cache[key][1]

    def _dense(self, centred: Any, ridge: float) -> Any:
        """A itself; the lift is explained in ``cost.py``."""
        import torch

        m = len(centred)
        gram = centred @ centred.T
        lift = float(gram.trace()) / m + m * ridge
        gram += lift / m
        gram.diagonal().add_(m * ridge)
        identity = torch.eye(m, dtype=gram.dtype, device=gram.device)
        inverse = torch.cholesky_solve(identity, _cholesky(gram))
        inverse = (inverse + inverse.T) / 2
        return m * ridge * inverse - m * ridge / (m * ridge + lift) / m

    def _low_rank(self, centred: Any, ridge: float) -> Any:
        """The factor F of A = I - F F'."""
        import torch

        m = len(centred)
        gram = centred.T @ centred
        gram.diagonal().add_(m * ridge)
        rows = torch.linalg.solve_triangular(_cholesky(gram), centred.T, upper=False).T
        return torch.cat([torch.full_like(rows[:, :1], m**-0.5), rows], 1)


def name_of(features: npt.NDArray[Any]) -> Any:
    """A cache key: unique among arrays that are alive, equal for views of the whole array."""
    return features.ctypes.data, features.shape, features.strides, features.dtype.str


def algebra_on(device: str) -> HostAlgebra:
    """Of ``device``: "cpu" is SciPy, "cuda" torch."""
    return HostAlgebra() if device == "cpu" else DeviceAlgebra(solver_device(device))


def _cholesky(matrix: Any) -> Any:
    import torch

    lower, failed = torch.linalg.cholesky_ex(matrix)
    if int(failed):
        raise SettingError(cost.TOO_LARGE)
    return lower


def _host(tensor: Any) -> Floats:
    """A copy in memory allocated by NumPy, which uses huge pages for large arrays."""
    import torch

    array = np.empty(tuple(tensor.shape))
    torch.from_numpy(array).copy_(tensor)
    return array

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
from objectstates.solver.cost import ClusteringCost, Factored
from objectstates.solver.oracle import Floats


def factored_on(device: str, features: npt.NDArray[Any], ridge: float) -> Factored:
    """`cost.factored` by torch on ``device``, where the features stay for the classifiers."""
    place = solver_device(device)  # which names the extra if torch is missing
    import torch

    m, d = features.shape
    if m == 0 or d == 0:
        return cost.factored(features, ridge)
    rows = torch.tensor(features, device=place)

    def classifier(labels: Floats, residual: Floats) -> tuple[Floats, Floats]:
        wide = rows.double()
        mean = wide.mean(0)
        right = torch.as_tensor(np.ascontiguousarray(residual), device=place)
        weights = ((wide - mean).T @ right) / (m * ridge)
        return _host(weights), labels.mean(axis=0) - _host(mean @ weights)

    wide = rows.double()
    centred = wide - wide.mean(0)
    dense = m <= d
    form = _dense(centred, ridge) if dense else _low_rank(centred, ridge)
    return Factored(ClusteringCost(_host(form), dense, ridge), classifier)


def _dense(centred: Any, ridge: float) -> Any:
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


def _low_rank(centred: Any, ridge: float) -> Any:
    """The factor F of A = I - F F'."""
    import torch

    m = len(centred)
    gram = centred.T @ centred
    gram.diagonal().add_(m * ridge)
    rows = torch.linalg.solve_triangular(_cholesky(gram), centred.T, upper=False).T
    return torch.cat([torch.full_like(rows[:, :1], m**-0.5), rows], 1)


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

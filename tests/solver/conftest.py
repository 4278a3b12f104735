"""One fixture runs a test on every backend of the solver."""

import sys

import pytest

from objectstates.base.torch_utils import cpu_threads
from tests.solver.backends import BACKENDS, Backend


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request) -> Backend:
    """A backend; skipped where what it needs is not installed."""
    return BACKENDS[request.param]()


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors are small here, and tests run side by side: more threads would only contend."""
    if "torch" not in sys.modules:
        yield
        return
    with cpu_threads(1):
        yield

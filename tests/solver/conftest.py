"""One fixture runs a test on every backend of the solver."""

import pytest

from tests.solver.backends import BACKENDS, Backend


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request) -> Backend:
    """A backend; skipped where what it needs is not installed."""
    return BACKENDS[request.param]()

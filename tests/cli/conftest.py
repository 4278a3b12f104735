"""What tests of commands share."""

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """The graph of the backbone is shared by all tests, and with those of ingest."""
    monkeypatch.setenv("OBJECTSTATES_CACHE", str(tmp_path_factory.getbasetemp() / "graphs"))

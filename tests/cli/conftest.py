"""What tests of commands share."""

import sys

import pytest

from objectstates import cli


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line in this process: exit code, stdout, stderr."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["objectstates", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return call


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """The graph of the backbone is shared by all tests, and with those of ingest."""
    monkeypatch.setenv("OBJECTSTATES_CACHE", str(tmp_path_factory.getbasetemp() / "graphs"))

"""What tests share: the data beside the repository, where it is present."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from objectstates import cli

SHARED = Path(os.environ.get("OBJECTSTATES_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the answers of the authors' code; not everyone has it."""
    if not (SHARED / "reference").is_dir():
        pytest.skip(f"{SHARED} is not here: no comparison with the authors' code")
    return SHARED


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

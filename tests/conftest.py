"""What tests share: the data beside the repository, where it is present."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("OBJECTSTATES_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the answers of the authors' code; not everyone has it."""
    if not (SHARED / "reference").is_dir():
        pytest.skip(f"{SHARED} is not here: no comparison with the authors' code")
    return SHARED

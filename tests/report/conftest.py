from __future__ import annotations

from pathlib import Path

import pytest

from objectstates import Result, write_report
from tests.report.scenes import make_result


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="session")
def result(folder: Path) -> Result:
    """Of clips whose videos lie in ``folder / 'videos'``."""
    (folder / "videos").mkdir()
    return make_result(folder / "videos")


@pytest.fixture(scope="session")
def page(result: Result, folder: Path) -> Path:
    return write_report(result, folder / "report.html", processes=1)

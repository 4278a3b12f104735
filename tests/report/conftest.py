from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from objectstates import Result, write_report
from objectstates.data.corpus import UNKNOWN
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


@pytest.fixture(scope="session")
def unjudged(result: Result) -> Result:
    """The same result without any truth."""
    chunks, tracklets = result.corpus.chunks, result.corpus.tracklets
    corpus = replace(
        result.corpus,
        chunks=replace(chunks, label=np.full_like(chunks.label, UNKNOWN)),
        tracklets=replace(tracklets, label=np.full_like(tracklets.label, UNKNOWN)),
    )
    return replace(result, corpus=corpus)

"""Fixtures of all tests, and how a run is divided among processes."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from objectstates import cli

SHARED = Path(os.environ.get("OBJECTSTATES_SHARED", Path(__file__).parents[2] / "shared"))

TOGETHER = (
    ("tests/parallel/",),  # one Ray cluster at a time
    ("tests/cli/test_demo.py", "tests/docs/test_docs.py"),  # both ingest the clips of the demo
)
"""Beginnings of test names that one process runs, because they share more than a file's fixtures.

They also take longest, so they are started first.
"""

ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)


def pytest_configure(config: pytest.Config) -> None:
    """Give all processes of a run one cache; with several processes, one thread each.

    The cache (graphs of backbones, observed clips) is new for each run and deleted after it, so no
    test depends on the user's. Entries are written atomically, so processes may share it.
    """
    if hasattr(config, "workerinput"):
        return  # a process of pytest-xdist inherits the environment
    folder = tempfile.mkdtemp(prefix="objectstates-tests-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ["OBJECTSTATES_CACHE"] = folder
    # Ray lowers the priority of its workers (by 15): beside busy tests they would hardly run.
    os.environ.setdefault("RAY_worker_niceness", "0")
    if getattr(config.option, "numprocesses", None):
        os.environ.update(dict.fromkeys(ONE_THREAD, "1"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores: tests of Ray and of a browser mostly wait."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(cores, 7) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file is run by one process, which makes its fixtures once; so are files in `TOGETHER`."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            group = _group(nodeid)
            return TOGETHER[group][0] if group < len(TOGETHER) else super()._split_scope(nodeid)

    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests in `TOGETHER` first; all others keep their order."""
    items.sort(key=lambda item: _group(item.nodeid))


def _group(nodeid: str) -> int:
    return next(
        (n for n, starts in enumerate(TOGETHER) if nodeid.startswith(starts)), len(TOGETHER)
    )


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with the answers of the authors' code; tests are skipped where it is absent."""
    if not (SHARED / "reference").is_dir():
        pytest.skip(f"{SHARED} is not here: no comparison with the authors' code")
    return SHARED


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line in this process: exit code, stdout, stderr.

    However slow the machine, there is no progress on stderr.
    """
    monkeypatch.setattr("objectstates.cli.progress.PLAIN_SECONDS", float("inf"))

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["objectstates", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return call

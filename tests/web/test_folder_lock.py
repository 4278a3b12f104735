"""Two servers never have the same folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from objectstates.base.errors import WorkspaceError
from objectstates.web.folder_lock import FolderLock

HOLD = """
import sys, time
from objectstates.web.folder_lock import FolderLock
with FolderLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_says_so_and_the_folder_is_free_again_afterwards(tmp_path: Path) -> None:
    with (
        FolderLock(tmp_path),
        pytest.raises(WorkspaceError, match=r"another objectstates server.*Ctrl-C"),
        FolderLock(tmp_path),
    ):
        pass
    with FolderLock(tmp_path), FolderLock(tmp_path.parent):
        assert not list(tmp_path.iterdir())  # nothing is left in the user's folder


def test_a_killed_process_frees_the_folder(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(WorkspaceError), FolderLock(tmp_path / ".." / tmp_path.name):
            pass
        process.kill()
    with FolderLock(tmp_path):
        pass


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="missing"), FolderLock(tmp_path / "missing"):
        pass

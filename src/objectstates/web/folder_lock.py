"""One server per folder.

The lock is the system's, on the folder itself: it leaves no file behind, and a process that dies in
whatever way releases it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Self

from objectstates.base.cache import cache_folder, digest
from objectstates.base.errors import WorkspaceError


class FolderLock:
    """A context that holds a folder; raises `WorkspaceError` if another server has it."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._descriptor = -1
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            free = self._lock()
        except OSError as problem:
            raise WorkspaceError(
                f"cannot use {self._folder}: {problem.strerror or problem}"
            ) from problem
        if not free:
            raise WorkspaceError(
                f"{self._folder} is open in another objectstates server: use its page, or end it "
                "with Ctrl-C in its terminal"
            )
        return self

    def _lock(self) -> bool:
        """Whether the folder was free."""
        if os.name != "posix":
            return self._lock_file()
        import fcntl

        # Not inherited by child processes that are started anew (PEP 446).
        self._descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.__exit__()
            return False
        return True

    def _lock_file(self) -> bool:  # pragma: no cover
        """Windows: folders cannot be locked, but the first byte of a file in the cache can."""
        import msvcrt

        place = cache_folder() / "locks" / f"{digest(str(self._folder.resolve()))}.lock"
        place.parent.mkdir(parents=True, exist_ok=True)
        self._file = place.open("ab")
        try:
            msvcrt.locking(self._file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            self.__exit__()
            return False
        return True

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._file is not None:
            self._file.close()
            self._file = None

"""Atomic writing of files and folders, and artefact folders with a JSON header."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from objectstates.base.errors import ObjectStatesError, StorageError


@dataclass(frozen=True)
class Artefact:
    """A kind of artefact folder.

    header : its JSON file, with a ``format_version``; ``files`` are all other names in the folder.
    version : what is written; those from ``oldest`` on can be read.
    """

    header: str
    version: int
    files: frozenset[str]
    error: type[ObjectStatesError]
    oldest: int = 0  # 0: the version that is written

    @property
    def readable(self) -> range:
        return range(self.oldest or self.version, self.version + 1)

    def check_target(self, path: str | Path) -> Path:
        """Resolve the path; raise unless it is safe to overwrite.

        Only an empty folder, or an artefact of this kind without other files, may be replaced.
        """
        try:
            place = Path(path).resolve()
            if not place.exists() or self.is_ours(place):
                return place
        except (OSError, RuntimeError) as problem:
            raise self.error(f"cannot write {path}: {problem}") from problem
        raise self.error(
            f"{path} exists and holds something else: move it away or choose another folder"
        )

    def is_ours(self, place: Path) -> bool:
        """Whether the folder is empty, or an artefact of this kind without other files."""
        names = {entry.name for entry in place.iterdir()} if place.is_dir() else {""}
        if not names:
            return True
        if not names <= self.files | {self.header} or self.header not in names:
            return False
        try:
            header = json.loads((place / self.header).read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            return False
        return isinstance(header, dict) and "format_version" in header

    @contextmanager
    def writing(self, path: str | Path) -> Iterator[Path]:
        """A temporary folder that replaces ``path`` when the block succeeds."""
        try:
            with replacing(self.check_target(path)) as temporary:
                temporary.mkdir()
                yield temporary
        except OSError as problem:
            reason = problem.strerror or str(problem)
            raise self.error(f"cannot write {path}: {reason}") from problem

    def write_header(self, folder: Path, facts: dict[str, Any]) -> None:
        """Write the header as standard JSON, which has no NaN or infinity."""
        try:
            text = json.dumps({"format_version": self.version, **facts}, indent=1, allow_nan=False)
            (folder / self.header).write_text(text + "\n", encoding="utf-8")
        except (TypeError, ValueError, RecursionError) as problem:
            raise self.error(f"{self.header} can hold plain JSON only: {problem}") from problem

    def read_header(self, folder: Path) -> dict[str, Any]:
        """The JSON header; raise unless its format version is known."""
        path = folder / self.header
        try:
            header = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise self.error(f"{folder} has no {self.header}: is this the right folder?") from None
        except (OSError, ValueError, RecursionError) as problem:
            raise self.error(f"{path} cannot be read ({problem}): make it again") from problem
        found = header.get("format_version") if isinstance(header, dict) else None
        if type(found) is not int or found not in self.readable:
            known = " to ".join(dict.fromkeys(map(str, (self.readable[0], self.version))))
            raise self.error(
                f"{path} has format version {found!r}, but this version of objectstates reads "
                f"{known}: install the version that wrote it, or make it again"
            )
        return dict(header)


def make_folder(folder: Path, parameter: str) -> Path:
    """Create the folder unless it exists; errors name the ``parameter`` that chooses another."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise StorageError(
            f"{folder} cannot be made ({problem.strerror}): choose another folder with "
            f"`{parameter}`"
        ) from problem
    return folder


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path``, for a file or a folder that the block writes.

    It is renamed to ``path`` if the block succeeds, and removed otherwise: readers see all of the
    new content, or the earlier content. Parent folders are created. The random part of the name
    keeps threads and machines with a common disk apart; the process id tells whether a leftover
    may be removed (``app/workspace.py``).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)
    earlier = temporary.with_suffix(".old")
    try:
        yield temporary
        if temporary.is_dir() and path.is_dir():  # a rename replaces files and empty folders only
            path.rename(earlier)
        temporary.replace(path)
    finally:
        if earlier.exists() and not path.exists():
            earlier.rename(path)
        remove(earlier)
        remove(temporary)


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors after which nothing else can be written either."""


def temporary_name(path: Path) -> Path:
    """A new name beside ``path``, with the process that made it."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def exchange(first: Path, second: Path) -> None:
    """Exchange two folders of one file system, in one step where the system can (Linux).

    Elsewhere ``second`` is missing for an instant, and is put back if the other rename fails.
    """
    if _exchanged(first, second):
        return
    aside = temporary_name(second)
    second.rename(aside)
    try:
        first.rename(second)
    except OSError:
        aside.rename(second)
        raise
    aside.rename(first)


def _exchanged(first: Path, second: Path) -> bool:
    """Whether the system call that exchanges two paths did so."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    here, both = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if call(here, os.fsencode(first), here, os.fsencode(second), both) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(second))


def is_running(process: int) -> bool:
    """Whether a process exists; always true where that cannot be asked safely."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)  # signal 0 only checks that the process exists
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # the process of another user
    return True


def remove(path: Path) -> None:
    """Delete a file or a folder, as far as possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a file so that other processes see all of it or none; text as UTF-8."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)

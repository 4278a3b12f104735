"""Atomic writing of files and folders, and artefact folders with a JSON header."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
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

    It takes the place of ``path`` if the block succeeds, and is removed otherwise: readers see all
    of the new content, or the earlier content. Parent folders are created. What a killed run left
    of the same path is removed first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    clear_leftovers(path)
    temporary = temporary_name(path)
    try:
        yield temporary
        _take_place(temporary, path)
    finally:
        remove(temporary)


def _take_place(temporary: Path, path: Path) -> None:
    """Rename to ``path``; an earlier folder there is exchanged, for a rename replaces no folder."""
    both_folders = temporary.is_dir() and path.is_dir()
    try:
        if not both_folders:
            temporary.replace(path)
            return
    except OSError as problem:
        if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not temporary.is_dir():
            raise
    exchange(temporary, path)  # also if another process made the folder in between


# --- what killed runs leave behind ----------------------------------------------------------------

_LEFTOVER = re.compile(  # earlier versions wrote no place, or no token at all
    r"\.(?P<name>.+)\.(?P<process>\d+)"
    r"(?:-(?:(?P<place>[0-9a-f]{8})[0-9a-f]{8}|\w+))?\.(?P<kind>tmp|old)"
)
_FORGOTTEN_SECONDS = 24 * 3600.0  # after which a file of another machine's process is a leftover


def temporary_name(path: Path) -> Path:
    """A new name beside ``path``, with the process that made it and where that runs.

    The random part keeps threads apart. Process and place tell whether a leftover may be removed.
    """
    token = f"{os.getpid()}-{_place()}{secrets.token_hex(4)}"
    return path.with_name(f".{path.name}.{token}.tmp")


@cache
def _place() -> str:
    """A short hash of what process numbers refer to: this machine, or its container."""
    try:
        numbers = os.readlink("/proc/self/ns/pid")
    except OSError:
        numbers = ""
    return hashlib.blake2b(f"{platform.node()} {numbers}".encode(), digest_size=4).hexdigest()


def leftover_of(name: str) -> str | None:
    """The name that a temporary file or folder stands for; None if ``name`` is not of one."""
    match = _LEFTOVER.fullmatch(name)
    return None if match is None else match["name"]


def clear_leftovers(path: Path) -> None:
    """Remove temporary files and folders of ``path`` whose processes are gone.

    An earlier folder that was put aside (`exchange`) is put back if its place is empty.
    """
    try:
        names = [entry.name for entry in os.scandir(path.parent)]
    except OSError:
        return
    for name in names:
        match = _LEFTOVER.fullmatch(name)
        if match is None or match["name"] != path.name:
            continue
        leftover = path.with_name(name)
        if not _is_abandoned(leftover, match):
            continue
        if match["kind"] == "old" and not os.path.lexists(path):
            with suppress(OSError):
                leftover.rename(path)
        remove(leftover)


def _is_abandoned(leftover: Path, match: re.Match[str]) -> bool:
    if match["place"] in (None, _place()):
        return not is_running(int(match["process"]))
    try:
        return time.time() - leftover.lstat().st_mtime > _FORGOTTEN_SECONDS
    except OSError:
        return False


@contextmanager
def scratch_folder(parent: Path, name: str) -> Iterator[Path]:
    """A new folder for the duration of the context, that others cannot read.

    Those of the same name that killed runs left in ``parent`` are removed.
    """
    clear_leftovers(parent / name)
    folder = temporary_name(parent / name)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        remove(folder)


def exchange(first: Path, second: Path) -> None:
    """Exchange two folders of one file system, in one step where the system can (Linux).

    Elsewhere ``second`` is missing for an instant, and is put back if the other rename fails.
    """
    if _exchanged(first, second):
        return
    aside = temporary_name(second).with_suffix(".old")
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

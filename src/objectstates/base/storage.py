"""Folders and files on disk that are either whole or not there, and folders' JSON headers."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from objectstates.base.errors import ObjectStatesError, StorageError


@dataclass(frozen=True)
class Artefact:
    """A kind of folder that we write.

    header : its JSON file, which has a ``format_version``; ``files`` are all others it may have.
    """

    header: str
    version: int
    files: frozenset[str]
    error: type[ObjectStatesError]

    def check_target(self, path: str | Path) -> Path:
        """The real place of ``path``, once it is sure that writing there costs the user nothing.

        Only an empty folder, or one that holds an artefact of this kind and nothing else, may be
        replaced.
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
        """Whether the folder is empty, or an artefact of this kind and nothing else."""
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
        """A temporary folder that becomes ``path`` when the block ends well, else vanishes."""
        place = self.check_target(path)
        temporary = place.parent / f".{place.name}.{os.getpid()}.tmp"
        earlier = place.parent / f".{place.name}.{os.getpid()}.old"
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            yield temporary
            if place.exists():
                place.rename(earlier)
            temporary.rename(place)
        except OSError as problem:
            reason = problem.strerror or str(problem)
            raise self.error(f"cannot write {path}: {reason}") from problem
        finally:
            if earlier.exists() and not place.exists():
                earlier.rename(place)
            shutil.rmtree(earlier, ignore_errors=True)
            shutil.rmtree(temporary, ignore_errors=True)

    def write_header(self, folder: Path, facts: dict[str, Any]) -> None:
        """Write JSON that any reader takes: NaN, infinity and odd objects are refused."""
        try:
            text = json.dumps({"format_version": self.version, **facts}, indent=1, allow_nan=False)
            (folder / self.header).write_text(text + "\n", encoding="utf-8")
        except (TypeError, ValueError, RecursionError) as problem:
            raise self.error(f"{self.header} can hold plain JSON only: {problem}") from problem

    def read_header(self, folder: Path) -> dict[str, Any]:
        """The JSON header, once it is sure that this code knows the format."""
        path = folder / self.header
        try:
            header = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise self.error(f"{folder} has no {self.header}: is this the right folder?") from None
        except (OSError, ValueError, RecursionError) as problem:
            raise self.error(f"{path} cannot be read ({problem}): make it again") from problem
        found = header.get("format_version") if isinstance(header, dict) else None
        if found != self.version:
            raise self.error(
                f"{path} has format version {found!r}, but this version of objectstates reads "
                f"{self.version}: install the version that wrote it, or make it again"
            )
        return dict(header)


def made_folder(folder: Path, option: str) -> Path:
    """The folder, which is made unless it is there; ``option`` is how users choose another."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise StorageError(
            f"{folder} cannot be made ({problem.strerror}): choose another folder with {option}"
        ) from problem
    return folder


def write_whole(path: Path, text: str) -> None:
    """Write a text file under a temporary name and rename it; its folder is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)

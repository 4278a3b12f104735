"""Folders on disk that are either whole or not there, and their JSON headers."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from objectstates.errors import ObjectStatesError


@contextmanager
def whole_folder(path: Path, header: str, error: type[ObjectStatesError]) -> Iterator[Path]:
    """A temporary folder that becomes ``path`` when the block ends well, and vanishes otherwise.

    An earlier artefact of the same kind (one that has the file ``header``) or an empty folder is
    replaced; anything else in the way is refused, so that nothing of the user's is lost.
    """
    replaceable = (path / header).is_file() or (path.is_dir() and not any(path.iterdir()))
    if path.exists() and not replaceable:
        raise error(
            f"{path} exists and holds something else: move it away or choose another folder"
        )
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        temporary.mkdir(parents=True)
    except OSError as problem:
        raise error(f"cannot write {path}: {problem.strerror}") from problem
    try:
        yield temporary
        earlier = path.parent / f".{path.name}.{os.getpid()}.old"
        if path.exists():
            path.rename(earlier)
        temporary.rename(path)
        shutil.rmtree(earlier, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write JSON that any reader takes: NaN and infinity are refused."""
    path.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read_header(
    folder: Path, name: str, version: int, error: type[ObjectStatesError]
) -> dict[str, Any]:
    """The JSON header of an artefact, once it is sure that this code knows its format."""
    path = folder / name
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise error(f"{folder} has no {name}: is this the right folder?") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise error(f"{path} cannot be read ({problem}): make the folder again") from problem
    found = header.get("format_version") if isinstance(header, dict) else None
    if found != version:
        raise error(
            f"{path} has format version {found!r}, but this version of objectstates reads "
            f"{version}: install the version that wrote it, or make it again"
        )
    return dict(header)

"""A content-addressed store of arrays: what was computed once is not computed again.

A key is a digest of all that the result depends on (the video's bytes, settings, versions of code
and weights), so nothing needs to be invalidated: what changed has another key. Entries are written
under a temporary name and renamed; a damaged one counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]


def cache_folder() -> Path:
    """Where derived files are kept between runs: $OBJECTSTATES_CACHE, or the user's cache."""
    if own := os.environ.get("OBJECTSTATES_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "objectstates"


def write_atomically(path: Path, content: bytes) -> None:
    """Other processes see the whole file or none."""
    with _written_atomically(path) as file:
        file.write(content)


@contextmanager
def _written_atomically(path: Path) -> Iterator[IO[bytes]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            yield file
            file.close()
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink()
            raise


def digest(*facts: object) -> str:
    """A name for anything that JSON can say; the same facts give the same name everywhere."""
    text = json.dumps(facts, sort_keys=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def content_digest(path: Path) -> str:
    """A name for the bytes of a file, or of all files of a folder of images."""
    total = hashlib.blake2b(digest_size=20)
    files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    for file in files:
        with file.open("rb") as stream:
            own = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=20))
        total.update(f"{file.name if path.is_dir() else ''}\0{own.hexdigest()}\n".encode())
    return total.hexdigest()


class ArrayCache:
    """Named arrays by key, in a folder. Without a folder it keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def get(self, key: str) -> Arrays | None:
        if self.folder is None:
            return None
        try:
            with self._path(key).open("rb") as file, np.load(file, allow_pickle=False) as entry:
                return dict(entry)
        except (OSError, ValueError, zipfile.BadZipFile, KeyError, EOFError, TypeError):
            return None  # absent or damaged: to be computed

    def put(self, key: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        if self.folder is None:
            return
        with _written_atomically(self._path(key)) as file:
            np.savez(file, allow_pickle=False, **arrays)

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key}.npz"

"""A content-addressed store of arrays: what was computed once is not computed again.

A key is a digest of all that the result depends on (the video's bytes, settings, versions of code
and weights), so nothing needs to be invalidated: what changed has another key. Entries are written
under a temporary name and renamed; a damaged one counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import StorageError
from objectstates.base.row_table import GROUP, Rows
from objectstates.base.storage import replacing

Arrays = dict[str, npt.NDArray[Any]]


def cache_folder() -> Path:
    """Where derived files are kept between runs: $OBJECTSTATES_CACHE, or the user's cache."""
    if own := os.environ.get("OBJECTSTATES_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "objectstates"


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


_DAMAGE = (OSError, ValueError, zipfile.BadZipFile, KeyError, EOFError, TypeError)


class Entry:
    """Arrays that were kept together, read from their file when they are asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def is_whole(self) -> bool:
        """Whether it is there and undamaged; it is read once for that."""
        try:
            with zipfile.ZipFile(self._path) as archive:
                return archive.testzip() is None
        except _DAMAGE:
            return False

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        with self._reading() as archive, archive.open(f"{name}.npy") as file:
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))

    def shape(self, name: str) -> tuple[int, ...]:
        with self._reading() as archive, archive.open(f"{name}.npy") as file:
            return _read_header(file)[0]

    def groups(self, name: str, size: int = GROUP) -> Iterator[npt.NDArray[Any]]:
        """The rows of a table, ``size`` at a time."""
        with self._reading() as archive, archive.open(f"{name}.npy") as file:
            (n, *row), dtype = _read_header(file)
            for first in range(0, n, size):
                count = min(size, n - first)
                content = file.read(count * math.prod(row) * dtype.itemsize)
                yield np.frombuffer(content, dtype).reshape(count, *row)

    @contextmanager
    def _reading(self) -> Iterator[zipfile.ZipFile]:
        try:
            with zipfile.ZipFile(self._path) as archive:
                yield archive
        except _DAMAGE as problem:
            raise StorageError(
                f"{self._path} cannot be read ({problem}): delete it and run again"
            ) from problem


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array that lies row by row; its content follows."""
    np.lib.format.read_magic(file)
    shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
    if by_column:
        raise ValueError("a table lies column by column")
    return shape, dtype


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
        except _DAMAGE:
            return None  # absent or damaged: to be computed

    def entry(self, key: str) -> Entry:
        """As `get`, but the arrays stay where they are until they are asked for."""
        return Entry(self._path(key))

    def put(self, key: str, arrays: Mapping[str, npt.NDArray[Any] | Rows]) -> None:
        """Keep arrays; tables on disk go there by way of little memory."""
        if self.folder is None:
            return
        with (
            replacing(self._path(key)) as temporary,
            zipfile.ZipFile(temporary, "w") as archive,
        ):
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    _write_array(member, array)

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key}.npz"


def _write_array(file: IO[bytes], array: npt.NDArray[Any] | Rows) -> None:
    """As numpy's own files."""
    if isinstance(array, Rows):
        facts = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
        np.lib.format.write_array_header_1_0(file, facts)
        for rows in array.groups():
            file.write(rows.tobytes())
    else:
        np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)

"""A content-addressed cache of arrays on disk.

A key is a digest of all inputs of a computation (the video's bytes, settings, versions of code and
weights), so entries are never invalidated: a changed input has another key. Entries are written
atomically; a damaged entry counts as absent: the digest of all its bytes is its last bytes.
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
    """The folder for derived files: $OBJECTSTATES_CACHE, or one in the user's cache folder."""
    if own := os.environ.get("OBJECTSTATES_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "objectstates"


def digest(*values: object) -> str:
    """A hash of JSON values, the same on every machine."""
    text = json.dumps(values, sort_keys=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def content_digest(path: Path) -> str:
    """A hash of the content of a file, or of the files of a folder and their names."""
    total = hashlib.blake2b(digest_size=20)
    files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    for file in files:
        with file.open("rb") as stream:
            own = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=20))
        total.update(
            f"{file.name if path.is_dir() else ''}\0{own.hexdigest()}\n".encode(
                "utf-8", "surrogateescape"
            )
        )
    return total.hexdigest()


_DAMAGE = (OSError, ValueError, zipfile.BadZipFile, KeyError, EOFError, TypeError)
_SEAL = b"objectstates:"  # of the archive's comment, before the digest
_BLOCK = 1 << 20


def _seal(file: IO[bytes]) -> tuple[bytes, bytes]:
    """The digest that ends a file, and the digest of all bytes before it."""
    seal = hashlib.blake2b(digest_size=20)
    left = file.seek(0, os.SEEK_END) - 2 * seal.digest_size
    file.seek(0)
    while left > 0 and (block := file.read(min(left, _BLOCK))):
        seal.update(block)
        left -= len(block)
    return file.read(), seal.hexdigest().encode()


class Entry:
    """The arrays of one key, read from disk on access."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: zipfile.ZipFile | None = None

    def is_whole(self) -> bool:
        """Whether the entry exists and its digest is right; reads all of it."""
        try:
            with self._path.open("rb") as file:
                written, computed = _seal(file)
        except OSError:
            return False
        return written == computed

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        with self._reading() as archive, archive.open(f"{name}.npy") as file:
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))

    def shape(self, name: str) -> tuple[int, ...]:
        with self._reading() as archive, archive.open(f"{name}.npy") as file:
            return _read_header(file)[0]

    def groups(self, name: str, size: int = GROUP) -> Iterator[npt.NDArray[Any]]:
        """The rows of a 2-D array, ``size`` at a time."""
        with self._reading() as archive, archive.open(f"{name}.npy") as file:
            (n, *row), dtype = _read_header(file)
            for first in range(0, n, size):
                count = min(size, n - first)
                content = file.read(count * math.prod(row) * dtype.itemsize)
                yield np.frombuffer(content, dtype).reshape(count, *row)

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Open the file once for all arrays that are read in the context."""
        with self._reading() as archive:
            self._open = archive
            try:
                yield
            finally:
                self._open = None

    @contextmanager
    def _reading(self) -> Iterator[zipfile.ZipFile]:
        try:
            if self._open is not None:
                yield self._open
            else:
                with zipfile.ZipFile(self._path) as archive:
                    yield archive
        except _DAMAGE as problem:
            raise StorageError(
                f"{self._path} cannot be read ({problem}): delete it and run again"
            ) from problem


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of an array in C order; leaves the file at its content."""
    np.lib.format.read_magic(file)
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
    if fortran_order:
        raise ValueError("an array is in Fortran order")
    return shape, dtype


class ArrayCache:
    """Named arrays by key, in a folder; without a folder it stores nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def get(self, key: str) -> Arrays | None:
        if self.folder is None:
            return None
        if not self.entry(key).is_whole():
            return None  # absent or damaged
        try:
            with self._path(key).open("rb") as file, np.load(file, allow_pickle=False) as entry:
                return dict(entry)
        except _DAMAGE:
            return None

    def entry(self, key: str) -> Entry:
        """As `get`, but arrays are read on access."""
        return Entry(self._path(key))

    def put(self, key: str, arrays: Mapping[str, npt.NDArray[Any] | Rows]) -> None:
        """Store arrays; `Rows` are copied in groups of rows, never all at once."""
        if self.folder is None:
            return
        with replacing(self._path(key)) as temporary:
            with zipfile.ZipFile(temporary, "w") as archive:
                for name, array in arrays.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        _write_array(member, array)
                archive.comment = _SEAL + bytes(2 * 20)  # room for the digest
            with temporary.open("r+b") as file:
                room, seal = _seal(file)
                file.seek(-len(room), os.SEEK_END)
                file.write(seal)

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / f"{key}.npz"


def _write_array(file: IO[bytes], array: npt.NDArray[Any] | Rows) -> None:
    """Write in NumPy's .npy format."""
    if isinstance(array, Rows):
        header = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
        np.lib.format.write_array_header_1_0(file, header)
        for rows in array.groups():
            file.write(rows.tobytes())
    else:
        np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)

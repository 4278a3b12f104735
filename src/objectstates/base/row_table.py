"""Tables on disk that grow row by row, in constant memory."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from tempfile import SpooledTemporaryFile, gettempdir
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import StorageError

Array = npt.NDArray[Any]

GROUP = 64  # rows read at a time; 1.4 MB of the widest built-in features (5,568 x float32)
_IN_MEMORY = 1 << 18  # bytes; smaller tables need no file


class Rows:
    """A table of ``width`` columns; rows are appended, and read in groups.

    folder : place of the unnamed temporary file, which vanishes with the process. Should be on a
        disk: the system's temporary folder may be in memory.

    >>> rows = Rows(2, np.float32)
    >>> rows.extend([[1, 2], [3, 4]])
    >>> rows.extend([[5, 6]])
    >>> rows.shape, rows.read(1, 3).tolist()
    ((3, 2), [[3.0, 4.0], [5.0, 6.0]])
    """

    def __init__(self, width: int, dtype: npt.DTypeLike, folder: Path | None = None) -> None:
        self.width, self.dtype = width, np.dtype(dtype)
        self._count, self._folder = 0, folder
        self._file = SpooledTemporaryFile(_IN_MEMORY, dir=None if folder is None else str(folder))  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return self._count

    @property
    def shape(self) -> tuple[int, int]:
        return self._count, self.width

    def extend(self, rows: npt.ArrayLike) -> None:
        """Append rows (n, width)."""
        new = np.asarray(rows, self.dtype).reshape(-1, self.width)
        try:
            self._file.seek(0, 2)
            self._file.write(new.tobytes())
            self._file.flush()
        except OSError as problem:
            place = self._folder or gettempdir()
            raise StorageError(
                f"no room for observations in {place} ({problem.strerror}): free some, or choose "
                "another folder with `cache`"
            ) from problem
        self._count += len(new)

    def read(self, first: int = 0, last: int | None = None) -> Array:
        """Rows ``first`` to ``last`` (n, width); all by default."""
        first, last, _ = slice(first, last).indices(self._count)
        row = self.width * self.dtype.itemsize
        self._file.seek(first * row)
        content = self._file.read(max(last - first, 0) * row)
        return np.frombuffer(content, self.dtype).reshape(-1, self.width)

    def groups(self, size: int = GROUP) -> Iterator[Array]:
        """All rows, ``size`` at a time."""
        for first in range(0, self._count, size):
            yield self.read(first, first + size)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return self.read().astype(dtype or self.dtype)

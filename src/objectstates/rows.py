"""Tables that grow while a video is read, held once.

A list of rows that is stacked at its end is held twice, and that is when the memory of an ingest
peaks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Rows:
    """A table of ``width`` columns that rows are added to.

    >>> rows = Rows(2, np.float32)
    >>> rows.extend([[1, 2], [3, 4]])
    >>> rows.extend([[5, 6]])
    >>> rows.finish().tolist()
    [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    """

    def __init__(self, width: int, dtype: npt.DTypeLike) -> None:
        self._table: Array = np.empty((0, width), dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, rows: npt.ArrayLike) -> None:
        """Add rows, (n, width)."""
        new = np.asarray(rows, self._table.dtype).reshape(-1, self._table.shape[1])
        needed = self._count + len(new)
        if needed > len(self._table):
            # The system moves pages instead of copying them; a little room makes it rare.
            self._table.resize((needed + needed // 8 + 16, new.shape[1]), refcheck=False)
        self._table[self._count : needed] = new
        self._count = needed

    def finish(self) -> Array:
        """The table, (n, width), which is no longer ours."""
        table, width = self._table, self._table.shape[1]
        table.resize((self._count, width), refcheck=False)
        self._table, self._count = np.empty((0, width), table.dtype), 0
        return table


def stacked(parts: list[Array]) -> Array:
    """The rows of all parts as one table; the list is emptied on the way, so they are held once.

    >>> stacked([np.zeros((2, 3)), np.ones((1, 3))]).shape
    (3, 3)
    """
    if len(parts) == 1:
        return parts.pop()
    table = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    end = len(table)
    while parts:
        part = parts.pop()
        table[end - len(part) : end] = part
        end -= len(part)
    return table

"""Chunks: a clip cut into equal stretches, each described over a longer window around it.

The paper's 10 and 30 frames, in seconds at its 25 frames a second, whatever a video's own rate.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import SettingError
from objectstates.base.row_table import Rows

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

CHUNK_SECONDS = 0.4
WINDOW_SECONDS = 1.2


def chunk_intervals(start: float, end: float, *, seconds: float = CHUNK_SECONDS) -> Floats:
    """Cut ``[start, end)`` into chunks, (T, 2) start and end times.

    All but the last are ``seconds`` long; the last takes what remains, between half and one and a
    half of that. A clip shorter than a chunk is one chunk.

    >>> chunk_intervals(0, 1.3).tolist()
    [[0.0, 0.4], [0.4, 0.8], [0.8, 1.3]]
    """
    if not (np.isfinite([start, end]).all() and start < end and seconds > 0):
        raise SettingError(f"cannot cut [{start}, {end}) s into chunks of {seconds} s")
    # Frame times are sums of fractions: half a chunk, to a microsecond, is half a chunk.
    n = max(1, int((end - start) / seconds + 0.5 + 1e-6))
    edges = np.append(start + np.arange(n) * seconds, end)
    return np.stack([edges[:-1], edges[1:]], axis=1)


def chunk_windows(times: Floats, chunks: Floats, *, window: float = WINDOW_SECONDS) -> Ints:
    """Which samples describe each chunk: (T, 2) first and one past the last index into ``times``.

    Those within ``window`` seconds centred on the chunk, half-open; fewer at the clip's edges, and
    none where there are none.

    times : (n,) sorted.
    chunks : (T, 2) as :func:`chunk_intervals` gives them.
    """
    if (np.diff(times) < 0).any():
        raise SettingError("the times of samples must not decrease")
    middles = chunks.mean(axis=1)
    # Frame times carry rounding errors: one on a window's edge, to a microsecond, is on it.
    first = np.searchsorted(times, middles - window / 2 - 1e-6)
    last = np.searchsorted(times, middles + window / 2 - 1e-6)
    return np.stack([first, last], axis=1).astype(np.int64)


def chunk_averages(
    times: Floats,
    values: npt.NDArray[np.floating],
    chunks: Floats,
    *,
    window: float = WINDOW_SECONDS,
) -> Floats32:
    """Average samples over the window of each chunk: (T, d) from ``values`` (n, d) at ``times``.

    Where a gap leaves a window empty the nearest sample stands in. Zero when there is no sample at
    all, as for the motion in a single frame.
    """
    averages = np.zeros((len(chunks), values.shape[1]), np.float32)
    if len(times) == 0:
        return averages
    for row, (first, last) in enumerate(chunk_windows(times, chunks, window=window)):
        if first == last:
            first = int(np.abs(times - chunks[row].mean()).argmin())
            last = first + 1
        averages[row] = values[first:last].mean(axis=0, dtype=np.float64)
    return averages


class ChunkAverages:
    """`chunk_averages` of samples that come in the order of time and are not kept.

    start : seconds; where the clip begins.
    size : numbers in a sample.
    folder : where the averages lie, see `Rows`.
    """

    def __init__(self, start: float, size: int, folder: Path | None = None) -> None:
        self.start, self.size = start, size
        self._times: list[float] = []
        self._values: list[npt.NDArray[np.floating]] = []
        self._averages = Rows(size, np.float32, folder)

    def add(self, time: float, value: npt.NDArray[np.floating]) -> None:
        self._times.append(time)
        self._values.append(value)

    def settle(self) -> None:
        """Average the chunks whose windows are over, and forget what no other window needs."""
        if not self._times or self._times[-1] <= self.start:
            return
        # The last of these is not as it will be, but its window is never over.
        chunks = chunk_intervals(self.start, self._times[-1])[len(self._averages) :]
        ends = chunks.mean(axis=1) + WINDOW_SECONDS / 2
        over = chunks[: int(np.searchsorted(ends, self._times[-1]))]
        self._average(over)
        first = chunks[len(over), 0] - WINDOW_SECONDS / 2
        # One more: where a window is empty, the nearest sample stands in for it.
        unneeded = int(np.searchsorted(self._times, first)) - 1
        if unneeded > 0:
            del self._times[:unneeded], self._values[:unneeded]

    def finish(self, end: float) -> Rows:
        """(T, size) averages of the chunks of a clip that ends there."""
        self._average(chunk_intervals(self.start, end)[len(self._averages) :])
        return self._averages

    def _average(self, chunks: Floats) -> None:
        values = np.reshape(self._values, (-1, self.size))
        self._averages.extend(chunk_averages(np.array(self._times), values, chunks))

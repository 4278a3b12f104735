"""Chunks: equal parts of a clip, each described by averages over a longer window around it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from objectstates.base.choices import CHUNK_SECONDS
from objectstates.base.errors import SettingError
from objectstates.base.row_table import Rows

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

WINDOW_SECONDS = 1.2  # the paper's 30 frames, for chunks of the paper's length


def chunk_intervals(start: float, end: float, *, seconds: float = CHUNK_SECONDS) -> Floats:
    """Cut ``[start, end)`` into chunks, (T, 2) start and end times.

    All but the last are ``seconds`` long; the last takes what remains, between half and one and a
    half of that. A clip shorter than a chunk is one chunk.

    >>> chunk_intervals(0, 1.3).tolist()
    [[0.0, 0.4], [0.4, 0.8], [0.8, 1.3]]
    """
    if not (np.isfinite([start, end]).all() and start < end and seconds > 0):
        raise SettingError(f"cannot cut [{start}, {end}) s into chunks of {seconds} s")
    # Frame times have rounding errors: compare to a microsecond.
    n = max(1, int((end - start) / seconds + 0.5 + 1e-6))
    edges = np.append(start + np.arange(n) * seconds, end)
    return np.stack([edges[:-1], edges[1:]], axis=1)


def chunk_windows(times: Floats, chunks: Floats, *, window: float = WINDOW_SECONDS) -> Ints:
    """Which samples describe each chunk: (T, 2) first and one past the last index into ``times``.

    Those within ``window`` seconds centred on the chunk, half-open; there may be none.

    times : (n,) sorted.
    chunks : (T, 2) as :func:`chunk_intervals` gives them.
    """
    if (np.diff(times) < 0).any():
        raise SettingError("the times of samples must not decrease")
    middles = chunks.mean(axis=1)
    # Frame times have rounding errors: compare to a microsecond.
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

    An empty window takes the nearest sample. Zero if there is no sample at all, as for the motion
    of a single frame.
    """
    averages = np.zeros((len(chunks), values.shape[1]), np.float32)
    if len(times) == 0:
        return averages
    for row, (first, last) in enumerate(chunk_windows(times, chunks, window=window)):
        samples = slice(first, last)
        if first == last:
            nearest = int(np.abs(times - chunks[row].mean()).argmin())
            samples = slice(nearest, nearest + 1)
        averages[row] = values[samples].mean(axis=0, dtype=np.float64)
    return averages


class ChunkAverages:
    """`chunk_averages` of a stream of samples in the order of time.

    start : seconds; start of the clip.
    size : length of a sample.
    folder : of the table of averages, see `Rows`.
    seconds, window : length of a chunk, and of the window that describes it.
    """

    def __init__(
        self,
        start: float,
        size: int,
        folder: Path | None = None,
        *,
        seconds: float = CHUNK_SECONDS,
        window: float = WINDOW_SECONDS,
    ) -> None:
        self.start, self.size = start, size
        self.seconds, self.window = seconds, window
        self._times: list[float] = []
        self._values: list[npt.NDArray[np.floating]] = []
        self._averages = Rows(size, np.float32, folder)

    def add(self, time: float, value: npt.NDArray[np.floating]) -> None:
        self._times.append(time)
        self._values.append(value)

    def close(self) -> None:
        """Average the chunks whose windows are over, and drop samples that no other needs."""
        if not self._times or self._times[-1] <= self.start:
            return
        # The last of these may still become longer, but its window is never over.
        chunks = self._chunks(self._times[-1])[len(self._averages) :]
        ends = chunks.mean(axis=1) + self.window / 2
        over = chunks[: int(np.searchsorted(ends, self._times[-1]))]
        self._average(over)
        first = chunks[len(over), 0] - self.window / 2
        # Keep one more: an empty window takes the nearest sample.
        unneeded = int(np.searchsorted(self._times, first)) - 1
        if unneeded > 0:
            del self._times[:unneeded], self._values[:unneeded]

    def finish(self, end: float) -> Rows:
        """(T, size) averages of the chunks of a clip that ends there."""
        self._average(self._chunks(end)[len(self._averages) :])
        return self._averages

    def _chunks(self, end: float) -> Floats:
        return chunk_intervals(self.start, end, seconds=self.seconds)

    def _average(self, chunks: Floats) -> None:
        times, values = np.array(self._times), np.reshape(self._values, (-1, self.size))
        self._averages.extend(chunk_averages(times, values, chunks, window=self.window))

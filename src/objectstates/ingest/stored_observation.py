"""The observation of a clip in files of the cache: one for each of its segments.

Nothing is joined on disk. Tables are read segment after segment, and chunks are averaged from the
samples of all segments, as those of a clip of one segment are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.cache import Entry
from objectstates.base.row_table import GROUP, Rows
from objectstates.data.clips import ChangeProfile
from objectstates.features.chunks import ChunkAverages, chunk_intervals
from objectstates.ingest.stored_change import stored_profile
from objectstates.ingest.time_scale import TimeScale
from objectstates.video.clip_list import ClipSpan

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

SAMPLES = ("motion", "frame")  # what chunks are averages of, side by side


@dataclass(frozen=True, eq=False)
class StoredObservation:
    """The arrays of the `Observation` of each segment, in the order of time.

    segments : those with frames, one at least.
    change_entry : with the change profile; the segment itself if there is one.
    views : the same of further cameras.
    """

    clip: ClipSpan
    segments: tuple[Entry, ...]
    change_entry: Entry
    scale: TimeScale
    views: tuple[StoredObservation, ...] = ()

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Open each file once for all that is read in the context."""
        with ExitStack() as stack:
            for entry in (*self.segments, self.change_entry):
                stack.enter_context(entry.kept_open())
            yield

    @cached_property
    def span(self) -> tuple[float, float]:
        """Start of the first frame and end of the last, in seconds of the video."""
        return float(self.segments[0]["span"][0]), float(self.segments[-1]["span"][1])

    @property
    def chunk_span(self) -> Floats:
        """(T, 2) start and end of the chunks."""
        return chunk_intervals(*self.span, seconds=self.scale.chunk_seconds)

    @property
    def change(self) -> ChangeProfile | None:
        return stored_profile(self.change_entry)

    @property
    def problems(self) -> list[str]:
        """What could not be read, each message once."""
        entries = (*self.segments, self.change_entry)
        return list(dict.fromkeys(str(p) for entry in entries for p in entry["problems"]))

    def column(self, name: str) -> Array:
        """A small array of all segments."""
        return np.concatenate([segment[name] for segment in self.segments])

    def box_counts(self) -> Array:
        """(n,) number of boxes of each tracklet."""
        return np.concatenate([np.diff(segment["box_offsets"]) for segment in self.segments])

    def width(self, name: str) -> int:
        """Number of columns of a table."""
        return self.segments[0].shape(name)[1]

    def groups(self, name: str, size: int = GROUP) -> Iterator[Array]:
        """The rows of a table, at most ``size`` at a time."""
        for segment in self.segments:
            yield from segment.groups(name, size)

    def chunk_features(self, scratch: Path | None) -> Rows:
        """(T, D) object motion and frame features of chunks, in a temporary file in ``scratch``."""
        parts = [self._averages(name, scratch) for name in SAMPLES]
        features = Rows(sum(part.width for part in parts), np.float32, scratch)
        for rows in zip(*(part.groups() for part in parts), strict=True):
            features.extend(np.concatenate(rows, axis=1))
        return features

    def _averages(self, name: str, scratch: Path | None) -> Rows:
        start, end = self.span
        averages = ChunkAverages(
            start,
            self.width(name),
            scratch,
            seconds=self.scale.chunk_seconds,
            window=self.scale.window_seconds,
        )
        for times, values in zip(self.groups(f"{name}_time"), self.groups(name), strict=True):
            for time, value in zip(times[:, 0].tolist(), values, strict=True):
                averages.add(time, value)
            averages.close()
        return averages.finish(end)

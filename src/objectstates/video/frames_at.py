"""The frames of a video that are nearest to given times.

Nearest is by presentation time; on ties (within a microsecond) the earlier frame, as when
`reader.read_frames` resamples. A time has no frame if the nearest is more than ``tolerance``
seconds away, as beyond the end of the video.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import VideoError
from objectstates.video.reader import DeferredFrame, EmptySpanError, Frame, read_frames

TOLERANCE = 0.5
"""Seconds from a time to the farthest frame that may represent it: a dozen frames at 25 fps."""

_SEEK_GAP = 4.0  # seconds; over longer gaps seeking is faster (key frames are up to 10 s apart)
_ROUNDING = 1e-6  # seconds; of timestamps


def frames_at(
    source: str | Path,
    times: Iterable[float],
    *,
    tolerance: float = TOLERANCE,
    fps: float | None = None,
    max_side: int | None = None,
    image_fps: float = 25.0,
    problems: list[str] | None = None,
) -> Iterator[tuple[float, Frame]]:
    """Yield each distinct time with its nearest frame, in order of time.

    The video is decoded in order, once; long gaps between times are skipped by seeking.

    fps, max_side, image_fps : as in `read_frames`; with ``fps``, nearest among resampled frames.
    problems : receives messages about times without a frame, which are then left out, and about
        damage. If None, a time without a frame raises `VideoError`.
    """
    missing: list[float] = []
    for group in _groups(sorted(set(times))):
        start, end = max(0.0, group[0] - tolerance), max(0.0, group[-1]) + tolerance + _ROUNDING
        found = set()
        try:
            with read_frames(
                source, start, end, fps=fps, max_side=max_side, image_fps=image_fps
            ) as reading:
                for time, nearest in _nearest_frames(reading.deferred(), group):
                    if abs(nearest.time - time) <= tolerance:
                        found.add(time)
                        yield time, nearest.frame
                if problems is not None:
                    problems += reading.problems
        except EmptySpanError:
            pass  # reported below
        except VideoError as error:
            if problems is None:
                raise
            if str(error) not in problems:
                problems.append(str(error))
            continue
        missing += [time for time in group if time not in found]
    if missing:
        message = (
            f"{source}: {len(missing)} frames cannot be read, the first at {missing[0]:.2f} s; "
            "see whether it plays, and replace it by a complete copy"
        )
        if problems is None:
            raise VideoError(message)
        problems.append(message)


def _nearest_frames(
    frames: Iterable[DeferredFrame], times: Sequence[float]
) -> Iterator[tuple[float, DeferredFrame]]:
    """Each of the sorted ``times`` with the nearest of ``frames``; buffers one frame."""
    pending = deque(times)
    previous: DeferredFrame | None = None
    for frame in frames:
        while pending and frame.time >= pending[0]:
            time = pending.popleft()
            if previous is None or frame.time - time < time - previous.time - _ROUNDING:
                yield time, frame
            else:
                yield time, previous
        previous = frame
        if not pending:
            return
    if previous is not None:
        yield from ((time, previous) for time in pending)


def nearest_index(times: npt.NDArray[Any], time: float) -> int:
    """The index of the entry of ``times`` (n,), sorted, that is nearest to ``time``."""
    after = min(int(np.searchsorted(times, time)), len(times) - 1)
    before = max(after - 1, 0)
    return before if time - times[before] <= times[after] - time + _ROUNDING else after


def _groups(times: list[float]) -> Iterator[list[float]]:
    """Split sorted times at gaps that are skipped by seeking."""
    first = 0
    for last in range(1, len(times) + 1):
        if last == len(times) or times[last] - times[last - 1] > _SEEK_GAP:
            yield times[first:last]
            first = last

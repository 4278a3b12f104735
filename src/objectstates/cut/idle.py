"""The ends of a clip in which nothing moves.

Frames are compared with the ones before them, small and grey, block by block: a hand that moves
changes a few blocks much, noise and the coder change all of them a little. The noise
level is estimated from the clip's own quiet moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.cut.segments import ClipFrames
from objectstates.data.corpus import Array
from objectstates.report.phases import Phase
from objectstates.video.reader import read_frames

# Chosen on simulated training clips with still ends, with and without noise: benchmarks/idle.py.
FPS = 10.0  # frames compared per second
SIDE = 160  # pixels of the longer side
BLOCK = 8  # pixels
LEAST = 3.0  # grey levels; the mean difference of a block in which something moves
NOISE = 4.0  # times the usual difference of a block, at least
RUN = 2  # comparisons in a row that must show motion
MARGIN = 0.2  # seconds kept before the first and after the last motion
KEPT_STATE = 0.5  # seconds of either state that trimming leaves, so that it can be seen


def kept_frames(
    frames: ClipFrames, span: tuple[float, float] | None, phases: Sequence[Phase]
) -> tuple[int, int]:
    """First and one past the last frame of what moves, and of `KEPT_STATE` around the actions.

    span : of `moving_span`; a clip in which nothing moves is left as it is.
    phases : of the clip, in the seconds of ``frames``.
    """
    if span is None:
        return 0, len(frames.times)
    start, end = span
    for action in (phase for phase in phases if phase.is_action):
        start, end = min(start, action.start - KEPT_STATE), max(end, action.end + KEPT_STATE)
    allowed = np.append(frames.cuts, len(frames.times))
    times = np.append(frames.times[frames.cuts], frames.end)
    first = int(allowed[max(int(np.searchsorted(times, start + 1e-9, "right")) - 1, 0)])
    last = int(allowed[min(int(np.searchsorted(times, end - 1e-9)), len(times) - 1)])
    return first, last


def moving_span(
    path: str | Path, start: float | None, end: float | None, *, image_fps: float = 25.0
) -> tuple[float, float] | None:
    """First and last time, in seconds of the video, at which something moves, with `MARGIN`.

    None if nothing moves at all.
    """
    times, motion = block_motion(path, start, end, image_fps=image_fps)
    if len(motion) < RUN:
        return None
    usual = float(np.median(motion))
    moves = motion.max(axis=1) > max(LEAST, NOISE * usual)
    runs = np.convolve(moves, np.ones(RUN, int)) >= RUN  # at the last of a run
    if not runs.any():
        return None
    first = int(runs.argmax()) - RUN + 1
    last = min(len(moves) - 1, len(runs) - 1 - int(runs[::-1].argmax()))
    return float(times[first] - MARGIN), float(times[last + 1] + MARGIN)


def block_motion(
    path: str | Path, start: float | None, end: float | None, *, image_fps: float = 25.0
) -> tuple[Array, npt.NDArray[np.float32]]:
    """Times (n + 1,) of frames, and (n, blocks) mean grey differences from each to the next."""
    times, grids = [], []
    earlier: npt.NDArray[np.float32] | None = None
    with read_frames(path, start, end, fps=FPS, max_side=SIDE, image_fps=image_fps) as frames:
        for frame in frames:
            grey = cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY).astype(np.float32)
            if earlier is not None:
                grids.append(_blocks(np.abs(grey - earlier)))
            earlier = grey
            times.append(frame.time)
    return np.array(times), np.array(grids, np.float32)


def _blocks(difference: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The mean of each block, as a row."""
    height, width = difference.shape
    size = max(1, width // BLOCK), max(1, height // BLOCK)
    return np.asarray(
        cv2.resize(difference, size, interpolation=cv2.INTER_AREA), np.float32
    ).ravel()

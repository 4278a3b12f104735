"""Chunk features from the robot's own signals: how fast each joint moves, how the gripper stands.

What a robot does is in its joints before it is in the picture: it slows down to grasp, the gripper
closes, the arm lifts. Signals have arbitrary units, so every component is scaled by what it does in
the whole corpus: its level by the 1st and the 99th percentile, its speed by the 95th of its speeds.
A component that never moves is 0. Components are averaged over the window of a chunk, like the
other features of chunks, and then scaled together to the length `LENGTH`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import CorpusError
from objectstates.features.chunks import chunk_averages
from objectstates.robots.signals import EpisodeSignals

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

SMOOTHING = 0.15  # seconds; of a moving average, before differences are taken
LEVELS, FAST = (1.0, 99.0), 95.0  # percentiles
FASTEST = 2.0  # times `FAST`: what is above counts no more
LENGTH = 0.3  # of a row, root of the mean square; with 0.6 fewer actions are found (docs/robots.md)
_STILL = 1e-9  # in units of the dataset: a smaller range of levels is that of a constant
_NAMES = ("low", "high", "speed", "gripper", "centre", "factor")


@dataclass(frozen=True, eq=False)
class SignalScale:
    """What the signals of a corpus are scaled by.

    low, high : (d,) levels that become 0 and 1. ``speed`` : (d,) scaled levels per second.
    gripper : (d,) which components open and close a hand: of these the level counts too.
    centre : (k,) mean of the columns. ``factor`` : by which they are multiplied in the end.
    """

    low: Floats
    high: Floats
    speed: Floats
    gripper: npt.NDArray[np.bool_]
    centre: Floats
    factor: float

    @property
    def size(self) -> int:
        """The number of columns."""
        return len(self.centre)

    def columns(self, signals: EpisodeSignals, chunks: Floats, *, window: float) -> Floats32:
        """(T, k) the columns of the chunks (T, 2), which are in seconds of the episode."""
        rows = _raw_columns(self, signals, chunks, window)
        return np.asarray((rows - self.centre) * self.factor, np.float32)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """For the arrays of a corpus."""
        return {f"signal_{name}": np.asarray(getattr(self, name)) for name in _NAMES}

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> SignalScale | None:
        """What `arrays` returned, or None if a corpus has none."""
        if "signal_low" not in arrays:
            return None
        try:
            low, high, speed, gripper, centre, factor = (arrays[f"signal_{n}"] for n in _NAMES)
            return cls(low, high, speed, gripper, centre, float(factor))
        except (KeyError, TypeError, ValueError) as problem:
            raise CorpusError(f"the scale of the corpus's signals is damaged: {problem}") from None


def learn_scale(
    signals: Sequence[EpisodeSignals],
    chunks: Sequence[Floats],
    gripper: npt.NDArray[np.bool_],
    *,
    window: float,
) -> SignalScale:
    """The scale of a corpus, from the signals and the chunks (T, 2) of its episodes."""
    low, high = np.percentile(np.concatenate([s.values for s in signals]), LEVELS, axis=0)
    size = len(low)
    scale = SignalScale(low, high, np.ones(size), gripper, np.zeros(0), 1.0)
    speeds = np.concatenate([np.abs(_moving(scale, s)[1]) for s in signals])
    fast = np.percentile(speeds, FAST, axis=0)
    # A joint that moves in few frames only: scale by the largest speed instead of by 0.
    fast = np.where(fast > 0, fast, np.maximum(speeds.max(axis=0), _STILL))
    scale = SignalScale(low, high, fast, gripper, np.zeros(0), 1.0)
    pairs = zip(signals, chunks, strict=True)
    rows = np.concatenate([_raw_columns(scale, s, c, window) for s, c in pairs])
    centre = rows.mean(axis=0)
    length = float(np.sqrt(((rows - centre) ** 2).sum(axis=1).mean()))
    return SignalScale(low, high, fast, gripper, centre, LENGTH / length if length else 0.0)


def _moving(scale: SignalScale, signals: EpisodeSignals) -> tuple[Floats, Floats]:
    """(n, d) scaled and smoothed levels, and their change per second."""
    from scipy.ndimage import uniform_filter1d  # slow: only clips with signals need it

    extent = scale.high - scale.low
    moves = extent > _STILL
    levels = np.where(moves, (signals.values - scale.low) / np.where(moves, extent, 1.0), 0.0)
    if len(levels) < 2:
        return levels, np.zeros_like(levels)
    period = float(np.median(np.diff(signals.times)))
    width = max(1, round(SMOOTHING / period))
    smooth = uniform_filter1d(levels.clip(-0.5, 1.5), width, axis=0, mode="nearest")
    return smooth, np.gradient(smooth, signals.times, axis=0)


def _raw_columns(
    scale: SignalScale, signals: EpisodeSignals, chunks: Floats, window: float
) -> Floats:
    """(T, k) columns before they are centred: speeds, levels of grippers."""
    levels, velocity = _moving(scale, signals)
    speeds = np.minimum(np.abs(velocity) / scale.speed, FASTEST)
    samples = np.concatenate([speeds, levels[:, scale.gripper]], axis=1)
    averaged = chunk_averages(signals.times, samples, chunks, window=window)
    return np.asarray(averaged, np.float64)

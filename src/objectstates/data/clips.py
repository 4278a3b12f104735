"""The data model: clips, their tracklets and chunks, and the one notion of time.

Times are seconds as floats, on one time base within a clip; an interval is half-open,
``[start, end)``, so that two intervals that only touch do not overlap. Boxes are
``x1, y1, x2, y2`` in pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

FeatureVector = npt.NDArray[np.float32]


class TrackletLabel(IntEnum):
    """The truth about a tracklet, where it is known."""

    FALSE_POSITIVE = 0
    STATE_1 = 1
    STATE_2 = 2
    AMBIGUOUS = 3


@dataclass(frozen=True, slots=True)
class Box:
    """Where an object is at an instant."""

    time: float
    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class Tracklet:
    """About one second of one object candidate.

    feature : (d,) appearance.
    score : the detector's confidence, 0 to 1.
    time : the instant that stands for the tracklet; the middle of its interval unless given.
    allowed : whether state 1 and state 2 may be given to it.
    label : the truth, for evaluation only.
    """

    start: float
    end: float
    feature: FeatureVector
    score: float = 1.0
    boxes: tuple[Box, ...] = ()
    time: float | None = None
    allowed: tuple[bool, bool] = (True, True)
    label: TrackletLabel | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A short stretch of a clip, about 0.4 s, described by its motion and appearance.

    feature : (d,) descriptor.
    allowed : whether the action may be placed here.
    label : whether the action truly happens here, for evaluation only.
    """

    start: float
    end: float
    feature: FeatureVector
    time: float | None = None
    allowed: bool = True
    label: bool | None = None


@dataclass(frozen=True, slots=True)
class Clip:
    """A piece of a video in which one manipulation happens once.

    video : the file it comes from, if any. ``start`` and ``end`` are its span in the video.
    """

    id: str
    tracklets: tuple[Tracklet, ...] = field(repr=False)
    chunks: tuple[Chunk, ...] = field(repr=False)
    video: str | None = None
    start: float | None = None
    end: float | None = None

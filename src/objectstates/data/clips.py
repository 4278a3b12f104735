"""The data model: clips with their tracklets and chunks.

Times are seconds as floats, from the first frame of the video. Intervals are half-open,
``[start, end)``: two intervals that only touch do not overlap. Boxes are ``x1, y1, x2, y2`` in
pixels of the video.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

FeatureVector = npt.NDArray[np.float32]

MAX_WHERE_WIDTH = 40  # pixels of `ChangeProfile.where`: about 1 kB per clip


MAX_STATES = 8  # of a chain


class TrackletLabel(IntEnum):
    """Ground truth of a tracklet: the number of its state, or one of these."""

    AMBIGUOUS = -2
    FALSE_POSITIVE = 0
    STATE_1 = 1
    STATE_2 = 2
    STATE_3 = 3
    STATE_4 = 4
    STATE_5 = 5
    STATE_6 = 6
    STATE_7 = 7
    STATE_8 = 8


@dataclass(frozen=True, slots=True)
class Box:
    """An object's bounding box in the frame at ``time``."""

    time: float
    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class Tracklet:
    """A track of one object candidate, cut to about one second.

    feature : (d,) appearance descriptor.
    score : confidence of the detector, 0 to 1.
    time : representative time; default: the middle of the interval.
    allowed : whether it may be labelled state 1, state 2 and so on.
    label : ground truth, for evaluation only.
    """

    start: float
    end: float
    feature: FeatureVector
    score: float = 1.0
    boxes: tuple[Box, ...] = ()
    time: float | None = None
    allowed: tuple[bool, ...] = (True, True)
    label: TrackletLabel | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A short interval of a clip, about 0.4 s.

    feature : (d,) descriptor of motion and appearance.
    allowed : whether it may be labelled as the action; in a chain as action 1, action 2 ...
    label : ground truth, for evaluation only: the number of the action it shows, 0 for none.
    """

    start: float
    end: float
    feature: FeatureVector
    time: float | None = None
    allowed: bool | tuple[bool, ...] = True
    label: int | None = None


@dataclass(frozen=True, eq=False)
class ChangeProfile:
    """When and where a clip changes for good (``features/change_profile.py``).

    start : seconds of the video at which the first bin starts. ``step`` : seconds per bin.
    curve : (n,) share of the picture that changes for good within each bin, 0 or more.
    where : (h, w) from 0 (unchanged) to 255 (changed), at most `MAX_WHERE_WIDTH` pixels wide; its
        field of view is that of the clip's middle frame, at ``(start + end) / 2`` of the clip.
    scale : pixels of the video per pixel of ``where``; 0 if it is not known.
    local : (n,) as ``curve``, but of changes that last within a part of the clip, such as those of
        a chain that ends as it began; None if it is not known.
    motion : (n,) distance in picture widths by which the changed places move together within each
        bin, 0 or more; None if it is not known.

    Examples
    --------
    >>> curve, where = np.array([0.0, 0.1, 0.0, 0.0], np.float32), np.zeros((3, 4), np.uint8)
    >>> profile = ChangeProfile(start=2.0, step=0.5, curve=curve, where=where)
    >>> profile.within(2.5, 3.5).curve.tolist() == curve[1:3].tolist()
    True
    """

    start: float
    step: float
    curve: npt.NDArray[np.float32]
    where: npt.NDArray[np.uint8]
    scale: float = 0.0
    local: npt.NDArray[np.float32] | None = None
    motion: npt.NDArray[np.float32] | None = None

    def within(self, start: float, end: float) -> ChangeProfile | None:
        """The bins within two times, in seconds of the video; None if there are none."""
        bins = ((time - self.start) / self.step for time in (start, end))
        first, last = (round(min(max(at, 0), len(self.curve))) for at in bins)
        if first >= last:
            return None
        return replace(
            self,
            start=self.start + first * self.step,
            curve=self.curve[first:last],
            local=None if self.local is None else self.local[first:last],
            motion=None if self.motion is None else self.motion[first:last],
        )


@dataclass(frozen=True, slots=True)
class EpisodeSpan:
    """The episode of a robot dataset that a clip shows.

    index : its number in the dataset.
    start : seconds of the video at which it starts: a video file may hold many episodes.

    >>> EpisodeSpan(3, start=12.5).seconds(14.0)
    1.5
    """

    index: int
    start: float = 0.0

    def seconds(self, time: float) -> float:
        """Seconds of the episode at a time of the video."""
        return time - self.start


@dataclass(frozen=True, slots=True)
class Clip:
    """A video, or a span of one, in which one manipulation happens once: a change, or a chain.

    video : path of its file, if any. ``start`` and ``end`` are its span in the video.
    change : when and where it changes for good, if known.
    episode : of a robot dataset, if it shows one.

    Examples
    --------
    >>> box = Box(time=0.5, x1=10, y1=10, x2=60, y2=50)
    >>> before = Tracklet(0.0, 1.0, np.ones(4, np.float32), boxes=(box,))
    >>> after = Tracklet(5.0, 6.0, np.zeros(4, np.float32))
    >>> chunks = tuple(Chunk(t, t + 2.0, np.ones(3, np.float32)) for t in (0.0, 2.0, 4.0))
    >>> Clip("drawer_01", (before, after), chunks, video="drawer_01.mp4")
    Clip(id='drawer_01', video='drawer_01.mp4', start=None, end=None, episode=None)
    """

    id: str
    tracklets: tuple[Tracklet, ...] = field(repr=False)
    chunks: tuple[Chunk, ...] = field(repr=False)
    video: str | None = None
    start: float | None = None
    end: float | None = None
    change: ChangeProfile | None = field(default=None, repr=False)
    episode: EpisodeSpan | None = None

"""The parts of a clip that is shown: tracklets, actions, segments, moments.

All times are seconds of the video.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from objectstates.data.clips import Box
from objectstates.data.corpus import Array


@dataclass(frozen=True, eq=False)
class TrackletView:
    """A tracklet and its labels.

    index : within the clip.
    state : 0 if it has no state.
    scores : of the K states; NaN if states were not sought.
    truth : a `TrackletLabel`; None if not known.
    boxes : (B, 5) time, x1, y1, x2, y2 in pixels, sorted by time.
    """

    index: int
    start: float
    end: float
    time: float
    state: int
    scores: tuple[float, ...]
    detection_score: float
    truth: int | None
    boxes: Array

    @property
    def score(self) -> float:
        """Of the state it was given; NaN if none was."""
        return self.scores[self.state - 1] if self.state else math.nan

    @cached_property
    def box_list(self) -> list[Box]:
        """The boxes as objects."""
        return [Box(*map(float, row)) for row in self.boxes]


@dataclass(frozen=True, slots=True)
class Action:
    """An action of a clip: its chunk and the score of that, the interval it lasts, and its moment.

    number : 1, 2 and so on in a chain. ``label``: "action"; in a chain "action_1", "action_2", ...
    """

    number: int
    label: str
    chunk: int
    start: float
    end: float
    time: float
    score: float


@dataclass(frozen=True, slots=True)
class Segment:
    """An interval of a clip; ``score`` is the mean score.

    label : state_1, action, state_2; in a chain state_1, action_1, state_2, action_2, ...
    """

    label: str
    start: float
    end: float
    score: float


@dataclass(frozen=True, eq=False)
class ChangeCurve:
    """How much of the picture changes for good over time.

    start : seconds of the video at which the first bin starts. ``step`` : seconds per bin.
    rates : (n,) share of the picture that changes for good, per second; so the area under the
        curve is `total`, the share that changes in the whole clip.
    """

    start: float
    step: float
    rates: Array

    @property
    def total(self) -> float:
        return float(self.rates.sum() * self.step)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time of which the page shows a frame.

    role : "state 1", "action", "state 2", in a chain "state 1", "action 1", "state 2", ...;
        "before", "between" and "after" if states were not sought; "key" for the frames in between.
    tracklet : index of the tracklet that the frame shows.
    """

    time: float
    role: str
    tracklet: int | None = None

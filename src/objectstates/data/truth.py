"""Ground truth of clips, for evaluation only: the intervals of actions and the object's boxes.

All times are those of the whole video, as in a corpus: clips cut from one video share its ground
truth. ``formats/truth_files.py`` reads it, ``truth_labels.py`` labels a corpus by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from objectstates.base.errors import TruthError
from objectstates.data.corpus import Array

TOLERANCE = 1e-6  # seconds; absorbs the rounding of frame times

Seconds = tuple[float, float]
"""Start and end of an interval."""


@dataclass(frozen=True, eq=False)
class ClipTruth:
    """Ground truth of one clip, or of the video it comes from.

    clip : its id, or the last parts of the video's path without suffix, e.g. ``open_drawer/00``.
    actions : start and end of each action in seconds of the video, in order; None for a step of a
        chain that the clip lacks. The state after it is then missing too, and the other states
        keep their numbers.
    times : (k,) seconds of the annotated boxes; may be empty.
    boxes : (k, 4) ``x1, y1, x2, y2`` in pixels of the video; NaN where the object is not visible.
    moments : when each change is fastest, in seconds, None where that is not known; may be empty.

    >>> clip = ClipTruth("a", ((1.0, 2.0), None, (4.0, 6.0)), np.empty(0), np.empty((0, 4)))
    >>> clip.phase(np.array([0.5, 1.5, 3.0, 5.0, 7.0])).tolist()
    [0, 1, 2, 5, 6]
    >>> clip.change_times.tolist()
    [1.5, nan, 5.0]
    """

    clip: str
    actions: tuple[Seconds | None, ...]
    times: Array
    boxes: Array
    moments: tuple[float | None, ...] = ()

    def __post_init__(self) -> None:
        last = -np.inf
        for start, end in filter(None, self.actions):
            if not -np.inf < start < end < np.inf:
                raise TruthError(
                    f"clip {self.clip!r}: the action from {start:g} to {end:g} s is empty"
                )
            if start < last - TOLERANCE:
                raise TruthError(
                    f"clip {self.clip!r}: the action from {start:g} to {end:g} s begins before the "
                    "one before it ends"
                )
            last = end
        if not any(self.actions):
            raise TruthError(f"clip {self.clip!r} has no action: it needs one at least")
        if len(self.moments) not in (0, len(self.actions)):
            raise TruthError(f"clip {self.clip!r}: `moments` must have one entry per action")
        if self.boxes.shape != (len(self.times), 4) or not np.isfinite(self.times).all():
            raise TruthError(f"clip {self.clip!r}: every box needs four numbers and a finite time")

    @classmethod
    def single(cls, clip: str, action: Seconds, times: Array, boxes: Array) -> ClipTruth:
        """Of a clip with one action."""
        return cls(clip, (action,), times, boxes)

    @property
    def action(self) -> Seconds:
        """Start and end of the single action, in seconds of the video."""
        if len(self.actions) != 1 or self.actions[0] is None:
            raise TruthError(f"clip {self.clip!r} has a chain of actions: use `actions`")
        return self.actions[0]

    @property
    def change_times(self) -> Array:
        """(A,) seconds: when each change is fastest, else the middle; NaN for a step left out."""
        middles = [np.nan if each is None else (each[0] + each[1]) / 2 for each in self.actions]
        known = self.moments or (None,) * len(middles)
        return np.array([m if t is None else t for m, t in zip(middles, known, strict=True)])

    def phase(self, times: Array) -> Array:
        """(n,) 0 before the first action, 1 during it, 2 after it, 3 during the second and so on.

        2 k - 1 during action k, and 2 k after it, whether or not other steps are left out.
        """
        phase = np.zeros(len(times), np.int8)
        for k, action in enumerate(self.actions, start=1):
            if action is not None:
                phase[times >= action[0] - TOLERANCE] = 2 * k - 1
                phase[times >= action[1] - TOLERANCE] = 2 * k
        return phase

    def boxes_at(self, times: Array) -> Array:
        """(n, 4) boxes of the object at ``times`` (n,): the nearest annotation of the same phase.

        If the object moves only during the action, one box before and one after it suffice. A
        phase without annotations takes the nearest of another phase.
        """
        apart = np.abs(times[:, None] - self.times[None]).astype(np.float64)
        other = self.phase(times)[:, None] != self.phase(self.times)[None]
        apart[other] += apart.max(initial=0.0) + 1.0
        return np.asarray(self.boxes[apart.argmin(axis=1)])


@dataclass(frozen=True, eq=False)
class VideoSeconds:
    """Ground truth of a video per second, as in ChangeIt.

    category : the manipulation.
    labels : (S,) of seconds ``[s, s + 1)``: 0 background, 1 state 1, 2 action, 3 state 2.
    """

    category: str
    video: str
    labels: Array

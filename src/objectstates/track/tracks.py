"""Tracks: finished ones, and those that the tracker still extends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from objectstates.base.geometry import iou_of_two
from objectstates.detect.detections import Boxes
from objectstates.track.klt import CAPACITY, Floats, Floats32, Mask

MEET_IOU = 0.5  # a box propagated from a detection and one of a track show the same object


@dataclass(frozen=True, eq=False)
class Track:
    """One object candidate in consecutive frames of one shot.

    number : the same for all parts of a long track that is returned in parts.
    end : seconds; the time of the frame after the last. The track covers ``[times[0], end)``.
    times : (n,) seconds.
    boxes : (n, 4) ``x1, y1, x2, y2`` in pixels, clipped to the frame.
    scores : (n,) of the detection in the frame; NaN where the box is propagated.
    """

    number: int
    end: float
    times: Floats
    boxes: Boxes
    scores: Floats32

    def __len__(self) -> int:
        return len(self.times)


class FrameStamp(NamedTuple):
    """Index and time (seconds) of a frame, and whether the detector was run on it."""

    frame: int
    time: float
    detected: bool


class PastFrame(NamedTuple):
    """A recent frame with its points (CAPACITY, 2)."""

    stamp: FrameStamp
    xy: Floats32


@dataclass(eq=False)
class Anchor:
    """A detection matched to a track.

    before, after : (4,) the box in this frame propagated from the previous and the next anchor.
    """

    stamp: FrameStamp
    box: Floats
    score: float
    before: Floats | None = None
    after: Floats | None = None

    @property
    def correction(self) -> Floats:
        """Offset (4,) against jitter: the mean of detection (weight 2) and propagated boxes (1).

        Propagated boxes with a low IoU are ignored: the object changed, or tracking drifted.
        """
        known = [box for box in (self.before, self.after) if box is not None]
        known = [box for box in known if iou_of_two(box, self.box) >= MEET_IOU]
        return sum((box - self.box for box in known), np.zeros(4)) / (2 + len(known))


@dataclass(eq=False)
class OpenTrack:
    """A track under construction: one box, in working pixels, per frame since it began.

    members : (CAPACITY,) the points that move with it.
    after : seconds; the time of the frame after its last, once known.
    """

    number: int
    stamps: list[FrameStamp] = field(default_factory=list)
    boxes: list[Floats] = field(default_factory=list)
    anchors: list[Anchor] = field(default_factory=list)
    members: Mask = field(default_factory=lambda: np.zeros(CAPACITY, bool))
    after: float | None = None

    @property
    def last(self) -> int:
        return self.stamps[-1].frame

    @property
    def resumable(self) -> int:
        """The first frame in which a detection propagated backward may join the track.

        It is that of the last but one detection, since the last may be a false positive.
        """
        return self.anchors[-2:][0].stamp.frame

    def iou(self, frame: int, box: Floats) -> float:
        """With its own box in that frame; 0 if it has none."""
        index = frame - self.stamps[0].frame
        return iou_of_two(self.boxes[index], box) if 0 <= index < len(self.boxes) else 0.0

    def join(self, box: Floats, score: float, back: list[Floats], past: list[PastFrame]) -> None:
        """Extend the track to a detection in the last frame of ``past``.

        back : boxes propagated backward from the detection, latest first. Since the previous
            anchor they are blended linearly with those propagated forward.
        """
        anchor = Anchor(past[-1].stamp, box, score)
        now = anchor.stamp.frame
        reached = now - len(back)
        start, kept, shared = reached, reached - 1, reached - 1  # for a new track
        if self.anchors:
            previous = self.anchors[-1]
            if self.last == now:
                anchor.before = self.boxes[-1]
            if reached <= previous.stamp.frame < now:
                previous.after = back[now - 1 - previous.stamp.frame]
            start, shared = self.stamps[0].frame, self.last
            kept = min(max(previous.stamp.frame, reached), now - 1)
        new = []
        for frame in range(kept + 1, now):
            backward = back[now - 1 - frame]
            weight = (frame - kept) / (shared - kept) if frame < shared else 1.0
            forward = self.boxes[frame - start] if weight < 1 else backward
            new.append((1 - weight) * forward + weight * backward)
        self.boxes[kept + 1 - start :] = [*new, box]
        self.stamps[kept + 1 - start :] = [p.stamp for p in past[kept - now :]]
        self.anchors.append(anchor)
        self.after = None

    def smoothed(self) -> Floats:
        """The boxes (n, 4), corrected by linear interpolation between the anchors."""
        frames = [stamp.frame for stamp in self.stamps]
        at = [anchor.stamp.frame for anchor in self.anchors]
        corrections = np.array([anchor.correction for anchor in self.anchors])
        between = [np.interp(frames, at, column) for column in corrections.T]
        return np.asarray(np.array(self.boxes) + np.stack(between, axis=1))

    def drop_anchor_after(self, frame: int) -> None:
        """Remove the last anchor, and the boxes from it on, if it comes after ``frame``."""
        if self.anchors[-1].stamp.frame > frame:
            self.drop_after(self.anchors.pop().stamp.frame - 1)

    def drop_after(self, frame: int) -> None:
        """Remove the boxes after ``frame``."""
        count = frame + 1 - self.stamps[0].frame
        if count < len(self.stamps):
            self.after = self.stamps[count].time
            del self.stamps[count:], self.boxes[count:]

    def drop_before(self, frame: int) -> None:
        """Remove the boxes and anchors before ``frame``."""
        count = frame - self.stamps[0].frame
        del self.stamps[:count], self.boxes[:count]
        self.anchors = [anchor for anchor in self.anchors if anchor.stamp.frame >= frame]

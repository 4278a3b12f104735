"""The detector named ``motion``, which needs no labels: it finds what a manipulation changed.

The place of a manipulated object has two stable appearances, one before and one after some time of
the clip. A moving hand or arm leaves no such change, nor does an object at rest. The change profile
(``change_profile.py``) says which pixels change for good, and when; pixels that do so together form
groups (``change_groups.py``), and boxes around them, or around what looks like the object that they
are a part of, are ranked (``change_boxes.py``).

It is weaker than a detector trained for the object. Objects smaller than about a twentieth of the
frame's width are often missed, and so is what the arm hides at the end of the clip. Camera motion
with strong parallax misleads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base import geometry
from objectstates.base.errors import DetectorError
from objectstates.detect.change_boxes import ChangeBoxes, propose
from objectstates.detect.detections import Detections, DetectorOptions, FrameDetector
from objectstates.features.change_profile import ClipChange, clip_change
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, VideoInfo

Floats = npt.NDArray[np.float64]

VERSION = 3  # raise it whenever the same clip may give other boxes

BOXES = 6
"""With 5 the recall is 0.04 lower on simulated training clips and 0.02 on real ones; with 8 it is
0.02 higher on both, but of the boxes 0.18 instead of 0.21 are on the simulated object."""


class MotionDetector:
    """Proposes boxes around what has changed in a clip.

    boxes : number of boxes per frame; their scores, 0 to 1, rank them.
    """

    def __init__(self, boxes: int = BOXES) -> None:
        self.boxes = boxes

    @property
    def fingerprint(self) -> str:
        return f"motion-{VERSION}-{self.boxes}"

    def for_clip(self, clip: ClipSpan, video: VideoInfo) -> ClipProposals:
        """The detector of a clip, which reads it once when it first detects."""
        read = partial(
            clip_change,
            clip.video,
            clip.start,
            clip.end,
            image_fps=video.fps,
            origin=clip.origin,
        )
        return ClipProposals(read, self.boxes, clip.origin)

    def detect(self, _frames: Sequence[Frame]) -> list[Detections]:
        raise DetectorError("the motion detector needs the whole clip: call for_clip first")


def load_motion(_name: str, _options: DetectorOptions) -> MotionDetector:
    """The detector ``motion``, which has no options."""
    return MotionDetector()


class ClipProposals(FrameDetector):
    """The proposals for one clip: each box has one score before its change, another after it.

    origin : seconds of the video from which the times of the change are counted; None for 0.
    """

    def __init__(
        self, read_change: Callable[[], ClipChange], boxes: int = BOXES, origin: float | None = None
    ) -> None:
        self._read_change, self._origin = read_change, origin
        self._boxes = boxes
        self._chosen: dict[int, tuple[Floats, Floats]] = {}

    def with_change(self, change: ClipChange) -> ClipProposals:
        """The same detector, for a change that is known: the video is not read."""
        return ClipProposals(lambda: change, self._boxes, self._origin)

    @cached_property
    def _change(self) -> ClipChange:
        return self._read_change()

    @cached_property
    def _candidates(self) -> ChangeBoxes:
        return propose(self._change)

    @cached_property
    def _times(self) -> Floats:
        return np.unique(self._candidates.time)

    def _best(self, time: float) -> tuple[Floats, Floats]:
        """The same between two times at which groups step."""
        passed = int(np.searchsorted(self._times, time, side="right"))
        if passed not in self._chosen:
            self._chosen[passed] = self._candidates.best(time, self._boxes)
        return self._chosen[passed]

    @property
    def fingerprint(self) -> str:
        return MotionDetector(self._boxes).fingerprint

    def detect(self, frames: Sequence[Frame]) -> list[Detections]:
        return [self._detect(frame) for frame in frames]

    def _detect(self, frame: Frame) -> Detections:
        change, time = self._change, frame.time
        if self._origin is not None:  # rounded as in `read_aligned`
            time = round(time - self._origin, 9)
        nearest = int(np.abs(change.times - time).argmin())
        if not change.shown[nearest]:  # another shot, of another place
            return Detections.none()
        boxes, scores = self._best(time)
        camera = change.cameras[nearest]
        height, width = frame.image.shape[:2]
        zoom = np.array([width / change.amount.shape[1], height / change.amount.shape[0]] * 2)
        moved = geometry.clip(moved_boxes(boxes, camera) * zoom, (height, width))
        visible = np.all(moved[:, 2:] - moved[:, :2] >= 1, axis=1)
        return Detections(moved[visible].astype(np.float32), scores[visible].astype(np.float32))


def moved_boxes(boxes: Floats, homography: Floats) -> Floats:
    """(n, 4) bounding boxes of the corners of boxes after a homography."""
    corners = boxes[:, [0, 1, 2, 1, 0, 3, 2, 3]].reshape(1, -1, 2)
    moved = cv2.perspectiveTransform(corners, homography).reshape(-1, 4, 2)
    return np.hstack([moved.min(axis=1), moved.max(axis=1)]).astype(np.float64)

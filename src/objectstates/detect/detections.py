"""What a detector is, and what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, VideoInfo

Boxes = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Detections:
    """The object candidates of one frame, best first.

    boxes : (n, 4) ``x1, y1, x2, y2`` in pixels of the frame's image.
    scores : (n,) confidence, 0 to 1.
    """

    boxes: Boxes
    scores: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def none(cls) -> Detections:
        return cls(np.empty((0, 4), np.float32), np.empty(0, np.float32))


class Detector(Protocol):
    """Finds object candidates in frames.

    ``for_clip`` gives the detector for one clip: itself where a frame says all, another where the
    clip's name or what was seen before matters. It is asked for even if nothing is left to detect,
    so it should cost nothing. Its ``detect`` then gets the clip's frames in the order of time, a
    few at once, and returns one :class:`Detections` for each.
    """

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same frames may give other detections: the key of caches."""

    def for_clip(self, clip: ClipSpan, video: VideoInfo) -> Detector: ...

    def detect(self, frames: Sequence[Frame]) -> list[Detections]: ...

"""What a detector is, and what it returns.

A new detector is one file with a class that fits `Detector`, and one line in ``registry.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from objectstates.base.choices import DETECTION_THRESHOLD
from objectstates.base.errors import SettingError
from objectstates.features.backbones import Backbone, FeatureMaps
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


@dataclass(frozen=True)
class DetectorOptions:
    """Options of all detectors.

    object_name : the class to detect, for detectors of more than one.
    threshold : the least score of a detection.
    device : where networks run: ``cpu`` or ``cuda``.
    threads : on the CPU; one, because videos are processed one per core.
    clips : the clips to be processed, for detectors that depend on them.
    """

    object_name: str | None = None
    threshold: float = DETECTION_THRESHOLD
    device: str = "cpu"
    threads: int = 1
    clips: Iterable[ClipSpan] = ()


class Detector(Protocol):
    """Detects object candidates in frames.

    ``for_clip`` gives the detector of one clip: itself where a frame is enough to detect in,
    another one where the clip's name or its other frames matter. It is called even if all
    detections are cached, so it must be cheap. The clip's frames are then passed to ``detect`` in
    the order of time, some at once; it returns one `Detections` for each.
    """

    @property
    def fingerprint(self) -> str:
        """Part of cache keys: changes whenever the same frames may give other detections."""

    def for_clip(self, clip: ClipSpan, video: VideoInfo, /) -> Detector: ...

    def detect(self, frames: Sequence[Frame], /) -> list[Detections]: ...


def class_index(model: str, names: Mapping[int, str], object_name: str | None) -> int | None:
    """Index of the class of a name, in upper or lower case; None, for any, without a name."""
    if object_name is None:
        return None
    for index, name in names.items():
        if name.casefold() == object_name.casefold():
            return int(index)
    listed = ", ".join(sorted(set(names.values()) - {"N/A", "__background__"}))
    raise SettingError(f"{model} has no class {object_name!r}; `object` may be {listed}")


class FrameDetector:
    """Base of detectors that need nothing but the frame: the same for all clips."""

    def for_clip(self, _clip: ClipSpan, _video: VideoInfo, /) -> Self:
        return self


@runtime_checkable
class SparseDetector(Detector, Protocol):
    """A detector that has been run on some frames only, such as boxes from a file.

    It needs no pixels: frames that are passed to it may be blank.
    """

    def was_run_on(self, frame: Frame, /) -> bool:
        """Whether no detection in this frame means that there is no object."""


@runtime_checkable
class SharedNetworkDetector(Detector, Protocol):
    """A detector that may run the same network as the backbone."""

    def detect_with_maps(
        self, frames: Sequence[Frame], backbone: Backbone
    ) -> tuple[list[Detections], FeatureMaps]:
        """`detect` and `Backbone.device_maps` of frames of one size.

        The network runs once per frame if it is the backbone's, at the same resolution.
        """

"""Detectors that users train: the few-shot detector, or a Faster R-CNN."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from objectstates.detect.detections import Detections, DetectorOptions
from objectstates.video.reader import Frame


class TrainedDetector(Protocol):
    """A detector of one kind of object, read from the file that training wrote."""

    @property
    def object(self) -> str:
        """The category it was trained on."""

    @property
    def threshold(self) -> float:
        """The least score of a detection."""

    def with_threshold(self, threshold: float, /) -> TrainedDetector: ...

    def detect(self, frames: Sequence[Frame], /) -> list[Detections]: ...


def load_trained(path: str | Path, options: DetectorOptions | None = None) -> TrainedDetector:
    """Read the file of either kind, which is recognised by its content."""
    options = options or DetectorOptions()
    if _is_of_torch(Path(path)):
        from objectstates.detect import rcnn

        return rcnn.load(path, options)
    from objectstates.detect import fewshot

    return fewshot.load(path, options.threshold)


def _is_of_torch(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("data.pkl") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False  # the reader of few-shot detectors says what is wrong

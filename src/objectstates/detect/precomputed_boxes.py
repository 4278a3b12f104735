"""``boxes:FILE``: the user's own detections or annotations as a detector.

``box_file_formats.py`` describes the formats. Videos are matched by the end of their paths: the
file's name must be the same, and of several the one with most folders in common is taken. Frames
are matched by time: a frame gets the boxes of the nearest time, if that is within half a frame.
Where boxes are of every n-th frame only, the others count as not looked at.
Boxes are in pixels of the upright video at its full size, or of an image of the stated size.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from objectstates.base.choices import DETECTION_THRESHOLD
from objectstates.base.errors import DetectorError, SettingError
from objectstates.detect.box_file_formats import BoxRow, VideoName, read_boxes, video_name
from objectstates.detect.detections import Boxes, Detections, DetectorOptions, FrameDetector
from objectstates.detect.nms import best_detections
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, VideoInfo, image_series

VERSION = 1  # part of fingerprints: raise it when the same file may give other boxes


class BoxesDetector:
    """The boxes of a file; ``for_clip`` selects those of a clip's video.

    object_name : the label, in upper or lower case; None for all. Files without names of labels
        are taken to be of the object.
    threshold : the least score. Annotations have 1.
    """

    def __init__(
        self,
        path: str | Path,
        object_name: str | None = None,
        *,
        threshold: float = DETECTION_THRESHOLD,
    ) -> None:
        self._path = Path(path)
        self._threshold = threshold
        found = read_boxes(self._path)
        wanted = _wanted(self._path, found.labels, object_name)
        self._rows: dict[VideoName, list[BoxRow]] = {name: [] for name in sorted(found.videos)}
        for row in found.rows:
            if wanted is None or row.label in wanted:
                for name in row.videos:
                    self._rows[name].append(row)
        rows = repr((VERSION, threshold, self._rows)).encode()
        self.fingerprint = f"boxes-{hashlib.sha256(rows).hexdigest()[:16]}"

    def check(self, clips: Iterable[ClipSpan]) -> None:
        """Raise if the file has boxes of no clip, or if two videos match the same name."""
        videos = {os.path.abspath(clip.video): clip.video for clip in clips}
        names = {path: self._name_of(video) for path, video in videos.items()}
        counts = Counter(name for name in names.values() if name is not None)
        if videos and not counts:
            raise DetectorError(
                f"{self._path}: these boxes are of {_some(map('/'.join, self._rows))}, "
                f"of no video given: {_some(v.name for v in videos.values())}; "
                "name the one as the other"
            )
        for name, count in counts.items():
            if count > 1:
                same = [str(videos[path]) for path, n in names.items() if n == name]
                raise DetectorError(
                    f"{self._path}: {'/'.join(name)!r} may be any of {_some(same)}; "
                    "write folder/video in the file"
                )

    def for_clip(self, clip: ClipSpan, video: VideoInfo, /) -> ClipBoxes:
        name = self._name_of(clip.video)
        if name is None:
            raise DetectorError(
                f"{clip.video}: {self._path} has no boxes of this video, "
                f"only of {_some(map('/'.join, self._rows))}"
            )
        return _clip_boxes(self._rows[name], video, self._threshold)

    def detect(self, _frames: Sequence[Frame]) -> list[Detections]:
        raise SettingError(f"{self._path}: the video must be known: call for_clip first")

    def _name_of(self, video: Path) -> VideoName | None:
        """The name of a video in the file."""
        path = os.path.abspath(video)
        parts = video_name(path)
        tails = {name: _common_tail(name, parts) for name in self._rows}
        longest = max(tails.values(), default=0)
        if longest == 0:
            return None
        names = [name for name, tail in tails.items() if tail == longest]
        if any(self._rows[name] != self._rows[names[0]] for name in names):
            raise DetectorError(
                f"{video}: {self._path} may name this by any of {_some(map('/'.join, names))}; "
                "name the folder of the video as the file does"
            )
        return names[0]


def load_boxes(path: str, options: DetectorOptions) -> BoxesDetector:
    """The detector ``boxes:FILE``, once the file is known to have boxes of the clips."""
    detector = BoxesDetector(path, options.object_name, threshold=options.threshold)
    detector.check(options.clips)
    return detector


@dataclass(frozen=True, eq=False)
class ClipBoxes(FrameDetector):
    """The boxes of one video, by time.

    times : (m,) seconds of the frames that have boxes, increasing.
    starts : (m + 1,) index of the first box of each time.
    boxes, scores : (n, 4), (n,) in pixels of the video.
    tolerance : largest difference in seconds from a frame's time.
    spacing : seconds between frames that were looked at, typically; others have no boxes because
        nobody looked.
    """

    times: npt.NDArray[np.float64]
    starts: npt.NDArray[np.intp]
    boxes: Boxes
    scores: npt.NDArray[np.float32]
    tolerance: float
    threshold: float
    spacing: float

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(repr((VERSION, self.tolerance, self.threshold)).encode())
        for array in (self.times, self.starts, self.boxes, self.scores):
            digest.update(array.tobytes())
        return f"boxes-{digest.hexdigest()[:16]}"

    def detect(self, frames: Sequence[Frame]) -> list[Detections]:
        return [self._at(frame) for frame in frames]

    def was_run_on(self, frame: Frame) -> bool:
        """Whether the frame has boxes, or is one that would have: frames at equal distances."""
        if self._nearest(frame) is not None or self.spacing <= 3 * self.tolerance:
            return True
        place = (frame.time - self.times[0]) / self.spacing
        return bool(abs(place - round(place)) * self.spacing <= self.tolerance)

    def _nearest(self, frame: Frame) -> int | None:
        """Index of the time that is the frame's."""
        after = int(np.searchsorted(self.times, frame.time))
        near = range(max(0, after - 1), min(len(self.times), after + 1))
        nearest = min(near, key=lambda m: abs(self.times[m] - frame.time), default=None)
        if nearest is None or abs(self.times[nearest] - frame.time) > self.tolerance:
            return None
        return nearest

    def _at(self, frame: Frame) -> Detections:
        nearest = self._nearest(frame)
        if nearest is None:
            return Detections.none()
        part = slice(self.starts[nearest], self.starts[nearest + 1])
        boxes = np.divide(self.boxes[part], frame.scale * 2, dtype=np.float32)
        size = (frame.image.shape[0], frame.image.shape[1])
        return best_detections(
            boxes, self.scores[part], size, threshold=self.threshold, overlap=None
        )


def _clip_boxes(rows: Sequence[BoxRow], video: VideoInfo, threshold: float) -> ClipBoxes:
    position, rate, score = (np.array([row[k] for row in rows], np.float64) for k in (1, 2, 4))
    named = np.array([row.from_name for row in rows], bool)
    position = position - np.where(named, _first_number(video.path), 0)
    times = position / np.where(np.isnan(rate), video.fps, rate)
    boxes = np.array([row.box for row in rows], np.float64).reshape(-1, 4)
    sizes = np.array([row.size for row in rows], np.float64).reshape(-1, 2)
    boxes *= np.tile(_scale(sizes, video), 2)
    order = np.argsort(times, kind="stable")
    distinct, starts = np.unique(times[order], return_index=True)
    return ClipBoxes(
        times=distinct,
        starts=np.append(starts, len(rows)),
        boxes=boxes[order].astype(np.float32),
        scores=score[order].astype(np.float32),
        tolerance=0.5 / video.fps + 1e-6,
        threshold=threshold,
        spacing=float(np.median(np.diff(distinct))) if len(distinct) > 1 else 0.0,
    )


def _first_number(path: Path) -> int:
    """The number of the first image of a folder of images; 0 for a video file."""
    series = image_series(os.listdir(path)) if os.path.isdir(path) else []
    return series[0][0] if series else 0


def _scale(sizes: npt.NDArray[np.float64], video: VideoInfo) -> npt.NDArray[np.float64]:
    """(n, 2) factors from x and y in images of the stated (n, 2) sizes to the video's pixels."""
    factors = np.where(np.isnan(sizes), 1.0, np.array([video.width, video.height]) / sizes)
    stretched = np.abs(np.log(factors[:, 0] / factors[:, 1])) > 0.05
    if stretched.any():
        width, height = sizes[stretched.argmax()]
        raise DetectorError(
            f"{video.path}: its boxes are of images of {width:g} x {height:g} pixels, the upright "
            f"video has {video.width} x {video.height}: give boxes of the upright video"
        )
    return factors


def _wanted(path: Path, labels: set[str], object_name: str | None) -> set[str] | None:
    """Labels of the object, or None for all."""
    if object_name is None:
        return None
    wanted = {label for label in labels if label.casefold() == object_name.casefold()}
    if wanted:
        return wanted
    if not labels or (len(labels) == 1 and next(iter(labels)).isdigit()):
        return None  # no names, or one class with a number for its name
    raise SettingError(
        f"{path}: no box is labelled {object_name!r}; `object` may be {_some(sorted(labels))}"
    )


def _common_tail(a: VideoName, b: VideoName) -> int:
    pairs = zip(reversed(a), reversed(b), strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def _some(names: Iterable[str], most: int = 8) -> str:
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more

"""One pass over the frames of a clip: what is seen of its objects and its motion.

Every frame goes through here once. Some 25 times a second it is tracked, a dozen times the flow is
taken, and 5 times a second one forward pass of the backbone serves the detector (where it uses the
same one), the appearance of all boxes, and the description of the whole frame.

The appearance of a tracklet needs its boxes, which are known only when the track has ended, for
tracks are linked in both directions. So looks (the maps of frames, on the GPU if the backbone runs
there) and motion are kept until no track to come can reach back to them, ten seconds or so: longer
tracks are handed out in parts. What is done is added to tables on disk. So the memory is flat
however long the clip, but for times, boxes and detections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.cache import Arrays
from objectstates.base.errors import VideoError
from objectstates.base.row_table import GROUP, Rows
from objectstates.detect.detections import Detections, Detector
from objectstates.features.backbones import Backbone, Look
from objectstates.features.chunks import ChunkAverages, chunk_intervals
from objectstates.features.flow import FlowEstimator
from objectstates.features.object_motion import (
    OBJECT_MOTION_DIM,
    MotionField,
    motion_field,
    object_motion,
)
from objectstates.features.roi_pooling import average
from objectstates.features.trajectories import HOF_DIM, DenseTrajectories
from objectstates.track.tracker import Tracker
from objectstates.track.tracklets import TrackPiece, cut_tracks
from objectstates.track.tracks import Track
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, read_frames

LONGEST_TRACK = 10.0  # seconds; for as long are maps kept, 0.3 MB each
TRACK_FPS = 25.0
DETECT_FPS = 5.0
FLOW_FPS = 12.5  # enough for the motion of objects; trajectories want every frame

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ObserveSettings:
    """How a clip is looked at.

    tracklet_seconds : length that tracks are cut into, about.
    context : factor by which boxes are enlarged before their appearance is taken.
    max_side : the longer side of frames is brought down to this many pixels.
    words : also gather the descriptors of the paper's bags of words.
    image_fps : frames per second of folders of images.
    batch : frames that the detector and the backbone get at once; more than 1 pays on a GPU only.
    """

    tracklet_seconds: float = 1.0
    context: float = 1.25
    max_side: int = 480
    words: bool = False
    image_fps: float = 25.0
    batch: int = 1


@dataclass(frozen=True, eq=False)
class Observation:
    """What was seen of a clip; plain arrays, so that it can be kept. The large ones lie on disk.

    span : (2,) start and end of what could be read, in seconds of the video.
    tracklet_span : (n, 2) start and end; ``tracklet_score`` (n,), ``tracklet_feature`` (n, d).
    boxes : (B, 5) time, x1, y1, x2, y2 in pixels of the video; tracklet i's begin at
        ``box_offsets[i]``.
    chunk_span : (T, 2) start and end; ``chunk_feature`` (T, D), object motion and frame appearance.
    hof, hof_time, conv, conv_time : the paper's descriptors (k, 108) and (c, C) in the order of
        time, and their times (k, 1) and (c, 1); empty unless asked for.
    frames : (1,) how many were read.
    """

    span: Floats
    tracklet_span: Floats
    tracklet_score: Floats
    tracklet_feature: Rows
    boxes: Floats
    box_offsets: npt.NDArray[np.int64]
    chunk_span: Floats
    chunk_feature: Rows
    hof: Rows
    hof_time: Rows
    conv: Rows
    conv_time: Rows
    frames: npt.NDArray[np.int64]
    problems: npt.NDArray[np.str_]

    def arrays(self) -> dict[str, npt.NDArray[Any] | Rows]:
        return dict(vars(self))


def observe(
    clip: ClipSpan,
    detector: Detector,
    backbone: Backbone,
    settings: ObserveSettings,
    *,
    known_detections: DetectionLog | None = None,
    scratch: Path | None = None,
    tick: Callable[[int], None] = lambda count: None,
) -> tuple[Observation, DetectionLog]:
    """Look at all frames of a clip once.

    detector : the one for this clip (``Detector.for_clip``).
    known_detections : what it found in an earlier run, to spare it.
    scratch : folder for what is seen, see `Rows`; the system's temporary one unless given.
    tick : called with the number of frames read since the last call.
    """
    with read_frames(
        clip.video,
        clip.start,
        clip.end,
        fps=TRACK_FPS,
        max_side=settings.max_side,
        image_fps=settings.image_fps,
    ) as reading:
        log = known_detections or DetectionLog()
        unspared = None if known_detections is not None else detector
        eyes = _Eyes(unspared, log, backbone, settings, scratch)
        for frames in _gulps(reading, settings.batch):
            eyes.see(frames)
            tick(len(frames))
        period = 1 / min(max(reading.info.fps, 1.0), TRACK_FPS)
        return eyes.finish(period, reading.problems), log


@dataclass
class DetectionLog:
    """What a detector found in a clip, by the time of the frame."""

    times: list[float] = field(default_factory=list)
    found: list[Detections] = field(default_factory=list)

    def add(self, time: float, detections: Detections) -> None:
        self.times.append(time)
        self.found.append(detections)

    def at(self, time: float) -> Detections:
        index = int(np.searchsorted(self.times, time - 1e-6))
        if index < len(self.times) and abs(self.times[index] - time) < 1e-6:
            return self.found[index]
        return Detections.none()

    def arrays(self) -> Arrays:
        counts = np.array([len(found) for found in self.found], np.int64)
        empty = Detections.none()
        return {
            "times": np.array(self.times, np.float64),
            "counts": counts,
            "boxes": np.concatenate([empty.boxes, *(found.boxes for found in self.found)]),
            "scores": np.concatenate([empty.scores, *(found.scores for found in self.found)]),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> DetectionLog:
        edges = np.cumsum(arrays["counts"])[:-1]
        boxes, scores = np.split(arrays["boxes"], edges), np.split(arrays["scores"], edges)
        found = [Detections(b, s) for b, s in zip(boxes, scores, strict=True)]
        return cls(arrays["times"].tolist(), found[: len(arrays["times"])])


class _Every:
    """True for the first frame of every period, whatever the frame rate."""

    def __init__(self, fps: float) -> None:
        self.fps, self.last = fps, -1

    def __call__(self, time: float) -> bool:
        period = int(np.floor(time * self.fps + 1e-6))
        due, self.last = period != self.last, period
        return due


@dataclass(frozen=True, slots=True)
class _Due:
    """A frame, and whether it is one of those that the detector and the backbone look at."""

    frame: Frame
    look: bool


def _gulps(frames: Iterable[Frame], batch: int) -> Iterator[list[_Due]]:
    """Frames in groups, each with ``batch`` to be looked at, of one size."""
    due, gulp, looks = _Every(DETECT_FPS), list[_Due](), 0
    for frame in frames:
        look = due(frame.time)
        resized = gulp and gulp[-1].frame.image.shape != frame.image.shape
        if resized or (look and looks == batch):
            yield gulp
            gulp, looks = [], 0
        gulp.append(_Due(frame, look))
        looks += look
    if gulp:
        yield gulp


class _Eyes:
    """The state of one pass: what is still open, and what is done."""

    def __init__(
        self,
        detector: Detector | None,
        log: DetectionLog,
        backbone: Backbone,
        settings: ObserveSettings,
        scratch: Path | None,
    ) -> None:
        self.detector, self.log = detector, log
        self.backbone, self.settings = backbone, settings
        self.tracker = Tracker(longest=LONGEST_TRACK)
        self.due_flow = _Every(TRACK_FPS if settings.words else FLOW_FPS)
        self.flow = FlowEstimator()
        self.trajectories = DenseTrajectories() if settings.words else None
        self.first: float | None = None
        self.last = 0.0
        self.count = 0
        self.scale = (1.0, 1.0)
        # open: tracks to come may reach back to it
        self.looks: list[tuple[list[float], Look]] = []  # of batches of frames, at their times
        self.fields: list[MotionField] = []
        self.pieces: list[TrackPiece] = []
        self.waiting: list[tuple[TrackPiece, Floats32]] = []
        self.done = _Done(backbone, scratch)

    def see(self, gulp: list[_Due]) -> None:
        looked_at = [due.frame for due in gulp if due.look]
        times = [frame.time for frame in looked_at]
        if looked_at:  # a GPU goes to work on them, and is waited for where its answer is needed
            look = self.backbone.look([frame.image for frame in looked_at])
            self.looks.append((times, look))
        found = dict(zip(times, self._detect(looked_at), strict=True))
        for due in gulp:
            frame = due.frame
            if self.first is None:
                self.first = frame.time
                self.done.begin(frame.time)
            gray = np.asarray(cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY), np.uint8)
            self.tracker.update(frame.time, gray, found.get(frame.time))
            if self.tracker.cut:
                self.flow.reset()
            if self.due_flow(frame.time):
                self._move(frame.time, gray)
            self.last, self.scale = frame.time, frame.scale
            self.count += 1
            if due.look:
                self._settle(self.tracker.pop_finished(), self.tracker.settled - 1e-6)
        if looked_at:
            self._describe(times, look)

    def _detect(self, frames: list[Frame]) -> list[Detections]:
        if self.detector is None:
            return [self.log.at(frame.time) for frame in frames]
        found = self.detector.detect(frames)
        for frame, detections in zip(frames, found, strict=True):
            self.log.add(frame.time, detections)
        return found

    def _describe(self, times: list[float], look: Look) -> None:
        """The frames as wholes."""
        for time, whole in zip(times, look.frames(), strict=True):
            self.done.frames.add(time, whole)
        if self.settings.words:
            for time, cells in zip(times, look.cells(), strict=True):
                self.done.add_conv(time, cells)

    def _move(self, time: float, gray: npt.NDArray[np.uint8]) -> None:
        step = self.flow.update(time, gray)
        if step is None:
            return
        self.fields.append(motion_field(step))
        if self.trajectories is not None:
            ended = self.trajectories.update(step)
            if len(ended):
                self.done.add_hof(ended.time, ended.hof)

    def _settle(self, tracks: list[Track], until: float) -> None:
        """Describe tracks that have ended, and close what lies before ``until`` (seconds)."""
        new = cut_tracks(tracks, seconds=self.settings.tracklet_seconds)
        self.waiting += self._appearances(new)
        self.pieces = sorted(self.pieces + new, key=_by_start)
        self.waiting.sort(key=lambda pair: _by_start(pair[0]))
        while self.fields and self.fields[0].end < until:
            motion = self.fields.pop(0)
            alive, boxes = _alive(self.pieces, motion.end)
            scores = np.array([self.pieces[index].score for index in alive])
            self.done.motion.add(motion.time, object_motion(motion, boxes, scores))
        while self.waiting and self.waiting[0][0].start < until:
            self.done.add_tracklet(*self.waiting.pop(0), self.scale)
        self.looks = [(times, look) for times, look in self.looks if times[-1] >= until]
        self.pieces = [piece for piece in self.pieces if piece.end > until]
        self.done.settle()

    def _appearances(self, pieces: list[TrackPiece]) -> list[tuple[TrackPiece, Floats32]]:
        """The pieces with the appearance of their boxes.

        One between two looks has no appearance, and is of no use.
        """
        seen: list[list[Floats32]] = [[] for _ in pieces]
        for times, look in self.looks:
            alive = [_alive(pieces, time) for time in times]
            if not any(indices for indices, _ in alive):
                continue
            described = look.boxes([boxes for _, boxes in alive], context=self.settings.context)
            for (indices, _), features in zip(alive, described, strict=True):
                for index, feature in zip(indices, features, strict=True):
                    seen[index].append(feature)
        return [(p, average(looks)) for p, looks in zip(pieces, seen, strict=True) if looks]

    def finish(self, period: float, problems: list[str]) -> Observation:
        if self.first is None:
            raise VideoError("no frame could be read")
        self._settle(self.tracker.finish(), np.inf)
        return self.done.observation(self.first, self.last + period, self.count, problems)


class _Done:
    """What is known of a clip once and for all, in tables that grow on disk."""

    def __init__(self, backbone: Backbone, scratch: Path | None) -> None:
        channels = dict(zip(backbone.strides, backbone.channels, strict=True))
        pooled = [channels[stride] for stride in backbone.appearance_strides]
        self._frame_size = backbone.channels[-1]
        self._scratch = scratch
        self._spans = self._table(2, np.float64)
        self._scores = self._table(1, np.float64)
        self._features = self._table(4 * sum(pooled), np.float32)
        self._boxes = self._table(5, np.float64)
        self._box_offsets = [0]
        self._hof, self._hof_time = self._table(HOF_DIM, np.float16), self._table(1, np.float64)
        self._conv, self._conv_time = self._table(pooled[0], np.float16), self._table(1, np.float64)

    def _table(self, width: int, dtype: npt.DTypeLike) -> Rows:
        return Rows(width, dtype, self._scratch)

    def begin(self, time: float) -> None:
        self.motion = ChunkAverages(time, OBJECT_MOTION_DIM, self._scratch)
        self.frames = ChunkAverages(time, self._frame_size, self._scratch)

    def settle(self) -> None:
        self.motion.settle()
        self.frames.settle()

    def add_tracklet(
        self, piece: TrackPiece, feature: Floats32, scale: tuple[float, float]
    ) -> None:
        self._spans.extend([piece.start, piece.end])
        self._scores.extend([piece.score])
        self._features.extend(feature)
        boxes = piece.boxes * np.array([*scale, *scale])
        self._boxes.extend(np.column_stack([piece.times, boxes]))
        self._box_offsets.append(len(self._boxes))

    def add_hof(self, time: float, hof: Floats32) -> None:
        self._hof.extend(hof)
        self._hof_time.extend(np.full(len(hof), time))

    def add_conv(self, time: float, cells: npt.NDArray[np.float16]) -> None:
        self._conv.extend(cells)
        self._conv_time.extend(np.full(len(cells), time))

    def observation(self, start: float, end: float, count: int, problems: list[str]) -> Observation:
        motion, frames = self.motion.finish(end), self.frames.finish(end)
        chunks = self._table(motion.width + frames.width, np.float32)
        for pair in zip(motion.groups(GROUP), frames.groups(GROUP), strict=True):
            chunks.extend(np.concatenate(pair, axis=1))
        return Observation(
            span=np.array([start, end]),
            tracklet_span=self._spans.read(),
            tracklet_score=self._scores.read()[:, 0],
            tracklet_feature=self._features,
            boxes=self._boxes.read(),
            box_offsets=np.array(self._box_offsets, np.int64),
            chunk_span=chunk_intervals(start, end),
            chunk_feature=chunks,
            hof=self._hof,
            hof_time=self._hof_time,
            conv=self._conv,
            conv_time=self._conv_time,
            frames=np.array([count]),
            problems=np.array(problems, dtype=np.str_),
        )


def _by_start(piece: TrackPiece) -> tuple[float, float, int]:
    return piece.start, piece.end, piece.track


def _alive(pieces: Iterable[TrackPiece], time: float) -> tuple[list[int], Floats]:
    """The pieces that have a box at this time, and those boxes, (n, 4)."""
    indices, boxes = [], []
    for index, piece in enumerate(pieces):
        if piece.start <= time < piece.end:
            at = int(np.abs(piece.times - time).argmin())
            indices.append(index)
            boxes.append(piece.boxes[at])
    return indices, np.reshape(boxes, (-1, 4)).astype(np.float64)

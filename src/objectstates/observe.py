"""One pass over the frames of a clip: what is seen of its objects and its motion.

Every frame goes through here once. Some 25 times a second it is tracked, a dozen times the flow is
taken, and 5 times a second one forward pass of the backbone serves the detector (where it uses the
same one), the appearance of all boxes, and the description of the whole frame.

The appearance of a tracklet needs its boxes, which are known only when the track has ended, for
tracks are linked in both directions. So the maps are kept for a while: the clip is worked on in
segments of half a minute, at whose ends all tracks end too. That costs nothing, as tracks are cut
into tracklets of a second anyway, and keeps the memory flat however long the clip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.cache import Arrays
from objectstates.detect.detections import Detections, Detector
from objectstates.errors import VideoError
from objectstates.features.backbones import Backbone, FeatureMap, at_strides
from objectstates.features.chunks import chunk_averages, chunk_intervals
from objectstates.features.flow import FlowEstimator
from objectstates.features.motion import (
    OBJECT_MOTION_DIM,
    MotionField,
    motion_field,
    object_motion,
)
from objectstates.features.roi import average, describe_boxes, describe_frames
from objectstates.features.trajectories import HOF_DIM, DenseTrajectories
from objectstates.sources import ClipSpan
from objectstates.track import Tracker, TrackPiece, cut_tracks
from objectstates.video import Frame, read_frames

SEGMENT_SECONDS = 30.0
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
    """What was seen of a clip; plain arrays, so that it can be kept.

    span : (2,) start and end of what could be read, in seconds of the video.
    tracklet_span : (n, 2) start and end; ``tracklet_score`` (n,), ``tracklet_feature`` (n, d).
    boxes : (B, 5) time, x1, y1, x2, y2 in pixels of the video; tracklet i's begin at
        ``box_offsets[i]``.
    chunk_span : (T, 2) start and end; ``chunk_feature`` (T, D), object motion and frame appearance.
    hof, hof_time, conv, conv_time : the paper's descriptors (k, 108) and (c, C), empty unless asked
        for.
    frames : (1,) how many were read.
    """

    span: Floats
    tracklet_span: Floats
    tracklet_score: Floats
    tracklet_feature: Floats32
    boxes: Floats
    box_offsets: npt.NDArray[np.int64]
    chunk_span: Floats
    chunk_feature: Floats32
    hof: npt.NDArray[np.float16]
    hof_time: Floats
    conv: npt.NDArray[np.float16]
    conv_time: Floats
    frames: npt.NDArray[np.int64]
    problems: npt.NDArray[np.str_]

    def arrays(self) -> Arrays:
        return dict(vars(self))


def observe(
    clip: ClipSpan,
    detector: Detector,
    backbone: Backbone,
    settings: ObserveSettings,
    *,
    known_detections: DetectionLog | None = None,
    tick: Callable[[int], None] = lambda count: None,
) -> tuple[Observation, DetectionLog]:
    """Look at all frames of a clip once.

    detector : the one for this clip (``Detector.for_clip``).
    known_detections : what it found in an earlier run, to spare it.
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
        eyes = _Eyes(None if known_detections is not None else detector, log, backbone, settings)
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
    """The state of one pass: what is gathered in the current segment, and in the whole clip."""

    def __init__(
        self,
        detector: Detector | None,
        log: DetectionLog,
        backbone: Backbone,
        settings: ObserveSettings,
    ) -> None:
        self.detector, self.log = detector, log
        self.backbone, self.settings = backbone, settings
        self.due_flow = _Every(TRACK_FPS if settings.words else FLOW_FPS)
        self.flow = FlowEstimator()
        self.trajectories = DenseTrajectories() if settings.words else None
        self.first: float | None = None
        self.last = 0.0
        self.count = 0
        # of the whole clip
        self.pieces: list[TrackPiece] = []
        self.features: list[Floats32] = []
        self.motion_times: list[float] = []
        self.motions: list[Floats32] = []
        self.frame_times: list[float] = []
        self.frame_features: list[Floats32] = []
        self.hof: list[tuple[Floats, Floats32]] = []
        self.conv: list[tuple[float, Floats32]] = []
        self.scale = (1.0, 1.0)
        self._new_segment(0.0)

    def _new_segment(self, start: float) -> None:
        self.segment_start = start
        self.tracker = Tracker()
        self.maps: list[tuple[float, tuple[FeatureMap, ...]]] = []
        self.fields: list[MotionField] = []

    def see(self, gulp: list[_Due]) -> None:
        looked_at = [due.frame for due in gulp if due.look]
        found = dict(zip([f.time for f in looked_at], self._detect(looked_at), strict=True))
        maps = dict(zip([f.time for f in looked_at], self._maps(looked_at), strict=True))
        for due in gulp:
            frame = due.frame
            if self.first is None:
                self.first = self.segment_start = frame.time
            if frame.time >= self.segment_start + SEGMENT_SECONDS:
                self._end_segment()
                self._new_segment(frame.time)
            if due.look:
                self._describe(frame.time, maps[frame.time])
            gray = np.asarray(cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY), np.uint8)
            self.tracker.update(frame.time, gray, found.get(frame.time))
            if self.tracker.cut:
                self.flow.reset()
            if self.due_flow(frame.time):
                self._move(frame.time, gray)
            self.last, self.scale = frame.time, frame.scale
            self.count += 1

    def _detect(self, frames: list[Frame]) -> list[Detections]:
        if self.detector is None:
            return [self.log.at(frame.time) for frame in frames]
        found = self.detector.detect(frames)
        for frame, detections in zip(frames, found, strict=True):
            self.log.add(frame.time, detections)
        return found

    def _maps(self, frames: list[Frame]) -> list[tuple[FeatureMap, ...]]:
        """The maps of each frame, from one pass for all."""
        if not frames:
            return []
        together = self.backbone.maps(np.stack([frame.image for frame in frames]))
        return [
            tuple(replace(level, values=level.values[i : i + 1]) for level in together)
            for i in range(len(frames))
        ]

    def _describe(self, time: float, maps: tuple[FeatureMap, ...]) -> None:
        self.maps.append((time, at_strides(maps, self.backbone.appearance_strides)))
        self.frame_times.append(time)
        self.frame_features.append(describe_frames(maps[-1:])[0])
        if self.settings.words:
            cells = at_strides(maps, self.backbone.appearance_strides[:1])[0].values[0]
            self.conv.append((time, cells.reshape(-1, cells.shape[-1])))

    def _move(self, time: float, gray: npt.NDArray[np.uint8]) -> None:
        step = self.flow.update(time, gray)
        if step is None:
            return
        self.fields.append(motion_field(step))
        if self.trajectories is not None:
            ended = self.trajectories.update(step)
            if len(ended):
                self.hof.append((np.full(len(ended), ended.time), ended.hof))

    def _end_segment(self) -> None:
        """Tracks are complete now: take the appearance and the motion of their boxes."""
        tracks = self.tracker.finish()
        pieces = cut_tracks(tracks, seconds=self.settings.tracklet_seconds)
        looks: list[list[Floats32]] = [[] for _ in pieces]
        for time, maps in self.maps:
            alive, boxes = _alive(pieces, time)
            if alive:
                described = describe_boxes(maps, [boxes], context=self.settings.context)[0]
                for index, feature in zip(alive, described, strict=True):
                    looks[index].append(feature)
        for piece, seen in zip(pieces, looks, strict=True):
            if seen:  # a piece between two looks has no appearance, and is of no use
                self.pieces.append(piece)
                self.features.append(average(seen))
        for motion in self.fields:
            alive, boxes = _alive(pieces, motion.end)
            scores = np.array([pieces[index].score for index in alive])
            self.motion_times.append(motion.time)
            self.motions.append(object_motion(motion, boxes, scores))

    def finish(self, period: float, problems: list[str]) -> Observation:
        if self.first is None:
            raise VideoError("no frame could be read")
        self._end_segment()
        order = sorted(range(len(self.pieces)), key=lambda i: (self.pieces[i].start, i))
        pieces = [self.pieces[i] for i in order]
        features = [self.features[i] for i in order]
        chunks = chunk_intervals(self.first, self.last + period)
        motion = np.reshape(self.motions, (-1, OBJECT_MOTION_DIM))
        scale = np.array([*self.scale, *self.scale])
        rows = [
            np.column_stack([piece.times, piece.boxes * scale]).astype(np.float64)
            for piece in pieces
        ]
        size = features[0].shape[0] if features else _appearance_size(self.backbone)
        hof = np.concatenate([np.empty((0, HOF_DIM)), *(h for _, h in self.hof)])
        channels = self.backbone.channels[
            self.backbone.strides.index(self.backbone.appearance_strides[0])
        ]
        return Observation(
            span=np.array([self.first, self.last + period]),
            tracklet_span=np.array([(p.start, p.end) for p in pieces]).reshape(-1, 2),
            tracklet_score=np.array([p.score for p in pieces], np.float64),
            tracklet_feature=np.reshape(features, (-1, size)).astype(np.float32),
            boxes=np.concatenate([np.empty((0, 5)), *rows]),
            box_offsets=np.cumsum([0, *map(len, rows)]).astype(np.int64),
            chunk_span=chunks,
            chunk_feature=np.concatenate(
                [
                    chunk_averages(np.array(self.motion_times), motion, chunks),
                    chunk_averages(
                        np.array(self.frame_times), np.array(self.frame_features), chunks
                    ),
                ],
                axis=1,
            ),
            hof=hof.astype(np.float16),
            hof_time=np.concatenate([np.empty(0), *(times for times, _ in self.hof)]),
            conv=np.concatenate(
                [np.empty((0, channels)), *(cells for _, cells in self.conv)]
            ).astype(np.float16),
            conv_time=np.repeat(
                [time for time, _ in self.conv], [len(cells) for _, cells in self.conv]
            ).astype(np.float64),
            frames=np.array([self.count]),
            problems=np.array(problems, dtype=np.str_),
        )


def _alive(pieces: Iterable[TrackPiece], time: float) -> tuple[list[int], Floats]:
    """The pieces that have a box at this time, and those boxes, (n, 4)."""
    indices, boxes = [], []
    for index, piece in enumerate(pieces):
        if piece.start <= time < piece.end:
            at = int(np.abs(piece.times - time).argmin())
            indices.append(index)
            boxes.append(piece.boxes[at])
    return indices, np.reshape(boxes, (-1, 4)).astype(np.float64)


def _appearance_size(backbone: Backbone) -> int:
    channels = dict(zip(backbone.strides, backbone.channels, strict=True))
    return 4 * sum(channels[stride] for stride in backbone.appearance_strides)

"""One pass over the frames of a clip: detections, tracks, tracklet features, samples for chunks.

Frames are read in gray and tracked. Optical flow is computed on some, and some are *sampled*: they
are read in colour too, and the detector and the backbone run on them. `TimeScale` has the rates.
Where detector and backbone use the same network it runs once per frame (`SharedNetworkDetector`).

The features of a tracklet need its boxes, which are known only when the track has ended, for tracks
are linked in both directions. So feature maps (on the GPU if the backbone runs there) and motion
fields are kept until no unfinished track can begin before them, `TimeScale.longest_track` at most:
longer tracks are returned in parts. Finished features are appended to tables on disk. So memory
does not grow with the length of the clip, but for times, boxes and detections.

A long clip is observed in segments (``segments.py``), each as if it were a clip. What describes
chunks is therefore not averaged here: the windows of chunks go on across the borders of segments
(``stored_observation.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.cache import Arrays
from objectstates.base.errors import VideoError
from objectstates.base.row_table import Rows
from objectstates.detect.detections import (
    Detections,
    Detector,
    SharedNetworkDetector,
    SparseDetector,
)
from objectstates.features.backbones import Backbone, FeatureMaps
from objectstates.features.flow import FlowEstimator
from objectstates.features.object_motion import (
    OBJECT_MOTION_DIM,
    MotionField,
    motion_field,
    object_motion,
)
from objectstates.features.pyramid_flow import PyramidFlow
from objectstates.features.roi_pooling import GRID, average
from objectstates.features.trajectories import HOF_DIM, DenseTrajectories
from objectstates.ingest.clip_frames import ClipFrames, Periodic, streamed
from objectstates.ingest.settings import ObserveSettings
from objectstates.track.tracker import Tracker
from objectstates.track.tracklets import TrackPiece, cut_tracks
from objectstates.track.tracks import Track
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, GrayFrame

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Observation:
    """Tracklets and samples of a segment, as plain arrays for the cache; large ones are on disk.

    span : (2,) start and end of the frames read, in seconds of the video.
    tracklet_span : (n, 2) start and end; ``tracklet_score`` (n,), ``tracklet_feature`` (n, d).
    boxes : (B, 5) time, x1, y1, x2, y2 in pixels of the video; tracklet i's begin at
        ``box_offsets[i]``.
    motion, frame : (m, 82) object motion and (f, D) features of frames, in the order of time, and
        ``motion_time`` (m, 1), ``frame_time`` (f, 1): samples, whose averages describe chunks.
    hof, hof_time, conv, conv_time : the paper's descriptors (k, 108) and (c, C) in the order of
        time, and their times (k, 1) and (c, 1); empty unless `ObserveSettings.words`.
    frames : (1,) number of frames read.
    problems : what could not be read.
    """

    span: Floats
    tracklet_span: Floats
    tracklet_score: Floats
    tracklet_feature: Rows
    boxes: Floats
    box_offsets: npt.NDArray[np.int64]
    motion: Rows
    motion_time: Rows
    frame: Rows
    frame_time: Rows
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
    frames: ClipFrames | None = None,
    known_detections: DetectionLog | None = None,
    word_backbone: Backbone | None = None,
    scratch: Path | None = None,
    tick: Callable[[int], None] = lambda _count: None,
) -> tuple[Observation, DetectionLog]:
    """Observe the frames of a clip; return its tracklets and samples, and the detections.

    clip : a whole clip, or one segment of it.
    detector : the one of the whole clip (``Detector.for_clip``).
    frames : of the clip, if they are decoded already.
    known_detections : of an earlier run; the detector is then not called.
    word_backbone : whose finest map has the convolutional words; ``backbone`` unless given.
    scratch : folder for the tables, see `Rows`; by default the system's temporary one.
    tick : called with the number of frames read since the last call.
    """
    sparse = isinstance(detector, SparseDetector)
    opened = streamed(clip, settings, every=sparse) if frames is None else nullcontext(frames)
    with opened as source:
        log = known_detections or DetectionLog()
        used_detector = None if known_detections is not None else detector
        words = (word_backbone or backbone) if settings.words else None
        origin = clip.origin or 0.0
        clip_pass = _ClipPass(used_detector, log, backbone, words, settings, scratch, origin)
        for batch in _batches(source.frames, settings.batch):
            clip_pass.process(batch)
            tick(len(batch))
        observation = clip_pass.finish(source.end(), source.problems())
    return observation, log


@dataclass
class DetectionLog:
    """The detections in a clip, by the time of the frame; none for frames not looked at."""

    times: list[float] = field(default_factory=list)
    found: list[Detections] = field(default_factory=list)

    def add(self, time: float, detections: Detections) -> None:
        self.times.append(time)
        self.found.append(detections)

    def at(self, time: float) -> Detections | None:
        """Of the frame at that time; None if the detector was not run on it."""
        index = int(np.searchsorted(self.times, time - 1e-6))
        if index < len(self.times) and abs(self.times[index] - time) < 1e-6:
            return self.found[index]
        return None

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


def _batches(frames: Iterable[GrayFrame], size: int) -> Iterator[list[GrayFrame]]:
    """Groups of frames, each with up to ``size`` sampled ones, which are in colour."""
    group, count = list[GrayFrame](), 0
    for frame in frames:
        sampled = frame.image is not None
        if sampled and count == size:
            yield group
            group, count = [], 0
        group.append(frame)
        count += sampled
    if group:
        yield group


class _ClipPass:
    """State of one pass: what unfinished tracks may still need, and the tables of finished rows."""

    def __init__(
        self,
        detector: Detector | None,
        log: DetectionLog,
        backbone: Backbone,
        word_backbone: Backbone | None,
        settings: ObserveSettings,
        scratch: Path | None,
        origin: float,
    ) -> None:
        self.detector, self.log = detector, log
        self.sparse = detector if isinstance(detector, SparseDetector) else None
        self.backbone, self.word_backbone, self.settings = backbone, word_backbone, settings
        self.tracker = Tracker(longest=settings.scale.longest_track)
        self.flow_is_due = Periodic(settings.scale.flow_fps, origin)
        self.flow = FlowEstimator()
        self.pyramid_flow, self.trajectories = PyramidFlow(), DenseTrajectories()
        self.first: float | None = None
        self.count = 0
        self.scale = (1.0, 1.0)
        # Kept because an unfinished track may have boxes at these times:
        self.maps: list[tuple[list[float], FeatureMaps]] = []  # times of a batch, and its maps
        self.fields: list[MotionField] = []
        self.pieces: list[TrackPiece] = []
        self.described: list[tuple[TrackPiece, Floats32]] = []
        self.tables = _Tables(backbone, word_backbone, scratch)

    def process(self, batch: list[GrayFrame]) -> None:
        sampled = [Frame(f.time, f.image, f.scale) for f in batch if f.image is not None]
        self._take_known(batch)
        if sampled:
            maps = self._detect(sampled)
            self.maps.append(([frame.time for frame in sampled], maps))
        for frame in batch:
            if self.first is None:
                self.first = frame.time
            self.tracker.update(frame.time, frame.gray, self.log.at(frame.time), frame.size)
            if self.tracker.cut:
                self.flow.reset()
                self.pyramid_flow.reset()
            if self.settings.words:
                self._add_trajectories(frame.time, frame.gray)
            if self.flow_is_due(frame.time):
                self._add_flow(frame)
            self.scale = frame.scale
            self.count += 1
            if frame.image is not None:
                self._close(self.tracker.pop_finished(), self.tracker.settled - 1e-6)
        if sampled:
            self._describe_frames(sampled, maps)

    def _take_known(self, frames: list[GrayFrame]) -> None:
        """Add to the log what a detector knows without looking, of all frames, sampled or not."""
        if self.sparse is None:
            return
        for frame in frames:
            width, height = frame.size
            blank = np.broadcast_to(np.uint8(0), (height, width, 3))
            unseen = Frame(frame.time, blank, frame.scale)
            if self.sparse.was_run_on(unseen):
                self.log.add(frame.time, *self.sparse.detect([unseen]))

    def _detect(self, frames: list[Frame]) -> FeatureMaps:
        """Feature maps of sampled frames; their detections are added to the log."""
        images = [frame.image for frame in frames]
        if self.detector is None or self.sparse is not None:
            return self.backbone.device_maps(images)
        if isinstance(self.detector, SharedNetworkDetector):
            found, maps = self.detector.detect_with_maps(frames, self.backbone)
        else:
            maps = self.backbone.device_maps(images)  # first: a GPU computes them meanwhile
            found = self.detector.detect(frames)
        for frame, detections in zip(frames, found, strict=True):
            self.log.add(frame.time, detections)
        return maps

    def _describe_frames(self, frames: list[Frame], maps: FeatureMaps) -> None:
        for frame, feature in zip(frames, maps.describe_frames(), strict=True):
            self.tables.add_frame(frame.time, feature)
        if self.word_backbone is None:
            return
        if self.word_backbone is not self.backbone:
            maps = self.word_backbone.device_maps([frame.image for frame in frames])
        for frame, cells in zip(frames, maps.cells(), strict=True):
            self.tables.add_conv(frame.time, cells)

    def _add_flow(self, frame: GrayFrame) -> None:
        step = self.flow.update(frame.time, frame.gray, frame.size)
        if step is not None:
            self.fields.append(motion_field(step))

    def _add_trajectories(self, time: float, gray: npt.NDArray[np.uint8]) -> None:
        """Follow points to this frame; trajectories need every frame."""
        step = self.pyramid_flow.update(time, gray)
        if step is not None:
            ended = self.trajectories.update(step)
            if len(ended):
                self.tables.add_hof(ended.time, ended.hof)

    def _close(self, tracks: list[Track], until: float) -> None:
        """Describe finished tracks; write and drop all that no later track can change.

        until : seconds; unfinished tracks begin later.
        """
        scale = self.settings.scale
        new = cut_tracks(tracks, seconds=scale.tracklet_seconds, min_seconds=scale.shortest_track)
        self.described += self._describe_tracklets(new)
        self.pieces = sorted(self.pieces + new, key=_by_start)
        self.described.sort(key=lambda pair: _by_start(pair[0]))
        while self.fields and self.fields[0].end < until:
            motion = self.fields.pop(0)
            alive, boxes = _alive(self.pieces, motion.end)
            scores = np.array([self.pieces[index].score for index in alive])
            self.tables.add_motion(motion.time, object_motion(motion, boxes, scores))
        while self.described and self.described[0][0].start < until:
            self.tables.add_tracklet(*self.described.pop(0), self.scale)
        self.maps = [(times, maps) for times, maps in self.maps if times[-1] >= until]
        self.pieces = [piece for piece in self.pieces if piece.end > until]

    def _describe_tracklets(self, pieces: list[TrackPiece]) -> list[tuple[TrackPiece, Floats32]]:
        """Tracklets with their features; those without a sampled frame are dropped."""
        features: list[list[Floats32]] = [[] for _ in pieces]
        for times, maps in self.maps:
            alive = [_alive(pieces, time) for time in times]
            if not any(indices for indices, _ in alive):
                continue
            boxes = [boxes for _, boxes in alive]
            described = maps.describe_boxes(boxes, context=self.settings.context)
            for (indices, _), rows in zip(alive, described, strict=True):
                for index, row in zip(indices, rows, strict=True):
                    features[index].append(row)
        return [(p, average(rows)) for p, rows in zip(pieces, features, strict=True) if rows]

    def finish(self, end: float, problems: list[str]) -> Observation:
        """The result, once all frames are processed; ``end`` is when the last one ends."""
        if self.first is None:
            raise VideoError("no frame could be read")
        self._close(self.tracker.finish(), np.inf)
        return self.tables.observation(self.first, end, self.count, problems)


class _Tables:
    """Finished rows of an observation, in tables on disk."""

    def __init__(
        self, backbone: Backbone, word_backbone: Backbone | None, scratch: Path | None
    ) -> None:
        channels = dict(zip(backbone.strides, backbone.channels, strict=True))
        pooled = [channels[stride] for stride in backbone.appearance_strides]
        self._scratch = scratch
        self._span, self._score = self._table(2, np.float64), self._table(1, np.float64)
        self._feature = self._table(GRID**2 * sum(pooled), np.float32)
        self._boxes = self._table(5, np.float64)
        self._box_offsets = [0]
        self._motion = self._table(OBJECT_MOTION_DIM, np.float32)
        self._motion_time = self._table(1, np.float64)
        self._frame = self._table(backbone.channels[-1], np.float32)
        self._frame_time = self._table(1, np.float64)
        self._hof, self._hof_time = self._table(HOF_DIM, np.float16), self._table(1, np.float64)
        words = word_backbone or backbone
        finest = words.strides.index(words.appearance_strides[0])
        self._conv = self._table(words.channels[finest], np.float16)
        self._conv_time = self._table(1, np.float64)

    def _table(self, width: int, dtype: npt.DTypeLike) -> Rows:
        return Rows(width, dtype, self._scratch)

    def add_motion(self, time: float, motion: Floats32) -> None:
        self._motion.extend(motion)
        self._motion_time.extend([time])

    def add_frame(self, time: float, feature: Floats32) -> None:
        self._frame.extend(feature)
        self._frame_time.extend([time])

    def add_tracklet(
        self, piece: TrackPiece, feature: Floats32, scale: tuple[float, float]
    ) -> None:
        self._span.extend([piece.start, piece.end])
        self._score.extend([piece.score])
        self._feature.extend(feature)
        self._boxes.extend(np.column_stack([piece.times, piece.boxes * np.array([*scale, *scale])]))
        self._box_offsets.append(len(self._boxes))

    def add_hof(self, time: float, hof: Floats32) -> None:
        self._hof.extend(hof)
        self._hof_time.extend(np.full(len(hof), time))

    def add_conv(self, time: float, cells: npt.NDArray[np.float16]) -> None:
        self._conv.extend(cells)
        self._conv_time.extend(np.full(len(cells), time))

    def observation(self, start: float, end: float, count: int, problems: list[str]) -> Observation:
        return Observation(
            span=np.array([start, end]),
            tracklet_span=self._span.read(),
            tracklet_score=self._score.read()[:, 0],
            tracklet_feature=self._feature,
            boxes=self._boxes.read(),
            box_offsets=np.array(self._box_offsets, np.int64),
            motion=self._motion,
            motion_time=self._motion_time,
            frame=self._frame,
            frame_time=self._frame_time,
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
    """Indices of the pieces that have a box at this time, and those boxes, (n, 4)."""
    indices, boxes = [], []
    for index, piece in enumerate(pieces):
        if piece.start <= time < piece.end:
            at = int(np.abs(piece.times - time).argmin())
            indices.append(index)
            boxes.append(piece.boxes[at])
    return indices, np.reshape(boxes, (-1, 4)).astype(np.float64)

"""The tasks of an ingest: whole clips first, then the segments of the long ones.

The task of a short clip observes it. That of a long one finds its segments (``segments.py``), which
are the tasks of a second round. The change profile is of the whole clip. The detector ``motion``
needs it before the first frame of any segment, so the first task computes it then; for other
detectors it is a task beside the segments. Whatever a task has computed is in the cache at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import parent_process
from typing import Any

import cv2
import numpy as np

from objectstates.base.cache import content_digest, digest
from objectstates.base.errors import VideoError
from objectstates.base.jit import load_without_blas
from objectstates.detect.change_detector import ClipProposals
from objectstates.detect.detections import Detector, DetectorOptions, SparseDetector
from objectstates.detect.registry import load_detector
from objectstates.features import change_profile, trajectories
from objectstates.features.change_profile import ClipChange, clip_change
from objectstates.features.registry import backbone_device, load_backbone
from objectstates.ingest.clip_frames import ClipFrames, decoded_with_change
from objectstates.ingest.observation_stores import ObservationStores, Observed
from objectstates.ingest.observe import DetectionLog, observe
from objectstates.ingest.segments import segments_of
from objectstates.ingest.settings import VERSION, IngestSettings, ObserveSettings
from objectstates.ingest.stored_change import change_arrays, profile_arrays, stored_change
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import EmptySpanError, VideoInfo, probe

Tick = Callable[[int], None]


@dataclass(frozen=True)
class Source:
    """The video of a clip.

    content : hash of its bytes, which is computed once for all segments.
    """

    clip: ClipSpan
    video: VideoInfo
    content: str

    @property
    def key(self) -> list[Any]:
        """Of the clip's frames, part of cache keys."""
        clip = self.clip
        origin = [] if clip.origin is None else [clip.origin]
        return [self.content, clip.start, clip.end, *origin]


@dataclass(frozen=True)
class Segment:
    """A task of the second round: a segment of a long clip, or the clip's change profile.

    span : the segment; None for the change profile.
    change : the stored change of the clip, if the detector needs it.
    """

    source: Source
    span: ClipSpan | None
    change: Observed | None = None


@dataclass(frozen=True)
class LongClip:
    """A clip that is observed in segments, and its change if that is known already."""

    segments: tuple[Segment, ...]
    change: Observed | None


class _Models:
    """A detector and backbones, and what is observed with them: one per process."""

    def __init__(
        self,
        settings: IngestSettings,
        observe_settings: ObserveSettings,
        stores: ObservationStores,
        clips: Sequence[ClipSpan],
    ) -> None:
        cv2.setNumThreads(1)  # there is one process per core
        if parent_process() is not None:
            load_without_blas()
        self.settings, self.stores = observe_settings, stores
        spec, words = settings.backbones
        self.backbone = load_backbone(spec, backbone_device(spec, settings.device))
        self.word_backbone = (
            None if words is None else load_backbone(words, backbone_device(words, settings.device))
        )
        options = DetectorOptions(
            settings.object_name, settings.threshold, settings.device, clips=clips
        )
        self.detector = load_detector(settings.detector, options)
        self.fingerprints = self.detector.fingerprint, self.backbone.fingerprint

    def observed(
        self, source: Source, span: ClipSpan, detector: Detector, tick: Tick, *, whole: bool
    ) -> Observed:
        """Observe a span of a clip, or find it in the cache.

        whole : the span is the clip; its change profile is then stored with it.
        """
        detections_key = self._detections_key(source, span, detector, whole)
        key = digest("segment", detections_key, asdict(self.settings), self._versions())
        if (kept := self._kept(key)) is not None:
            return kept
        known = self.stores.cache.get(detections_key)
        frames, change, problems = None, None, list[str]()
        if whole:
            frames, change, problems = self._frames_and_change(source, detector)
        if change is not None and isinstance(detector, ClipProposals):
            detector = detector.with_change(change)
        observation, log = observe(
            span,
            detector,
            self.backbone,
            self.settings,
            frames=frames,
            known_detections=None if known is None else DetectionLog.from_arrays(known),
            word_backbone=self.word_backbone,
            scratch=self.stores.scratch,
            tick=tick,
        )
        arrays = observation.arrays()
        if whole:
            arrays |= profile_arrays(change, span.origin)
            arrays["problems"] = np.array([*observation.problems, *problems], np.str_)
        detections = {detections_key: log.arrays()} if known is None else {}
        return self._put(key, int(observation.frames[0]), arrays, detections)

    def observed_change(self, source: Source, *, needed: bool) -> Observed:
        """Compute the change of a long clip, or find it in the cache.

        needed : raise if there is none.
        """
        key = digest("change", change_profile.VERSION, source.key, source.video.fps)
        if (kept := self._kept(key)) is not None:
            return kept
        change, problems = (_clip_change(source), []) if needed else self._change(source)
        arrays = profile_arrays(change, source.clip.origin)
        arrays |= {} if change is None else change_arrays(change)
        arrays |= {"problems": np.array(problems, np.str_), "frames": np.zeros(1, np.int64)}
        return self._put(key, 0, arrays, {})

    def _detections_key(
        self, source: Source, span: ClipSpan, detector: Detector, whole: bool
    ) -> str:
        settings = self.settings
        image_fps = source.clip.image_fps or settings.image_fps
        decoding = [settings.max_side, image_fps, settings.detect_fps]
        segment = [] if whole else [[span.start, span.end]]
        return digest("detections", VERSION, source.key, decoding, detector.fingerprint, *segment)

    def _versions(self) -> list[Any]:
        versions: list[Any] = [self.backbone.fingerprint, change_profile.VERSION]
        if self.settings.words:
            versions += [trajectories.VERSION]
        if self.word_backbone is not None:
            versions += [self.word_backbone.fingerprint]
        return versions

    def _kept(self, key: str) -> Observed | None:
        cache = self.stores.cache
        if cache.folder is None or not (entry := cache.entry(key)).is_whole():
            return None
        return Observed(key, int(entry["frames"][0]), True, self.fingerprints)

    def _put(self, key: str, frames: int, arrays: Any, further: Any) -> Observed:
        spare, reason = self.stores.put(key, arrays, further)
        return Observed(key, frames, False, self.fingerprints, spare, reason)

    def _frames_and_change(
        self, source: Source, detector: Detector
    ) -> tuple[ClipFrames | None, ClipChange | None, list[str]]:
        """Of a whole clip; no frames if they must be read once more, no change if there is none.

        Raises if there is no change, but the detector needs it.
        """
        every = isinstance(detector, SparseDetector)
        decoded = decoded_with_change(source.clip, source.video, self.settings, every=every)
        if decoded is not None:
            return *decoded, []
        if isinstance(detector, ClipProposals):
            return None, _clip_change(source), []
        return None, *self._change(source)

    def _change(self, source: Source) -> tuple[ClipChange | None, list[str]]:
        try:
            return _clip_change(source), []
        except VideoError as problem:
            return None, [f"{source.clip.id}: no change profile: {problem}"]


def _clip_change(source: Source) -> ClipChange:
    clip = source.clip
    return clip_change(
        clip.video, clip.start, clip.end, image_fps=source.video.fps, origin=clip.origin
    )


class ClipWorker(_Models):
    """Observes short clips, and plans the segments of long ones."""

    def __init__(self, *models: Any, segment_seconds: float) -> None:
        super().__init__(*models)
        self.segment_seconds = segment_seconds

    def __call__(self, clip: ClipSpan, tick: Tick) -> Observed | LongClip:
        settings = self.settings
        video = probe(clip.video, image_fps=clip.image_fps or settings.image_fps)
        source = Source(clip, video, content_digest(clip.video))
        detector = self.detector.for_clip(clip, video)
        spans = segments_of(clip, video, settings.detect_fps, seconds=self.segment_seconds)
        if len(spans) == 1:
            return self.observed(source, clip, detector, tick, whole=True)
        if isinstance(detector, ClipProposals):
            change = self.observed_change(source, needed=True)
            return LongClip(tuple(Segment(source, span, change) for span in spans), change)
        return LongClip(tuple(Segment(source, span) for span in (None, *spans)), None)


class SegmentWorker(_Models):
    """Observes segments of long clips."""

    _last: tuple[ClipSpan, Detector] | None = None

    def __call__(self, segment: Segment, tick: Tick) -> Observed:
        if segment.span is None:
            return self.observed_change(segment.source, needed=False)
        detector = self._detector_of(segment)
        try:
            return self.observed(segment.source, segment.span, detector, tick, whole=False)
        except EmptySpanError as problem:  # the video is shorter than it says, or has a gap
            return Observed("", 0, False, self.fingerprints, empty=str(problem))

    def _detector_of(self, segment: Segment) -> Detector:
        """The detector of the clip, which segments of one clip share."""
        clip = segment.source.clip
        if self._last is None or self._last[0] != clip:
            detector = self.detector.for_clip(clip, segment.source.video)
            if isinstance(detector, ClipProposals) and segment.change is not None:
                detector = detector.with_change(stored_change(self.stores.arrays(segment.change)))
            self._last = clip, detector
        return self._last[1]

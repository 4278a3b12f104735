"""From video files to a corpus: `ingest_to` writes one, `ingest` returns one in memory.

Steps for a clip: ``video/reader.py`` reads its frames; ``observe.py`` runs the detector
(``detect/registry.py``), the tracker (``track/``, where tracks are also cut into tracklets)
and the backbone (``features/registry.py``) on them, in parallel over clips, and puts the result in
the cache; here the results of all clips become the tables of one corpus. With ``chunks="paper"``
the chunk features are bags of words (``bag_of_words.py``). Chunks of a robot dataset have further
features beside the dense ones: other cameras and the robot's signals (``robot_columns.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from math import inf
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import cv2
import numpy as np

from objectstates.base.cache import content_digest, digest
from objectstates.base.choices import (
    CHUNK_SECONDS,
    DETECTION_THRESHOLD,
    PAPER_INGEST,
    TRACKLET_SECONDS,
    ChunkKind,
)
from objectstates.base.errors import SettingError, VideoError
from objectstates.base.storage import scratch_folder
from objectstates.data.corpus import Array, Corpus
from objectstates.data.corpus_io import ARTEFACT, FeaturePieces, write_with_features
from objectstates.data.truth import ClipTruth, label_corpus
from objectstates.detect.detections import DetectorOptions
from objectstates.detect.registry import load_detector
from objectstates.features import change_profile, trajectories
from objectstates.features.change_profile import chunk_columns
from objectstates.features.codebook import Codebook
from objectstates.features.registry import backbone_device, check_backbone, load_backbone
from objectstates.features.signal_columns import SignalScale
from objectstates.ingest.bag_of_words import chunk_bags, codebooks_of, learn_codebooks
from objectstates.ingest.observation_stores import ObservationStores, Observed, open_stores
from objectstates.ingest.observe import DetectionLog, ObserveSettings, StoredObservation, observe
from objectstates.ingest.robot_columns import (
    SignalColumns,
    aligned_view,
    dataset_facts,
    dataset_of,
)
from objectstates.ingest.time_scale import Seconds, TimeScale, scale_for
from objectstates.parallel.pool import run_all
from objectstates.parallel.tasks import Outcome
from objectstates.video import fingerprint
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import probe

VERSION = 5  # of observations, part of cache keys: raise it when their content may change
GPU_BATCH = 128  # frames of one run of a backbone, while those before are tracked
SCRATCH = "objectstates-ingest"  # name of folders in the system's temporary one
BEYOND = 0.5  # seconds by which a listed clip may end after its video: times in lists are rounded


@dataclass(frozen=True)
class IngestSettings:
    """All that a corpus depends on, beside the clips.

    detector : KIND or KIND:NAME, see ``detect/registry.py``; ``object_name`` is the object's class.
    threshold : the least score of a detection.
    appearance : the backbone, see ``features/registry.py``.
    chunks : "dense" (object motion and frame appearance) or "paper" (bags of words).
    conv_words : the backbone whose cells become words of those bags; "appearance" for that one.
    device : where torch models run.
    change_columns : add the change profile to the dense features of chunks.
    signals : of robot datasets: "none", or features of the robot to add, such as "action"; "auto"
        takes the states and the commands of the joints.
    tracklet_seconds, chunk_seconds : lengths; "auto" chooses by the clips, see `scale_for`.
    changes : how many changes a clip shows in order: "auto" lengths are those for one of them.
    context, max_side, image_fps : see `ObserveSettings`.
    """

    detector: str = "motion"
    object_name: str | None = None
    threshold: float = DETECTION_THRESHOLD
    appearance: str = "lite0"
    chunks: ChunkKind = "dense"
    conv_words: str = "appearance"
    change_columns: bool = True
    signals: str = "none"
    device: str = "cpu"
    tracklet_seconds: Seconds = "auto"
    chunk_seconds: Seconds = "auto"
    changes: int = 1
    context: float = ObserveSettings.context
    max_side: int = ObserveSettings.max_side
    image_fps: float = ObserveSettings.image_fps
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("context", "image_fps", "max_side"):
            if not getattr(self, name) > 0:
                raise SettingError(f"`{name}` must be above 0, not {getattr(self, name)!r}")
        for name in ("tracklet_seconds", "chunk_seconds"):
            value = getattr(self, name)
            if value != "auto" and (isinstance(value, str) or not 0 < value < inf):
                raise SettingError(f'`{name}` must be above 0, or "auto", not {value!r}')
        if isinstance(self.changes, bool) or self.changes < 1:
            raise SettingError(f"`changes` must be 1 or more, not {self.changes!r}")
        if self.chunks not in ("dense", "paper"):
            raise SettingError(f"`chunks` must be dense or paper, not {self.chunks!r}")

    @classmethod
    def paper(cls, **settings: Any) -> IngestSettings:
        """The paper's settings, except those given.

        >>> IngestSettings.paper().appearance, IngestSettings.paper().conv_words
        ('resnet50', 'vgg16')
        """
        return cls(**{**PAPER_INGEST, **settings})

    @property
    def backbones(self) -> tuple[str, str | None]:
        """The backbones of tracklets and of words; None for no other one."""
        words = None if self.conv_words == "appearance" else self.conv_words
        return self.appearance, words if self.chunks == "paper" else None

    def scale(self, clips: Sequence[ClipSpan]) -> TimeScale:
        """The time scale of a corpus of these clips; the paper's for its bags of words."""
        tracklet, chunk = self.tracklet_seconds, self.chunk_seconds
        if self.chunks == "paper":
            tracklet = TRACKLET_SECONDS if tracklet == "auto" else tracklet
            chunk = CHUNK_SECONDS if chunk == "auto" else chunk
        return scale_for(clips, tracklet, chunk, changes=self.changes, image_fps=self.image_fps)

    def observe(self, scale: TimeScale) -> ObserveSettings:
        return ObserveSettings(
            scale,
            self.context,
            self.max_side,
            self.chunks == "paper",
            self.image_fps,
            GPU_BATCH if self.device.startswith("cuda") else 1,
        )


@dataclass(frozen=True)
class Progress:
    """Progress of an ingest: clips, clips done, frames read."""

    clips: int
    clips_done: int
    frames: int


@dataclass(frozen=True)
class Report:
    """Summary of an ingest.

    failed : clip and reason; ``problems`` are of clips read in part.
    observed, kept : number of clips computed, and of those from the cache.
    """

    failed: tuple[tuple[str, str], ...] = ()
    problems: tuple[str, ...] = ()
    observed: int = 0
    kept: int = 0
    frames: int = 0


def ingest(
    clips: Sequence[ClipSpan],
    settings: IngestSettings,
    *,
    cache: Path | None = None,
    processes: int = 1,
    ray_address: str | None = None,
    like: Corpus | None = None,
    strict: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[Corpus, Report]:
    """Turn clips into a corpus. Unreadable clips are skipped and reported, or raised if ``strict``.

    cache : folder of results per clip; a later run computes only what changed.
    ray_address : of a Ray cluster; all its machines must see the videos and the cache.
    like : use the codebooks of this corpus, so that a model trained on it can label the new clips.
    """
    with scratch_folder(Path(gettempdir()), SCRATCH) as folder:
        _, report = ingest_to(
            folder / "corpus",
            clips,
            settings,
            cache=cache,
            processes=processes,
            ray_address=ray_address,
            like=like,
            strict=strict,
            progress=progress,
        )
        return Corpus.load(folder / "corpus"), report


# long: most of it declares and documents the parameters
def ingest_to(
    path: Path,
    clips: Sequence[ClipSpan],
    settings: IngestSettings,
    *,
    truth: Mapping[str, ClipTruth] | None = None,
    cache: Path | None = None,
    processes: int = 1,
    ray_address: str | None = None,
    like: Corpus | None = None,
    strict: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[Corpus, Report]:
    """`ingest` to the folder ``path``; the corpus returned has no features.

    They are never all in memory, whatever the number and the length of the clips.

    truth : ground truth of the clips, for labels.
    """
    ARTEFACT.check_target(path)
    if not clips:
        raise VideoError("there is no clip to read")
    if ray_address is not None and cache is None:
        raise SettingError("`cache`: on a Ray cluster, give a folder that all its machines see")
    if ray_address is not None and settings.device.startswith("cuda:"):
        raise SettingError(
            "`device`: Ray chooses the GPU of each worker: give cuda, without a number"
        )
    _check_robot(clips, settings)
    for spec in settings.backbones:
        if spec is not None:
            check_backbone(spec)  # an error now, and once, not of every worker
    scale = settings.scale(clips)
    items = [item for clip in clips for item in (clip, *_views(clip))]
    # Results per clip go through files, so that no process holds more than one clip.
    with open_stores(path, cache, shared=ray_address is not None) as stores:
        counter = _Counter(items, strict, progress)
        outcomes = run_all(
            partial(_Worker, settings, scale, stores, items),
            items,
            processes=processes,
            ray_address=ray_address,
            gpu=settings.device.startswith("cuda"),
            on_done=counter.clip_done,
            on_ticks=counter.frames_read,
        )
        stored, failed = _join_views(clips, outcomes, stores)
        done = [outcome.value for outcome in outcomes if outcome.value is not None]
        if not stored:
            raise VideoError(f"none of {len(clips)} clips could be read, first {failed[0][1]}")
        signals = _signal_columns(stored, settings, scale, like)
        corpus = _write_corpus(
            path, stored, settings, scale, done[0], like, truth, stores.scratch, signals
        )
        parts = [observed for part in stored for observed in (part, *part.views)]
        problems = (
            *stores.warnings(done),
            *(str(p) for part in parts for p in part.entry["problems"]),
            *signals.problems,
        )
    report = Report(
        failed=failed,
        problems=tuple(dict.fromkeys(problems)),
        observed=sum(not value.from_cache for value in done),
        kept=sum(value.from_cache for value in done),
        frames=sum(value.frames for value in done),
    )
    return corpus, report


def _views(clip: ClipSpan) -> tuple[ClipSpan, ...]:
    return () if clip.episode is None else clip.episode.views


def _check_robot(clips: Sequence[ClipSpan], settings: IngestSettings) -> None:
    """Raise for what bags of words cannot hold."""
    if settings.chunks != "paper":
        return
    if any(_views(clip) for clip in clips):
        raise SettingError("`camera`: bags of words are of one camera: choose one, or dense chunks")
    if settings.signals not in ("auto", "none"):
        raise SettingError("`signals` are for dense chunks, not for bags of words")


def _join_views(
    clips: Sequence[ClipSpan], outcomes: Sequence[Outcome[Observed]], stores: ObservationStores
) -> tuple[list[StoredObservation], tuple[tuple[str, str], ...]]:
    """The clips of which all cameras could be read, and the others with the reason."""
    stored, failed, rest = [], [], iter(outcomes)
    for clip in clips:
        views = _views(clip)
        first, *others = [next(rest) for _ in (clip, *views)]
        failure = next((o.failure for o in (first, *others) if o.failure), None)
        if failure is not None:
            failed.append((clip.id, failure))
            continue
        entries = [stores.entry(o.value) for o in (first, *others) if o.value is not None]
        of_views = tuple(map(StoredObservation, views, entries[1:]))
        stored.append(StoredObservation(clip, entries[0], of_views))
    return stored, tuple(failed)


def _signal_columns(
    stored: Sequence[StoredObservation],
    settings: IngestSettings,
    scale: TimeScale,
    like: Corpus | None,
) -> SignalColumns:
    dataset = dataset_of([part.clip for part in stored])
    return SignalColumns(
        stored,
        dataset,
        "none" if settings.chunks == "paper" else settings.signals,
        window=scale.window_seconds,
        like=None if like is None else SignalScale.from_arrays(like.arrays),
    )


class _Counter:
    """Counts what the workers have done, for ``progress``."""

    def __init__(
        self, clips: Sequence[ClipSpan], strict: bool, progress: Callable[[Progress], None] | None
    ) -> None:
        self.clips, self.strict, self.progress = clips, strict, progress
        self.done = self.frames = 0

    def clip_done(self, index: int, outcome: Outcome[Observed]) -> None:
        self.done += 1
        if self.strict and outcome.failure is not None:
            raise VideoError(f"{self.clips[index].id}: {outcome.failure}")
        self._report()

    def frames_read(self, count: int) -> None:
        self.frames = count
        self._report()

    def _report(self) -> None:
        if self.progress is not None:
            self.progress(Progress(len(self.clips), self.done, self.frames))


def settings_of(corpus: Corpus) -> IngestSettings:
    """The settings that ``corpus`` was made with."""
    known = {setting.name for setting in fields(IngestSettings)}
    facts = corpus.info.get("ingest")
    if not isinstance(facts, dict) or facts.get("version") != VERSION:
        raise SettingError("`like`: the corpus was not made by this version of ingest")
    given = {name: value for name, value in facts.items() if name in known}
    for name, value in given.items():
        if not _is_like(value, getattr(IngestSettings, name), name):
            raise SettingError(f"`like`: the corpus says that `{name}` is {str(value)[:60]!r}")
    return IngestSettings(**given)


def _is_like(value: Any, usual: Any, name: str) -> bool:
    """Whether the value of a setting is of the type of the usual one."""
    if isinstance(usual, bool) or isinstance(value, bool):
        return isinstance(usual, bool) and isinstance(value, bool)
    if name in ("tracklet_seconds", "chunk_seconds"):
        return isinstance(value, str | int | float)
    if usual is None:
        return value is None or isinstance(value, str)
    return isinstance(value, int | float if isinstance(usual, float) else type(usual))


class _Worker:
    """Observes clips, or takes them from the cache: a detector and a backbone per process."""

    def __init__(
        self,
        settings: IngestSettings,
        scale: TimeScale,
        stores: ObservationStores,
        clips: Sequence[ClipSpan],
    ) -> None:
        cv2.setNumThreads(1)  # there is one process per core
        self.settings, self.stores = settings.observe(scale), stores
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

    def __call__(self, clip: ClipSpan, tick: Callable[[int], None]) -> Observed:
        settings = self.settings
        image_fps = clip.image_fps or settings.image_fps
        video = probe(clip.video, image_fps=image_fps)
        detector = self.detector.for_clip(clip, video)
        source: list[Any] = [content_digest(clip.video), clip.start, clip.end]
        source += [] if clip.origin is None else [clip.origin]
        decoding = [settings.max_side, image_fps, settings.detect_fps]
        detections_key = digest("detections", VERSION, source, decoding, detector.fingerprint)
        versions = [self.backbone.fingerprint, change_profile.VERSION]
        if settings.words:
            versions += [trajectories.VERSION]
        if self.word_backbone is not None:
            versions += [self.word_backbone.fingerprint]
        key = digest("observation", detections_key, asdict(settings), versions)
        cache = self.stores.cache
        if cache.folder is not None and (cached := cache.entry(key)).is_whole():
            return Observed(key, int(cached["frames"][0]), True, self.fingerprints)
        known = cache.get(detections_key)
        observation, log = observe(
            clip,
            detector,
            self.backbone,
            settings,
            known_detections=None if known is None else DetectionLog.from_arrays(known),
            word_backbone=self.word_backbone,
            scratch=self.stores.scratch,
            tick=tick,
        )
        detections = {detections_key: log.arrays()} if known is None else {}
        spare, reason = self.stores.put(key, observation.arrays(), detections)
        return Observed(key, int(observation.frames[0]), False, self.fingerprints, spare, reason)


def _info(
    settings: IngestSettings,
    scale: TimeScale,
    observed: Observed,
    stored: Sequence[StoredObservation],
) -> dict[str, Any]:
    """How a corpus was made: the lengths used, those asked for, and clips that end too late."""
    beyond = [
        part.clip.id
        for part in stored
        if part.clip.end is not None and part.clip.end > part.entry["span"][1] + BEYOND
    ]
    clips = [part.clip for part in stored]
    dataset = dataset_of(clips)
    rates = {clip.video.name: clip.image_fps for clip in clips if clip.image_fps}
    return {
        "object": settings.object_name,
        **({"image_fps": rates} if rates else {}),
        **({} if dataset is None else {"dataset": dataset_facts(clips, dataset)}),
        **({"ends_beyond_video": beyond} if beyond else {}),
        fingerprint.INFO: fingerprint.fingerprints(str(clip.video) for clip in clips),
        "ingest": {
            "version": VERSION,
            **asdict(settings),
            **asdict(scale),
            "asked": {name: getattr(settings, name) for name in asdict(scale)},
            "detector_fingerprint": observed.fingerprints[0],
            "appearance_fingerprint": observed.fingerprints[1],
        },
    }


def _write_corpus(
    path: Path,
    stored: Sequence[StoredObservation],
    settings: IngestSettings,
    scale: TimeScale,
    observed: Observed,
    like: Corpus | None,
    truth: Mapping[str, ClipTruth] | None,
    scratch: Path | None,
    signals: SignalColumns,
) -> Corpus:
    """Write the observations of all clips as one corpus; return it without features."""
    codebooks: dict[str, Codebook] = {}
    if settings.chunks == "paper":
        codebooks = learn_codebooks(stored, settings.seed) if like is None else codebooks_of(like)
    arrays = {f"{name}_words": codebook.centres for name, codebook in codebooks.items()}
    info = _info(settings, scale, observed, stored)
    corpus = _without_features(stored, info, {**arrays, **signals.arrays()})
    if truth is not None:
        corpus = label_corpus(corpus, truth)
    tracklets, chunks = (
        _stored_features(f"{kind}_feature", stored) for kind in ("tracklet", "chunk")
    )
    if codebooks:
        chunks = chunk_bags(stored, codebooks, scratch, window=scale.window_seconds)
    else:
        chunks = _dense_features(chunks.size, stored, signals, settings.change_columns)
    write_with_features(corpus, path, tracklets, chunks)
    return corpus


def _stored_features(name: str, stored: Sequence[StoredObservation]) -> FeaturePieces:
    size = stored[0].entry.shape(name)[1]
    return FeaturePieces(size, (rows for part in stored for rows in part.entry.groups(name)))


def _dense_features(
    size: int, stored: Sequence[StoredObservation], signals: SignalColumns, change_columns: bool
) -> FeaturePieces:
    """The dense features of chunks; beside them other cameras, signals, and the change profile.

    The change profile of the first camera comes last (``discovery/replication.py``).
    """
    width = len(change_profile.WIDTHS) if change_columns else 0

    def of_view(part: StoredObservation, view: StoredObservation) -> Array:
        return aligned_view(part, view, np.concatenate(list(view.entry.groups("chunk_feature"))))

    def pieces() -> Iterator[Array]:
        for part in stored:
            views = [of_view(part, view) for view in part.views]
            change = chunk_columns(part.change, part.entry["chunk_span"])[:, :width]
            beside = np.hstack([*views, signals.of(part), change])
            done = 0
            for rows in part.entry.groups("chunk_feature"):
                yield np.hstack([rows, beside[done : done + len(rows)]])
                done += len(rows)

    cameras = 1 + len(stored[0].views)
    return FeaturePieces(cameras * size + signals.size + width, pieces())


def _without_features(
    stored: Sequence[StoredObservation], info: dict[str, Any], arrays: dict[str, Array]
) -> Corpus:
    """The clips, tracklets and chunks of all observations."""
    columns: dict[str, list[Array]] = defaultdict(list)
    for part in stored:
        for name in ("span", "tracklet_span", "tracklet_score", "boxes", "chunk_span"):
            columns[name].append(part.entry[name])
        columns["boxes_of"].append(np.diff(part.entry["box_offsets"]))
    per_clip = [list(map(len, columns[name])) for name in ("tracklet_span", "chunk_span")]
    table = {name: np.concatenate(parts) for name, parts in columns.items()}
    corpus = Corpus.from_arrays(
        clip_ids=[part.clip.id for part in stored],
        videos=[str(part.clip.video) for part in stored],
        changes=[part.change for part in stored],
        info=info,
        tracklets_per_clip=per_clip[0],
        tracklet_start=table["tracklet_span"][:, 0],
        tracklet_end=table["tracklet_span"][:, 1],
        tracklet_score=table["tracklet_score"],
        tracklet_features=np.empty((len(table["tracklet_span"]), 0)),
        chunks_per_clip=per_clip[1],
        chunk_start=table["chunk_span"][:, 0],
        chunk_end=table["chunk_span"][:, 1],
        chunk_features=np.empty((len(table["chunk_span"]), 0)),
    )
    box_offsets = np.concatenate([[0], np.cumsum(table["boxes_of"])]).astype(np.int64)
    boxes = replace(corpus.tracklets, boxes=table["boxes"], box_offsets=box_offsets)
    spans = tuple((float(start), float(end)) for start, end in columns["span"])
    recorded = (part.clip.episode for part in stored)
    episodes = tuple(None if each is None else each.span for each in recorded)
    return replace(corpus, tracklets=boxes, spans=spans, arrays=arrays, episodes=episodes)

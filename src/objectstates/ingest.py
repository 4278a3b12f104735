"""From video files to a corpus: all clips observed, in parallel, each at most once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cv2
import numpy as np

from objectstates.cache import ArrayCache, content_digest, digest
from objectstates.corpus import Array, Corpus
from objectstates.detect.detections import Detector
from objectstates.detect.registry import load_detector
from objectstates.engine import Outcome, run_all
from objectstates.errors import SettingError, VideoError
from objectstates.features.backbones import Backbone, load_backbone
from objectstates.features.chunks import chunk_windows
from objectstates.features.codebook import (
    Codebook,
    DescriptorSample,
    learn_codebook,
    merge_samples,
    sample_descriptors,
)
from objectstates.observe import DetectionLog, Observation, ObserveSettings, observe
from objectstates.rows import stacked
from objectstates.settings import ChunkKind
from objectstates.sources import ClipSpan
from objectstates.video import probe

VERSION = 2  # of what an observation means; a change makes kept ones stale

HOF_WORDS, CONV_WORDS = 2000, 1000  # the paper's
GPU_BATCH = 128  # frames handed over at once: several passes, whose copies overlap


@dataclass(frozen=True)
class IngestSettings:
    """What decides the corpus.

    detector : spec, see ``detect/registry.py``; ``object_name`` is the object sought.
    threshold : detections below this score are dropped; low, as in the paper.
    appearance : spec of the backbone, see ``features/backbones.py``.
    chunks : "dense" (object motion and frame appearance) or "paper" (bags of words).
    device : where torch models run.
    """

    detector: str = "motion"
    object_name: str | None = None
    threshold: float = 0.4
    appearance: str = "lite0"
    chunks: ChunkKind = "dense"
    device: str = "cpu"
    tracklet_seconds: float = 1.0
    context: float = 1.25
    max_side: int = 480
    image_fps: float = 25.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("tracklet_seconds", "context", "image_fps", "max_side"):
            if not getattr(self, name) > 0:
                raise SettingError(f"{name} must be above 0, not {getattr(self, name)!r}")
        if self.chunks not in ("dense", "paper"):
            raise SettingError(f"chunks must be dense or paper, not {self.chunks!r}")

    @property
    def observe(self) -> ObserveSettings:
        return ObserveSettings(
            self.tracklet_seconds,
            self.context,
            self.max_side,
            self.chunks == "paper",
            self.image_fps,
            GPU_BATCH if self.device.startswith("cuda") else 1,
        )


@dataclass(frozen=True)
class Progress:
    """How far an ingest is, for whoever watches."""

    clips: int
    clips_done: int
    frames: int


@dataclass(frozen=True)
class Report:
    """What became of the clips.

    failed : clip and reason; ``problems`` are what could be read only in part.
    observed, kept : how many clips were looked at, and how many came from the cache.
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
    """Turn clips into a corpus. What cannot be read is left out and reported, or raised if strict.

    cache : folder in which what was computed is kept; a later run redoes only what changed.
    ray_address : of a Ray cluster to run on; all its machines must see the videos and the cache.
    like : take the codebooks of this corpus instead of learning others, so that what was learned
        on it can label the new clips.
    """
    if not clips:
        raise VideoError("there is no clip to read")
    if ray_address is not None and cache is None:
        raise SettingError("on a Ray cluster, name a cache folder that all its machines see")
    if ray_address is not None and settings.device.startswith("cuda:"):
        raise SettingError("on a Ray cluster, which says what GPU each worker has: --device cuda")
    done = frames = 0

    def tell() -> None:
        if progress is not None:
            progress(Progress(len(clips), done, frames))

    def on_done(index: int, outcome: Outcome[_Seen]) -> None:
        nonlocal done
        done += 1
        if strict and outcome.failure is not None:
            raise VideoError(f"{clips[index].id}: {outcome.failure}")
        tell()

    def on_ticks(count: int) -> None:
        nonlocal frames
        frames = count
        tell()

    # What was seen goes by way of files, so that no process holds more than it works on.
    with TemporaryDirectory(prefix="objectstates-") as scratch:
        store = ArrayCache(cache or Path(scratch))
        outcomes = run_all(
            partial(_Observer, settings, store, cache is not None, clips),
            clips,
            processes=processes,
            ray_address=ray_address,
            gpu=settings.device.startswith("cuda"),
            on_done=on_done,
            on_ticks=on_ticks,
        )
        seen = [(c, o.value) for c, o in zip(clips, outcomes, strict=True) if o.value is not None]
        failed = tuple((c.id, o.failure) for c, o in zip(clips, outcomes, strict=True) if o.failure)
        if not seen:
            raise VideoError(f"none of {len(clips)} clips could be read, first {failed[0][1]}")
        corpus, problems = _corpus(seen, store, settings, like)
    report = Report(
        failed=failed,
        problems=problems,
        observed=sum(not value.from_cache for _, value in seen),
        kept=sum(value.from_cache for _, value in seen),
        frames=sum(value.frames for _, value in seen),
    )
    return corpus, report


def settings_of(corpus: Corpus) -> IngestSettings:
    """The settings that ``corpus`` was made with."""
    known = {setting.name for setting in fields(IngestSettings)}
    facts = corpus.info.get("ingest")
    if not isinstance(facts, dict) or facts.get("version") != VERSION:
        raise SettingError("the corpus to be like was not made by this version of ingest")
    return IngestSettings(**{name: value for name, value in facts.items() if name in known})


@dataclass(frozen=True, eq=False)
class _Seen:
    """Where an observation is kept, and what it was made with."""

    key: str
    frames: int
    from_cache: bool
    fingerprints: tuple[str, str]  # of the detector and the backbone


class _Observer:
    """One process's detector and backbone, and the cache before them."""

    def __init__(
        self,
        settings: IngestSettings,
        store: ArrayCache,
        reuse: bool,
        clips: Sequence[ClipSpan],
    ) -> None:
        cv2.setNumThreads(1)  # there is one process per core
        self.settings, self.store, self.reuse = settings, store, reuse
        self.backbone: Backbone = load_backbone(settings.appearance, _device(settings))
        self.detector: Detector = load_detector(
            settings.detector,
            object_name=settings.object_name,
            device=settings.device,
            threshold=settings.threshold,
            clips=clips,
        )
        self.fingerprints = self.detector.fingerprint, self.backbone.fingerprint

    def __call__(self, clip: ClipSpan, tick: Callable[[int], None]) -> _Seen:
        settings = self.settings.observe
        video = probe(clip.video, image_fps=settings.image_fps)
        detector = self.detector.for_clip(clip, video)
        source = [content_digest(clip.video), clip.start, clip.end]
        seen_as = [settings.max_side, settings.image_fps]
        found_key = digest("detections", VERSION, source, seen_as, detector.fingerprint)
        seen_key = digest("observation", found_key, asdict(settings), self.backbone.fingerprint)
        if self.reuse and (kept := self.store.get(seen_key)) is not None:
            return _Seen(seen_key, int(kept["frames"][0]), True, self.fingerprints)
        known = self.store.get(found_key) if self.reuse else None
        observation, log = observe(
            clip,
            detector,
            self.backbone,
            settings,
            known_detections=None if known is None else DetectionLog.from_arrays(known),
            tick=tick,
        )
        try:
            if known is None:
                self.store.put(found_key, log.arrays())
            self.store.put(seen_key, observation.arrays())
        except OSError as problem:
            raise VideoError(
                f"what was seen cannot be kept in {self.store.folder} ({problem.strerror}): "
                "make room there, or choose another folder with --cache"
            ) from problem
        return _Seen(seen_key, int(observation.frames[0]), False, self.fingerprints)


def _device(settings: IngestSettings) -> str:
    return "cpu" if settings.appearance == "lite0" else settings.device


def _corpus(
    seen: Sequence[tuple[ClipSpan, _Seen]],
    store: ArrayCache,
    settings: IngestSettings,
    like: Corpus | None,
) -> tuple[Corpus, tuple[str, ...]]:
    """All that was seen as one corpus, and what could be read only in part.

    One clip's observation at a time is taken from its file; see `stacked` for the rest.
    """

    def observations() -> Iterator[tuple[ClipSpan, Observation]]:
        for clip, value in seen:
            arrays = store.get(value.key)
            if arrays is None:
                raise VideoError(
                    f"{clip.id}: what was seen of it is gone from {store.folder}: run again"
                )
            yield clip, Observation(**arrays)

    codebooks = _codebooks(observations, settings, like)
    columns: dict[str, list[Array]] = defaultdict(list)
    spans, problems = [], []
    for _, observation in observations():
        spans.append((float(observation.span[0]), float(observation.span[1])))
        problems += [str(problem) for problem in observation.problems]
        columns["boxes_of"].append(np.diff(observation.box_offsets))
        columns["chunks"].append(
            _bags(observation, codebooks) if codebooks else observation.chunk_feature
        )
        for name in ("tracklet_span", "tracklet_score", "tracklet_feature", "boxes", "chunk_span"):
            columns[name].append(getattr(observation, name))
        del observation  # the columns alone hold what is in it
    per_clip = [list(map(len, columns[name])) for name in ("tracklet_span", "chunk_span")]
    table = {name: stacked(parts) for name, parts in columns.items()}
    corpus = Corpus.from_arrays(
        clip_ids=[clip.id for clip, _ in seen],
        videos=[str(clip.video) for clip, _ in seen],
        info={"object": settings.object_name, "ingest": _facts(settings, seen[0][1])},
        tracklets_per_clip=per_clip[0],
        tracklet_start=table["tracklet_span"][:, 0],
        tracklet_end=table["tracklet_span"][:, 1],
        tracklet_score=table["tracklet_score"],
        tracklet_features=table["tracklet_feature"],
        chunks_per_clip=per_clip[1],
        chunk_start=table["chunk_span"][:, 0],
        chunk_end=table["chunk_span"][:, 1],
        chunk_features=table["chunks"],
    )
    box_offsets = np.concatenate([[0], np.cumsum(table["boxes_of"])]).astype(np.int64)
    boxes = replace(corpus.tracklets, boxes=table["boxes"], box_offsets=box_offsets)
    words = {f"{name}_words": codebook.centres for name, codebook in codebooks.items()}
    return replace(corpus, tracklets=boxes, spans=tuple(spans), arrays=words), tuple(problems)


def _facts(settings: IngestSettings, seen: _Seen) -> dict[str, Any]:
    """What the features of a corpus mean, so that others can be made alike."""
    return {
        "version": VERSION,
        **asdict(settings),
        "detector_fingerprint": seen.fingerprints[0],
        "appearance_fingerprint": seen.fingerprints[1],
    }


# --- chunks ---------------------------------------------------------------------------------------


def _codebooks(
    observations: Callable[[], Iterator[tuple[ClipSpan, Observation]]],
    settings: IngestSettings,
    like: Corpus | None,
) -> dict[str, Codebook]:
    """The paper's words, learned on all clips or taken from ``like``; none for dense chunks."""
    if settings.chunks == "dense":
        return {}
    sizes = {"hof": HOF_WORDS, "conv": CONV_WORDS}
    if like is not None:
        return {name: Codebook(like.arrays[f"{name}_words"]) for name in sizes}
    samples: dict[str, list[DescriptorSample]] = {name: [] for name in sizes}
    for clip, seen in observations():
        for name, found in samples.items():
            descriptors = getattr(seen, name).astype(np.float32)
            found.append(sample_descriptors(clip.id, descriptors, seed=settings.seed))
    return {
        name: learn_codebook(merge_samples(found), sizes[name], seed=settings.seed)
        for name, found in samples.items()
    }


def _bags(seen: Observation, codebooks: dict[str, Codebook]) -> np.ndarray:
    parts = []
    for name, codebook in codebooks.items():
        times, descriptors = getattr(seen, f"{name}_time"), getattr(seen, name)
        order = np.argsort(times, kind="stable")
        words = codebook.words(descriptors[order].astype(np.float32))
        windows = chunk_windows(times[order], seen.chunk_span)
        parts.append(np.stack([codebook.histogram(words[a:b]) for a, b in windows]))
    return np.concatenate(parts, axis=1).astype(np.float32)

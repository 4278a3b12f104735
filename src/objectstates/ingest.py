"""From video files to a corpus: all clips observed, in parallel, each at most once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from objectstates.cache import ArrayCache, Arrays, content_digest, digest
from objectstates.clips import Box, Chunk, Clip, Tracklet
from objectstates.corpus import Corpus
from objectstates.detect.detections import Detector
from objectstates.detect.registry import load_detector
from objectstates.engine import Outcome, run_all
from objectstates.errors import SettingError, VideoError
from objectstates.features.backbones import Backbone, load_backbone
from objectstates.features.chunks import chunk_windows
from objectstates.features.codebook import (
    Codebook,
    learn_codebook,
    merge_samples,
    sample_descriptors,
)
from objectstates.observe import DetectionLog, Observation, ObserveSettings, observe
from objectstates.settings import ChunkKind
from objectstates.sources import ClipSpan
from objectstates.video import probe

VERSION = 1  # of what an observation means; a change makes kept ones stale

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
    like: Corpus | None = None,
    strict: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[Corpus, Report]:
    """Turn clips into a corpus. What cannot be read is left out and reported, or raised if strict.

    cache : folder in which what was computed is kept; a later run redoes only what changed.
    like : take the codebooks of this corpus instead of learning others, so that what was learned
        on it can label the new clips.
    """
    if not clips:
        raise VideoError("there is no clip to read")
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

    outcomes = run_all(
        partial(_Observer, settings, cache, clips),
        clips,
        processes=processes,
        on_done=on_done,
        on_ticks=on_ticks,
    )
    seen = [(c, o.value) for c, o in zip(clips, outcomes, strict=True) if o.value is not None]
    failed = tuple((c.id, o.failure) for c, o in zip(clips, outcomes, strict=True) if o.failure)
    if not seen:
        raise VideoError(f"none of {len(clips)} clips could be read, first {failed[0][1]}")
    observations = [(clip, Observation(**value.arrays)) for clip, value in seen]
    codebooks, features = _chunk_features(observations, settings, like)
    corpus = Corpus.from_clips(
        (_clip(clip, o, f) for (clip, o), f in zip(observations, features, strict=True)),
        info={"object": settings.object_name, "ingest": _facts(settings, seen[0][1])},
        arrays={f"{name}_words": codebook.centres for name, codebook in codebooks.items()},
    )
    report = Report(
        failed=failed,
        problems=tuple(str(p) for _, o in observations for p in o.problems),
        observed=sum(not value.from_cache for _, value in seen),
        kept=sum(value.from_cache for _, value in seen),
        frames=sum(int(o.frames[0]) for _, o in observations),
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
    arrays: Arrays
    from_cache: bool
    fingerprints: tuple[str, str]  # of the detector and the backbone


class _Observer:
    """One process's detector and backbone, and the cache before them."""

    def __init__(
        self, settings: IngestSettings, cache: Path | None, clips: Sequence[ClipSpan]
    ) -> None:
        cv2.setNumThreads(1)  # there is one process per core
        self.settings = settings
        self.cache = ArrayCache(cache)
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
        if (kept := self.cache.get(seen_key)) is not None:
            return _Seen(kept, True, self.fingerprints)
        known = self.cache.get(found_key)
        observation, log = observe(
            clip,
            detector,
            self.backbone,
            settings,
            known_detections=None if known is None else DetectionLog.from_arrays(known),
            tick=tick,
        )
        if known is None:
            self.cache.put(found_key, log.arrays())
        self.cache.put(seen_key, observation.arrays())
        return _Seen(observation.arrays(), False, self.fingerprints)


def _device(settings: IngestSettings) -> str:
    return "cpu" if settings.appearance == "lite0" else settings.device


def _clip(clip: ClipSpan, seen: Observation, chunk_features: np.ndarray) -> Clip:
    edges = zip(seen.box_offsets[:-1], seen.box_offsets[1:], strict=True)
    tracklets = tuple(
        Tracklet(
            float(start),
            float(end),
            feature,
            score=float(score),
            boxes=tuple(Box(*map(float, row)) for row in seen.boxes[lo:hi]),
        )
        for (start, end), feature, score, (lo, hi) in zip(
            seen.tracklet_span, seen.tracklet_feature, seen.tracklet_score, edges, strict=True
        )
    )
    chunks = tuple(
        Chunk(float(start), float(end), feature)
        for (start, end), feature in zip(seen.chunk_span, chunk_features, strict=True)
    )
    return Clip(
        clip.id, tracklets, chunks, str(clip.video), float(seen.span[0]), float(seen.span[1])
    )


def _facts(settings: IngestSettings, seen: _Seen) -> dict[str, Any]:
    """What the features of a corpus mean, so that others can be made alike."""
    return {
        "version": VERSION,
        **asdict(settings),
        "detector_fingerprint": seen.fingerprints[0],
        "appearance_fingerprint": seen.fingerprints[1],
    }


# --- chunks ---------------------------------------------------------------------------------------


def _chunk_features(
    observations: Sequence[tuple[ClipSpan, Observation]],
    settings: IngestSettings,
    like: Corpus | None,
) -> tuple[dict[str, Codebook], list[np.ndarray]]:
    """Dense descriptors as observed, or the paper's words by codebooks learned on all clips."""
    if settings.chunks == "dense":
        return {}, [seen.chunk_feature for _, seen in observations]
    codebooks = {}
    for name, n_words in (("hof", HOF_WORDS), ("conv", CONV_WORDS)):
        if like is not None:
            codebooks[name] = Codebook(like.arrays[f"{name}_words"])
            continue
        samples = [
            sample_descriptors(clip.id, getattr(seen, name).astype(np.float32), seed=settings.seed)
            for clip, seen in observations
        ]
        codebooks[name] = learn_codebook(merge_samples(samples), n_words, seed=settings.seed)
    return codebooks, [_bags(seen, codebooks) for _, seen in observations]


def _bags(seen: Observation, codebooks: dict[str, Codebook]) -> np.ndarray:
    parts = []
    for name, codebook in codebooks.items():
        times, descriptors = getattr(seen, f"{name}_time"), getattr(seen, name)
        order = np.argsort(times, kind="stable")
        words = codebook.words(descriptors[order].astype(np.float32))
        windows = chunk_windows(times[order], seen.chunk_span)
        parts.append(np.stack([codebook.histogram(words[a:b]) for a, b in windows]))
    return np.concatenate(parts, axis=1).astype(np.float32)

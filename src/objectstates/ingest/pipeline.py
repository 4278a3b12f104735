"""From video files to a corpus: all clips observed, in parallel, each at most once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cv2
import numpy as np

from objectstates.base.cache import ArrayCache, Entry, content_digest, digest
from objectstates.base.choices import ChunkKind
from objectstates.base.errors import SettingError, VideoError
from objectstates.base.row_table import GROUP, Rows
from objectstates.base.storage import made_folder
from objectstates.data.corpus import Array, Corpus
from objectstates.data.corpus_io import ARTEFACT, FeaturePieces, write_with_features
from objectstates.data.truth import ClipTruth, label_corpus
from objectstates.detect.detections import Detector
from objectstates.detect.registry import load_detector
from objectstates.features.backbones import Backbone, load_backbone
from objectstates.features.chunks import chunk_windows
from objectstates.features.codebook import (
    ROWS_AT_ONCE,
    Codebook,
    DescriptorSample,
    learn_codebook,
    merge_samples,
    sample_descriptors,
)
from objectstates.ingest.observe import DetectionLog, ObserveSettings, observe
from objectstates.parallel.pool import run_all
from objectstates.parallel.tasks import Outcome
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import probe

VERSION = 2  # of what an observation means; a change makes kept ones stale

HOF_WORDS, CONV_WORDS = 2000, 1000  # the paper's
SAMPLED_AT_ONCE = 50_000  # descriptors
GPU_BATCH = 128  # frames handed over at once: one pass, while those before are tracked


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
    with TemporaryDirectory(prefix="objectstates-") as folder:
        _, report = ingest_to(
            Path(folder) / "corpus",
            clips,
            settings,
            cache=cache,
            processes=processes,
            ray_address=ray_address,
            like=like,
            strict=strict,
            progress=progress,
        )
        return Corpus.load(Path(folder) / "corpus"), report


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
    """As :func:`ingest`, but write the corpus as the folder ``path``; returned without features.

    They are never all in memory, whatever the number and the length of the clips.

    truth : what is known of the clips, to label them by.
    """
    ARTEFACT.check_target(path)
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
    with _place(cache) as folder:
        store = ArrayCache(folder)
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
        kept = [_Kept(clip, store.entry(value.key)) for clip, value in seen]
        codebooks = _codebooks(kept, settings, like)
        facts = {"object": settings.object_name, "ingest": _facts(settings, seen[0][1])}
        corpus = _without_features(kept, facts, codebooks)
        if truth is not None:
            corpus = label_corpus(corpus, truth)
        features = _stored("tracklet_feature", kept), _of_chunks(kept, codebooks, store.folder)
        write_with_features(corpus, path, *features)
        problems = tuple(str(p) for part in kept for p in part.entry["problems"])
    report = Report(
        failed=failed,
        problems=problems,
        observed=sum(not value.from_cache for _, value in seen),
        kept=sum(value.from_cache for _, value in seen),
        frames=sum(value.frames for _, value in seen),
    )
    return corpus, report


@contextmanager
def _place(cache: Path | None) -> Iterator[Path]:
    """The cache, made unless it is there; without one, a folder that is removed in the end."""
    if cache is None:
        with TemporaryDirectory(prefix="objectstates-") as folder:
            yield Path(folder)
        return
    yield made_folder(cache, "--cache")


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
        if self.reuse and (kept := self.store.entry(seen_key)).is_whole():
            return _Seen(seen_key, int(kept["frames"][0]), True, self.fingerprints)
        known = self.store.get(found_key) if self.reuse else None
        observation, log = observe(
            clip,
            detector,
            self.backbone,
            settings,
            known_detections=None if known is None else DetectionLog.from_arrays(known),
            scratch=self.store.folder,
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


# --- from what was seen to a corpus ---------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Kept:
    """What was seen of a clip, in its file."""

    clip: ClipSpan
    entry: Entry


def _without_features(
    kept: Sequence[_Kept], info: dict[str, Any], codebooks: dict[str, Codebook]
) -> Corpus:
    """All that was seen as one corpus, but for the features."""
    columns: dict[str, list[Array]] = defaultdict(list)
    for part in kept:
        for name in ("span", "tracklet_span", "tracklet_score", "boxes", "chunk_span"):
            columns[name].append(part.entry[name])
        columns["boxes_of"].append(np.diff(part.entry["box_offsets"]))
    per_clip = [list(map(len, columns[name])) for name in ("tracklet_span", "chunk_span")]
    table = {name: np.concatenate(parts) for name, parts in columns.items()}
    corpus = Corpus.from_arrays(
        clip_ids=[part.clip.id for part in kept],
        videos=[str(part.clip.video) for part in kept],
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
    words = {f"{name}_words": codebook.centres for name, codebook in codebooks.items()}
    return replace(corpus, tracklets=boxes, spans=spans, arrays=words)


def _of_chunks(
    kept: Sequence[_Kept], codebooks: dict[str, Codebook], scratch: Path | None
) -> FeaturePieces:
    if not codebooks:
        return _stored("chunk_feature", kept)
    pieces = (bags for part in kept for bags in _bags(part.entry, codebooks, scratch))
    return FeaturePieces(sum(map(len, codebooks.values())), pieces)


def _stored(name: str, kept: Sequence[_Kept]) -> FeaturePieces:
    """Features as they lie in the clips' files."""
    size = kept[0].entry.shape(name)[1]
    return FeaturePieces(size, (rows for part in kept for rows in part.entry.groups(name)))


def _facts(settings: IngestSettings, seen: _Seen) -> dict[str, Any]:
    """What the features of a corpus mean, so that others can be made alike."""
    return {
        "version": VERSION,
        **asdict(settings),
        "detector_fingerprint": seen.fingerprints[0],
        "appearance_fingerprint": seen.fingerprints[1],
    }


# --- bags of words --------------------------------------------------------------------------------


def _codebooks(
    kept: Sequence[_Kept], settings: IngestSettings, like: Corpus | None
) -> dict[str, Codebook]:
    """The paper's words, learned on all clips or taken from ``like``; none for dense chunks."""
    if settings.chunks == "dense":
        return {}
    sizes = {"hof": HOF_WORDS, "conv": CONV_WORDS}
    if like is not None:
        return {name: Codebook(like.arrays[f"{name}_words"]) for name in sizes}
    return {
        name: learn_codebook(_sample(name, kept, settings.seed), size, seed=settings.seed)
        for name, size in sizes.items()
    }


def _sample(name: str, kept: Sequence[_Kept], seed: int) -> DescriptorSample:
    """The sample of all clips' descriptors, of which no more is in memory than it and a piece."""
    size = kept[0].entry.shape(name)[1]
    sample = DescriptorSample(np.empty(0, np.uint64), np.empty((0, size), np.float32))
    for part in kept:
        first = 0
        for rows in part.entry.groups(name, SAMPLED_AT_ONCE):
            piece = sample_descriptors(part.clip.id, rows, first=first, seed=seed)
            sample = merge_samples([sample, piece])
            first += len(rows)
    return sample


def _bags(entry: Entry, codebooks: dict[str, Codebook], scratch: Path | None) -> Iterator[Array]:
    """The bags of a clip's chunks, some at a time; its words lie on disk, as its descriptors do."""
    words, windows = [], []
    for name, codebook in codebooks.items():
        words.append(Rows(1, np.int32, scratch))
        for rows in entry.groups(name, ROWS_AT_ONCE):
            words[-1].extend(codebook.words(rows.astype(np.float32)))
        windows.append(_windows(entry, name))
    for first in range(0, len(windows[0]), GROUP):
        some = slice(first, first + GROUP)
        parts = zip(codebooks.values(), words, windows, strict=True)
        bags = [_histograms(codebook, found, of[some]) for codebook, found, of in parts]
        yield np.concatenate(bags, axis=1)


def _windows(entry: Entry, name: str) -> Array:
    """Which descriptors are in the window of each chunk, (T, 2); they lie in the order of time."""
    times, counts = [np.empty(0)], [np.zeros(1, np.int64)]
    for some in entry.groups(f"{name}_time", SAMPLED_AT_ONCE):
        moments, count = np.unique(some, return_counts=True)
        times.append(moments)
        counts.append(count)
    windows = chunk_windows(np.concatenate(times), entry["chunk_span"])
    return np.asarray(np.cumsum(np.concatenate(counts))[windows])


def _histograms(codebook: Codebook, words: Rows, windows: Array) -> Array:
    first, last = int(windows[0, 0]), int(windows[-1, 1])
    found = words.read(first, last)[:, 0]
    return np.stack([codebook.histogram(found[a:b]) for a, b in windows - first])

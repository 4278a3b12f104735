"""From video files to a corpus: `ingest_to` writes one, `ingest` returns one in memory.

Steps for a clip: ``video/reader.py`` reads its frames; ``observe.py`` runs the detector
(``detect/registry.py``), the tracker (``track/``, where tracks are also cut into tracklets)
and the backbone (``features/registry.py``) on them. Clips, and segments of long ones, are tasks
(``worker.py``) that run in parallel (``schedule.py``) and put their results in the cache. Then the
results of all clips become the tables of one corpus (``assemble.py``). With ``chunks="paper"``
the chunk features are bags of words (``bag_of_words.py``). Chunks of a robot dataset have further
features beside the dense ones: other cameras and the robot's signals (``robot_columns.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from objectstates.base.errors import SettingError, VideoError
from objectstates.base.storage import scratch_folder
from objectstates.data.corpus import Corpus
from objectstates.data.corpus_io import ARTEFACT
from objectstates.data.truth import ClipTruth
from objectstates.features.registry import check_backbone
from objectstates.features.signal_columns import SignalScale
from objectstates.ingest.assemble import write_corpus
from objectstates.ingest.observation_stores import ObservationStores, open_stores
from objectstates.ingest.robot_columns import SignalColumns, dataset_of
from objectstates.ingest.schedule import ObservedClip, Progress, observe_clips
from objectstates.ingest.settings import VERSION, IngestSettings, settings_of
from objectstates.ingest.stored_observation import StoredObservation
from objectstates.ingest.time_scale import TimeScale
from objectstates.parallel.tasks import Outcome
from objectstates.video.clip_list import ClipSpan

__all__ = [
    "VERSION",
    "IngestSettings",
    "Progress",
    "Report",
    "ingest",
    "ingest_to",
    "settings_of",
]

SCRATCH = "objectstates-ingest"  # name of folders in the system's temporary one


@dataclass(frozen=True)
class Report:
    """Summary of an ingest.

    failed : clip and reason; ``problems`` are of clips read in part.
    observed, kept : number of clips computed, in part at least, and of those from the cache.
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
    # Results go through files, so that no process holds more than one segment.
    with open_stores(path, cache, shared=ray_address is not None) as stores:
        outcomes = observe_clips(
            items,
            settings,
            scale,
            stores,
            processes=processes,
            ray_address=ray_address,
            strict=strict,
            progress=progress,
        )
        stored, failed = _join_views(clips, outcomes, stores, scale)
        done = [outcome.value for outcome in outcomes if outcome.value is not None]
        if not stored:
            raise VideoError(f"none of {len(clips)} clips could be read, first {failed[0][1]}")
        signals = _signal_columns(stored, settings, scale, like)
        fingerprints = done[0].change.fingerprints
        corpus = write_corpus(
            path, stored, settings, scale, fingerprints, like, truth, stores.scratch, signals
        )
        problems = (
            *stores.warnings([part for clip in done for part in clip.parts]),
            *(p for part in stored for view in (part, *part.views) for p in view.problems),
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
    clips: Sequence[ClipSpan],
    outcomes: Sequence[Outcome[ObservedClip]],
    stores: ObservationStores,
    scale: TimeScale,
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
        of_views = tuple(
            _stored(view, other.value, stores, scale)
            for view, other in zip(views, others, strict=True)
            if other.value is not None
        )
        if first.value is not None:
            stored.append(_stored(clip, first.value, stores, scale, of_views))
    return stored, tuple(failed)


def _stored(
    clip: ClipSpan,
    observed: ObservedClip,
    stores: ObservationStores,
    scale: TimeScale,
    views: tuple[StoredObservation, ...] = (),
) -> StoredObservation:
    segments = tuple(map(stores.entry, observed.segments))
    return StoredObservation(clip, segments, stores.entry(observed.change), scale, views)


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

"""Shares the clips, and the segments of long ones, over processes or a Ray cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from objectstates.base.errors import VideoError
from objectstates.ingest.observation_stores import ObservationStores, Observed
from objectstates.ingest.segments import SEGMENT_SECONDS
from objectstates.ingest.settings import IngestSettings
from objectstates.ingest.time_scale import TimeScale
from objectstates.ingest.worker import ClipWorker, LongClip, Segment, SegmentWorker
from objectstates.parallel.pool import run_all
from objectstates.parallel.tasks import Outcome
from objectstates.video.clip_list import ClipSpan


@dataclass(frozen=True)
class Progress:
    """Progress of an ingest: clips, clips done, frames read."""

    clips: int
    clips_done: int
    frames: int


@dataclass(frozen=True)
class ObservedClip:
    """Where the observation of a clip is.

    segments : in the order of time; those without frames are left out.
    change : with the change profile: the segment itself if there is one.
    """

    segments: tuple[Observed, ...]
    change: Observed

    @property
    def parts(self) -> tuple[Observed, ...]:
        """All entries, each once."""
        return tuple(dict.fromkeys((*self.segments, self.change)))

    @property
    def from_cache(self) -> bool:
        return all(part.from_cache for part in self.parts)

    @property
    def frames(self) -> int:
        return sum(segment.frames for segment in self.segments)


def observe_clips(
    clips: Sequence[ClipSpan],
    settings: IngestSettings,
    scale: TimeScale,
    stores: ObservationStores,
    *,
    processes: int,
    ray_address: str | None,
    strict: bool,
    progress: Callable[[Progress], None] | None,
) -> list[Outcome[ObservedClip]]:
    """Observe all clips; unreadable ones have a failure, which is raised if ``strict``."""
    # `settings.observe` here: a worker on another machine must not choose anything by itself.
    models = settings, settings.observe(scale), stores, clips
    counter = _Counter(clips, strict, progress)
    run = partial(
        run_all,
        processes=processes,
        ray_address=ray_address,
        gpu=settings.device.startswith("cuda"),
        preload="objectstates.ingest.preload",
        on_ticks=counter.frames_read,
    )
    make = partial(ClipWorker, *models, segment_seconds=SEGMENT_SECONDS)
    first: list[Outcome[Observed | LongClip]] = run(
        make, clips, effort=_bytes_of_video, on_done=counter.clip_done
    )
    tasks, owners = list[Segment](), list[int]()
    for index, outcome in enumerate(first):
        if isinstance(outcome.value, LongClip):
            tasks += outcome.value.segments
            owners += [index] * len(outcome.value.segments)
    second: list[Outcome[Observed]] = []
    if tasks:
        counter.begin_segments(owners)
        second = run(partial(SegmentWorker, *models), tasks, on_done=counter.segment_done)
    of_clip: dict[int, list[Outcome[Observed]]] = defaultdict(list)
    for index, part in zip(owners, second, strict=True):
        of_clip[index].append(part)
    return [_joined(outcome, of_clip[index]) for index, outcome in enumerate(first)]


def _bytes_of_video(clip: ClipSpan) -> float:
    """A measure of the time that a clip takes; 0 if the video is missing."""
    try:
        return clip.video.stat().st_size
    except OSError:
        return 0


def _joined(
    outcome: Outcome[Observed | LongClip], parts: Sequence[Outcome[Observed]]
) -> Outcome[ObservedClip]:
    """The outcome of a clip, from those of its tasks."""
    value = outcome.value
    if value is None:
        return Outcome(None, outcome.failure, outcome.lack)
    if isinstance(value, Observed):
        return Outcome(ObservedClip((value,), value))
    done = []
    for part in parts:
        if part.value is None:
            return Outcome(None, part.failure, part.lack)
        done.append(part.value)
    change, segments = (done[0], done[1:]) if value.change is None else (value.change, done)
    found = tuple(segment for segment in segments if not segment.empty)
    return Outcome(ObservedClip(found, change)) if found else Outcome(None, segments[0].empty)


class _Counter:
    """Counts what the workers have done, for ``progress``."""

    def __init__(
        self, clips: Sequence[ClipSpan], strict: bool, progress: Callable[[Progress], None] | None
    ) -> None:
        self.clips, self.strict, self.progress = clips, strict, progress
        self.done = self.frames = self.frames_before = 0
        self.owners: Sequence[int] = ()  # which clip a task of the second round is of
        self.left: dict[int, int] = defaultdict(int)  # tasks of each clip

    def clip_done(self, index: int, outcome: Outcome[Observed | LongClip]) -> None:
        if not isinstance(outcome.value, LongClip):
            self._task_done(index, outcome.failure)

    def begin_segments(self, owners: Sequence[int]) -> None:
        """From here on, tasks are of the segments of these clips."""
        self.owners, self.frames_before = owners, self.frames
        for index in owners:
            self.left[index] += 1

    def segment_done(self, task: int, outcome: Outcome[Observed]) -> None:
        self.left[self.owners[task]] -= 1
        self._task_done(self.owners[task], outcome.failure)

    def frames_read(self, count: int) -> None:
        self.frames = self.frames_before + count
        self._report()

    def _task_done(self, index: int, failure: str | None) -> None:
        if self.strict and failure is not None:
            raise VideoError(f"{self.clips[index].id}: {failure}")
        self.done += not self.left[index]
        self._report()

    def _report(self) -> None:
        if self.progress is not None:
            self.progress(Progress(len(self.clips), self.done, self.frames))

"""Cut the clips of a result into a folder of segments.

NAME_before.mp4, NAME_action.mp4, NAME_after.mp4    of every clip; of a chain of changes
                NAME_state1.mp4, NAME_action1.mp4, NAME_state2.mp4, NAME_action2.mp4, ...
clips.csv       the segments' files, a list that ``find_clips`` reads
spans.csv       the same segments as spans of the source videos, likewise
segments.csv    a row per segment: bounds, frames, quality
dropped.csv     what was left out because nothing moves
cut.json        all of this, and what it depends on (``manifest.py``)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import av
import numpy as np

from objectstates.base.cache import digest
from objectstates.base.errors import CutError, SettingError, VideoError
from objectstates.base.file_names import existing_path
from objectstates.base.resources import lack_behind
from objectstates.base.targets import check_no_input
from objectstates.cut.encode import coding_of, encode, psnr
from objectstates.cut.idle import kept_frames, moving_span
from objectstates.cut.image_copy import copy_images
from objectstates.cut.manifest import CutClip, Manifest, Written
from objectstates.cut.segments import ClipFrames, Segment, label_of, missing_parts, split
from objectstates.cut.sound import Sound
from objectstates.cut.stream_copy import at_key_frames, copy_packets, suffix_of
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.export.csv_jsonl import write_rows
from objectstates.export.names import Names
from objectstates.export.videos import ExportSource, ReadableVideo, readable_videos
from objectstates.report.clip_view import ClipView
from objectstates.report.phases import phases_of
from objectstates.video.image_folder import ImageFolder
from objectstates.video.video_file import VideoFile

SEGMENT_COLUMNS = (
    *("file", "clip", "source", "part", "label", "start", "end", "frames", "exact", "psnr"),
    "reached",
)


@dataclass(frozen=True)
class CutSettings:
    """How to cut.

    fast : copy packets, with bounds at key frames.
    crf : quality of H.264 instead of exact frames: 0 to 51, 18 looks like the source.
    trim_idle : leave out the ends in which nothing moves.
    lists_only : write no videos.
    """

    fast: bool = False
    crf: int | None = None
    trim_idle: bool = False
    lists_only: bool = False

    def __post_init__(self) -> None:
        if self.crf is not None and not (isinstance(self.crf, int) and 0 <= self.crf <= 51):
            raise SettingError(f"`crf` must be a whole number from 0 to 51, not {self.crf!r}")
        if self.fast and self.crf is not None:
            raise SettingError("`fast` copies packets: `crf` has no meaning with it, leave one out")


@dataclass(frozen=True)
class Cut:
    """What was written.

    clips : every clip with its segments. kept : how many were up to date.
    problems : what was left out and why; empty if all clips were cut.
    """

    folder: Path
    clips: tuple[CutClip, ...]
    kept: int
    problems: tuple[str, ...]

    @property
    def files(self) -> list[str]:
        return [row.file for clip in self.clips for row in clip.written if row.file]

    @property
    def dropped_seconds(self) -> float:
        return sum(end - start for clip in self.clips for start, end in clip.dropped)


Progress = Callable[[int, int], None]
"""Called with the number of clips that are done, and of all."""


def cut(
    result: Result,
    out: str | Path,
    *,
    fast: bool = False,
    crf: int | None = None,
    trim_idle: bool = False,
    lists_only: bool = False,
    videos: str | Path | None = None,
    progress: Progress | None = None,
) -> Cut:
    """Cut every clip of ``result`` into before, action and after, in the folder ``out``.

    A chain of changes is cut into its states and actions. Bounds are those of the actions, snapped
    to frames; every frame of a clip is in exactly one
    segment. By default segments are encoded losslessly. What an earlier call wrote there with the
    same inputs is kept.

    fast, crf, trim_idle, lists_only : as in `CutSettings`.
    videos : folder in which to look for videos that are not at their recorded paths.
    """
    settings = CutSettings(fast, crf, trim_idle, lists_only)
    if not (result.actions.chunk >= 0).any():
        raise CutError("the result has no action to cut at: fit with `target` joint or action")
    if not any(result.corpus.videos):
        raise CutError("the clips of this result name no videos: ingest videos and fit them")
    check_no_input(out, set(result.corpus.videos), CutError)
    manifest = Manifest.open(out)
    manifest.settings = vars(settings)
    source, names = ExportSource.of(result, videos), Names()
    problems = list(source.replaced)
    jobs = [
        _Job(clip, video, names.unique(clip.name), settings)
        for video in readable_videos(source, problems)
        for clip in video.clips
    ]
    try:
        manifest.plan(job.planned() for job in jobs)
        kept = _run(jobs, manifest, problems, progress)
        clips = tuple(manifest.clips.values())
        _write_lists(manifest.folder, clips, result)
    except (OSError, av.FFmpegError) as problem:
        raise CutError(f"cannot write {out}: {problem.strerror or problem}") from problem
    problems += [text for clip in clips for text in clip.problems]
    return Cut(manifest.folder, clips, kept, tuple(dict.fromkeys(problems)))


def _run(
    jobs: list[_Job], manifest: Manifest, problems: list[str], progress: Progress | None
) -> int:
    """Cut the clips that are not up to date; the number of those that are."""
    kept = 0
    for number, job in enumerate(jobs):
        if manifest.is_done(job.stem):
            kept += 1
        else:
            try:
                manifest.clips[job.stem] = job.cut(manifest.folder)
            except (VideoError, av.FFmpegError) as problem:
                if lack_behind(problem):
                    raise
                problems.append(f"left out clip {job.clip.name!r}: {problem}")
            manifest.save()
        if progress is not None:
            progress(number + 1, len(jobs))
    return kept


class _Job:
    """One clip to cut; ``stem`` is the beginning of the names of its files."""

    def __init__(
        self, clip: ClipView, video: ReadableVideo, stem: str, settings: CutSettings
    ) -> None:
        self.clip, self.stem = clip, stem
        self._video, self._settings, self._path = video, settings, video.info.path
        self._phases, self._n_actions = phases_of(clip), clip.result.n_actions

    def planned(self) -> CutClip:
        """The clip without segments, and the digest of all that they depend on."""
        clip = self.clip
        bounds: list[Any] = [[phase.label, *phase.bounds] for phase in self._phases]
        if self._n_actions == 1:
            bounds = [edge for action in clip.actions for edge in (action.start, action.end)]
        content = digest(
            "cut", 1, str(self._path.resolve()), _state_of(self._path), clip.name,
            list(clip.span), bounds, vars(self._settings), self._video.image_fps,
        )  # fmt: skip
        return CutClip(clip.name, str(self._path), self.stem, content)

    def cut(self, folder: Path) -> CutClip:
        """Write the segments."""
        if os.path.isdir(existing_path(self._path)):
            images = ImageFolder(self._path, self._video.image_fps)
            frames = self._frames(images)
            segments, dropped = self._segments(frames)
            if not self._settings.lists_only:
                copy_images(images, self._targets(folder, segments, ""))
            return self._done(segments, dropped, "")
        with closing(VideoFile(self._path, 0)) as video:
            frames = self._frames(video)
        with (
            closing(VideoFile(self._path, 0)) as video,  # it is read once more, from its beginning
            closing(Sound(self._path, video.origin)) as sound,
        ):
            return self._cut_file(folder, video, sound, frames)

    def _cut_file(
        self, folder: Path, video: VideoFile, sound: Sound, frames: ClipFrames
    ) -> CutClip:
        settings = self._settings
        if settings.fast:
            frames = at_key_frames(frames, video)
        segments, dropped = self._segments(frames)
        coding = coding_of(video, sound.codec, settings.crf)
        suffix = suffix_of(self._path) if settings.fast else coding.suffix
        if settings.lists_only:
            return self._done(segments, dropped, suffix)
        targets = self._targets(folder, segments, suffix)
        if settings.fast:
            copy_packets(video, sound, targets)
            return self._done(segments, dropped, suffix)
        encode(video, sound, coding, targets)
        exact = settings.crf is None and not coding.converted
        loss = [None if exact else psnr(self._path, *target) for target in targets]
        return self._done(segments, dropped, suffix, loss)

    def _frames(self, source: VideoFile | ImageFolder) -> ClipFrames:
        """When the frames of the clip are shown."""
        start, end = self.clip.span
        shown = [time for time, _ in source.timed(start or 0.0)]
        times = np.array([t for t in shown if (start or 0.0) <= t and (end is None or t < end)])
        if not len(times):
            raise VideoError(f"{self._path}: no frame in the span of the clip")
        step = float(np.median(np.diff(shown))) if len(shown) > 1 else 1 / source.info.fps
        after = [t for t in shown if t > times[-1]]
        return ClipFrames.of(times, after[0] if after else float(times[-1]) + step)

    def _segments(
        self, frames: ClipFrames
    ) -> tuple[list[Segment], tuple[tuple[float, float], ...]]:
        """The segments, and the spans in seconds that were dropped."""
        first, last = 0, len(frames.times)
        if self._settings.trim_idle:
            rate = self._video.image_fps
            moving = moving_span(self._path, frames.bound(0), frames.end, image_fps=rate)
            first, last = kept_frames(frames, moving, self._phases)
        segments = split(frames, self._phases, self._n_actions, (first, last))
        ends = (
            (frames.bound(0), frames.bound(first)),
            (frames.bound(last), frames.bound(len(frames.times))),
        )
        return segments, tuple((a, b) for a, b in ends if b > a)

    def _targets(
        self, folder: Path, segments: list[Segment], suffix: str
    ) -> list[tuple[Segment, Path]]:
        return [(segment, folder / f"{self.stem}_{segment.part}{suffix}") for segment in segments]

    def _done(
        self,
        segments: list[Segment],
        dropped: tuple[tuple[float, float], ...],
        suffix: str,
        loss: list[float | None] | None = None,
    ) -> CutClip:
        why = "no key frame is near" if self._settings.fast else "it has no frames"
        missing = [
            f"clip {self.clip.name!r} has no segment {part!r}: {why}"
            for part in missing_parts(segments, self._phases, self._n_actions)
        ]
        written = tuple(
            Written(
                segment,
                "" if self._settings.lists_only else f"{self.stem}_{segment.part}{suffix}",
                psnr,
            )
            for segment, psnr in zip(segments, loss or [None] * len(segments), strict=True)
        )
        return replace(self.planned(), written=written, dropped=dropped, problems=tuple(missing))


def _state_of(path: Path) -> list[Any]:
    """Size and time of change of a file, or of the files of a folder."""
    path = existing_path(path)
    files = sorted(path.iterdir()) if os.path.isdir(path) else [path]
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]


def _write_lists(folder: Path, clips: tuple[CutClip, ...], result: Result) -> None:
    names: LabelNames = result.names
    reached = dict(zip(result.clips, result.reached, strict=True))
    rows = [(clip, row) for clip in clips for row in clip.written]
    write_rows(
        folder / "segments.csv",
        SEGMENT_COLUMNS,
        (
            [
                row.file, clip.clip, clip.source, row.segment.part,
                names.label(label_of(row.segment.part)), row.segment.start, row.segment.end,
                row.segment.n_frames, "yes" if row.psnr is None else "no", row.psnr,
                reached[clip.clip],
            ]
            for clip, row in rows
        ),
    )  # fmt: skip
    write_rows(
        folder / "clips.csv",
        ("video", "id"),
        ([f"./{row.file}", f"{clip.stem}_{row.segment.part}"] for clip, row in rows if row.file),
    )
    write_rows(
        folder / "spans.csv",
        ("video", "start", "end", "id"),
        (
            [
                os.path.abspath(clip.source), row.segment.start, row.segment.end,
                f"{clip.stem}_{row.segment.part}",
            ]
            for clip, row in rows
        ),
    )  # fmt: skip
    write_rows(
        folder / "dropped.csv",
        ("clip", "source", "start", "end", "why"),
        (
            [clip.clip, clip.source, start, end, "nothing moves"]
            for clip in clips
            for start, end in clip.dropped
        ),
    )

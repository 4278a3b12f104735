"""The clips that exporters write, and their videos: paths, frames, boxes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import numpy as np

from objectstates.base import geometry
from objectstates.base.errors import ExportError, VideoError
from objectstates.base.file_names import existing_path
from objectstates.data.clips import Box
from objectstates.data.corpus import Array
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.export.names import Names, video_stem
from objectstates.report.clip_parts import TrackletView
from objectstates.report.clip_view import (
    ClipView,
    image_fps,
    object_name,
    view_clips,
)
from objectstates.video import fingerprint
from objectstates.video.frames_at import TOLERANCE, frames_at
from objectstates.video.reader import Frame, VideoInfo, probe, read_frames


@dataclass(frozen=True)
class ExportSource:
    """What every exporter gets.

    object_name : what the boxes show, if the corpus says.
    folder : where to look for videos that are not at their recorded paths.
    image_rates : frame rates of videos that are folders of images, by their recorded paths.
    names : what the user calls the states and the actions.
    dataset : folder of the LeRobot dataset that the clips are episodes of, if they are.
    replaced : a sentence about videos that are no longer those that were read, if there are any.
    """

    clips: tuple[ClipView, ...]
    object_name: str | None = None
    folder: Path | None = None
    image_rates: Mapping[str, float] = field(default_factory=dict)
    names: LabelNames = field(default_factory=LabelNames)
    dataset: str | None = None
    replaced: tuple[str, ...] = ()

    @classmethod
    def of(cls, result: Result, folder: str | Path | None = None) -> ExportSource:
        """The clips of a result; ``folder`` as `export`'s option ``videos``."""
        if folder is not None and not Path(folder).is_dir():
            raise ExportError(f"`videos`: {folder} is not a folder: check the path")
        path = None if folder is None else Path(folder)
        clips = tuple(view_clips(result))
        rates = {clip.video: image_fps(result, clip.video) for clip in clips if clip.video}
        about = result.corpus.info.get("dataset")
        dataset = about.get("path") if isinstance(about, dict) else None
        recorded, videos = result.corpus.info.get(fingerprint.INFO), result.corpus.videos
        replaced = fingerprint.replaced_videos(recorded, videos, lambda video: _find(video, path))
        about_replaced = tuple(fingerprint.about_replaced(replaced))
        return cls(clips, object_name(result), path, rates, result.names, dataset, about_replaced)

    @property
    def label(self) -> str:
        """A label for the boxes, different from those of the actions."""
        name = self.object_name
        return name if name and name not in self.names.actions else "object"

    @property
    def n_actions(self) -> int:
        """Of each clip: 1, or more in a chain of changes."""
        return len(self.names.actions)

    def by_video(self) -> dict[str, list[ClipView]]:
        """The clips of each video, sorted by time; clips without a video are left out."""
        videos: dict[str, list[ClipView]] = {}
        for clip in self.clips:
            if clip.video:
                videos.setdefault(clip.video, []).append(clip)
        for clips in videos.values():
            clips.sort(key=lambda clip: (clip.span[0] or 0.0, clip.name))
        return videos

    def without_video(self) -> list[str]:
        """A problem for each clip that names no video."""
        return [
            f"left out clip {clip.name!r}: it names no video"
            for clip in self.clips
            if not clip.video
        ]


@dataclass(frozen=True)
class ReadableVideo:
    """A video that can be read, and its clips.

    name : safe as a file name and unique in the export. video : the path in the corpus.
    """

    name: str
    video: str
    info: VideoInfo
    clips: list[ClipView]
    image_fps: float

    def frame_times(self, until: float) -> Array:
        """(F,) seconds of every frame up to ``until``, by frame number.

        They are read, not computed from the frame rate, because many videos do not keep it.
        """
        end = max(until, 0.0) + TOLERANCE
        path, fps = self.info.path, self.image_fps
        with read_frames(path, end=end, max_side=16, image_fps=fps) as frames:
            return np.array([frame.time for frame in frames])

    def boxes(self, clip: ClipView, tracklet: TrackletView, problems: list[str]) -> list[Box]:
        """The tracklet's boxes by time, clipped to the frame; those outside it become a problem."""
        times = tracklet.boxes[:, 0]
        boxes = geometry.clip(tracklet.boxes[:, 1:], (self.info.height, self.info.width))
        inside = geometry.areas(boxes) > 0
        if lost := int((~inside).sum()):
            problems.append(
                f"clip {clip.name!r}, tracklet {tracklet.index}: {lost} boxes lie outside the frame"
            )
        rows = zip(times[inside].tolist(), boxes[inside].tolist(), strict=True)
        return [Box(time, *corners) for time, corners in rows]

    def frames_at(
        self, times: Iterable[float], problems: list[str]
    ) -> Iterator[tuple[float, Frame]]:
        """The nearest frame for each time, by time; unreadable frames become a problem."""
        path, fps = self.info.path, self.image_fps
        return frames_at(path, times, image_fps=fps, problems=problems)


def readable_videos(source: ExportSource, problems: list[str]) -> Iterator[ReadableVideo]:
    """The videos that can be read; the others, and clips without one, become problems."""
    problems += source.without_video()
    names, first, readable = Names(), "", False
    videos = source.by_video()
    for video, clips in videos.items():
        rate = source.image_rates.get(video, 25.0)
        try:
            info = probe(_find(video, source.folder), image_fps=rate)
        except VideoError as problem:
            first = first or str(problem)
            problems.append(f"left out {len(clips)} clips of {problem}")
            continue
        readable = True
        yield ReadableVideo(names.unique(video_stem(video)), video, info, clips, rate)
    if not readable:
        raise ExportError(
            f"none of the {len(videos)} videos can be read, first {first}; "
            "if they were moved, give their folder as `videos`"
        )


def _find(video: str, folder: Path | None) -> Path:
    """The recorded path if it exists, else that path or the file's name in ``folder``."""
    recorded = Path(video)
    if folder is not None and not existing_path(recorded).exists():
        relative = recorded.relative_to(recorded.anchor)
        for candidate in (folder / relative, folder / PurePath(video).name):
            if existing_path(candidate).exists():
                return candidate
    return recorded

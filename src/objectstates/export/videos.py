"""The clips that exporters write, and their videos: paths, frames, boxes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np

from objectstates.base.errors import ExportError, VideoError
from objectstates.data.clips import Box
from objectstates.data.corpus import Array
from objectstates.data.result import Result
from objectstates.export.names import Names, video_stem
from objectstates.report.clip_view import (
    ClipView,
    TrackletView,
    image_fps,
    object_name,
    view_clips,
)
from objectstates.video.reader import Frame, VideoInfo, probe, read_frames

NEAR = 0.5  # seconds from a wanted time to a frame that may still stand for it
_SKIP = 2.0  # seconds without a wanted time beyond which seeking is faster than decoding


@dataclass(frozen=True)
class ExportSource:
    """What every exporter gets.

    object_name : what the boxes show, if the corpus says.
    folder : where to look for videos that are not at their recorded paths.
    image_fps : frame rate of videos that are folders of images.
    """

    clips: tuple[ClipView, ...]
    object_name: str | None = None
    folder: Path | None = None
    image_fps: float = 25.0

    @classmethod
    def of(cls, result: Result, folder: str | Path | None = None) -> ExportSource:
        """The clips of a result; ``folder`` as `export`'s option ``videos``."""
        if folder is not None and not Path(folder).is_dir():
            raise ExportError(f"`videos`: {folder} is not a folder: check the path")
        path = None if folder is None else Path(folder)
        return cls(tuple(view_clips(result)), object_name(result), path, image_fps(result))

    @property
    def label(self) -> str:
        """A label for the boxes, different from that of the action."""
        name = self.object_name
        return name if name and name != "action" else "object"

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
        end = until + NEAR
        with read_frames(
            self.info.path, end=max(end, NEAR), max_side=16, image_fps=self.image_fps
        ) as frames:
            return np.array([frame.time for frame in frames])

    def boxes(self, clip: ClipView, tracklet: TrackletView, problems: list[str]) -> list[Box]:
        """The tracklet's boxes by time, clipped to the frame; those outside it become a problem."""
        inside = [within(box, self.info) for box in tracklet.box_list]
        lost = inside.count(None)
        if lost:
            problems.append(
                f"clip {clip.name!r}, tracklet {tracklet.index}: {lost} boxes lie outside the frame"
            )
        return [box for box in inside if box is not None]

    def frames_at(
        self, times: Iterable[float], problems: list[str]
    ) -> Iterator[tuple[float, Frame]]:
        """The nearest frame for each time, by time; unreadable frames become a problem."""
        lost = set(times)
        for wanted in _groups(sorted(lost)):
            start, end = max(0.0, wanted[0] - NEAR), max(wanted[-1] + NEAR, NEAR)
            try:
                with read_frames(self.info.path, start, end, image_fps=self.image_fps) as reading:
                    for time, frame in _nearest(reading, wanted):
                        if abs(frame.time - time) <= NEAR:
                            lost.discard(time)
                            yield time, frame
                    problems += reading.problems
            except VideoError:
                continue  # counted below, with all other missing frames
        if lost:
            problems.append(
                f"{self.info.path}: {len(lost)} frames cannot be read, the first at "
                f"{min(lost):.2f} s; see whether it plays, and put a whole copy in its place"
            )


def _groups(times: list[float]) -> Iterator[deque[float]]:
    group: deque[float] = deque()
    for time in times:
        if group and time - group[-1] > _SKIP:
            yield group
            group = deque()
        group.append(time)
    if group:
        yield group


def _nearest(frames: Iterable[Frame], wanted: deque[float]) -> Iterator[tuple[float, Frame]]:
    """For each time the frame nearest to it, as far as there are frames."""
    held: Frame | None = None
    for frame in frames:
        while wanted and frame.time >= wanted[0]:
            time = wanted.popleft()
            earlier = held is not None and time - held.time <= frame.time - time
            yield time, held if earlier and held is not None else frame
        held = frame
        if not wanted:
            return
    if held is not None:
        yield from ((time, held) for time in wanted)


def readable_videos(source: ExportSource, problems: list[str]) -> Iterator[ReadableVideo]:
    """The videos that can be read; the others, and clips without one, become problems."""
    problems += source.without_video()
    names, first, readable = Names(), "", False
    videos = source.by_video()
    for video, clips in videos.items():
        try:
            info = probe(_find(video, source.folder), image_fps=source.image_fps)
        except VideoError as problem:
            first = first or str(problem)
            problems.append(f"left out {len(clips)} clips of {problem}")
            continue
        readable = True
        yield ReadableVideo(names.unique(video_stem(video)), video, info, clips, source.image_fps)
    if not readable:
        raise ExportError(
            f"none of the {len(videos)} videos can be read, first {first}; "
            "if they were moved, give their folder as `videos`"
        )


def _find(video: str, folder: Path | None) -> Path:
    """The recorded path if it exists, else that path or the file's name in ``folder``."""
    recorded = Path(video)
    if folder is not None and not recorded.exists():
        relative = recorded.relative_to(recorded.anchor)
        for candidate in (folder / relative, folder / PurePath(video).name):
            if candidate.exists():
                return candidate
    return recorded


def within(box: Box, info: VideoInfo) -> Box | None:
    """A box clipped to the frame; None if nothing of it is left."""
    x1, x2 = (min(max(x, 0.0), float(info.width)) for x in (box.x1, box.x2))
    y1, y2 = (min(max(y, 0.0), float(info.height)) for y in (box.y1, box.y2))
    return Box(box.time, x1, y1, x2, y2) if x1 < x2 and y1 < y2 else None

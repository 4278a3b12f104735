"""The videos of a result: where they are, what they say of themselves, their frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np

from objectstates.base.errors import ExportError, VideoError
from objectstates.data.clips import Box
from objectstates.data.corpus import Array
from objectstates.export.findings import Findings, FoundClip, FoundTracklet
from objectstates.export.names import Names, video_stem
from objectstates.video.reader import Frame, VideoInfo, probe, read_frames

NEAR = 0.5
"""Seconds from a wanted time to a frame that may still stand for it."""

_SKIP = 2.0
"""Seconds without a wanted time that are sought over instead of decoded."""


@dataclass(frozen=True)
class SeenVideo:
    """A video that can be read, and what was found in it.

    name : safe as a file name, unique in the export. video : as the clips name it.
    """

    name: str
    video: str
    info: VideoInfo
    clips: list[FoundClip]
    image_fps: float

    def frame_times(self, until: float) -> Array:
        """Seconds of every frame up to ``until``; the index is the number of the frame.

        They are read, not computed from the frame rate, which many videos do not keep.
        """
        end = until + NEAR
        with read_frames(
            self.info.path, end=max(end, NEAR), max_side=16, image_fps=self.image_fps
        ) as frames:
            return np.array([frame.time for frame in frames])

    def boxes(self, clip: FoundClip, found: FoundTracklet, problems: list[str]) -> list[Box]:
        """The tracklet's boxes by time, cut to the frame; those outside it become a problem."""
        inside = [within(box, self.info) for box in found.tracklet.boxes]
        lost = inside.count(None)
        if lost:
            problems.append(
                f"clip {clip.clip.id!r}, tracklet {found.index}: {lost} boxes lie outside the frame"
            )
        return sorted((box for box in inside if box is not None), key=lambda box: box.time)

    def frames_at(
        self, times: Iterable[float], problems: list[str]
    ) -> Iterator[tuple[float, Frame]]:
        """The nearest frame for each time, by time; what cannot be read becomes a problem."""
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
                continue  # told below, with all that is missing
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


def seen_videos(findings: Findings, problems: list[str]) -> Iterator[SeenVideo]:
    """The videos that can be read; the others, and clips without one, become problems."""
    problems += findings.without_video()
    names, first, seen = Names(), "", False
    videos = findings.by_video()
    for video, clips in videos.items():
        try:
            info = probe(_find(video, findings.folder), image_fps=findings.image_fps)
        except VideoError as problem:
            first = first or str(problem)
            problems.append(f"left out {len(clips)} clips of {problem}")
            continue
        seen = True
        yield SeenVideo(names.unique(video_stem(video)), video, info, clips, findings.image_fps)
    if not seen:
        raise ExportError(
            f"none of the {len(videos)} videos can be read, first {first}; "
            "if they were moved, say to which folder (--videos)"
        )


def _find(video: str, folder: Path | None) -> Path:
    """Where a video is: as its clip says, else by that path or its name in ``folder``."""
    recorded = Path(video)
    if folder is not None and not recorded.exists():
        relative = recorded.relative_to(recorded.anchor)
        for candidate in (folder / relative, folder / PurePath(video).name):
            if candidate.exists():
                return candidate
    return recorded


def within(box: Box, info: VideoInfo) -> Box | None:
    """The part of a box that lies in the image; None if there is nothing of it."""
    x1, x2 = (min(max(x, 0.0), float(info.width)) for x in (box.x1, box.x2))
    y1, y2 = (min(max(y, 0.0), float(info.height)) for y in (box.y1, box.y2))
    return Box(box.time, x1, y1, x2, y2) if x1 < x2 and y1 < y2 else None

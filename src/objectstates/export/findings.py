"""What a result holds, clip by clip, as plain objects: what all formats are written from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from objectstates.base.errors import ExportError
from objectstates.data.clips import Clip, Tracklet
from objectstates.data.result import Result

GAP = 0.1
"""Seconds between two tracklets of the same state that are still told as one segment."""


@dataclass(frozen=True, slots=True)
class FoundTracklet:
    """A tracklet and what was found about it.

    index : within the clip. state : 0 where none was given. scores : of states 1 and 2, NaN where
    no states were sought.
    """

    index: int
    state: int
    scores: tuple[float, float]
    tracklet: Tracklet

    @property
    def score(self) -> float:
        """Of the state that was given; NaN where none was."""
        return self.scores[self.state - 1] if self.state else math.nan


@dataclass(frozen=True, slots=True)
class Action:
    """From when to when the action lasts, in seconds; ``time`` is that of its surest chunk."""

    chunk: int
    start: float
    end: float
    time: float
    score: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a clip: ``what`` is state_1, action or state_2."""

    what: str
    start: float
    end: float
    score: float


@dataclass(frozen=True, slots=True)
class FoundClip:
    """A clip and what was found in it. ``chunk_scores`` are NaN where no action was sought."""

    clip: Clip
    confidence: float
    action: Action | None
    tracklets: tuple[FoundTracklet, ...]
    chunk_scores: tuple[float, ...]

    def shown(self, all_tracklets: bool = False) -> list[FoundTracklet]:
        """The tracklets that have boxes and a state; or no state too."""
        return [t for t in self.tracklets if t.tracklet.boxes and (t.state or all_tracklets)]

    def segments(self) -> list[Segment]:
        """States and action by time; neighbouring tracklets of one state are one segment."""
        found = [] if self.action is None else [_segment("action", [self.action])]
        run: list[FoundTracklet] = []
        for following in [*(t for t in self.tracklets if t.state), None]:
            if run and (following is None or not _continues(run, following)):
                found.append(_segment(f"state_{run[0].state}", run))
                run = []
            if following is not None:
                run.append(following)
        return sorted(found, key=lambda segment: (segment.start, segment.end))


def _continues(run: list[FoundTracklet], following: FoundTracklet) -> bool:
    end = max(t.tracklet.end for t in run)
    return run[0].state == following.state and following.tracklet.start <= end + GAP


def _segment(what: str, parts: Iterable[FoundTracklet | Action]) -> Segment:
    parts = list(parts)
    spans = [p if isinstance(p, Action) else p.tracklet for p in parts]
    return Segment(
        what,
        min(s.start for s in spans),
        max(s.end for s in spans),
        sum(p.score for p in parts) / len(parts),
    )


@dataclass(frozen=True)
class Findings:
    """A result clip by clip.

    object_name : what the boxes show, where the corpus says.
    folder : where to look for videos that are not where their clips say.
    image_fps : frame rate of videos that are folders of images.
    """

    clips: tuple[FoundClip, ...]
    object_name: str | None = None
    folder: Path | None = None
    image_fps: float = 25.0

    @property
    def label(self) -> str:
        """A name for what the boxes show, never that of the action's label."""
        name = self.object_name
        return name if name and name != "action" else "object"

    @classmethod
    def of(cls, result: Result, folder: str | Path | None = None) -> Findings:
        """The findings of a result."""
        if folder is not None and not Path(folder).is_dir():
            raise ExportError(f"videos: {folder} is not a folder; check the path")
        info = result.corpus.info
        name, ingest = info.get("object"), info.get("ingest")
        rate = ingest.get("image_fps") if isinstance(ingest, dict) else None
        return cls(
            tuple(_clip(result, n, float(x)) for n, x in enumerate(result.confidence)),
            " ".join(name.split()) if isinstance(name, str) else None,
            None if folder is None else Path(folder),
            float(rate) if isinstance(rate, int | float) and 0 < rate < math.inf else 25.0,
        )

    def by_video(self) -> dict[str, list[FoundClip]]:
        """The clips of each video, sorted by time; those without a video are nowhere."""
        videos: dict[str, list[FoundClip]] = {}
        for found in self.clips:
            if found.clip.video:
                videos.setdefault(found.clip.video, []).append(found)
        for clips in videos.values():
            clips.sort(key=lambda found: (found.clip.start or 0.0, found.clip.id))
        return videos

    def without_video(self) -> list[str]:
        """Problems: the clips that name no video."""
        return [
            f"left out clip {found.clip.id!r}: it names no video"
            for found in self.clips
            if not found.clip.video
        ]


def _clip(result: Result, n: int, confidence: float) -> FoundClip:
    clip, chunk = result.corpus[n], int(result.action_chunk[n])
    rows = result.corpus.tracklet_rows(n)
    times = result.corpus.chunk_rows(n)
    action = None
    if chunk >= 0:
        start, end = map(float, result.action_span[n])
        time = float(result.corpus.chunks.time[times[chunk]])
        action = Action(chunk, start, end, time, float(result.action_scores[times[chunk]]))
    return FoundClip(
        clip,
        confidence,
        action,
        tuple(
            FoundTracklet(
                i,
                int(result.state[row]),
                (float(result.state_scores[row, 0]), float(result.state_scores[row, 1])),
                clip.tracklets[i],
            )
            for i, row in enumerate(rows)
        ),
        tuple(float(result.action_scores[t]) for t in times),
    )

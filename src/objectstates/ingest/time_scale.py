"""The lengths in time that depend on how long the clips are.

A manipulation takes a share of its clip, whether the clip lasts 1.5 s or five minutes. A tracklet
must be short beside that share, or no tracklet lies wholly before or after the action; it must
not be shorter than needed, or its appearance is of few frames and the fit has many rows. So one
`TimeScale` is chosen for all clips of a corpus, by their median duration. All clips have the same,
since the rows of all are described and compared together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from objectstates.base.choices import CHUNK_SECONDS, TRACKLET_SECONDS
from objectstates.base.errors import VideoError
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import probe

Seconds = float | Literal["auto"]

MOST_FPS = 25.0  # frames read per second at most, the paper's
SAMPLES = 2.5  # frames of a tracklet on which the detector and the backbone run, on average
PAPER_SAMPLES = 5.0  # the same with the paper's settings; the paper takes all
LEAST_DETECT_FPS = 2.5  # the tracker extends a track by 0.5 s and bridges gaps of 2 s, no more
TRACKED = 5.0  # frames that are tracked for each of these: longer steps are harder to match
FLOWS = 2.5  # steps of optical flow for each of these
CHUNKS_PER_WINDOW = 3  # the paper's 30 of 10 frames
TRACKLETS_PER_TRACK = 10  # bounds memory: feature maps wait until the track has ended
PROBED = 200  # clips of a corpus whose duration is read, at most: enough for a median

LADDER = ((2.5, 0.2), (6.5, 0.4), (21.0, 1.0), (60.0, 2.0))
"""Median duration of the clips, below which tracklets have this length; both in seconds.

Steps are far apart, so that one more clip seldom changes them, which would invalidate the cache.
The lengths of short clips were measured (``docs/ingest.md``); below 0.2 s a chunk is of less than
two frames. Those of long clips keep the number of rows per clip bounded and are not measured.
"""
LONGEST_TRACKLET = 4.0  # of all longer clips


@dataclass(frozen=True)
class TimeScale:
    """Lengths in seconds, and rates per second, of one corpus. The default is the paper's.

    tracklet_seconds : tracks are cut into equal parts of about this length.
    chunk_seconds : length of a chunk.
    """

    tracklet_seconds: float = TRACKLET_SECONDS
    chunk_seconds: float = CHUNK_SECONDS

    @property
    def window_seconds(self) -> float:
        """Length of the window around a chunk that describes it."""
        return round(CHUNKS_PER_WINDOW * self.chunk_seconds, 6)

    @property
    def shortest_track(self) -> float:
        """Shorter tracks give no tracklet."""
        return min(self.chunk_seconds, self.tracklet_seconds)

    @property
    def longest_track(self) -> float:
        """Longer tracks are returned in parts."""
        return TRACKLETS_PER_TRACK * self.tracklet_seconds

    def detect_fps(self, samples: float = SAMPLES) -> float:
        """Rate of the frames on which the detector and the backbone run."""
        per_chunk = samples * CHUNK_SECONDS / TRACKLET_SECONDS
        wanted = max(samples / self.tracklet_seconds, per_chunk / self.chunk_seconds)
        return min(MOST_FPS, max(LEAST_DETECT_FPS, wanted))

    @property
    def track_fps(self) -> float:
        """Rate of the frames that are read and tracked."""
        return min(MOST_FPS, TRACKED * self.detect_fps())

    @property
    def flow_fps(self) -> float:
        """Rate of the optical flow."""
        return min(MOST_FPS, FLOWS * self.detect_fps())


def scale_for(
    clips: Sequence[ClipSpan],
    tracklet_seconds: Seconds = "auto",
    chunk_seconds: Seconds = "auto",
    *,
    changes: int = 1,
    image_fps: float = 25.0,
) -> TimeScale:
    """The time scale of a corpus of these clips.

    tracklet_seconds : "auto", for which clips are opened, is that of `LADDER` for their median
        duration, but at least so long that a chunk has one frame.
    changes : how many of them share the duration of a clip.
    chunk_seconds : "auto" is the paper's fraction of a tracklet, 0.4.
    image_fps : frame rate of folders of images.
    """
    if tracklet_seconds == "auto":
        tracklet_seconds = _tracklet_seconds(clips, changes, image_fps)
    if chunk_seconds == "auto":
        chunk_seconds = round(tracklet_seconds * CHUNK_SECONDS / TRACKLET_SECONDS, 6)
    return TimeScale(float(tracklet_seconds), float(chunk_seconds))


def _tracklet_seconds(clips: Sequence[ClipSpan], changes: int, image_fps: float) -> float:
    """By the median duration and frame rate of the clips that can be opened."""
    measured = [found for clip in _some(clips) if (found := _measure(clip, image_fps)) is not None]
    if not measured:
        return TRACKLET_SECONDS  # ingest reports why
    duration, rate = (median(pair[k] for pair in measured) for k in (0, 1))
    return max(tracklet_for(duration / changes), round(TRACKLET_SECONDS / CHUNK_SECONDS / rate, 6))


def tracklet_for(duration: float) -> float:
    """Seconds of a tracklet of clips that last ``duration`` seconds.

    >>> [tracklet_for(duration) for duration in (1.5, 4, 15, 40, 300)]
    [0.2, 0.4, 1.0, 2.0, 4.0]
    """
    return next((length for below, length in LADDER if duration < below), LONGEST_TRACKLET)


def _some(clips: Sequence[ClipSpan]) -> Sequence[ClipSpan]:
    """At most `PROBED` clips, evenly spaced."""
    return clips[:: -(-len(clips) // PROBED)] if clips else clips


def _measure(clip: ClipSpan, image_fps: float) -> tuple[float, float] | None:
    """Seconds that a clip lasts, and frames read per second; None if it cannot be opened."""
    try:
        video = probe(clip.video, image_fps=clip.image_fps or image_fps)
    except VideoError:
        return None
    end = video.duration if clip.end is None else min(clip.end, video.duration)
    duration = end - (clip.start or 0.0)
    return (duration, min(max(video.fps, 1.0), MOST_FPS)) if duration > 0 else None

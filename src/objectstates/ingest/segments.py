"""Long clips are observed in segments, so that one video can use all cores and be resumed.

A segment lasts about a minute and is observed as if it were a clip: tracks end at its borders, and
optical flow starts anew. Tracklets last 4 s at most, so this changes few of them. Chunks do not
know of segments: they are averages over the samples of all (``stored_observation.py``).

Segments depend on the clip alone, never on the number of processes:

* They are counted from the clip's start. The last one takes what remains, from half a segment to
  one and a half, so a clip below that is one segment. It has no end of its own: a video that goes
  on after its declared end is read to its real end.
* Each begins with a frame that is sampled in the whole clip too (`ObserveSettings.detect_fps`), so
  the samples of the segments are those of the clip.
* A segment is decoded from the key frame before it. A border without a key frame since the border
  before is left out: a video with few key frames would be decoded again for each segment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import VideoInfo
from objectstates.video.source import as_video_error
from objectstates.video.video_file import VideoFile

SEGMENT_SECONDS = 60.0
MOST_SEGMENTS = 1440  # a day: the declared duration of a damaged file may be anything
ALIGNED_SAMPLES = 2  # sampled frames are this many apart where optical flow is due, too


def segments_of(
    clip: ClipSpan, video: VideoInfo, detect_fps: float, *, seconds: float = SEGMENT_SECONDS
) -> tuple[ClipSpan, ...]:
    """The segments of a clip in the order of time; the clip itself if it is short.

    video : of the clip. ``detect_fps`` : rate of the sampled frames.
    """
    start = (clip.start or 0.0) if clip.origin is None else clip.origin
    end = video.duration if clip.end is None else min(clip.end, video.duration)
    frames = round(min(end - start, MOST_SEGMENTS * seconds) * video.fps)  # ends may be rounded
    count = int(frames / video.fps / seconds + 0.5)
    times = [start + k * seconds for k in range(1, count)]
    borders = [_aligned(time, clip.origin or 0.0, detect_fps) for time in times]
    if borders and not clip.video.is_dir():
        borders = list(_decodable(clip, borders, 0.5 / max(video.fps, 1.0)))
    edges = [clip.start, *borders, clip.end]
    return tuple(replace(clip, start=a, end=b) for a, b in pairwise(edges))


def _aligned(time: float, origin: float, fps: float) -> float:
    """The first time from ``time`` on at which a frame would be sampled, and its flow computed."""
    periods = ALIGNED_SAMPLES * math.ceil((time - origin) * fps / ALIGNED_SAMPLES - 1e-6)
    return origin + (periods - 1e-6) / fps  # as tolerant as the sampling of frames


def _decodable(clip: ClipSpan, borders: Sequence[float], tolerance: float) -> Iterator[float]:
    """The borders that have a key frame between them and the one before.

    tolerance : seconds; bounds of episodes are rounded.
    """
    last = clip.start or 0.0
    with as_video_error(clip.video), closing(VideoFile(clip.video, 1)) as file:
        for border in borders:
            first = next(file.timed(border), None)  # decoding begins with the key frame
            if first is not None and first[0] > last + tolerance:
                last = border
                yield border

"""Segments as copies of the source's packets: fast, but only at key frames.

A decoder can start at a key frame only. A bound of a segment moves to the nearest key frame that
all later packets follow in time, so that nothing before the bound is needed after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from objectstates.base.storage import replacing
from objectstates.cut.encode import CONTAINERS, reaches_the_end
from objectstates.cut.segments import ClipFrames, Segment
from objectstates.cut.sound import Sound
from objectstates.data.corpus import Array
from objectstates.video.source import as_video_error
from objectstates.video.video_file import VideoFile, open_container


def suffix_of(path: Path) -> str:
    """Of the copies: the source's, or that of a container for everything."""
    return path.suffix.lower() if path.suffix.lower() in CONTAINERS else ".mkv"


def at_key_frames(frames: ClipFrames, video: VideoFile) -> ClipFrames:
    """The frames of a clip, where segments may start at key frames only.

    The clip itself starts at the last key frame before its first frame, and ends at the first one
    after its last frame.
    """
    stamps, clean = _stamps(video)
    times = np.array([_seconds(pts, video) for pts in stamps])
    order = np.argsort(times, kind="stable")
    times, starts = times[order], clean[order]
    keys = np.flatnonzero(starts)
    first = int(keys[times[keys] <= frames.times[0] + 1e-9][-1:].max(initial=0))
    later = keys[times[keys] >= frames.end - 1e-9]
    last = int(later[0]) if len(later) else len(times)
    end = float(times[last]) if last < len(times) else max(frames.end, video.info.duration)
    cuts = keys[(keys >= first) & (keys < last)] - first
    return ClipFrames(times[first:last], end, cuts)


def copy_packets(video: VideoFile, sound: Sound, segments: Sequence[tuple[Segment, Path]]) -> None:
    """Write consecutive segments, each atomically."""
    for segment, path in segments:
        with (
            replacing(path) as target,
            open_container(video.info.path) as source,
            av.open(str(target), "w", format=CONTAINERS[path.suffix]) as film,
        ):
            stream = source.streams[video.stream_index]
            copied = film.add_stream_from_template(stream)
            audio = sound.add_stream(film)
            bounds = Fraction(segment.start), Fraction(segment.end)
            if audio is not None:
                whole = reaches_the_end(segment, video)
                sound.mux(film, audio, *bounds, to_the_end=whole)
            start, end = (round((bound + video.origin) / video.time_base) for bound in bounds)
            for packet in source.demux(stream):
                if packet.pts is None or not start <= packet.pts < end:
                    continue
                packet.pts -= start
                packet.dts = None if packet.dts is None else packet.dts - start
                packet.stream = copied
                film.mux(packet)


def _stamps(video: VideoFile) -> tuple[list[int], Array]:
    """Timestamps of all packets in the order of decoding, and at which of them a copy may start."""
    stamps: list[int] = []
    keys: list[bool] = []
    with as_video_error(video.info.path), open_container(video.info.path) as source:
        for packet in source.demux(source.streams[video.stream_index]):
            if packet.pts is not None and not packet.is_discard:
                stamps.append(packet.pts)
                keys.append(packet.is_keyframe)
    array = np.array(stamps, np.int64)
    if not len(array):
        return stamps, np.zeros(0, bool)
    later = np.minimum.accumulate(array[::-1])[::-1]  # the least of this and all later packets
    before = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(array)[:-1])
    return stamps, np.array(keys) & (later == array) & (before < array)


def _seconds(pts: int, video: VideoFile) -> float:
    return float(pts * video.time_base - video.origin)

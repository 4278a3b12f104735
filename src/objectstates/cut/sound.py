"""The sound of a segment: the packets of the source, copied.

A packet (about 20 ms) belongs to the segment in which it starts. So the sound of all segments
together is that of the clip, each packet once.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
from av.audio.stream import AudioStream
from av.container import OutputContainer

from objectstates.video.video_file import open_container

IN_MP4 = frozenset({"aac", "ac3", "alac", "eac3", "mp3", "opus"})
"""Codecs that players expect in MP4 files."""


class Sound:
    """The first audio stream of a video, if it has one; its packets are kept in memory.

    origin : seconds of the container's clock at which the video's first frame is shown.
    """

    def __init__(self, path: Path, origin: Fraction) -> None:
        self._container = open_container(path)
        self.stream = _audio(self._container.streams.audio)
        self._origin = origin
        self._packets = (
            []
            if self.stream is None
            else [p for p in self._container.demux(self.stream) if p.pts is not None]
        )

    @property
    def codec(self) -> str | None:
        return None if self.stream is None else self.stream.codec_context.name

    def add_stream(self, film: OutputContainer) -> AudioStream | None:
        """A stream of ``film`` for the packets."""
        if self.stream is None:
            return None
        return film.add_stream_from_template(self.stream)

    def mux(
        self,
        film: OutputContainer,
        stream: AudioStream,
        start: Fraction,
        end: Fraction,
        *,
        to_the_end: bool,
    ) -> None:
        """Write what starts in ``[start, end)`` seconds of the video.

        Sound before the first frame belongs to a segment from the start; ``to_the_end`` says that
        sound after the last frame belongs to this one.
        """
        for packet in self._packets:
            base, pts = packet.time_base, packet.pts
            if base is None or pts is None:
                continue
            time = pts * base - self._origin
            if (time < start and start > 0) or (time >= end and not to_the_end):
                continue
            copy = av.Packet(bytes(packet))
            shift = round((start + self._origin) / base)
            copy.pts = pts - shift
            copy.dts = (pts if packet.dts is None else packet.dts) - shift
            copy.duration, copy.time_base = packet.duration, base
            copy.is_keyframe = packet.is_keyframe
            copy.stream = stream
            film.mux(copy)

    def close(self) -> None:
        self._container.close()


def _audio(streams: Sequence[AudioStream]) -> AudioStream | None:
    """The first stream that has a decoder, and so a description that can be copied."""
    return next((s for s in streams if getattr(s, "codec_context", None) is not None), None)

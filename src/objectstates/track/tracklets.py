"""Cut tracks into tracklets: equal parts of about the length that `TimeScale` gives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from objectstates.base.choices import CHUNK_SECONDS, TRACKLET_SECONDS
from objectstates.base.errors import SettingError
from objectstates.detect.detections import Boxes
from objectstates.track.klt import Floats
from objectstates.track.tracks import Track

_ROUNDING = 1e-6  # seconds; keeps rounding of times from moving a frame to another tracklet


@dataclass(frozen=True, eq=False)
class TrackPiece:
    """``[start, end)`` of a track: a tracklet without its feature.

    track : the number of the track.
    times : (n,) seconds.
    boxes : (n, 4) ``x1, y1, x2, y2`` in pixels.
    score : mean score of its detections; without any, interpolated from those around it.
    """

    track: int
    start: float
    end: float
    times: Floats
    boxes: Boxes
    score: float


def cut_tracks(
    tracks: Iterable[Track],
    *,
    seconds: float = TRACKLET_SECONDS,
    min_seconds: float = CHUNK_SECONDS,
) -> list[TrackPiece]:
    """Cut each track into equal pieces of about ``seconds``, sorted by their start.

    A track of 2.6 s gives three of 0.87 s, up to a frame. Tracks shorter than ``min_seconds`` are
    dropped; of all others every frame is in one piece.
    """
    if not (seconds > 0 and min_seconds >= 0):
        raise SettingError(
            f"`seconds`={seconds} must be positive, `min_seconds`={min_seconds} not negative"
        )
    pieces = []
    for track in tracks:
        start, end = float(track.times[0]), track.end
        if end - start < min_seconds - _ROUNDING:
            continue
        n_pieces = max(1, round((end - start - _ROUNDING) / seconds))
        edges = np.linspace(start, end, n_pieces + 1)[1:-1] - _ROUNDING
        firsts = sorted({0, *np.searchsorted(track.times, edges).tolist()} - {len(track)})
        detected = np.flatnonzero(np.isfinite(track.scores))
        scores = np.interp(np.arange(len(track)), detected, track.scores[detected])
        for a, b in zip(firsts, [*firsts[1:], len(track)], strict=True):
            own = detected[(detected >= a) & (detected < b)]
            pieces.append(
                TrackPiece(
                    track=track.number,
                    start=float(track.times[a]),
                    end=float(track.times[b]) if b < len(track) else end,
                    times=track.times[a:b],
                    boxes=track.boxes[a:b],
                    score=float(np.mean(scores[own] if len(own) else scores[a:b])),
                )
            )
    return sorted(pieces, key=lambda piece: (piece.start, piece.end, piece.track))

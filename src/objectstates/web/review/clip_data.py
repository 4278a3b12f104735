"""What the page shows of one clip: timeline, tracklets with boxes, and corrections."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.errors import VideoError
from objectstates.data.actions import Actions
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Result
from objectstates.report.clip_parts import TrackletView
from objectstates.report.clip_view import ClipView
from objectstates.video.reader import probe, read_frames
from objectstates.web.review.edits import Rows, correction_of

_BINS = 300  # of the change curve: about one for three pixels
_MOST_FRAMES = 20_000  # of a clip, whose times are sent to the page


def bare_result(corpus: Corpus, like: Result) -> Result:
    """A result without labels on all clips: what is shown of clips that take no part."""
    n_clips, chunks, tracklets = len(corpus), len(corpus.chunks.start), len(corpus.tracklets.start)
    return replace(
        like,
        corpus=corpus.without_features(),
        actions=Actions.none(n_clips, chunks, like.n_actions),
        state=np.zeros(tracklets, np.int8),
        state_scores=np.full((tracklets, like.n_states), np.nan),
        skipped=(),
        set_aside=(),
        confidences=None,
        progress=None,
        reached_chance=None,
    )


def clip_json(view: ClipView, rows: Rows) -> dict[str, Any]:
    """Times in seconds of the video, boxes in pixels of the video."""
    start, end = view.extent
    curve = view.change_curve(_BINS)
    scores = view.chunk_scores
    return {
        "extent": [round(start, 4), round(end, 4)],
        "span": list(view.span) if view.span[0] is not None else None,
        "change": None
        if curve is None
        else {"start": curve.start, "step": curve.step, "rates": _numbers(curve.rates)},
        "scores": []
        if np.isnan(scores).any()
        else [[round(float(x), 4) for x in row] for row in scores],
        "tracklets": [_tracklet_json(tracklet, rows) for tracklet in view.tracklets],
        "corrections": [
            {"kind": row.kind, "start": row.start, "end": row.end, "value": row.value}
            for row in rows
        ],
    }


def _tracklet_json(tracklet: TrackletView, rows: Rows) -> dict[str, Any]:
    return {
        "index": tracklet.index,
        "start": round(tracklet.start, 4),
        "end": round(tracklet.end, 4),
        "state": tracklet.state,
        "correction": correction_of(rows, tracklet.index, (tracklet.start, tracklet.end)),
        "boxes": np.round(tracklet.boxes, 3).tolist(),
    }


def _numbers(values: Array) -> list[float]:
    return [round(float(value), 5) for value in np.nan_to_num(values)]


@lru_cache(maxsize=4096)
def frame_times(video: Path, start: float, end: float, image_fps: float) -> tuple[float, ...]:
    """Seconds of all frames from start to end; none if the video cannot be read.

    They are read, not computed from the frame rate, because many videos do not keep it.
    """
    times = []
    try:
        with read_frames(video, max(start, 0.0), end, max_side=16, image_fps=image_fps) as frames:
            for frame in frames:
                times.append(round(frame.time, 6))
                if len(times) >= _MOST_FRAMES:
                    break
    except VideoError:
        return ()
    return tuple(times)


@lru_cache(maxsize=4096)
def video_size(video: Path, image_fps: float) -> tuple[int, int] | None:
    """Width and height in pixels; None if the video cannot be read."""
    try:
        info = probe(video, image_fps=image_fps)
    except VideoError:
        return None
    return info.width, info.height


def snapped(time: float, frames: tuple[float, ...]) -> float:
    """The time of the nearest frame; the time itself where there are none."""
    return min(frames, key=lambda frame: abs(frame - time)) if frames else time

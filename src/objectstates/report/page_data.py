"""The data that ``assets/data.js`` reads: a JSON object about all clips, and their frames."""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from markupsafe import Markup

from objectstates.data.corpus import Array
from objectstates.data.result import Result
from objectstates.data.truth_labels import truth_count
from objectstates.report.box_data import packed_boxes
from objectstates.report.clip_parts import Action, TrackletView
from objectstates.report.clip_view import ClipView
from objectstates.report.frames import WHERE, FrameImage, FrameImages
from objectstates.report.headline import called
from objectstates.report.pictures import media_type

_CHANGE_BINS = 150  # of a clip's change curve; more than one per three pixels cannot be seen


def script_data(
    result: Result,
    clips: Sequence[ClipView],
    images: FrameImages,
    boxes_per_tracklet: int,
    folder: Path,
) -> Markup:
    """All clips by number, as JSON that is safe inside HTML. ``folder`` is that of the page."""
    scores = result.actions.scores[~np.isnan(result.actions.scores)]
    low = min(0.0, float(scores.min(initial=0.0)))
    high = float(scores.max(initial=low + 1e-6))  # the curves of all clips have one scale
    rows = []
    for clip in clips:
        positions = _positions(clip, images)
        frames = [images.by_moment[clip.number, index] for index in positions]
        rows.append(
            {
                **clip_data(clip, boxes_per_tracklet=boxes_per_tracklet),
                "moments": [
                    [round(moment.time, 2), moment.role, moment.tracklet, positions.get(index, -1)]
                    for index, moment in enumerate(clip.moments)
                    if moment.role != "key"
                ],
                "frames": [round(frame.time, 3) for frame in frames],
                "where": len(frames) if (clip.number, WHERE) in images.by_moment else -1,
                "size": _frame_size(clip, frames),
                "video": _addresses(clip.video, folder),
            }
        )
    data = {
        "clips": rows,
        "called": called(result.names),
        "actions": [label.replace("_", " ") for label in result.action_labels],
        "scale": [low, high],
        "pictures": media_type(),
        "byTime": truth_count(result.corpus).by_time,  # the truth does not tell where the object is
    }
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def clip_data(clip: ClipView, *, boxes_per_tracklet: int) -> dict[str, Any]:
    """One clip, with numbers rounded to what the page can show.

    times : middles of the chunks: the first and the step, or all if the steps differ.
    scores : per action, of the chunks, in ten-thousandths. ``progress``: in hundredths.
    """
    start, end = clip.extent
    judged, lanes = clip.judged, _lanes(clip.tracklets)
    far, wrong = judged.action_error, judged.disagreement
    tracklets = zip(clip.tracklets, lanes, _boxes_data(clip, boxes_per_tracklet), strict=True)
    scores = clip.chunk_scores[:, 2:]
    return {
        "name": clip.name,
        "start": _round(start),
        "end": _round(end),
        "confidence": _round(clip.confidence, 4),
        "disagreement": None if wrong is None else _round(wrong, 4),
        "off": None if far is None or not np.isfinite(far) else _round(far),
        "kinds": list(judged.kinds),
        "times": _times_data(clip.chunk_scores[:, :2].mean(axis=1)),
        "scores": np.round(1e4 * scores.T).astype(int).tolist()
        if np.isfinite(scores).all()
        else [],
        "actions": [_action_data(action) for action in clip.actions],
        "truth": None
        if judged.true_actions is None
        else [[[_round(a), _round(b)] for a, b in found] for found in judged.true_actions],
        "tracklets": [
            _tracklet_data(t, clip.shown_interval(t), lane, packed) for t, lane, packed in tracklets
        ],
        "change": _change_data(clip),
        "progress": _progress_data(clip),
        "reached": None if clip.reached_chance is None else _round(clip.reached_chance, 4),
    }


def _action_data(action: Action) -> list[Any]:
    """Its number, start, end and moment."""
    return [action.number, *(_round(x) for x in (action.start, action.end, action.time))]


def _times_data(times: Array) -> list[float]:
    """The first time and the step; all times if some step differs by a hundredth of a second."""
    step = float(times[-1] - times[0]) / max(len(times) - 1, 1)
    even = times[0] + step * np.arange(len(times))
    if np.abs(times - even).max() < 0.01:
        return [_round(times[0], 3), _round(step, 5)]
    return [_round(time) for time in times]


def _progress_data(clip: ClipView) -> list[int] | None:
    return None if clip.progress is None else np.round(100 * clip.progress).astype(int).tolist()


def _change_data(clip: ClipView) -> dict[str, Any] | None:
    """The change curve, in hundredths of its peak."""
    curve = clip.change_curve(_CHANGE_BINS)
    if curve is None:
        return None
    peak = float(curve.rates.max())
    return {
        "start": _round(curve.start, 3),
        "step": _round(curve.step, 4),
        "peak": float(f"{peak:.3g}"),
        "total": float(f"{curve.total:.3g}"),
        "values": np.round(100 * curve.rates / (peak or 1.0)).astype(int).tolist(),
    }


def _tracklet_data(
    tracklet: TrackletView, shown: tuple[float, float], lane: int, boxes: list[int]
) -> list[Any]:
    """Start and end of what is shown, state, lane, score, truth, `packed_boxes`."""
    score = _round(tracklet.score) if math.isfinite(tracklet.score) else None
    return [*map(_round, shown), tracklet.state, lane, score, tracklet.truth, boxes]


def _boxes_data(clip: ClipView, most: int) -> list[list[int]]:
    """Per tracklet its `packed_boxes`; half as many without a state: thin lines in the player."""
    packed = [
        packed_boxes([t.boxes for t in clip.tracklets if bool(t.state) is labelled], limit)
        for labelled, limit in ((False, (most + 1) // 2), (True, most))
    ]
    rest = [iter(boxes) for boxes in packed]
    return [next(rest[bool(t.state)]) for t in clip.tracklets]


def _lanes(tracklets: Sequence[TrackletView]) -> list[int]:
    """A lane of the timeline per tracklet: 0 for the labelled, else the first that is free."""
    labelled = any(t.state for t in tracklets)
    free: list[float] = []  # when each further lane is free again
    lanes = []
    for tracklet in tracklets:
        if tracklet.state:
            lanes.append(0)
            continue
        start = tracklet.start + 1e-9
        lane = next((k for k, until in enumerate(free) if until <= start), len(free))
        if lane == len(free):
            free.append(0.0)
        free[lane] = tracklet.end
        lanes.append(lane + labelled)
    return lanes


def encoded_frames(clips: Sequence[ClipView], images: FrameImages) -> list[tuple[int, str]]:
    """Per clip its frames in base64, separated by spaces; the script decodes them when needed.

    The last is the one that shows where the clip changed, if there is one.
    """
    rows = []
    for clip in clips:
        found = [images.by_moment[clip.number, index] for index in _positions(clip, images)]
        if where := images.by_moment.get((clip.number, WHERE)):
            found.append(where)
        if found:
            coded = (base64.b64encode(image.picture).decode() for image in found)
            rows.append((clip.number, " ".join(coded)))
    return rows


def _positions(clip: ClipView, images: FrameImages) -> dict[int, int]:
    """Index of each moment's frame among the clip's frames, which are sorted by time."""
    have = [i for i in range(len(clip.moments)) if (clip.number, i) in images.by_moment]
    have.sort(key=lambda i: (images.by_moment[clip.number, i].time, i))
    return {index: position for position, index in enumerate(have)}


def _frame_size(clip: ClipView, frames: Sequence[FrameImage]) -> list[int] | None:
    """Width and height of the video in pixels; without frames, those of the area of all boxes."""
    if frames:
        return [frames[0].width, frames[0].height]
    boxes = [t.boxes for t in clip.tracklets if len(t.boxes)]
    if not boxes:
        return None
    corner = np.concatenate(boxes)[:, 3:5].max(axis=0)
    return [max(1, round(float(side) * 1.05)) for side in corner]  # with a margin of 5 %


def _addresses(video: str | None, folder: Path) -> list[str]:
    """URLs of a video: relative to the page, in case both are moved, and absolute."""
    if video is None or not os.path.isfile(video):
        return []
    path = Path(video).resolve()
    try:
        relative = os.path.relpath(path, folder).replace(os.sep, "/")
        return ["./" + quote(os.fsencode(relative)), path.as_uri()]
    except ValueError:  # on another drive
        return [path.as_uri()]


def _round(value: float, digits: int = 2) -> float:
    return round(float(value), digits) + 0.0  # no negative zero

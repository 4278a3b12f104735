"""Follow the boxes of a frame through the clip, forward and backward, by tracking points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.geometry import iou
from objectstates.detect.detections import Detections
from objectstates.track.tracker import Tracker
from objectstates.track.tracks import Track
from objectstates.video.reader import read_frames

SECONDS = 3.0  # to each side of the frame
PER_SECOND = 2.0  # frames to be confirmed; nearer ones add little to the training
MAX_SIDE = 320  # pixels, in which points are tracked

Boxes = npt.NDArray[np.float64]
Gray = npt.NDArray[np.uint8]


def follow(
    video: str | Path, time: float, boxes: Boxes, *, start: float = 0.0, end: float = np.inf
) -> list[tuple[float, Boxes]]:
    """Times and (n, 4) boxes of other frames near ``time`` in which all boxes could be followed.

    boxes : (n, 4) ``x1, y1, x2, y2`` in pixels of the frame at ``time`` (seconds).
    start, end : of the clip. The frames are sorted by time, `PER_SECOND` of them a second.
    """
    first, last = max(start, time - SECONDS), min(end, time + SECONDS + 1e-3)
    times, grays, scale = list[float](), list[Gray](), np.ones(4)
    with read_frames(video, first, last, max_side=MAX_SIDE) as frames:
        for frame in frames:
            times.append(frame.time)
            grays.append(np.asarray(cv2.cvtColor(frame.image, cv2.COLOR_RGB2GRAY), np.uint8))
            scale = np.tile(frame.scale, 2)
    middle = int(np.abs(np.array(times) - time).argmin())
    small = np.asarray(boxes, np.float64) / scale
    before = _followed(
        [(-t, gray) for t, gray in zip(times[middle::-1], grays[middle::-1], strict=True)], small
    )
    after = _followed(list(zip(times[middle:], grays[middle:], strict=True)), small)
    found = {-t: box * scale for t, box in before.items()}
    found |= {t: box * scale for t, box in after.items()}
    found.pop(times[middle], None)
    return [(t, found[t]) for t in _sampled(sorted(found), times[middle])]


def _followed(frames: Sequence[tuple[float, Gray]], boxes: Boxes) -> dict[float, Boxes]:
    """(n, 4) boxes by time, from the first frame on, as long as none of them is lost."""
    tracker = Tracker(patience=2 * SECONDS, reach=2 * SECONDS, max_side=MAX_SIDE)
    drawn = Detections(boxes.astype(np.float32), np.ones(len(boxes), np.float32))
    for number, (time, gray) in enumerate(frames):
        tracker.update(time, gray, drawn if number == 0 else None)
        if tracker.cut:
            break
    tracks = [track for track in tracker.finish() if track.times[0] == frames[0][0]]
    chosen = _assigned(tracks, boxes)
    if chosen is None:
        return {}
    shared = min(len(track) for track in chosen)
    return {
        float(chosen[0].times[k]): np.stack([t.boxes[k] for t in chosen]).astype(np.float64)
        for k in range(shared)
    }


def _assigned(tracks: Sequence[Track], boxes: Boxes) -> list[Track] | None:
    """The track of each box; None if one has none, as where two boxes are nearly the same."""
    if len(tracks) < len(boxes):
        return None
    overlap = iou(boxes, np.array([track.boxes[0] for track in tracks], np.float64))
    chosen = overlap.argmax(axis=1).tolist()
    return [tracks[k] for k in chosen] if len(set(chosen)) == len(chosen) else None


def _sampled(times: Iterable[float], origin: float) -> list[float]:
    """The times nearest to whole multiples of the step from the origin, each once."""
    best: dict[int, float] = {}
    for time in times:
        tick = round((time - origin) * PER_SECOND)
        if tick and (
            tick not in best
            or abs(time - origin - tick / PER_SECOND) < abs(best[tick] - origin - tick / PER_SECOND)
        ):
            best[tick] = time
    return [best[tick] for tick in sorted(best)]

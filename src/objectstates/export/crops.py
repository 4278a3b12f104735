"""Pictures of the states and of the action, in a folder each, to train a classifier on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from objectstates.base.errors import ExportError, SettingError
from objectstates.data.clips import Box
from objectstates.export.findings import Findings, FoundClip, FoundTracklet
from objectstates.export.names import Names, safe_name
from objectstates.export.sampling import check_fps, sample_times, write_jpeg
from objectstates.export.videos import seen_videos
from objectstates.video.reader import Image

FOLDERS = ("state1", "action", "state2")


class _Crop(NamedTuple):
    """A picture to be taken: ``box`` in pixels of the video, or None for the whole frame."""

    folder: str
    name: str
    time: float
    box: Box | None


def write_crops(
    findings: Findings, folder: Path, *, fps: float | None = None, context: float = 1.25
) -> list[str]:
    """``state1/``, ``action/`` and ``state2/`` with JPEG files.

    Of a labelled tracklet the box nearest to its middle is shown, or ``fps`` of its boxes per
    second. The action is shown at its time, around the last box of state 1 before it and the first
    of state 2 after it: what tells it apart is then not the framing. Without such boxes it is the
    whole frame. All boxes are enlarged by ``context`` about their centre.
    """
    if fps is not None:
        check_fps(fps)
    if not 0 < context < math.inf:
        raise SettingError(f"context must be a number above 0, not {context}")
    for name in FOLDERS:
        (folder / name).mkdir()
    problems: list[str] = []
    names = Names()
    for video in seen_videos(findings, problems):
        crops: dict[float, list[_Crop]] = {}
        for crop in (crop for found in video.clips for crop in _crops(found, fps)):
            crops.setdefault(crop.time, []).append(crop)
        for time, frame in video.frames_at(crops, problems):
            for crop in crops[time]:
                image = frame.image if crop.box is None else _cut(frame.image, crop.box, context)
                if image is None:
                    problems.append(
                        f"{video.info.path}: the box at {time:.2f} s lies outside the frame"
                    )
                    continue
                name = names.unique(f"{crop.name}_{round(time * 1000):08d}")
                write_jpeg(folder / crop.folder / f"{name}.jpg", image)
    if not any(any((folder / name).iterdir()) for name in FOLDERS):
        raise ExportError(
            f"there is nothing to crop: {'; '.join(problems) or 'no state was found'}"
        )
    return problems


def _crops(found: FoundClip, fps: float | None) -> Iterator[_Crop]:
    clip = safe_name(found.clip.id, 60)  # the rest of the name is to be told too
    for t in found.shown():
        for box in _key_boxes(t, fps):
            yield _Crop(f"state{t.state}", f"{clip}_{t.index:03d}", box.time, box)
    if found.action is not None:
        yield _Crop(
            "action", f"{clip}_action", found.action.time, _around(found, found.action.time)
        )


def _key_boxes(found: FoundTracklet, fps: float | None) -> list[Box]:
    boxes, middle = found.tracklet.boxes, found.tracklet.time
    assert middle is not None  # a corpus gives every tracklet one
    if fps is None:
        return [min(boxes, key=lambda box: abs(box.time - middle))]
    times = set(sample_times((box.time for box in boxes), fps))
    return [box for box in boxes if box.time in times]


def _around(found: FoundClip, time: float) -> Box | None:
    """What holds the object before and after ``time``."""
    boxes = {
        k: [b for t in found.shown() if t.state == k for b in t.tracklet.boxes] for k in (1, 2)
    }
    before = max((b for b in boxes[1] if b.time <= time), key=lambda b: b.time, default=None)
    after = min((b for b in boxes[2] if b.time >= time), key=lambda b: b.time, default=None)
    near = [box for box in (before, after) if box is not None]
    if not near:
        return None
    return Box(
        time,
        min(box.x1 for box in near),
        min(box.y1 for box in near),
        max(box.x2 for box in near),
        max(box.y2 for box in near),
    )


def _cut(image: Image, box: Box, context: float) -> Image | None:
    """The part of an image in an enlarged box; None if there is nothing of it."""
    x, y = (box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2
    dx, dy = (box.x2 - box.x1) / 2 * context, (box.y2 - box.y1) / 2 * context
    height, width = image.shape[:2]
    left, right = max(0, math.floor(x - dx)), min(width, math.ceil(x + dx))
    top, bottom = max(0, math.floor(y - dy)), min(height, math.ceil(y + dy))
    return image[top:bottom, left:right] if left < right and top < bottom else None

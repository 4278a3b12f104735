"""Images of the states and of the actions, in a folder each, to train a classifier on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from objectstates.base import geometry
from objectstates.base.choices import BOX_CONTEXT
from objectstates.base.errors import ExportError, SettingError
from objectstates.data.clips import Box
from objectstates.data.label_names import LabelNames
from objectstates.export.names import Names, safe_name
from objectstates.export.sampling import check_fps, sample_times, write_jpeg
from objectstates.export.videos import ExportSource, readable_videos
from objectstates.report.clip_parts import Action, TrackletView
from objectstates.report.clip_view import ClipView
from objectstates.video.reader import Image


class _Crop(NamedTuple):
    """An image to write: ``box`` in pixels of the video, or None for the whole frame."""

    label: str
    name: str
    time: float
    box: Box | None


def write_crops(
    source: ExportSource, folder: Path, *, fps: float | None = None, context: float = BOX_CONTEXT
) -> list[str]:
    """``state1/``, ``action/`` and ``state2/`` (or the names of these) with JPEG files.

    Of a labelled tracklet the box nearest to its middle is cropped, or ``fps`` of its boxes per
    second. An action is cropped at its time, to the last box of the state before it and the first
    of the state after it, so that a classifier cannot tell it by the framing. Without such boxes it
    is the whole frame. All boxes are enlarged by ``context`` about their centre. A chain of changes
    has ``state1/``, ``action1/``, ``state2/``, ``action2/`` and so on; states of the same name
    share a folder.
    """
    if fps is not None:
        check_fps(fps)
    if not 0 < context < math.inf:
        raise SettingError(f"`context` must be a number above 0, not {context}")
    folders = _folders(source.names)
    for name in set(folders.values()):
        (folder / name).mkdir()
    problems: list[str] = []
    names = Names()
    for video in readable_videos(source, problems):
        crops: dict[float, list[_Crop]] = {}
        for crop in (crop for clip in video.clips for crop in _crops(clip, fps)):
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
                write_jpeg(folder / folders[crop.label] / f"{name}.jpg", image)
    if not any(any((folder / name).iterdir()) for name in folders.values()):
        raise ExportError(
            f"there is nothing to crop: {'; '.join(problems) or 'no state was found'}"
        )
    return problems


def _folders(names: LabelNames) -> dict[str, str]:
    """The folder of each label; distinct, also where names differ in odd characters only."""
    taken = Names()
    of_name: dict[str, str] = {}
    for label in names.labels:
        name = names.label(label)
        if name not in of_name:
            of_name[name] = taken.unique(label.replace("_", "") if name == label else name)
    return {label: of_name[names.label(label)] for label in names.labels}


def _crops(clip: ClipView, fps: float | None) -> Iterator[_Crop]:
    name = safe_name(clip.name, 60)  # leaves room for the rest of the file name
    for t in clip.boxed_tracklets():
        for box in _key_boxes(t, fps):
            yield _Crop(f"state_{t.state}", f"{name}_{t.index:03d}", box.time, box)
    for action in clip.actions:
        stem = f"{name}_{action.label.replace('_', '')}"
        yield _Crop(action.label, stem, action.time, _around(clip, action))


def _key_boxes(tracklet: TrackletView, fps: float | None) -> list[Box]:
    boxes = tracklet.box_list
    if fps is None:
        return [min(boxes, key=lambda box: abs(box.time - tracklet.time))]
    times = set(sample_times((box.time for box in boxes), fps))
    return [box for box in boxes if box.time in times]


def _around(clip: ClipView, action: Action) -> Box | None:
    """The box around the object's last box before and its first box after the action's moment."""
    time, boxes = action.time, dict[int, list[Box]]()
    for t in clip.boxed_tracklets():
        boxes.setdefault(t.state, []).extend(t.box_list)
    earlier = [b for b in boxes.get(action.number, ()) if b.time <= time]
    later = [b for b in boxes.get(action.number + 1, ()) if b.time >= time]
    before = max(earlier, key=lambda b: b.time, default=None)
    after = min(later, key=lambda b: b.time, default=None)
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
    """The part of an image in an enlarged box; None if the box lies outside."""
    x1, y1, x2, y2 = geometry.enlarge(np.array([box.x1, box.y1, box.x2, box.y2]), context)
    whole = np.array([math.floor(x1), math.floor(y1), math.ceil(x2), math.ceil(y2)], float)
    left, top, right, bottom = geometry.clip(whole, image.shape[:2]).astype(int)
    return image[top:bottom, left:right] if left < right and top < bottom else None

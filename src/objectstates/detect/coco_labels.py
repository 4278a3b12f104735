"""Labelled boxes in COCO's JSON.

An entry of ``images`` names either an image, ``file_name``, or a frame of a video, ``video`` with
``time`` in seconds or with ``frame`` counted from 0 (at ``fps``, by default the video's rate): the
frames of videos need not be exported to be labelled. Paths are relative to the JSON file.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.errors import LabelError, VideoError
from objectstates.detect.labelled_images import LabelledImage, Labels, choose_object
from objectstates.video.reader import probe


def read_coco(path: Path, data: Any, object: str | None) -> Labels:
    """The labels of one category in the parsed content of a file."""
    content = _checked(path, data)
    category, name = _category(path, content["categories"], object)
    known = {key: entry for entry in content["images"] if _is_id(key := entry.get("id"))}
    if len(known) < len(content["images"]):
        raise LabelError(f"{path}: every image needs an id of its own; two are the same or missing")
    drawn: dict[Any, list[list[float]]] = {key: [] for key in known}
    crowds: dict[Any, list[list[float]]] = {key: [] for key in known}
    for annotation in content["annotations"]:
        if annotation.get("category_id") != category:
            continue
        key = annotation.get("image_id")
        if not _is_id(key) or key not in known:
            raise LabelError(
                f"{path}: annotation {annotation.get('id')} is of image {key!r}, which is not "
                "among the images: correct its image_id"
            )
        where = crowds if annotation.get("iscrowd") else drawn
        where[key].append(_box(path, annotation))
    rates: dict[Path, float] = {}
    images = tuple(
        _image(path, entry, drawn[key], crowds[key], rates) for key, entry in known.items()
    )
    if not any(len(image.boxes) for image in images):
        raise LabelError(
            f"{path}: there is no box of {name!r}: draw some, or choose another object"
        )
    return Labels(path, name, images)


def _checked(path: Path, content: Any) -> dict[str, list[dict[str, Any]]]:
    for key in ("images", "annotations", "categories"):
        entries = content.get(key) if isinstance(content, dict) else None
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise LabelError(
                f"{path} has no list {key!r}: labels are in COCO's format, with images, "
                "annotations and categories"
            )
    return dict(content)


def _is_id(value: object) -> bool:
    return isinstance(value, int | str)


def _category(path: Path, categories: list[dict[str, Any]], wanted: str | None) -> tuple[Any, str]:
    names = {str(c.get("name")): c.get("id") for c in categories}
    name = choose_object(path, names, wanted)
    return names[name], name


def _box(path: Path, annotation: dict[str, Any]) -> list[float]:
    place = f"{path}: annotation {annotation.get('id')} of image {annotation.get('image_id')!r}"
    try:
        x, y, width, height = (float(v) for v in annotation["bbox"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise LabelError(f"{place} needs a bbox [x, y, width, height] of four numbers") from None
    if not all(map(math.isfinite, (x, y, width, height))) or width <= 0 or height <= 0:
        raise LabelError(
            f"{place} has the bbox {annotation['bbox']} (x, y, width, height), which covers "
            "nothing: correct or remove it"
        )
    return [x, y, x + width, y + height]


def _image(
    path: Path,
    entry: dict[str, Any],
    boxes: list[list[float]],
    ignored: list[list[float]],
    rates: dict[Path, float],
) -> LabelledImage:
    declared = _size(path, entry)
    drawn = np.array(boxes, np.float32).reshape(-1, 4)
    crowd = np.array(ignored, np.float32).reshape(-1, 4)
    if not entry.get("video"):
        if not entry.get("file_name"):
            raise LabelError(
                f"{path}: image {entry.get('id')!r} has neither file_name, nor video and time"
            )
        name = str(entry["file_name"])
        return LabelledImage(name, path.parent / name, None, drawn, crowd, declared)
    video = path.parent / str(entry["video"])
    time = _time(path, entry, video, rates)
    return LabelledImage(f"{entry['video']} at {time:.2f} s", video, time, drawn, crowd, declared)


def _size(path: Path, entry: dict[str, Any]) -> tuple[int, int] | None:
    """Width and height in pixels, if both are given."""
    width, height = entry.get("width"), entry.get("height")
    try:
        return (int(width), int(height)) if width and height else None
    except (TypeError, ValueError, OverflowError):
        raise LabelError(
            f"{path}: image {entry.get('id')!r} has the width {width!r} and the height {height!r}, "
            "which are no numbers of pixels"
        ) from None


def _time(path: Path, entry: dict[str, Any], video: Path, rates: dict[Path, float]) -> float:
    try:
        if entry.get("time") is not None:
            time = float(entry["time"])
        elif entry.get("fps"):
            time = int(entry["frame"]) / float(entry["fps"])
        else:
            if video not in rates:
                rates[video] = probe(video).fps
            time = int(entry["frame"]) / rates[video]
        if not 0 <= time < math.inf:
            raise ValueError(time)
    except VideoError as error:
        raise LabelError(f"{path} names a video that cannot be used: {error}") from error
    except (KeyError, TypeError, ValueError, ArithmeticError):
        raise LabelError(
            f"{path}: image {entry.get('id')!r} of video {entry['video']} needs its time in "
            "seconds, or its frame counted from 0"
        ) from None
    return time

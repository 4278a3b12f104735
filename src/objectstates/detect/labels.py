"""Labelled boxes in COCO's JSON, to train and evaluate a detector with.

An entry of ``images`` names either an image, ``file_name``, or a frame of a video, ``video`` with
``time`` in seconds or with ``frame`` counted from 0 (at ``fps``, by default the video's rate): the
frames of videos need not be exported to be labelled. Paths are relative to the JSON file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.errors import LabelError, VideoError
from objectstates.base.geometry import clip
from objectstates.video.frames_at import TOLERANCE, frames_at
from objectstates.video.reader import Image, probe

Boxes = npt.NDArray[np.float32]

SLACK = 1.0
"""Pixels by which a box may reach beyond its image, by rounding; it is clipped to the image."""


@dataclass(frozen=True, eq=False)
class LabelledImage:
    """One image with the boxes of the object in it; it may have none.

    name : the image file, or the video and the time.
    source : the image file or the video.
    time : seconds of the video; None for an image file.
    boxes : (n, 4) ``x1, y1, x2, y2`` in pixels of the upright image.
    ignored : (m, 4) regions that are neither object nor background (COCO's ``iscrowd``).
    declared : width and height of the image by the label file.
    """

    name: str
    source: Path
    time: float | None
    boxes: Boxes
    ignored: Boxes
    declared: tuple[int, int] | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Labels:
    """The labelled images of one kind of object."""

    path: Path
    object: str
    images: tuple[LabelledImage, ...]

    def load(self) -> Iterator[tuple[LabelledImage, Image]]:
        """Yield every labelled image with its (H, W, 3) RGB pixels; each video is opened once."""
        for image in self.images:
            if image.time is None:
                yield self._checked(image, self._picture(image))
        by_video: dict[Path, list[LabelledImage]] = {}
        for image in self.images:
            if image.time is not None:
                by_video.setdefault(image.source, []).append(image)
        for video, images in by_video.items():
            times = [image.time or 0.0 for image in images]
            try:
                info = probe(video)
                late = [time for time in times if time > info.duration + 0.5 / info.fps]
                if late:
                    raise LabelError(
                        f"{self.path}: {video} has no frame at {late[0]:g} s: it lasts "
                        f"{info.duration:.2f} s; correct the time"
                    )
                frames = dict(frames_at(video, times, tolerance=max(TOLERANCE, 1.5 / info.fps)))
            except VideoError as error:
                raise LabelError(
                    f"{self.path} names a video that cannot be used: {error}"
                ) from error
            for image, time in zip(images, times, strict=True):
                yield self._checked(image, frames[time].image)

    def _picture(self, image: LabelledImage) -> Image:
        try:
            data = np.fromfile(image.source, np.uint8)
        except OSError as problem:
            raise LabelError(
                f"{self.path} names the picture {image.source}, which cannot be read "
                f"({problem.strerror}): put it there, or remove it from the labels"
            ) from problem
        bgr = cv2.imdecode(data, cv2.IMREAD_COLOR) if data.size else None
        if bgr is None:
            raise LabelError(
                f"{self.path} names {image.source}, which is not a picture that can be decoded: "
                "replace it, or remove it from the labels"
            )
        return cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB).astype(np.uint8, copy=False)

    def _checked(self, image: LabelledImage, pixels: Image) -> tuple[LabelledImage, Image]:
        """The image with its boxes clipped; raise if they cannot have been drawn on it."""
        height, width = pixels.shape[:2]
        if image.declared not in (None, (width, height)):
            raise LabelError(
                f"{self.path}: image {image.name} is {width} x {height} pixels, but the labels say "
                f"{image.declared}: they were drawn on another version of it"
            )
        for box in image.boxes:
            if (box[:2] < -SLACK).any() or (box[2:] > np.add((width, height), SLACK)).any():
                raise LabelError(
                    f"{self.path}: box {_shown(box)} (x1, y1, x2, y2) reaches out of the "
                    f"{width} x {height} pixels of image {image.name}: a bbox is "
                    "[x, y, width, height] in pixels of its image"
                )
        boxes, ignored = (clip(b, (height, width)) for b in (image.boxes, image.ignored))
        return replace(image, boxes=boxes, ignored=ignored), pixels


def read_labels(path: str | Path, object: str | None = None) -> Labels:
    """Read COCO labels of one kind of object.

    object : the name of its category; not needed where the file has only one.
    """
    path = Path(path)
    content = _parse(path)
    category, name = _category(path, content["categories"], object)
    known = {entry.get("id"): entry for entry in content["images"]}
    if len(known) < len(content["images"]) or None in known:
        raise LabelError(f"{path}: every image needs an id of its own; two are the same or missing")
    drawn: dict[Any, list[list[float]]] = {key: [] for key in known}
    crowds: dict[Any, list[list[float]]] = {key: [] for key in known}
    for annotation in content["annotations"]:
        if annotation.get("category_id") != category:
            continue
        key = annotation.get("image_id")
        if key not in known:
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


def _parse(path: Path) -> dict[str, list[dict[str, Any]]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise LabelError(f"{path} does not exist: give the JSON file of the labels") from None
    except OSError as problem:
        raise LabelError(f"{path} cannot be read: {problem.strerror}") from problem
    except (UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise LabelError(f"{path} is not JSON ({problem}): export the labels again") from problem
    for key in ("images", "annotations", "categories"):
        entries = content.get(key) if isinstance(content, dict) else None
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise LabelError(
                f"{path} has no list {key!r}: labels are in COCO's format, with images, "
                "annotations and categories"
            )
    return dict(content)


def _category(path: Path, categories: list[dict[str, Any]], wanted: str | None) -> tuple[Any, str]:
    names = {str(c.get("name")): c.get("id") for c in categories}
    listed = ", ".join(sorted(names)) or "none"
    if wanted is None and len(names) == 1:
        wanted = next(iter(names))
    if wanted is None:
        raise LabelError(f"{path} has several objects, choose one by `object`: {listed}")
    if wanted not in names:
        raise LabelError(f"{path} has no object {wanted!r}, choose one by `object`: {listed}")
    return names[wanted], wanted


def _box(path: Path, annotation: dict[str, Any]) -> list[float]:
    place = f"{path}: annotation {annotation.get('id')} of image {annotation.get('image_id')!r}"
    try:
        x, y, width, height = (float(v) for v in annotation["bbox"])
    except (KeyError, TypeError, ValueError):
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
    size = entry.get("width"), entry.get("height")
    declared = (int(size[0]), int(size[1])) if size[0] and size[1] else None
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
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        raise LabelError(
            f"{path}: image {entry.get('id')!r} of video {entry['video']} needs its time in "
            "seconds, or its frame counted from 0"
        ) from None
    return time


def _shown(box: Boxes) -> list[float]:
    return [round(float(v), 1) for v in box]

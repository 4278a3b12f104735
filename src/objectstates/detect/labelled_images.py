"""Labelled images of one kind of object, wherever they were labelled."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.errors import LabelError, VideoError
from objectstates.base.geometry import clip
from objectstates.video.frames_at import TOLERANCE, frames_at
from objectstates.video.reader import Image, probe

Boxes = npt.NDArray[np.float32]

MAX_BYTES = 256 * 2**20  # of a label file: a damaged or foreign one must not fill the memory

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
    in_shares : whether boxes are shares of the image's width and height, as YOLO has them, until
        the image is loaded.
    """

    name: str
    source: Path
    time: float | None
    boxes: Boxes
    ignored: Boxes
    declared: tuple[int, int] | None = field(default=None, repr=False)
    in_shares: bool = False


@dataclass(frozen=True, eq=False)
class Labels:
    """The labelled images of one kind of object."""

    path: Path
    object: str
    images: tuple[LabelledImage, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of boxes, of images, of the videos, and of the image files they are from."""
        videos = {image.source for image in self.images if image.time is not None}
        return {
            "boxes": sum(len(image.boxes) for image in self.images),
            "images": len(self.images),
            "videos": len(videos),
            "image_files": sum(image.time is None for image in self.images),
        }

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
        except (OSError, ValueError) as problem:  # ValueError: a name that no file can have
            reason = getattr(problem, "strerror", None) or problem
            raise LabelError(
                f"{self.path} names the picture {image.source}, which cannot be read "
                f"({reason}): put it there, or remove it from the labels"
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
        if image.in_shares:
            sides = np.array([width, height] * 2, np.float32)
            image = replace(image, boxes=image.boxes * sides, in_shares=False)
        if image.declared not in (None, (width, height)):
            raise LabelError(
                f"{self.path}: image {image.name} is {width} x {height} pixels, but the labels say "
                f"{image.declared}: they were drawn on another version of it"
            )
        for box in image.boxes:
            if (box[:2] < -SLACK).any() or (box[2:] > np.add((width, height), SLACK)).any():
                raise LabelError(
                    f"{self.path}: box {_shown(box)} (x1, y1, x2, y2) reaches out of the "
                    f"{width} x {height} pixels of image {image.name}: was it drawn on another "
                    "image, or is a bbox not [x, y, width, height]?"
                )
        boxes, ignored = (clip(b, (height, width)) for b in (image.boxes, image.ignored))
        return replace(image, boxes=boxes, ignored=ignored), pixels


def _shown(box: Boxes) -> list[float]:
    return [round(float(v), 1) for v in box]


class Drawn(NamedTuple):
    """One image of a label file with the boxes of all kinds of objects: label and corners."""

    image: LabelledImage
    boxes: list[tuple[str, tuple[float, float, float, float]]]


def labels_of(
    path: Path, images: Iterable[Drawn], known: Iterable[str], object: str | None
) -> Labels:
    """The labels of one kind of object.

    known : names of kinds, also of those without a box. object : which; None if there is only one.
    """
    images = list(images)
    name = choose_object(path, {*known, *(label for d in images for label, _ in d.boxes)}, object)
    chosen = []
    for image, drawn in images:
        boxes = [box for label, box in drawn if label == name]
        chosen.append(replace(image, boxes=np.array(boxes, np.float32).reshape(-1, 4)))
    if not any(len(image.boxes) for image in chosen):
        raise LabelError(
            f"{path}: there is no box of {name!r}: draw some, or choose another object"
        )
    return Labels(path, name, tuple(chosen))


def choose_object(path: Path, names: Collection[str], wanted: str | None) -> str:
    """The kind of object to read; raise if it is not known or not unique."""
    listed = ", ".join(sorted(names)[:20]) or "none"
    if wanted is None and len(names) == 1:
        return next(iter(names))
    if wanted is None:
        raise LabelError(f"{path} has several objects, choose one by `object`: {listed}")
    if wanted not in names:
        raise LabelError(f"{path} has no object {wanted!r}, choose one by `object`: {listed}")
    return wanted


def checked_box(place: str, corners: Iterable[float]) -> tuple[float, float, float, float]:
    """``x1, y1, x2, y2``; raise unless they are finite and in this order."""
    x1, y1, x2, y2 = map(float, corners)
    if not all(map(math.isfinite, (x1, y1, x2, y2))) or not (x1 < x2 and y1 < y2):
        raise LabelError(
            f"{place}: the box from ({x1:g}, {y1:g}) to ({x2:g}, {y2:g}) covers nothing: correct "
            "or remove it"
        )
    return x1, y1, x2, y2


def without_boxes(
    name: str, source: Path, time: float | None = None, declared: tuple[int, int] | None = None
) -> LabelledImage:
    """An image whose boxes are not known yet."""
    none = np.empty((0, 4), np.float32)
    return LabelledImage(name, source, time, none, none, declared)


def read_text(path: Path) -> str:
    """The text of a label file of at most `MAX_BYTES`."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise LabelError(
                f"{path} is larger than {MAX_BYTES // 2**20} MB: are these labels? Export fewer "
                "images at once"
            )
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise LabelError(f"{path} does not exist: give the file or folder of the labels") from None
    except OSError as problem:
        raise LabelError(f"{path} cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise LabelError(f"{path} is not UTF-8 text ({problem}): export the labels again") from None


def find_media(labels: Path, name: str, media: Path | None) -> Path:
    """Where an image or a video is: in ``media``, or beside the labels.

    Only the parts of the name below a root or ``..`` are used, in full first, then the last alone:
    label files of other machines have paths of theirs.
    """
    parts = [p for p in name.replace("\\", "/").split("/") if p not in ("", ".", "..")]
    if not parts or "\0" in name:
        raise LabelError(f"{labels} names the file {name[:60]!r}, which is no name: correct it")
    beside = labels if labels.is_dir() else labels.parent
    places = [media] if media is not None else [beside, beside / "images", beside.parent]
    for place in places:
        for candidate in (place.joinpath(*parts), place / parts[-1]):
            if os.path.exists(candidate):  # False for a name that is too long
                return candidate
    looked = ", ".join(map(str, places))
    raise LabelError(
        f"{labels} is about {parts[-1]}, which is in none of {looked}: put it beside the labels, "
        "or give its folder as `media`"
    )

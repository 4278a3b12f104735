"""Labelled boxes in the XML of CVAT, "for video" or "for images".

Of a video, whose boxes CVAT interpolates between those drawn, a frame in `STEP` seconds is used, at
most `PER_VIDEO` of a video: neighbouring frames teach next to nothing. A frame without a box is not
used, because it may not have been looked at. An image without a box has no object.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from objectstates.base.errors import DetectorError, LabelError, VideoError
from objectstates.base.safe_xml import parse_xml
from objectstates.detect.box_file_formats import BoxRow, read_boxes, upright
from objectstates.detect.labelled_images import (
    Drawn,
    Labels,
    checked_box,
    find_media,
    labels_of,
    read_text,
    without_boxes,
)
from objectstates.video.reader import probe

STEP = 0.5  # seconds between the frames that are used
PER_VIDEO = 60


def read_cvat(path: Path, files: Sequence[Path], object: str | None, media: Path | None) -> Labels:
    """The labels of one kind of object in files that ``path`` is, or is the folder of."""
    images: list[Drawn] = []
    known: set[str] = set()
    for file in files:
        try:
            root = parse_xml(read_text(file))
            if root.tag != "annotations":
                raise ValueError(f"it has <{root.tag[:40]}> where CVAT has <annotations>")
            known.update(e.text for e in root.iterfind("meta//label/name") if e.text)
            if root.find("image") is not None:
                images += _images(file, root, media)
            else:
                images += _frames(file, root, object, media)
        except (ValueError, KeyError, DetectorError) as problem:
            what = f"{problem} is missing" if isinstance(problem, KeyError) else str(problem)
            what = what.removeprefix(f"{file}: ")
            raise LabelError(
                f"{file}: {what}; export it again as «CVAT for images» or «for video»"
            ) from problem
    return labels_of(path, images, known, object)


def _images(file: Path, root: ElementTree.Element, media: Path | None) -> Iterator[Drawn]:
    for element in root.iterfind("image"):
        name = element.attrib["name"]
        size = int(element.attrib["width"]), int(element.attrib["height"])
        place = f"{file}, image {name}"
        boxes = [
            (box.attrib["label"], checked_box(place, _corners(box)))
            for box in element.iterfind("box")
        ]
        boxes += [
            (shape.attrib["label"], checked_box(place, _hull(shape.attrib["points"])))
            for shape in element.iterfind("polygon")
        ]
        yield Drawn(without_boxes(name, find_media(file, name, media), declared=size), boxes)


def _corners(box: ElementTree.Element) -> tuple[float, float, float, float]:
    corners = [float(box.attrib[name]) for name in ("xtl", "ytl", "xbr", "ybr")]
    return upright(corners, math.radians(float(box.get("rotation", 0))))


def _hull(points: str) -> tuple[float, float, float, float]:
    xy = np.array([[float(v) for v in p.split(",")] for p in points.split(";")]).reshape(-1, 2)
    (x1, y1), (x2, y2) = xy.min(axis=0).tolist(), xy.max(axis=0).tolist()
    return x1, y1, x2, y2


def _frames(
    file: Path, root: ElementTree.Element, object: str | None, media: Path | None
) -> Iterator[Drawn]:
    rows = read_boxes(file).rows
    if object is not None:
        rows = [row for row in rows if row.label == object] or rows  # an error names what there is
    if not rows:
        return
    source = next((e.text.strip() for e in root.iterfind("meta//source") if e.text), None)
    video = find_media(file, source or f"{file.stem}.mp4", media)
    try:
        fps = probe(video).fps
    except VideoError as error:
        raise LabelError(f"{file} names a video that cannot be used: {error}") from error
    by_frame: dict[int, list[BoxRow]] = {}
    for row in rows:
        by_frame.setdefault(int(row.position), []).append(row)
    for frame in _spread(sorted(by_frame), fps):
        size = by_frame[frame][0].size
        declared = None if math.isnan(size[0]) else (int(size[0]), int(size[1]))
        name, time = f"{video.name} at {frame / fps:.2f} s", frame / fps
        boxes = [(r.label, checked_box(f"{file}, frame {frame}", r.box)) for r in by_frame[frame]]
        yield Drawn(without_boxes(name, video, time, declared), boxes)


def _spread(frames: Iterable[int], fps: float) -> list[int]:
    """Frames at least `STEP` apart, at most `PER_VIDEO`, spread evenly."""
    kept: list[int] = []
    for frame in frames:
        if not kept or frame - kept[-1] >= STEP * fps:
            kept.append(frame)
    chosen = np.linspace(0, len(kept) - 1, min(PER_VIDEO, len(kept))).round().astype(int)
    return [kept[index] for index in chosen.tolist()]

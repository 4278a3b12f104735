"""Labelled boxes of LabelMe: a JSON file per image, with rectangles, circles and polygons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from objectstates.base.errors import LabelError
from objectstates.detect.labelled_images import (
    Drawn,
    Labels,
    checked_box,
    find_media,
    labels_of,
    without_boxes,
)


def is_labelme(data: object) -> bool:
    """Whether the parsed content of a JSON file is LabelMe's."""
    return isinstance(data, dict) and isinstance(data.get("shapes"), list)


def read_labelme(
    path: Path, files: Mapping[Path, Any], object: str | None, media: Path | None
) -> Labels:
    """The labels of one kind of object.

    files : the parsed content of files that ``path`` is, or is the folder of.
    """
    return labels_of(path, [_image(f, data, media) for f, data in files.items()], (), object)


def _image(file: Path, data: dict[str, Any], media: Path | None) -> Drawn:
    name = data.get("imagePath")
    if not isinstance(name, str):
        raise LabelError(f"{file} has no imagePath: save it again in LabelMe")
    size = data.get("imageWidth"), data.get("imageHeight")
    declared = size if all(isinstance(n, int) and n > 0 for n in size) else None
    image = without_boxes(name, find_media(file, name, media), declared=declared)  # type: ignore[arg-type]
    boxes = []
    for number, shape in enumerate(data["shapes"], 1):
        place = f"{file}, shape {number}"
        try:
            boxes.append((str(shape["label"]), checked_box(place, _hull(shape))))
        except (KeyError, TypeError, ValueError, OverflowError) as problem:
            raise LabelError(
                f"{place} is not a label with points ({problem}): correct or remove it"
            ) from problem
    return Drawn(image, boxes)


def _hull(shape: dict[str, Any]) -> tuple[float, float, float, float]:
    points = [(float(x), float(y)) for x, y in shape["points"]]
    kind = shape.get("shape_type") or "polygon"
    if kind == "circle":
        (x, y), edge = points
        radius = math.hypot(edge[0] - x, edge[1] - y)
        return x - radius, y - radius, x + radius, y + radius
    if kind not in ("rectangle", "polygon", "mask") or len(points) < 2:
        raise ValueError(f"a {kind} of {len(points)} points encloses nothing")
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)

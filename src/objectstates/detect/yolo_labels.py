"""Labelled boxes in the text files of YOLO: a line ``class x y width height`` per box.

The centre and the sides are shares of the image's width and height. A line with more numbers is a
polygon, of which the hull is taken. ``labels/a.txt`` belongs to the image ``images/a.jpg``, or to
the one beside it; an empty file is an image without the object. The classes are named, from 0, by
``data.yaml`` (``names``), or line by line by ``classes.txt`` or ``obj.names``.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

from objectstates.base.errors import LabelError
from objectstates.detect.labelled_images import (
    Drawn,
    Labels,
    checked_box,
    labels_of,
    read_text,
    without_boxes,
)
from objectstates.video.source import IMAGE_SUFFIXES

CLASS_FILES = ("data.yaml", "data.yml", "dataset.yaml", "classes.txt", "obj.names", "obj_names.txt")
NOT_LABELS = {*CLASS_FILES, "train.txt", "val.txt", "test.txt", "train.names"}
MAX_FILES = 20_000
MAX_CLASSES = 10_000
ROUNDING = 0.01  # of the image's side, by which a box may reach beyond it


def find_class_file(folder: Path) -> Path | None:
    """The file that names the classes, in the folder or in that of the labels within it."""
    for place in (folder, folder / "labels"):
        for name in CLASS_FILES:
            if (place / name).is_file():
                return place / name
    return None


def read_yolo(folder: Path, classes: Path, object: str | None, media: Path | None) -> Labels:
    """The labels of one kind of object in the text files of a folder."""
    names = _names(classes)
    files = [f for f in sorted(folder.rglob("*.txt")) if f.is_file() and f.name not in NOT_LABELS]
    if len(files) > MAX_FILES:
        raise LabelError(f"{folder} has {len(files)} text files, more than {MAX_FILES}")
    images = [_image(folder, file, names, media) for file in files]
    if not images:
        raise LabelError(f"{folder}: there is no text file of labels beside {classes.name}")
    return labels_of(folder, images, names.values(), object)


def _image(folder: Path, file: Path, names: dict[int, str], media: Path | None) -> Drawn:
    picture = _picture(folder, file, media)
    boxes = []
    for number, line in enumerate(read_text(file).splitlines(), 1):
        if line.strip():
            boxes.append(_box(f"{file}, line {number}", line.split(), names))
    return Drawn(replace(without_boxes(picture.name, picture), in_shares=True), boxes)


def _picture(folder: Path, file: Path, media: Path | None) -> Path:
    """The image of a text file."""
    relative = file.relative_to(folder).with_suffix("")
    swapped = Path(*("images" if part == "labels" else part for part in relative.parts))
    roots = [folder, folder.parent] if media is None else [media]
    places = [
        *(root / name for root in roots for name in (swapped, relative, relative.name)),
        *([] if media is not None else [file.with_suffix(""), folder / "images" / relative]),
    ]
    if media is None and folder.name == "labels":
        places.append(folder.parent / "images" / relative)
    for place in places:
        for suffix in IMAGE_SUFFIXES:
            for cased in (suffix, suffix.upper()):
                candidate = place.with_name(place.name + cased)
                if candidate.is_file():
                    return candidate
    raise LabelError(
        f"{file} has no image {relative.name}{IMAGE_SUFFIXES[0]} (or another suffix) beside it or "
        f"in {folder / 'images'}: put it there, or give its folder as `media`"
    )


def _box(
    place: str, cells: list[str], names: dict[int, str]
) -> tuple[str, tuple[float, float, float, float]]:
    try:
        index, numbers = int(cells[0]), [float(cell) for cell in cells[1:]]
    except ValueError:
        index, numbers = -1, []
    if len(numbers) == 4 or len(numbers) == 5:  # with a confidence
        x, y, width, height = numbers[:4]
        corners = x - width / 2, y - height / 2, x + width / 2, y + height / 2
    elif len(numbers) >= 6 and len(numbers) % 2 == 0:
        xs, ys = numbers[0::2], numbers[1::2]
        corners = min(xs), min(ys), max(xs), max(ys)
    else:
        raise LabelError(f"{place} is not class x y width height in numbers: export it again")
    if index not in names:
        raise LabelError(f"{place}: class {index} is not among the {len(names)} named classes")
    if not all(-ROUNDING <= n <= 1 + ROUNDING for n in corners):
        raise LabelError(
            f"{place}: the box reaches out of the image: x, y, width and height are shares of the "
            "image, from 0 to 1, not pixels"
        )
    return names[index], checked_box(place, (min(max(n, 0.0), 1.0) for n in corners))


def _names(path: Path) -> dict[int, str]:
    text = read_text(path)
    if path.suffix.lower() in (".yaml", ".yml"):
        names = _yaml_names(text)
    else:
        names = {n: line.strip() for n, line in enumerate(text.strip().splitlines())}
    if not names or len(names) > MAX_CLASSES:
        raise LabelError(
            f"{path} names no classes: it needs `names: [cup, plate]`, or a name a line in "
            "classes.txt"
        )
    return names


def _yaml_names(text: str) -> dict[int, str]:
    """``names`` of data.yaml: a list in brackets, a dash a line, or ``0: name`` a line.

    Nothing else of YAML is needed, so that the file is not given to a YAML parser.
    """
    match = re.search(r"^names[ \t]*:[ \t]*(.*(?:\n(?:[ \t-].*|[ \t]*#.*|[ \t]*)$)*)", text, re.M)
    if match is None:
        return {}
    lines = [re.sub(r"(^|\s)#.*", "", line) for line in match[1].splitlines()]
    joined = " ".join(line.strip() for line in lines).strip()
    if joined[:1] in ("[", "{"):
        parts = joined.strip("[]{} ").split(",")
    else:
        parts = [line.strip().removeprefix("- ") for line in lines]
    names: dict[int, str] = {}
    for part in (part.strip() for part in parts):
        if part:
            numbered = re.fullmatch(r"(\d{1,6})\s*:\s*(.+)", part)
            number, name = (int(numbered[1]), numbered[2]) if numbered else (len(names), part)
            names[number] = _unquoted(name.strip())
    return names


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        try:
            return str(ast.literal_eval(text))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text[1:-1]
    return text

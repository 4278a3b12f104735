"""Labelled boxes to train and evaluate a detector with, in the formats of common labelling tools.

* COCO: a JSON file (``coco_labels.py``), also of frames of videos;
* CVAT: an XML file "for video" or "for images", or a folder of them (``cvat_labels.py``);
* YOLO: a folder with a text file per image, and the names of the classes (``yolo_labels.py``);
* LabelMe: a JSON file per image, or a folder of them (``labelme_labels.py``).

The format is recognised by the content.
"""

from __future__ import annotations

import json
from pathlib import Path

from objectstates.base.errors import LabelError
from objectstates.detect.coco_labels import read_coco
from objectstates.detect.cvat_labels import read_cvat
from objectstates.detect.labelled_images import LabelledImage, Labels, read_text
from objectstates.detect.labelme_labels import is_labelme, read_labelme
from objectstates.detect.yolo_labels import find_class_file, read_yolo

__all__ = ["LabelledImage", "Labels", "read_labels"]

MAX_FILES = 20_000  # of a folder
_FORMATS = "COCO (.json), CVAT (.xml), YOLO (a folder of .txt and its classes) or LabelMe (.json)"


def read_labels(
    path: str | Path, object: str | None = None, *, media: str | Path | None = None
) -> Labels:
    """Read the labels of one kind of object.

    object : its name; not needed where the labels have only one.
    media : folder of the images or videos of CVAT, YOLO and LabelMe, if they are not beside the
        labels. Paths in COCO are relative to the file.
    """
    path, media = Path(path), None if media is None else Path(media)
    if media is not None and not media.is_dir():
        raise LabelError(f"`media`: {media} is not a folder: check the path")
    if path.is_dir():
        return _read_folder(path, object, media)
    match path.suffix.lower():
        case ".xml":
            return read_cvat(path, [path], object, media)
        case ".yaml" | ".yml" | ".names":
            return read_yolo(path.parent, path, object, media)
        case ".txt":
            raise LabelError(
                f"{path} is one file of YOLO labels: give the folder that has them all"
            )
    data = _json(path)
    if is_labelme(data):
        return read_labelme(path, {path: data}, object, media)
    return read_coco(path, data, object)


def _read_folder(path: Path, object: str | None, media: Path | None) -> Labels:
    classes = find_class_file(path)
    if classes is not None:
        return read_yolo(path, classes, object, media)
    xml, json_files = _files(path, ".xml"), _files(path, ".json")
    if xml and not json_files:
        return read_cvat(path, xml, object, media)
    found = {file: data for file in json_files if is_labelme(data := _json(file))}
    if found:
        return read_labelme(path, found, object, media)
    if len(json_files) == 1:
        return read_coco(json_files[0], _json(json_files[0]), object)
    hint = "; YOLO labels need classes.txt or data.yaml beside them" if _files(path, ".txt") else ""
    raise LabelError(f"{path}: there are no labels in this folder, as {_FORMATS}{hint}")


def _files(folder: Path, suffix: str) -> list[Path]:
    found = sorted(f for f in folder.rglob("*") if f.suffix.lower() == suffix and f.is_file())
    if len(found) > MAX_FILES:
        raise LabelError(
            f"{folder} has {len(found)} files {suffix}, more than {MAX_FILES}: is it the folder of "
            "the labels?"
        )
    return found


def _json(path: Path) -> object:
    try:
        return json.loads(read_text(path))
    except ValueError as problem:
        raise LabelError(
            f"{path} is not JSON ({problem}): labels are read as {_FORMATS}"
        ) from problem
    except RecursionError:
        raise LabelError(f"{path} is nested too deep to be labels") from None

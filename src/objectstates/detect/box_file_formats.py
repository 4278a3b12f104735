"""Files of boxes: COCO JSON, MOT CSV and CVAT for video XML.

Every format is read into the same rows. How a file gives the video and the time of a box:

* **COCO JSON**, an object with ``images``, ``annotations`` (those of a detector have a ``score``)
  and ``categories``. An image belongs to the video that its ``video`` field names, or its
  ``video_id`` among ``videos`` (by ``name`` or ``file_name``). Without those, its ``file_name``
  is ``.../VIDEO/000012.jpg`` or ``.../VIDEO_000012.jpg`` (with any or no separator, and perhaps
  the word "frame" before the number); if it is only a number, the video has the JSON file's name.
  The time of an image is ``time`` or ``timestamp`` (seconds), or the frame ``frame``,
  ``frame_id``, ``frame_index`` or ``frame_number`` (from 0), or the number its ``file_name`` ends
  in (from 0; where the video is a folder of images, the image of that number).
  A list of results without images is read if each ``image_id`` is such a file name.
* **MOT CSV**, lines of ``frame,id,x,y,w,h[,conf[,class[,...]]]`` with frames from 1. The file has
  the video's name. A negative ``conf`` means 1. ``labels.txt`` beside it, a name a line, names
  the classes from 1.
* **CVAT for video XML**. The video is the task's ``source``, or has the file's name. Boxes of a
  track are interpolated linearly, as CVAT does; from a box that is ``outside`` to the next that is
  not there are none; the last box stays until ``stop_frame``. A rotated box becomes its
  axis-aligned hull.

Track identities are dropped. Frame numbers are converted to seconds by ``fps`` of a COCO image, of
its video or of ``info``; else by the frame rate of the video.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from objectstates.base.errors import DetectorError
from objectstates.base.safe_xml import parse_xml
from objectstates.video.reader import VIDEO_SUFFIXES

SUFFIXES = (".json", ".csv", ".txt", ".xml")

_MAX_FRAMES = 10**7  # more frames than any video has: a damaged file must not fill the memory
_MAX_INTERPOLATED = 10**6  # boxes between those drawn in a file: ten hours of one object
_MAX_NAME = 1000  # characters of a file name

VideoName = tuple[str, ...]  # the last parts of a video's path, without the suffix of the file


class BoxRow(NamedTuple):
    """One box of a file.

    videos : the names that the video may have.
    position : frame from 0, or seconds if ``rate`` is 1.
    rate : positions per second; nan: the frame rate of the video.
    box : ``x1, y1, x2, y2`` in pixels of an image of ``size``.
    size : width and height of the image; nan: that of the video.
    label : the class of the object; empty if the file has none.
    from_name : whether the position is the number of an image file.
    """

    videos: tuple[VideoName, ...]
    position: float
    rate: float
    box: tuple[float, float, float, float] = (math.nan,) * 4
    score: float = 1.0
    label: str = ""
    size: tuple[float, float] = (math.nan, math.nan)
    from_name: bool = False


@dataclass
class BoxFile:
    """Content of files: boxes, videos (also those without boxes) and labels."""

    rows: list[BoxRow] = field(default_factory=list)
    videos: set[VideoName] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)

    def add(self, row: BoxRow) -> None:
        positive = all(not number <= 0 for number in (row.rate, *row.size))  # or nan
        finite = all(map(math.isfinite, (row.position, *row.box)))
        if not (finite and positive and 0 <= row.score <= 1 and row.position < _MAX_FRAMES):
            raise ValueError(
                f"frame {row.position:g}, box {row.box}, score {row.score:g}: numbers must be "
                "finite, scores from 0 to 1, frame rates and sizes of images above 0"
            )
        self.rows.append(row)
        self.videos.update(row.videos)
        if row.label:
            self.labels.add(row.label)


def read_boxes(path: str | Path) -> BoxFile:
    """Read a file, or all files of a folder, in any of the formats."""
    path = Path(path)
    found = BoxFile()
    for file in _files(path):
        try:
            text = file.read_bytes().decode("utf-8-sig")
            match file.suffix.lower():
                case ".json":
                    _read_coco(file, json.loads(text), found)
                case ".xml":
                    _read_cvat(file, parse_xml(text), found)
                case _:
                    _read_mot(file, text, found)
        except OSError as error:
            raise DetectorError(f"{file}: {error.strerror or error}; check the path") from error
        except (
            ValueError, TypeError, LookupError, AttributeError, ArithmeticError, csv.Error,
        ) as error:  # fmt: skip
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise DetectorError(f"{file}: this cannot be read as boxes: {what}") from error
        except RecursionError as error:
            raise DetectorError(f"{file}: this is nested too deep to be boxes") from error
    return found


def _files(path: Path) -> list[Path]:
    known = ", ".join(SUFFIXES)
    if not path.is_dir():
        if path.suffix.lower() not in SUFFIXES:
            raise DetectorError(f"{path}: boxes are read from {known}; give such a file")
        return [path]
    files = [f for f in sorted(path.rglob("*")) if f.suffix.lower() in SUFFIXES and f.is_file()]
    files = [f for f in files if f.name != "labels.txt"]
    if not files:
        raise DetectorError(f"{path}: there are no boxes in this folder, as {known}")
    return files


def video_name(path: str | Path) -> VideoName:
    """Parts of a path, without the suffix of a video, in Unicode's NFC."""
    text = unicodedata.normalize("NFC", str(path)).replace("\\", "/")
    *folders, last = [part for part in text.split("/") if part not in ("", ".")] or [""]
    stem, dot, suffix = last.rpartition(".")
    return (*folders, stem if dot and f".{suffix.lower()}" in VIDEO_SUFFIXES else last)


# COCO


def _read_coco(file: Path, data: Any, found: BoxFile) -> None:
    if isinstance(data, list):
        data = {"images": _images_of_results(data), "annotations": data}
    if not isinstance(data, dict) or "images" not in data or "annotations" not in data:
        raise ValueError("COCO has images and annotations")
    rate = _number(data.get("info") or {}, "fps")
    videos = {
        video["id"]: (video_name(video.get("name") or video["file_name"]), _number(video, "fps"))
        for video in data.get("videos") or ()
    }
    images = {image["id"]: _image_row(file, image, videos, rate) for image in data["images"]}
    for row in images.values():
        found.videos.update(row.videos)
    labels = {c["id"]: str(c["name"]) for c in data.get("categories") or ()}
    found.labels.update(labels.values())
    for annotation in data["annotations"]:
        if annotation.get("iscrowd"):
            continue
        image = annotation["image_id"]
        if image not in images:
            raise ValueError(f"an annotation is of image {image!r}, which is not among the images")
        category = annotation.get("category_id", "")
        x, y, width, height = map(float, annotation["bbox"])
        score = float(annotation.get("score", 1.0))
        label = labels.get(category, str(category))
        box = (x, y, x + width, y + height)
        found.add(images[image]._replace(box=box, score=score, label=label))


def _images_of_results(results: list[Any]) -> list[dict[str, str]]:
    names = dict.fromkeys(result["image_id"] for result in results)
    if not all(isinstance(name, str) for name in names):
        raise ValueError(
            "a list of results does not name its images: give it as annotations "
            "beside images, or make each image_id a name like VIDEO_000012"
        )
    return [{"id": name, "file_name": name} for name in names]


def _image_row(
    file: Path, image: dict[str, Any], videos: dict[Any, tuple[VideoName, float]], rate: float
) -> BoxRow:
    """Video and time of an image, as a row without a box."""
    names, number = _from_file_name(file, str(image.get("file_name", "")))
    if image.get("video_id") in videos:
        name, video_rate = videos[image["video_id"]]
        names, rate = (name,), rate if math.isnan(video_rate) else video_rate
    elif isinstance(image.get("video"), str):
        names = (video_name(image["video"]),)
    if not math.isnan(own_rate := _number(image, "fps")):
        rate = own_rate
    size = (_number(image, "width"), _number(image, "height"))
    if not math.isnan(time := _number(image, "time", "timestamp")):
        return BoxRow(names, time, 1.0, size=size)
    frame = _number(image, "frame", "frame_id", "frame_index", "frame_number")
    if not math.isnan(frame):
        return BoxRow(names, frame, rate, size=size)
    if number is None:
        raise ValueError(f"image {image['id']!r} has no frame, no time and no number in its name")
    return BoxRow(names, number, rate, size=size, from_name=True)


def _from_file_name(file: Path, name: str) -> tuple[tuple[VideoName, ...], int | None]:
    """Names that the video of an image may have, and the number of the frame."""
    if len(name) > _MAX_NAME:
        raise ValueError(f"the file name {name[:40]!r}... has more than {_MAX_NAME} characters")
    *folders, last = video_name(name)
    stem = re.sub(r"\.[A-Za-z]+$", "", last)
    match = re.fullmatch(r"(.*?)(?:[ _.#-]*frame)?[ _.#-]*([0-9]+)", stem, re.IGNORECASE)
    if match is None:
        return ((*folders, stem),), None
    names = [(*folders, match[1])] if match[1] else []
    if folders:
        names.append(video_name("/".join(folders)))
    return tuple(names) or (video_name(file.with_suffix("")),), int(match[2])


def _number(data: dict[str, Any], *names: str) -> float:
    """The first of some fields that is present, or nan."""
    return next((float(data[name]) for name in names if data.get(name) is not None), math.nan)


# MOT


def _read_mot(file: Path, text: str, found: BoxFile) -> None:
    video = (video_name(file.with_suffix("")),)
    found.videos.update(video)
    names = _class_names(file.with_name("labels.txt"))
    for number, cells in enumerate(csv.reader(io.StringIO(text, newline="")), 1):
        if not any(cells) or (number == 1 and cells[0].strip().lower() == "frame"):
            continue
        try:
            frame, _, x, y, width, height, *rest = map(float, cells)
            confidence = rest[0] if rest and rest[0] >= 0 else 1.0
            label = _class_name(rest[1], names) if len(rest) > 1 else ""
            box = (x, y, x + width, y + height)
            found.add(BoxRow(video, frame - 1, math.nan, box, confidence, label))
        except (ValueError, ArithmeticError) as error:
            raise ValueError(
                f"line {number} is not frame,id,x,y,w,h[,conf[,class]] ({error})"
            ) from error


def _class_names(file: Path) -> list[str]:
    return file.read_text("utf-8-sig").splitlines() if file.is_file() else []


def _class_name(number: float, names: Sequence[str]) -> str:
    if number < 0:
        return ""  # unused columns of detections are -1
    named = number == int(number) and 1 <= number <= len(names)
    return names[int(number) - 1].strip() if named else f"{number:g}"


# CVAT


def _read_cvat(file: Path, root: ElementTree.Element, found: BoxFile) -> None:
    if root.tag != "annotations" or root.find("image") is not None:
        raise ValueError("this is not «CVAT for video»: export it in that format")
    sources = {e.text.strip() for e in root.iterfind("meta//source") if e.text}
    if len(sources) > 1:
        raise ValueError(f"it has tasks of {len(sources)} videos: export one by one")
    video = (video_name(sources.pop() if sources else file.with_suffix("")),)
    found.videos.update(video)
    found.labels.update(e.text for e in root.iterfind("meta//label/name") if e.text)
    size = (_meta(root, "original_size/width"), _meta(root, "original_size/height"))
    stop, total = _meta(root, "stop_frame"), 0
    for track in root.iterfind("track"):
        label = track.get("label", "")
        keys = _until(_key_boxes(track), stop)
        total += sum(b.frame - a.frame for a, b in pairwise(keys) if not a.outside)
        if total > _MAX_INTERPOLATED:
            raise ValueError(
                f"its tracks have more than {_MAX_INTERPOLATED} boxes with those between the "
                "drawn ones: is stop_frame right? Else divide the video"
            )
        for frame, box in _interpolated(keys):
            found.add(BoxRow(video, frame, math.nan, box, 1.0, label, size))


def _meta(root: ElementTree.Element, name: str) -> float:
    text = root.findtext(f"meta//{name}")
    return float(text) if text else math.nan


class _KeyBox(NamedTuple):
    frame: int
    outside: bool
    box: tuple[float, float, float, float]


def _key_boxes(track: ElementTree.Element) -> list[_KeyBox]:
    boxes = {}
    for element in track.iterfind("box"):
        corners = tuple(float(element.attrib[name]) for name in ("xtl", "ytl", "xbr", "ybr"))
        box = upright(corners, math.radians(float(element.get("rotation", 0))))
        frame = int(element.attrib["frame"])
        boxes[frame] = _KeyBox(frame, element.get("outside") == "1", box)
    return [boxes[frame] for frame in sorted(boxes)]


def upright(corners: Iterable[float], angle: float) -> tuple[float, float, float, float]:
    """Axis-aligned hull of a box that is rotated about its centre."""
    x1, y1, x2, y2 = corners
    if angle == 0:
        return x1, y1, x2, y2
    cos, sin = abs(math.cos(angle)), abs(math.sin(angle))
    width, height = (x2 - x1) * cos + (y2 - y1) * sin, (x2 - x1) * sin + (y2 - y1) * cos
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _until(keys: list[_KeyBox], stop: float) -> list[_KeyBox]:
    """The boxes with the last one again at ``stop``, which is nan if unknown."""
    if keys and not 0 <= keys[0].frame <= keys[-1].frame < _MAX_FRAMES:
        raise ValueError(f"a track has frames {keys[0].frame} to {keys[-1].frame}")
    if keys and keys[-1].frame < stop < _MAX_FRAMES:
        return [*keys, keys[-1]._replace(frame=int(stop))]
    return keys


def _interpolated(
    keys: Sequence[_KeyBox],
) -> Iterator[tuple[int, tuple[float, float, float, float]]]:
    """Box of every frame in which a track is visible."""
    for i, key in enumerate(keys):
        if key.outside:
            continue
        yield key.frame, key.box
        following = keys[i + 1] if i + 1 < len(keys) else key
        for frame in range(key.frame + 1, following.frame):
            part = (frame - key.frame) / (following.frame - key.frame)
            x1, y1, x2, y2 = (
                a + part * (b - a) for a, b in zip(key.box, following.box, strict=True)
            )
            yield frame, (x1, y1, x2, y2)

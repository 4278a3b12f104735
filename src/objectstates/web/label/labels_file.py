"""Labelled frames of some clips on disk: a COCO JSON file that ``detector train`` reads.

Beside what COCO has, an image names its ``video``, ``time`` and ``clip``, and a box says in ``how``
whether a person drew it, accepted a proposal of the detector, or accepted a box that was followed.
Each change is on disk, as a whole, before the method returns.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from objectstates.base.errors import LabelError
from objectstates.base.storage import write_atomically

How = Literal["drawn", "proposed", "followed"]
FORMAT = "objectstates label"
MAX_BOXES = 50  # of a frame
MIN_SIDE = 2.0  # pixels

Key = tuple[str, int]
"""Clip and milliseconds: a frame."""


def frame_key(clip: str, time: float) -> Key:
    """The key of a frame, given its time in seconds."""
    return clip, round(time * 1000)


@dataclass(frozen=True, slots=True)
class LabelBox:
    """A box in pixels of the video, and how it came about."""

    x1: float
    y1: float
    x2: float
    y2: float
    how: How = "drawn"

    @classmethod
    def of(cls, corners: Iterable[float], how: How) -> LabelBox:
        x1, y1, x2, y2 = map(float, corners)
        return cls(x1, y1, x2, y2, how)

    @property
    def corners(self) -> tuple[float, float, float, float]:
        return self.x1, self.y1, self.x2, self.y2

    def inside(self, width: int, height: int) -> LabelBox:
        """The part within the frame; raise if there is nothing left to learn from."""
        if not all(map(math.isfinite, self.corners)):
            raise LabelError("the box has corners that are no numbers")
        x1, x2 = (min(max(x, 0.0), float(width)) for x in (self.x1, self.x2))
        y1, y2 = (min(max(y, 0.0), float(height)) for y in (self.y1, self.y2))
        if x2 - x1 < MIN_SIDE or y2 - y1 < MIN_SIDE:
            raise LabelError(
                f"the box is outside of the frame of {width} x {height} pixels, or smaller than "
                f"{MIN_SIDE:g} pixels: draw it around the object"
            )
        return LabelBox(round(x1, 2), round(y1, 2), round(x2, 2), round(y2, 2), self.how)

    def to_json(self) -> dict[str, Any]:
        return {"box": list(self.corners), "how": self.how}


@dataclass(frozen=True, slots=True)
class LabelledFrame:
    """One frame; without boxes the object is not visible in it.

    time : seconds of the video. width, height : pixels of the video.
    """

    clip: str
    video: str
    time: float
    width: int
    height: int
    boxes: tuple[LabelBox, ...] = ()

    @property
    def key(self) -> Key:
        return frame_key(self.clip, self.time)

    @property
    def by_hand(self) -> bool:
        """Whether a person looked at this very frame."""
        return all(box.how != "followed" for box in self.boxes)

    def to_json(self) -> dict[str, Any]:
        boxes = [box.to_json() for box in self.boxes]
        return {
            "clip": self.clip,
            "time": self.time,
            "width": self.width,
            "height": self.height,
            "boxes": boxes,
            "by_hand": self.by_hand,
        }


class LabelsFile:
    """The labelled frames of one kind of object, in the order in which they were labelled."""

    def __init__(self, path: Path, object_name: str) -> None:
        self.path, self.object_name = path, object_name
        self.frames: dict[Key, LabelledFrame] = {}
        if path.exists():
            self.frames = _read(path, object_name)

    def put(self, *frames: LabelledFrame) -> None:
        """Add frames, or replace their labels."""
        self._replace({**self.frames, **{frame.key: frame for frame in frames}})

    def remove(self, *keys: Key) -> None:
        self._replace({key: frame for key, frame in self.frames.items() if key not in keys})

    def of_clips(self, clips: Container[str]) -> list[LabelledFrame]:
        """The frames of some clips: those of videos that were removed wait in the file."""
        return [frame for frame in self.frames.values() if frame.clip in clips]

    def counts(self, clips: Container[str]) -> dict[str, int]:
        """Of some clips: boxes by hand and all boxes, frames, those without the object."""
        frames = self.of_clips(clips)
        boxes = [box for frame in frames for box in frame.boxes]
        return {
            "by_hand": sum(box.how != "followed" for box in boxes),
            "drawn": sum(box.how == "drawn" for box in boxes),
            "boxes": len(boxes),
            "frames": len(frames),
            "with_box": sum(bool(frame.boxes) for frame in frames),
            "absent": sum(not frame.boxes for frame in frames),
            "clips": len({frame.clip for frame in frames}),
        }

    def _replace(self, frames: dict[Key, LabelledFrame]) -> None:
        try:
            write_atomically(self.path, json.dumps(self._coco(frames), indent=1) + "\n")
        except OSError as problem:
            raise LabelError(
                f"{self.path} cannot be written ({problem.strerror}): the last change is not saved"
            ) from problem
        self.frames = frames

    def _coco(self, frames: Mapping[Key, LabelledFrame]) -> dict[str, Any]:
        images, annotations = [], list[dict[str, Any]]()
        for number, frame in enumerate(frames.values(), 1):
            images.append(
                {
                    "id": number,
                    "clip": frame.clip,
                    "video": frame.video,
                    "time": frame.time,
                    "width": frame.width,
                    "height": frame.height,
                }
            )
            for box in frame.boxes:
                sides = [box.x1, box.y1, round(box.x2 - box.x1, 2), round(box.y2 - box.y1, 2)]
                of = {"id": len(annotations) + 1, "image_id": number, "category_id": 1}
                annotations.append(
                    {**of, "bbox": sides, "area": round(sides[2] * sides[3], 2), "how": box.how}
                )
        return {
            "info": {"description": FORMAT, "format_version": 1},
            "images": images,
            "annotations": annotations,
            "categories": [{"id": 1, "name": self.object_name}],
        }


def video_reference(labels: Path, video: Path) -> str:
    """How a label file names a video: relative to itself, where there is such a path.

    Folders are resolved, because ``..`` leads elsewhere from a link; the video is not, because its
    name tells its format.
    """
    place = video.parent.resolve() / video.name
    try:
        return Path(os.path.relpath(place, labels.parent.resolve())).as_posix()
    except ValueError:  # another drive
        return str(place)


def _read(path: Path, object_name: str) -> dict[Key, LabelledFrame]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["info"]["description"] != FORMAT:
            raise ValueError("another program wrote it")
        (category,) = content["categories"]
        boxes: dict[int, list[LabelBox]] = {}
        for note in content["annotations"]:
            x, y, width, height = map(float, note["bbox"])
            how = note.get("how", "drawn")
            if how not in get_args(How):
                raise ValueError(f"a box is {how!r}")
            box = LabelBox(x, y, x + width, y + height, cast("How", how))
            boxes.setdefault(int(note["image_id"]), []).append(box)
        frames = [_frame(image, boxes.get(int(image["id"]), [])) for image in content["images"]]
    except OSError as problem:
        raise LabelError(f"{path} cannot be read: {problem.strerror}") from problem
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise LabelError(
            f"{path} is not a file of `objectstates label` ({problem}): move it away, or choose "
            "another folder with `out`"
        ) from problem
    if category["name"] != object_name:
        raise LabelError(
            f"{path} has labels of {category['name']!r}, not of {object_name!r}: choose another "
            "folder with `out`"
        )
    return {frame.key: frame for frame in frames}


def _frame(image: dict[str, Any], boxes: list[LabelBox]) -> LabelledFrame:
    time, width, height = float(image["time"]), int(image["width"]), int(image["height"])
    if not 0 <= time < math.inf or width < 1 or height < 1:
        raise ValueError(f"an image of {width} x {height} pixels at {time} s")
    inside = tuple(box.inside(width, height) for box in boxes)
    return LabelledFrame(str(image["clip"]), str(image["video"]), time, width, height, inside)

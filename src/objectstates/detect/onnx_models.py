"""``onnx:FILE``: a detector as an ONNX graph, run by onnxruntime.

The input is a batch of RGB images, (B, 3, H, W) or (B, H, W, 3), floats from 0 to 1 or bytes.
Frames are letterboxed to H x W (scaled with their aspect kept, centred on grey), and boxes are
mapped back exactly. Where the graph leaves H and W open, the longer side is ``imgsz`` of the
model's metadata, or 640, and both are multiples of 32. ``onnx_layouts.py`` describes the outputs.

Metadata that is used, as JSON or Python literals: ``names`` of the classes (a list, or a mapping
from their indices, as Ultralytics writes it), ``imgsz``, and ``mean`` and ``std`` of each colour
channel on the scale from 0 to 1, for models whose input is normalised.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import onnxruntime

from objectstates.base.errors import DetectorError, SettingError
from objectstates.base.onnx_utils import external_files, inference_session
from objectstates.detect import detections
from objectstates.detect.detections import Boxes, Detections, DetectorOptions, FrameDetector
from objectstates.detect.nms import best_detections
from objectstates.detect.onnx_layouts import Candidates, Floats, Size, recognise
from objectstates.video.reader import Frame, Image

VERSION = 1  # part of fingerprints: raise it when the same graph and frames may give other boxes

BATCH = {"cpu": 1, "cuda": 16}
"""Frames per run where the graph leaves it open; on a CPU more are no faster."""

_SIDE, _STEP, _GREY = 640, 32, 114
"""Default side, multiple of sides, and fill value of YOLO models (Ultralytics)."""

_TYPES: dict[str, npt.DTypeLike] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
}


class OnnxDetector(FrameDetector):
    """Runs a graph on frames; on ``cuda`` this needs onnxruntime-gpu.

    class_index : the class of the object; by default that of the model's class names which equals
        ``options.object_name``. A model of one class without names needs neither.
    """

    def __init__(
        self, path: str | Path, options: DetectorOptions, class_index: int | None = None
    ) -> None:
        self._path = Path(path)
        self._threshold = options.threshold
        self._session = _session(self._path, options.device, options.threads)
        metadata = _Metadata.of(self._path, self._session.get_modelmeta().custom_metadata_map)
        self._input = _image_input(self._path, self._session.get_inputs(), metadata)
        self._outputs = [output.name for output in self._session.get_outputs()]
        # Shapes in graphs are often incomplete: run it on a blank frame.
        size = self._input.size((_STEP * 10, _STEP * 10))
        blank = np.full((self._input.batch or 1, *size, 3), _GREY, np.uint8)
        try:
            self._layout = recognise(self._outputs, self._run(blank), len(metadata.names) or None)
        except DetectorError as error:
            raise DetectorError(f"{self._path}: {error}") from error
        self._class = _class_index(
            self._path, metadata.names, self._layout.classes, options.object_name, class_index
        )
        self._batch = self._input.batch or (BATCH[options.device] if self._layout.batched else 1)
        facts = VERSION, _digest(self._path), self._class, options.threshold, options.device
        key = repr(facts)
        self.fingerprint = f"onnx-{hashlib.sha256(key.encode()).hexdigest()[:16]}"

    def detect(self, frames: Sequence[Frame]) -> list[Detections]:
        found: list[Detections] = []
        for begin in range(0, len(frames), self._batch):
            found += self._detect([f.image for f in frames[begin : begin + self._batch]])
        return found

    def _detect(self, images: Sequence[Image]) -> Iterator[Detections]:
        size = self._input.size(images[0].shape[:2])
        boxed = [Letterbox.fit(image.shape[:2], size) for image in images]
        batch = np.full((self._input.batch or len(images), *size, 3), _GREY, np.uint8)
        for place, letterbox, image in zip(batch, boxed, images, strict=False):
            letterbox.draw(image, place)
        outputs = self._run(batch)
        for i, (letterbox, image) in enumerate(zip(boxed, images, strict=True)):
            found = self._candidates(outputs, i, size)
            wanted = found.scores >= self._threshold
            yield best_detections(
                letterbox.undo(found.boxes[wanted]),
                found.scores[wanted],
                image.shape[:2],
                threshold=self._threshold,
            )

    def _candidates(self, outputs: list[npt.NDArray[Any]], frame: int, size: Size) -> Candidates:
        """The boxes of one frame; raise if outputs are not of the layout after all."""
        try:
            found = self._layout.candidates(outputs, frame, size, self._class)
        except (ValueError, LookupError, TypeError, ArithmeticError) as error:
            raise DetectorError(f"{self._path}: its outputs do not fit together: {error}") from None
        if found.boxes.shape != (len(found.scores), 4):
            raise DetectorError(
                f"{self._path}: its outputs do not fit together: boxes {found.boxes.shape} for "
                f"{len(found.scores)} scores"
            )
        return found

    def _run(self, images: npt.NDArray[np.uint8]) -> list[npt.NDArray[Any]]:
        feeds = self._feeds(images)
        try:
            outputs: list[npt.NDArray[Any]] = self._session.run(self._outputs, feeds)
        except Exception as error:  # onnxruntime's errors have no other base
            raise DetectorError(f"{self._path}: the model fails on frames: {error}") from error
        return outputs

    def _feeds(self, images: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[Any]]:
        count, height, width, _ = images.shape
        feeds = {self._input.name: self._input.values(images)}
        for other in self._session.get_inputs():
            if other.name == "pixel_mask":
                feeds[other.name] = np.ones((count, height, width), np.int64)
            elif other.name == "orig_target_sizes":
                feeds[other.name] = np.array([[width, height]] * count, np.int64)
            elif other.name != self._input.name:
                raise DetectorError(
                    f"{self._path}: the input {other.name!r} is not known; "
                    "export the model with the image as its only input"
                )
        return feeds


def load_onnx(name: str, options: DetectorOptions) -> OnnxDetector:
    """From ``FILE`` or ``FILE#CLASS``; a file that has such a name goes first."""
    path, mark, index = name.rpartition("#")
    if mark and index.isascii() and index.isdigit() and not Path(name).exists():
        return OnnxDetector(path, options, int(index))
    return OnnxDetector(name, options)


@dataclass(frozen=True, eq=False)
class _Metadata:
    """Metadata of a model.

    side : longer side of images, where the graph leaves their size open.
    """

    names: dict[int, str]
    side: int
    mean: Floats
    std: Floats

    @classmethod
    def of(cls, path: Path, entries: Mapping[str, str]) -> _Metadata:
        try:
            values = {
                key: ast.literal_eval(entries[key])
                for key in ("names", "imgsz", "mean", "std")
                if entries.get(key)
            }
            names, side = values.get("names", ()), values.get("imgsz", _SIDE)
            pairs = names.items() if isinstance(names, dict) else enumerate(names)
            return cls(
                {int(index): str(name) for index, name in pairs},
                int(max(side) if isinstance(side, (list, tuple)) else side),
                np.array(values.get("mean", 0.0), np.float32),
                np.array(values.get("std", 1.0), np.float32),
            )
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
            raise DetectorError(f"{path}: its metadata cannot be read: {error}") from error


@dataclass(frozen=True, eq=False)
class _ImageInput:
    """The input of a graph that takes images.

    shape : as in the graph; None where it is open.
    """

    name: str
    dtype: npt.DTypeLike
    channels_last: bool
    shape: tuple[int | None, ...]
    metadata: _Metadata

    @property
    def batch(self) -> int | None:
        return self.shape[0]

    def size(self, frame: Sequence[int]) -> Size:
        """Height and width of the input for frames of a size."""
        height, width = self.shape[1:3] if self.channels_last else self.shape[2:4]
        factor = self.metadata.side / max(frame)
        open_height, open_width = (-(-round(n * factor) // _STEP) * _STEP for n in frame)
        return height or max(open_height, _STEP), width or max(open_width, _STEP)

    def values(self, images: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = images
        if self.dtype != np.uint8:
            values = (images.astype(np.float32) / 255 - self.metadata.mean) / self.metadata.std
        if not self.channels_last:
            values = values.transpose(0, 3, 1, 2)
        return np.ascontiguousarray(values, self.dtype)


def _image_input(path: Path, nodes: Sequence[Any], metadata: _Metadata) -> _ImageInput:
    for node in nodes:
        if len(node.shape) == 4 and node.type in _TYPES and 3 in (node.shape[1], node.shape[3]):
            shape = tuple(n if isinstance(n, int) and n > 0 else None for n in node.shape)
            return _ImageInput(node.name, _TYPES[node.type], shape[1] != 3, shape, metadata)
    listed = ", ".join(f"{node.name} {node.type} {node.shape}" for node in nodes)
    raise DetectorError(f"{path}: no input is a batch of images, (B, 3, H, W), among {listed}")


@dataclass(frozen=True)
class Letterbox:
    """Position of a frame in the input of a network: as large as fits, centred.

    inner : height and width of the scaled frame.
    """

    frame: Size
    inner: Size
    top: int
    left: int

    @classmethod
    def fit(cls, frame: Sequence[int], size: Size) -> Letterbox:
        height, width = frame
        factor = min(size[0] / height, size[1] / width)
        inner = (
            min(size[0], max(1, round(height * factor))),
            min(size[1], max(1, round(width * factor))),
        )
        top, left = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
        return cls((height, width), inner, top, left)

    def draw(self, image: Image, onto: npt.NDArray[np.uint8]) -> None:
        inner = cv2.resize(image, self.inner[::-1], interpolation=cv2.INTER_LINEAR)
        onto[self.top : self.top + self.inner[0], self.left : self.left + self.inner[1]] = inner

    def undo(self, boxes: Boxes) -> Boxes:
        """Boxes of the input in pixels of the frame, exact in spite of the rounded inner size."""
        scale = self.frame[1] / self.inner[1], self.frame[0] / self.inner[0]
        corner = np.array([self.left, self.top] * 2, np.float32)
        return (boxes - corner) * np.array(scale * 2, np.float32)


def _session(path: Path, device: str, threads: int) -> Any:
    if device not in BATCH:
        raise SettingError(f"`device`: ONNX models run on cpu or cuda, not on {device!r}")
    provider = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}[device]
    if provider not in onnxruntime.get_available_providers():
        raise SettingError(
            f"`device`: this onnxruntime does not run on {device!r}: "
            "install onnxruntime-gpu in its place, or choose cpu"
        )
    if not path.is_file():
        raise DetectorError(f"{path}: this model does not exist; check the path")
    try:
        return inference_session(str(path), threads, provider)
    except Exception as error:  # onnxruntime's errors have no other base
        raise DetectorError(f"{path}: this cannot be loaded as an ONNX model: {error}") from error


def _class_index(
    path: Path,
    names: Mapping[int, str],
    classes: int | None,
    object_name: str | None,
    index: int | None,
) -> int | None:
    """Index of the object's class, or None for any."""
    if index is None:
        if object_name is None or (classes == 1 and not names):
            return None
        if not names:
            raise SettingError(
                f"{path} has no class names: choose a class by its index, as onnx:{path}#0"
            )
        index = detections.class_index(str(path), names, object_name)
    if index is not None and (index < 0 or (classes is not None and index >= classes)):
        raise SettingError(f"{path} has no class {index}, only {classes}, counted from 0")
    return index


def _digest(path: Path) -> str:
    """Digest of a model and of the files that hold weights of it."""
    try:
        files = (path, *external_files(path))
    except ValueError as error:
        raise DetectorError(f"{path}: this cannot be read as an ONNX model: {error}") from error
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()

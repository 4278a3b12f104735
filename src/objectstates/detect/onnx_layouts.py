"""Output layouts of ONNX detectors: our contract, and the common ones.

=========  ======================================================================================
contract   ``boxes`` (n, 4) ``x1, y1, x2, y2`` in pixels of the input, ``scores`` (n,), and perhaps
           ``labels`` (n,); or each with one more axis before these, of the frames
YOLO       one output: (B, 4 + C, n) as v8 and v11 have it, or (B, n, 5 + C) with an objectness
           as v5, boxes ``cx, cy, w, h`` in pixels; or (B, n, 6) ``x1, y1, x2, y2, score, class``
           with n at most 1,000, from models that include non-maximum suppression. Further
           channels (masks, key points) are ignored where the names of classes are known
SSD        four outputs: boxes (B, n, 4) ``y1, x1, y2, x2`` relative to the input's size, scores
           (B, n), classes (B, n), the number of detections (B,)
DETR       ``logits`` (B, n, C) and ``pred_boxes`` (B, n, 4) ``cx, cy, w, h`` relative to the
           input's size. With one logit more than classes, or an unknown number of classes, a
           softmax whose last entry is "no object"; with as many as classes, or with 80, 91 or
           365, sigmoids
=========  ======================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import DetectorError

Floats = npt.NDArray[np.float32]
Outputs = Sequence[npt.NDArray[Any]]
Size = tuple[int, int]
Class = int | None

_SIGMOID_CLASSES = (80, 91, 365)
"""Classes of COCO and Objects365; models with a "no object" class have one more."""

_MAX_SUPPRESSED = 1000  # models that include suppression give a few hundred boxes, others thousands


class Candidates(NamedTuple):
    """Boxes (n, 4) ``x1, y1, x2, y2`` in pixels of the input, and their scores (n,)."""

    boxes: Floats
    scores: Floats


class Layout(Protocol):
    """Reader of the outputs of one model.

    classes : number of classes; None if unknown.
    batched : whether the outputs have an axis of frames.
    """

    @property
    def classes(self) -> int | None: ...

    @property
    def batched(self) -> bool: ...

    def candidates(self, outputs: Outputs, frame: int, size: Size, wanted: Class, /) -> Candidates:
        """Boxes in one frame of a batch.

        size : height and width of the input.
        wanted : index of a class, or None for any.
        """


def recognise(names: Sequence[str], outputs: Outputs, classes: int | None) -> Layout:
    """Recognise the layout by the names of the outputs and their shapes for one frame.

    classes : number of named classes; None if the model has no names.
    """
    index = {name.lower(): i for i, name in enumerate(names)}
    shapes = [output.shape for output in outputs]
    if "boxes" in index and "scores" in index:
        batched = len(shapes[index["boxes"]]) == 3
        return _Contract(index["boxes"], index["scores"], index.get("labels"), batched)
    if len(outputs) == 4 and (ssd := _ssd(names, shapes)):
        return ssd
    if len(outputs) >= 2 and (detr := _detr(index, shapes, classes)):
        return detr
    if shapes and len(shapes[0]) == 3 and all(len(shape) == 4 for shape in shapes[1:]):
        return _yolo(shapes[0], classes)
    listed = ", ".join(f"{n} {s}" for n, s in zip(names, shapes, strict=True))
    raise DetectorError(
        f"the outputs {listed} have no known layout; "
        "give the model the outputs boxes (n, 4), scores (n,) and perhaps labels (n,)"
    )


@dataclass(frozen=True)
class _Contract:
    boxes: int
    scores: int
    labels: int | None
    batched: bool

    @property
    def classes(self) -> int | None:
        return 1 if self.labels is None else None

    def candidates(self, outputs: Outputs, frame: int, _size: Size, wanted: Class) -> Candidates:
        boxes, scores = outputs[self.boxes], outputs[self.scores]
        labels = None if self.labels is None else outputs[self.labels]
        if self.batched:
            boxes, scores = boxes[frame], scores[frame]
            labels = None if labels is None else labels[frame]
        return _of_label(_floats(boxes), _floats(scores).reshape(-1), labels, wanted)


@dataclass(frozen=True)
class _Ssd:
    boxes: int
    scores: int
    labels: int
    number: int
    classes: int | None = None
    batched: bool = True

    def candidates(self, outputs: Outputs, frame: int, size: Size, wanted: Class) -> Candidates:
        count = int(outputs[self.number].reshape(-1)[frame])
        y1, x1, y2, x2 = _floats(outputs[self.boxes][frame, :count]).T
        height, width = size
        boxes = np.stack([x1 * width, y1 * height, x2 * width, y2 * height], axis=1)
        scores = _floats(outputs[self.scores][frame, :count])
        return _of_label(boxes, scores, outputs[self.labels][frame, :count], wanted)


def _ssd(names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> _Ssd | None:
    boxes = [i for i, s in enumerate(shapes) if len(s) == 3 and s[2] == 4]
    lists = [i for i, s in enumerate(shapes) if len(s) == 2 and s[1] > 1]
    scores = [i for i in lists if "score" in names[i].lower()]
    classes = [i for i in lists if "class" in names[i].lower() or "label" in names[i].lower()]
    number = [i for i, s in enumerate(shapes) if s in ((), (1,), (1, 1))]
    if not all(len(found) == 1 for found in (boxes, scores, classes, number)):
        return None
    return _Ssd(boxes[0], scores[0], classes[0], number[0])


@dataclass(frozen=True)
class _Detr:
    logits: int
    boxes: int
    classes: int
    softmax: bool
    batched: bool = True

    def candidates(self, outputs: Outputs, frame: int, size: Size, wanted: Class) -> Candidates:
        logits = _floats(outputs[self.logits][frame])
        if self.softmax:
            powers = np.exp(logits - logits.max(axis=1, keepdims=True))
            scores = (powers / powers.sum(axis=1, keepdims=True))[:, :-1]
        else:
            scores = 1 / (1 + np.exp(-np.clip(logits, -80, 80)))
        height, width = size
        boxes = _corners(_floats(outputs[self.boxes][frame]))
        return Candidates(
            boxes * np.array([width, height] * 2, np.float32), _of_class(scores, wanted)
        )


def _detr(
    index: dict[str, int], shapes: Sequence[tuple[int, ...]], classes: int | None
) -> _Detr | None:
    logits = index.get("logits", index.get("pred_logits"))
    boxes = index.get("pred_boxes")
    if logits is None or boxes is None or len(shapes[logits]) != 3 or len(shapes[boxes]) != 3:
        return None
    count = shapes[logits][2]
    softmax = count != classes if classes else count not in _SIGMOID_CLASSES
    return _Detr(logits, boxes, count - 1 if softmax else count, softmax)


@dataclass(frozen=True)
class _Yolo:
    """Channels are ``cx, cy, w, h``, the objectness if there is one, the classes, others."""

    classes: int
    objectness: bool
    channels_first: bool
    batched: bool = True

    def candidates(self, outputs: Outputs, frame: int, _size: Size, wanted: Class) -> Candidates:
        rows = _floats(outputs[0][frame])
        rows = rows.T if self.channels_first else rows
        first = 5 if self.objectness else 4
        scores = _of_class(rows[:, first : first + self.classes], wanted)
        return Candidates(_corners(rows[:, :4]), scores * rows[:, 4] if self.objectness else scores)


@dataclass(frozen=True)
class _SuppressedYolo:
    classes: int | None = None
    batched: bool = True

    def candidates(self, outputs: Outputs, frame: int, _size: Size, wanted: Class) -> Candidates:
        rows = _floats(outputs[0][frame])
        return _of_label(rows[:, :4], rows[:, 4], rows[:, 5], wanted)


def _yolo(shape: tuple[int, ...], classes: int | None) -> Layout:
    _, rows, columns = shape
    if columns == 6 and rows <= _MAX_SUPPRESSED and rows > columns and classes != 1:
        return _SuppressedYolo()
    channels_first = rows < columns
    channels = min(rows, columns)
    # Older models have an objectness and their channels last, newer ones neither.
    objectness = not channels_first and channels != 4 + (classes or -1)
    room = channels - (5 if objectness else 4)
    if room < (classes or 1):
        raise DetectorError(
            f"an output of {shape} has no room for boxes and {classes or 'any'} classes"
        )
    return _Yolo(classes or room, objectness, channels_first)


def _of_class(scores: Floats, wanted: Class) -> Floats:
    """(n,) scores of class ``wanted``, or of the best, from (n, C)."""
    return scores.max(axis=1) if wanted is None else scores[:, wanted]


def _of_label(
    boxes: Floats, scores: Floats, labels: npt.NDArray[Any] | None, wanted: Class
) -> Candidates:
    if wanted is None or labels is None:
        return Candidates(boxes, scores)
    chosen = np.round(labels).reshape(-1).astype(np.int64) == wanted
    return Candidates(boxes[chosen], scores[chosen])


def _corners(boxes: Floats) -> Floats:
    """Boxes ``cx, cy, w, h`` as ``x1, y1, x2, y2``."""
    centre, half = boxes[:, :2], boxes[:, 2:4] / 2
    return np.hstack([centre - half, centre + half])


def _floats(values: npt.NDArray[Any]) -> Floats:
    return np.asarray(values, np.float32)

"""Our own detector of one kind of object, learned from a few dozen boxes.

In the manner of Fast R-CNN (Girshick, ICCV 2015): proposals, features of regions pooled from one
pass of a network over the frame, a trained head that scores them, and a regression that moves the
best boxes to where the object ends. The network is the built-in one and stays as it is; the head
is linear, so that it learns from little, in seconds, and scores boxes all over the frame (see
`proposals`). `learning.train` makes one; a file keeps it.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.errors import DetectorError
from objectstates.base.storage import write_atomically
from objectstates.detect.detections import Detections
from objectstates.detect.nms import suppress
from objectstates.detect.proposals import (
    GRID,
    dense_boxes,
    describe_bins,
    integral,
    score_boxes,
)
from objectstates.features.backbones import Backbone, load_backbone
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import Frame, Image, VideoInfo

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

FORMAT = "objectstates few-shot detector"
FORMAT_VERSION = 2
THRESHOLD = 0.4
"""Low, as in the paper: what is missed is lost to all later stages, what is wrong is outvoted.
`learning` says which score becomes this number.
"""

STRIDES = (8, 16)
CELL = STRIDES[0]
PROPOSALS = 30
"""Boxes of a frame that are refined."""
FOUND = 10
"""Detections of a frame, at most."""
PROPOSAL_OVERLAP, FOUND_OVERLAP = 0.7, 0.4
REACH = 0.3
"""Share of its side by which refinement moves an edge of a box, at most."""
CANDIDATES = 1000
"""Best dense boxes that enter the first suppression; the others lie in their shadow."""
SMALLEST = 4.0
"""Working pixels of a box's side, at least."""


@dataclass(frozen=True, eq=False)
class Head:
    """What is learned: linear in the description of a box, (GRID², C) bins.

    weights : (GRID², C), with ``bias`` the score of a box, before calibration.
    moves : (GRID² C, 4), with ``offset`` (4,) where its edges should go, in shares of its sides.
    """

    weights: Floats
    bias: float
    moves: Floats
    offset: Floats


@dataclass(frozen=True, slots=True)
class Calibration:
    """From the scores of boxes to numbers from 0 to 1, the logistic of

        slope * score + contrast * (score - best score of the frame) + shift.

    Beside a box that stands out others are less likely to be right; where none does, the best of
    them may be.
    """

    slope: float
    contrast: float
    shift: float

    def log_odds(self, scores: Floats) -> Floats:
        """(n,) for all boxes of a frame together."""
        best = scores.max(initial=-np.inf)
        return np.asarray(self.slope * scores + self.contrast * (scores - best) + self.shift)

    def chances(self, scores: Floats) -> Floats:
        return np.asarray(1 / (1 + np.exp(-self.log_odds(scores))))


@dataclass(frozen=True, eq=False)
class FewShotDetector:
    """Finds one kind of object in frames of any size.

    object : the name of what it was trained on.
    side : pixels of the longer side that frames are brought to.
    shapes : (n, 2) widths and heights looked for, in pixels of the working size.
    calibration : measured on images that the head had not seen.
    threshold : detections of a lower score, 0 to 1, are left out.
    """

    object: str
    side: int
    shapes: Floats
    head: Head
    calibration: Calibration
    trained_on: dict[str, int] = field(default_factory=dict)
    threshold: float = THRESHOLD

    def with_threshold(self, threshold: float) -> Self:
        return replace(self, threshold=threshold)

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(_packed(self))
        digest.update(f"{_network().fingerprint} {self.threshold!r}".encode())
        return f"fewshot-{FORMAT_VERSION}-{digest.hexdigest()[:16]}"

    def for_clip(self, clip: ClipSpan, video: VideoInfo) -> FewShotDetector:
        return self

    def detect(self, frames: Sequence[Frame]) -> list[Detections]:
        return [self._detect(frame.image) for frame in frames]

    def _detect(self, image: Image) -> Detections:
        small = working_image(image, self.side)
        size = small.shape[0], small.shape[1]
        everywhere = dense_boxes(self.shapes, size, CELL)
        boxes, scores = locate(cell_map(small), self.head, everywhere, size)
        chances = self.calibration.chances(scores)
        kept = chances >= self.threshold
        zoom = np.array([image.shape[1] / size[1], image.shape[0] / size[0]] * 2)
        return Detections((boxes[kept] * zoom).astype(np.float32), chances[kept].astype(np.float32))

    def save(self, path: str | Path) -> None:
        """Write one file, whole or not at all."""
        path = Path(path)
        try:
            write_atomically(path, _packed(self))
        except OSError as problem:
            raise DetectorError(f"cannot write {path}: {problem.strerror}") from problem


def load(path: str | Path, threshold: float = THRESHOLD) -> FewShotDetector:
    """Read a detector that was saved; nothing in the file is executed."""
    path = Path(path)
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            content = {name: arrays[name] for name in arrays.files}
        header = json.loads(bytes(content["header"]).decode("utf-8"))
        if header.get("format") != FORMAT:
            raise ValueError("another kind of file")
    except FileNotFoundError:
        raise DetectorError(f"{path} does not exist: train a detector, or check the path") from None
    except OSError as problem:
        raise DetectorError(f"{path} cannot be read: {problem.strerror or problem}") from problem
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise DetectorError(
            f"{path} is not a few-shot detector, or is damaged: train it again"
        ) from error
    return _unpacked(path, header, content, threshold)


def working_image(image: Image, side: int) -> Image:
    """The image with its longer side brought to ``side`` pixels, up or down."""
    height, width = image.shape[:2]
    factor = side / max(height, width)
    size = max(CELL, round(width * factor)), max(CELL, round(height * factor))
    if size == (width, height):
        return image
    how = cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
    return cv2.resize(image, size, interpolation=how).astype(np.uint8, copy=False)


def cell_map(image: Image) -> Floats32:
    """(h, w, C) description of every CELL x CELL square of an image.

    The network's maps side by side, the coarser ones interpolated; of each, every cell's vector has
    length 1, so that neither contrast nor a map's own scale has a say.
    """
    fine, *coarser = (m.values[0] for m in _network().maps(image[None]))
    height, width = fine.shape[:2]
    levels = [fine]
    for values in coarser:
        levels.append(np.asarray(cv2.resize(_unit(values), (width, height)), np.float32))
    levels[0] = _unit(fine)
    return np.concatenate(levels, axis=2)


def locate(
    cells: Floats32, head: Head, boxes: Floats, size: tuple[int, int]
) -> tuple[Floats, Floats]:
    """The best of some boxes in a frame of ``size`` (height, width), refined, and their scores."""
    scores = dense_scores(cells, head, boxes)
    best = np.argpartition(-scores, min(CANDIDATES, len(scores)) - 1)[:CANDIDATES]
    best.sort()
    best = best[suppress(boxes[best], scores[best], PROPOSAL_OVERLAP, PROPOSALS)]
    moved = _refined(boxes[best], describe(cells, boxes[best]), head, size)
    # A box that was moved to the wrong place looks worse there: both views count.
    again = np.tensordot(describe(cells, moved), head.weights, 2) + head.bias
    both = (scores[best] + again) / 2
    kept = suppress(moved, both, FOUND_OVERLAP, FOUND)
    return moved[kept], both[kept]


def dense_scores(cells: Floats32, head: Head, boxes: Floats) -> Floats:
    """(n,) scores of boxes in working pixels."""
    planes = cells @ head.weights.T.astype(np.float32)
    scores: Floats = score_boxes(integral(planes), boxes / CELL, GRID)
    return scores + head.bias


def describe(cells: Floats32, boxes: Floats) -> Floats32:
    """(n, GRID², C) description of boxes in working pixels."""
    return np.asarray(describe_bins(cells, boxes / CELL, GRID), np.float32)


def _refined(boxes: Floats, features: Floats32, head: Head, size: tuple[int, int]) -> Floats:
    moves = features.reshape(len(boxes), -1) @ head.moves + head.offset
    sides = np.tile(boxes[:, 2:] - boxes[:, :2], 2)
    moved = boxes + np.clip(moves, -REACH, REACH) * sides
    height, width = size
    moved = np.clip(moved, 0, [width, height, width, height])
    kept = np.all(moved[:, 2:] - moved[:, :2] >= SMALLEST, axis=1)
    return np.where(kept[:, None], moved, boxes)


def _unit(values: Floats32) -> Floats32:
    lengths = np.sqrt(np.einsum("ijc,ijc->ij", values, values))[:, :, None]
    return np.asarray(values / np.maximum(lengths, 1e-6), np.float32)


_loaded: list[Backbone] = []


def _network() -> Backbone:
    """The built-in network without its coarsest map, loaded once in a process."""
    if not _loaded:
        _loaded.append(load_backbone("lite0", strides=STRIDES))
    return _loaded[0]


_ARRAYS = ("shapes", "weights", "moves", "offset")


def _packed(detector: FewShotDetector) -> bytes:
    head = detector.head
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "object": detector.object,
        "side": detector.side,
        "bias": head.bias,
        "calibration": list(astuple(detector.calibration)),
        "network": _network().fingerprint,
        "trained_on": detector.trained_on,
    }
    text = json.dumps(header, sort_keys=True, allow_nan=False)
    arrays = (detector.shapes, head.weights, head.moves, head.offset)
    out = io.BytesIO()
    np.savez(
        out,
        allow_pickle=False,
        header=np.frombuffer(text.encode(), np.uint8),
        **dict(zip(_ARRAYS, arrays, strict=True)),
    )
    return out.getvalue()


def _unpacked(
    path: Path, header: dict[str, Any], content: dict[str, Any], threshold: float
) -> FewShotDetector:
    if header.get("format_version") != FORMAT_VERSION:
        raise DetectorError(
            f"{path} has format version {header.get('format_version')!r}, but this version of "
            f"objectstates reads {FORMAT_VERSION}: train it again"
        )
    if header.get("network") != _network().fingerprint:
        raise DetectorError(f"{path} was trained on another version of the network: train it again")
    try:
        shapes, weights, moves, offset = (np.asarray(content[n], np.float64) for n in _ARRAYS)
        channels = sum(_network().channels)
        expected = [(len(shapes), 2), (GRID**2, channels), (GRID**2 * channels, 4), (4,)]
        if [a.shape for a in (shapes, weights, moves, offset)] != expected or len(shapes) == 0:
            raise ValueError("arrays do not fit together")
        slope, contrast, shift = map(float, header["calibration"])
        return FewShotDetector(
            object=str(header["object"]),
            side=int(header["side"]),
            shapes=shapes,
            head=Head(weights, float(header["bias"]), moves, offset),
            calibration=Calibration(slope, contrast, shift),
            trained_on={str(k): int(v) for k, v in header["trained_on"].items()},
            threshold=threshold,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DetectorError(f"{path} is damaged ({error}): train the detector again") from error

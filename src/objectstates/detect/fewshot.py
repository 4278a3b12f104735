"""Few-shot detector of one kind of object, trained on a few dozen boxes.

After Fast R-CNN (Girshick, ICCV 2015): proposals, region features pooled from one run of a network
over the frame, a trained head that scores them, and box regression. The network is ``lite0`` with
fixed weights; the head is linear, so it can be trained on little data, in seconds, and can score
boxes all over the frame (``proposals.py``). ``fewshot_training.py`` trains it.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base import geometry
from objectstates.base.choices import DETECTION_THRESHOLD
from objectstates.base.errors import DetectorError
from objectstates.base.npz_file import read_npz
from objectstates.base.storage import write_atomically
from objectstates.detect.detections import Detections, DetectorOptions, FrameDetector
from objectstates.detect.nms import suppress
from objectstates.detect.proposals import GRID, dense_boxes, describe_bins, score_boxes
from objectstates.features import lite0
from objectstates.features.backbones import Backbone, FeatureMap, FeatureMaps
from objectstates.features.lite0 import FINE_STRIDES, Lite0
from objectstates.video.reader import Frame, Image

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]

FORMAT = "objectstates few-shot detector"
FORMAT_VERSION = 2
VERSION = 3  # of detections, part of cache keys: raise it when the same file may detect otherwise
MAX_SHAPES, MAX_SIDE = 1000, 10_000  # of a file; detectors that are trained have far fewer

CELL = FINE_STRIDES[0]  # pixels of the resized image along the side of a cell

# A saved head was trained with these values.
PROPOSALS = 30  # boxes of a frame that are refined
MAX_FOUND = 10  # detections of a frame
PROPOSAL_IOU, FOUND_IOU = 0.7, 0.4  # suppression before and after refinement
MAX_MOVE = 0.3  # of its side, by which refinement moves an edge of a box
CANDIDATES = 1000  # best dense boxes that enter the first suppression
MIN_SIDE = 4.0  # pixels of the resized image


@dataclass(frozen=True, eq=False)
class Head:
    """What is trained: linear in the features of a box, (GRID², C) bins.

    weights, bias : (GRID², C); give the score of a box before calibration.
    moves, offset : (GRID² C, 4) and (4,); give the shifts of its edges, in units of its sides.
    """

    weights: Floats
    bias: float
    moves: Floats
    offset: Floats


@dataclass(frozen=True, slots=True)
class Calibration:
    """Scores of boxes to confidences from 0 to 1, the logistic of

        slope * score + contrast * (score - best score of the frame) + shift.

    A box is less likely to be right beside one of a much higher score.
    """

    slope: float
    contrast: float
    shift: float

    def log_odds(self, scores: Floats) -> Floats:
        """(n,) for all boxes of a frame together."""
        best = scores.max(initial=-np.inf)
        return np.asarray(self.slope * scores + self.contrast * (scores - best) + self.shift)

    def confidences(self, scores: Floats) -> Floats:
        return np.asarray(1 / (1 + np.exp(-self.log_odds(scores))))


@dataclass(frozen=True, eq=False)
class FewShotDetector(FrameDetector):
    """Detects one kind of object in frames of any size.

    object : the name of the object it was trained on.
    side : longer side of the resized frames, in pixels.
    shapes : (n, 2) widths and heights of boxes, in pixels of the resized frame.
    calibration : fitted on images that the head was not trained on.
    threshold : the least confidence, 0 to 1.
    """

    object: str
    side: int
    shapes: Floats
    head: Head
    calibration: Calibration
    trained_on: dict[str, int] = field(default_factory=dict)
    threshold: float = DETECTION_THRESHOLD

    def with_threshold(self, threshold: float) -> Self:
        return replace(self, threshold=threshold)

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(_packed(self))
        digest.update(f"{lite0.FINGERPRINT} {VERSION} {self.threshold!r}".encode())
        return f"fewshot-{FORMAT_VERSION}-{digest.hexdigest()[:16]}"

    def detect(self, frames: Sequence[Frame]) -> list[Detections]:
        images = [resized(frame.image, self.side) for frame in frames]
        return [
            self._detect(frame.image, image.shape[:2], cell_map(image))
            for frame, image in zip(frames, images, strict=True)
        ]

    def detect_with_maps(
        self, frames: Sequence[Frame], backbone: Backbone
    ) -> tuple[list[Detections], FeatureMaps]:
        """See `SharedNetworkDetector`; frames that must be resized go through the network twice."""
        images = [frame.image for frame in frames]
        size = images[0].shape[:2]
        if (
            isinstance(backbone, Lite0)
            and backbone.strides == Lite0.STRIDES
            and resized_size(size, self.side) == size
        ):
            maps, fine = backbone.device_and_fine_maps(images)
            found = [self._detect(image, size, _cells(fine, i)) for i, image in enumerate(images)]
            return found, maps
        own_maps = backbone.device_maps(images)  # first: a GPU computes them meanwhile
        return self.detect(frames), own_maps

    def _detect(self, image: Image, size: tuple[int, ...], cells: Floats32) -> Detections:
        """Detections in an image, given the `cell_map` of the image resized to ``size``."""
        everywhere = dense_boxes(self.shapes, (size[0], size[1]), CELL)
        boxes, scores = locate(cells, self.head, everywhere, size)
        confidences = self.calibration.confidences(scores)
        kept = confidences >= self.threshold
        zoom = np.array([image.shape[1] / size[1], image.shape[0] / size[0]] * 2)
        return Detections(
            (boxes[kept] * zoom).astype(np.float32), confidences[kept].astype(np.float32)
        )

    def save(self, path: str | Path) -> None:
        """Write one file, whole or not at all."""
        path = Path(path)
        try:
            write_atomically(path, _packed(self))
        except OSError as problem:
            raise DetectorError(f"cannot write {path}: {problem.strerror}") from problem


def load_fewshot(path: str, options: DetectorOptions) -> FewShotDetector:
    """The detector ``fewshot:FILE``."""
    return load(path, options.threshold)


def is_detector(path: Path) -> bool:
    """Whether a file is a few-shot detector, of any version."""
    try:
        header = json.loads(bytes(read_npz(path)["header"]).decode("utf-8"))
        return bool(header["format"] == FORMAT)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False


def load(path: str | Path, threshold: float = DETECTION_THRESHOLD) -> FewShotDetector:
    """Read a detector that was saved; nothing in the file is executed."""
    path = Path(path)
    try:
        content = read_npz(path)
        header = json.loads(bytes(content["header"]).decode("utf-8"))
        if header.get("format") != FORMAT:
            raise ValueError("another kind of file")
        return _unpacked(path, header, content, threshold)
    except FileNotFoundError:
        raise DetectorError(f"{path} does not exist: train a detector, or check the path") from None
    except OSError as problem:
        raise DetectorError(f"{path} cannot be read: {problem.strerror or problem}") from problem
    except (
        ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError,
    ) as error:  # fmt: skip
        raise DetectorError(
            f"{path} is not a few-shot detector, or is damaged ({error}): train it again"
        ) from error


def resized(image: Image, side: int) -> Image:
    """The image with its longer side scaled to ``side`` pixels, up or down."""
    height, width = resized_size(image.shape[:2], side)
    if (height, width) == image.shape[:2]:
        return image
    how = cv2.INTER_AREA if side < max(image.shape[:2]) else cv2.INTER_LINEAR
    return cv2.resize(image, (width, height), interpolation=how).astype(np.uint8, copy=False)


def resized_size(size: tuple[int, ...], side: int) -> tuple[int, ...]:
    """Height and width of an image of ``size`` with its longer side scaled to ``side`` pixels."""
    factor = side / max(size)
    return tuple(max(CELL, round(n * factor)) for n in size)


def cell_map(image: Image) -> Floats32:
    """(h, w, C) features of every CELL x CELL square of an image.

    The maps of the network concatenated, the coarser interpolated; of each, every cell's vector has
    length 1, so that neither contrast nor the scale of a map matters.
    """
    return _cells(_network().maps(image[None]), 0)


def _cells(maps: Sequence[FeatureMap], index: int) -> Floats32:
    """The `cell_map` of one image of a batch, given the network's maps."""
    fine, *coarser = (_unit(m.values[index]) for m in maps)
    height, width = fine.shape[:2]
    coarser = [np.asarray(cv2.resize(m, (width, height)), np.float32) for m in coarser]
    return np.concatenate([fine, *coarser], axis=2)


def locate(
    cells: Floats32, head: Head, boxes: Floats, size: tuple[int, ...]
) -> tuple[Floats, Floats]:
    """The best of some boxes in a frame of ``size`` (height, width), refined, and their scores."""
    scores = dense_scores(cells, head, boxes)
    best = np.argpartition(-scores, min(CANDIDATES, len(scores)) - 1)[:CANDIDATES]
    best.sort()
    best = best[suppress(boxes[best], scores[best], PROPOSAL_IOU, PROPOSALS)]
    moved = _refined(boxes[best], describe(cells, boxes[best]), head, size)
    # A box that was refined wrongly scores less after it: average both scores.
    again = np.tensordot(describe(cells, moved), head.weights, 2) + head.bias
    both = (scores[best] + again) / 2
    kept = suppress(moved, both, FOUND_IOU, MAX_FOUND)
    return moved[kept], both[kept]


def dense_scores(cells: Floats32, head: Head, boxes: Floats) -> Floats:
    """(n,) scores of boxes in pixels of the resized image."""
    return score_boxes(cells, head.weights.astype(np.float32), boxes / CELL) + head.bias


def describe(cells: Floats32, boxes: Floats) -> Floats32:
    """(n, GRID², C) features of boxes in pixels of the resized image."""
    return np.asarray(describe_bins(cells, boxes / CELL, GRID), np.float32)


def _refined(boxes: Floats, features: Floats32, head: Head, size: tuple[int, ...]) -> Floats:
    moves = features.reshape(len(boxes), -1) @ head.moves + head.offset
    sides = np.tile(boxes[:, 2:] - boxes[:, :2], 2)
    moved = geometry.clip(boxes + np.clip(moves, -MAX_MOVE, MAX_MOVE) * sides, size)
    kept = np.all(moved[:, 2:] - moved[:, :2] >= MIN_SIDE, axis=1)
    return np.where(kept[:, None], moved, boxes)


def _unit(values: Floats32) -> Floats32:
    lengths = np.sqrt(np.einsum("ijc,ijc->ij", values, values))[:, :, None]
    return np.asarray(values / np.maximum(lengths, 1e-6), np.float32)


@cache
def _network() -> Lite0:
    """The network without its coarsest map, loaded once in a process."""
    return Lite0(FINE_STRIDES)


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
        "network": lite0.FINGERPRINT,
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


def _is_finite(values: Floats) -> bool:
    return bool(np.isfinite(values).all())


def _unpacked(
    path: Path, header: dict[str, Any], content: dict[str, Any], threshold: float
) -> FewShotDetector:
    if header.get("format_version") != FORMAT_VERSION:
        raise DetectorError(
            f"{path} has format version {header.get('format_version')!r}, but this version of "
            f"objectstates reads {FORMAT_VERSION}: train it again"
        )
    if header.get("network") != lite0.FINGERPRINT:
        raise DetectorError(f"{path} was trained on another version of the network: train it again")
    shapes, weights, moves, offset = (np.asarray(content[n], np.float64) for n in _ARRAYS)
    channels = sum(Lite0.CHANNELS[stride] for stride in FINE_STRIDES)
    expected = [(len(shapes), 2), (GRID**2, channels), (GRID**2 * channels, 4), (4,)]
    if [a.shape for a in (shapes, weights, moves, offset)] != expected or len(shapes) == 0:
        raise ValueError("arrays do not fit together")
    if len(shapes) > MAX_SHAPES or not all(map(_is_finite, (shapes, weights, moves, offset))):
        raise ValueError(f"numbers are not finite, or there are more than {MAX_SHAPES} shapes")
    if not (shapes > 0).all() or not 0 < int(header["side"]) <= MAX_SIDE:
        raise ValueError(f"sides are not above 0, or side is above {MAX_SIDE}")
    slope, contrast, shift = map(float, header["calibration"])
    if not _is_finite(np.array([slope, contrast, shift, float(header["bias"])])):
        raise ValueError("numbers are not finite")
    return FewShotDetector(
        object=str(header["object"]),
        side=int(header["side"]),
        shapes=shapes,
        head=Head(weights, float(header["bias"]), moves, offset),
        calibration=Calibration(slope, contrast, shift),
        trained_on={str(k): int(v) for k, v in header["trained_on"].items()},
        threshold=threshold,
    )

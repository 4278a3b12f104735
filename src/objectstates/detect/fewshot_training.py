"""Training of the few-shot detector.

The network runs once on the labelled images and on augmented copies of them (mirrored, scaled,
shifted, hue changed). A logistic head is trained on object against background in a few rounds;
after each, the background boxes of highest score are added (hard negatives). A ridge regression
from boxes near the object gives the refinement.

The images are split into folds by video, and a head is trained without each fold. The detector's
head is their mean, which varies less than any of them and costs nothing, for heads are linear.

The detections of each head in its held-out fold calibrate the detector. As probabilities they would
lose objects at the default threshold in videos unlike those labelled. So they are raised until
objects of a new video should pass it, as predicted from the folds, or until background passes it
once in two images.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import stdtrit

from objectstates.base import geometry
from objectstates.base.choices import DETECTION_THRESHOLD
from objectstates.base.errors import LabelError
from objectstates.base.geometry import iou
from objectstates.detect.fewshot import (
    CELL,
    MIN_SIDE,
    Calibration,
    FewShotDetector,
    Head,
    cell_map,
    dense_scores,
    describe,
    locate,
    resized,
)
from objectstates.detect.labels import LabelledImage, Labels, read_labels
from objectstates.detect.metrics import match
from objectstates.detect.nms import suppress
from objectstates.detect.proposals import dense_boxes, shapes_like
from objectstates.video.reader import Image

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Progress = Callable[[int, int], None]

MIN_IMAGES = 4  # labelled images with a box: each also serves to calibrate heads trained without it
RECALL = 0.99  # of the objects of new videos at the default threshold, unless ...
FALSE_POSITIVES = 0.5  # ... more wrong boxes per image would pass it

BACKGROUND_IOU, IGNORED_IOU = 0.4, 0.2
"""A box with less IoU with all objects, and with all ignored regions, is background."""


@dataclass(frozen=True)
class Recipe:
    """How a head is trained; chosen on simulated clips, each left out in turn."""

    images: int = 240  # with augmented copies, about
    max_copies: int = 5  # of an image
    folds: int = 6
    rounds: int = 3
    hard: int = 10  # negatives added per image and round
    penalty: float = 1e-4  # of the squared weights, against the mean loss
    ridge: float = 3e-3
    iterations: int = 100
    hue: float = 90.0  # largest shift of the hue, of 180: the object may have any colour
    side: int = 320
    object_side: float = 40.0  # least shorter side of the median object after resizing


class _Example(NamedTuple):
    """One resized image: its (h, w, C) half-precision cells, and boxes in its pixels."""

    cells: npt.NDArray[np.float16]
    size: tuple[int, int]
    boxes: Floats
    ignored: Floats
    group: int
    original: bool


def train(
    labels: str | Path | Labels,
    object: str | None = None,
    *,
    seed: int = 0,
    recipe: Recipe | None = None,
    progress: Progress | None = None,
) -> FewShotDetector:
    """Train a detector; the same labels and seed give the same detector.

    labels : a COCO JSON file (see ``labels.py``).
    object : the category, where the file has several.
    progress : called with the number of steps done and of all steps.
    """
    if not isinstance(labels, Labels):
        labels = read_labels(labels, object)
    recipe = recipe or Recipe()
    with_box = sum(len(image.boxes) > 0 for image in labels.images)
    if with_box < MIN_IMAGES:
        raise LabelError(
            f"{labels.path} has {with_box} images with a box of {labels.object!r}: label at least "
            f"{MIN_IMAGES}, better a few dozen, of different videos"
        )
    loaded = list(labels.load())
    side = _resized_side(loaded, recipe)
    folds = _folds([image for image, _ in loaded], recipe.folds)
    steps, total = count(1), len(loaded) + 2 * (int(folds.max()) + 1)

    def step_done() -> None:
        if progress is not None:
            progress(next(steps), total)

    examples = _examples(loaded, folds, side, recipe, np.random.default_rng(seed), step_done)
    shapes = shapes_like(np.concatenate([e.boxes for e in examples]))
    sources = len({image.source for image, _ in loaded})
    heads, held_out = [], list[_HeldOut]()
    for fold in range(int(folds.max()) + 1):
        trainer = _Trainer(
            [e for e in examples if e.group != fold], shapes, recipe, np.random.default_rng(seed)
        )
        step_done()
        heads.append(trainer.head())
        unseen = [e for e in examples if e.original and e.group == fold]
        held_out += [found for e in unseen for found in _evaluate(e, heads[-1], shapes)]
        step_done()
    return FewShotDetector(
        object=labels.object,
        side=side,
        shapes=shapes,
        head=Head(*(np.mean(column, axis=0) for column in zip(*map(astuple, heads), strict=True))),
        calibration=_calibration(held_out, len(loaded), max(sources, int(folds.max()) + 1)),
        trained_on={
            "images": len(loaded),
            "boxes": sum(len(image.boxes) for image, _ in loaded),
            "sources": sources,
        },
    )


def _resized_side(loaded: Sequence[tuple[LabelledImage, Image]], recipe: Recipe) -> int:
    """Longer side of the resized images: larger where objects are small, up to twice."""
    shorter = [
        min(box[2] - box[0], box[3] - box[1]) * recipe.side / max(pixels.shape[:2])
        for image, pixels in loaded
        for box in image.boxes
    ]
    zoom = min(2.0, max(1.0, recipe.object_side / float(np.median(shorter))))
    return round(recipe.side * zoom / 32) * 32


def _folds(images: Sequence[LabelledImage], most: int) -> npt.NDArray[np.int64]:
    """(n,) fold of each image; frames of one video are in the same fold."""
    sources = list(dict.fromkeys(image.source for image in images if len(image.boxes)))
    if len(sources) < 2:  # one video: three parts of its duration
        order = np.argsort([image.time or 0.0 for image in images], kind="stable")
        rank = np.empty(len(images), np.int64)
        rank[order] = np.arange(len(images))
        return rank * 3 // len(images)
    count = min(most, len(sources))
    place = {source: k % count for k, source in enumerate(sources)}
    return np.array([place.get(image.source, k % count) for k, image in enumerate(images)])


def _examples(
    loaded: Sequence[tuple[LabelledImage, Image]],
    folds: npt.NDArray[np.int64],
    side: int,
    recipe: Recipe,
    rng: np.random.Generator,
    step_done: Callable[[], None],
) -> list[_Example]:
    copies = min(recipe.max_copies, max(0, recipe.images // len(loaded) - 1))
    examples = []
    for (label, pixels), fold in zip(loaded, folds.tolist(), strict=True):
        image = resized(pixels, side)
        zoom = np.array([image.shape[1] / pixels.shape[1], image.shape[0] / pixels.shape[0]] * 2)
        boxes, ignored = label.boxes * zoom, label.ignored * zoom
        examples.append(_example(image, boxes, ignored, fold, original=True))
        for k in range(copies):
            copy, transform = _augment(image, rng, mirror=k % 2 == 0, hue=recipe.hue)
            moved, moved_ignored = transform(boxes), transform(ignored)
            examples.append(_example(copy, moved, moved_ignored, fold, original=False))
        step_done()
    return examples


def _example(
    image: Image, boxes: Floats, ignored: Floats, fold: int, *, original: bool
) -> _Example:
    height, width = image.shape[:2]
    inside = geometry.clip(boxes, (height, width))
    # A box mostly out of the frame is neither object nor background.
    seen = geometry.areas(inside) > 0.6 * geometry.areas(boxes)
    seen &= (inside[:, 2:] - inside[:, :2] >= MIN_SIDE).all(axis=1)
    cells = cell_map(image).astype(np.float16)
    left_out = np.concatenate([ignored.reshape(-1, 4), inside[~seen]])
    return _Example(cells, (height, width), inside[seen], left_out, fold, original)


def _augment(
    image: Image, rng: np.random.Generator, *, mirror: bool, hue: float
) -> tuple[Image, Callable[[Floats], Floats]]:
    """An augmented copy of an image, and the transformation of boxes that goes with it."""
    height, width = image.shape[:2]
    zoom = math.exp(rng.uniform(-0.2, 0.2))
    middle = np.array([width, height]) / 2
    shift = (1 - zoom) * middle + rng.uniform(-0.08, 0.08, 2) * 2 * middle
    matrix = np.array([[zoom, 0, shift[0]], [0, zoom, shift[1]]])
    source = np.ascontiguousarray(image[:, ::-1]) if mirror else image
    moved = cv2.warpAffine(source, matrix, (width, height), borderMode=cv2.BORDER_REFLECT)
    hsv = cv2.cvtColor(moved, cv2.COLOR_RGB2HSV).astype(np.float32)
    hsv[..., 0] = (hsv[..., 0] + rng.uniform(-hue, hue)) % 180
    hsv[..., 1] *= math.exp(rng.uniform(-0.4, 0.4))
    hsv[..., 2] *= math.exp(rng.uniform(-0.3, 0.3))
    copy = cv2.cvtColor(np.clip(hsv, 0, 255).astype(np.uint8), cv2.COLOR_HSV2RGB)

    def transform(boxes: Floats) -> Floats:
        if mirror:
            boxes = np.stack(
                [width - boxes[:, 2], boxes[:, 1], width - boxes[:, 0], boxes[:, 3]], 1
            )
        return boxes * zoom + np.tile(shift, 2)

    return np.asarray(copy, np.uint8), transform


class _Trainer:
    """Trains one head on some of the examples."""

    def __init__(
        self, examples: Sequence[_Example], shapes: Floats, recipe: Recipe, rng: np.random.Generator
    ) -> None:
        self.examples, self.shapes, self.recipe = examples, shapes, recipe
        positives, negatives = [], []
        for e in examples:
            for box in e.boxes:
                positives.append(self._describe(e, _near(box, e.size, rng, 12, 0.06, 0.7)))
            dense = dense_boxes(shapes, e.size, CELL)
            some = dense[rng.choice(len(dense), 100)]
            negatives.append(self._describe(e, some[_background(some, e)][:20]))
        self.positives, self.negatives = np.concatenate(positives), np.concatenate(negatives)
        both = np.concatenate([self.positives, self.negatives])
        self.mean = both.mean(axis=0)
        self.scale = 1 / ((both.std(axis=0) + 1e-6) * math.sqrt(both.shape[1]))
        self.rng = rng

    def _describe(self, e: _Example, boxes: Floats) -> Floats32:
        features = describe(e.cells.astype(np.float32), boxes)
        return features.reshape(len(boxes), features.shape[1] * features.shape[2])

    def head(self) -> Head:
        weights, bias = self._classifier()
        moves, offset = self._regression()
        return Head(weights, bias, moves, offset)

    def _classifier(self) -> tuple[Floats, float]:
        positives, negatives = self._scaled(self.positives), self._scaled(self.negatives)
        start = np.zeros(positives.shape[1] + 1)
        for round_ in range(self.recipe.rounds + 1):
            start = _logistic(positives, negatives, start, self.recipe)
            weights = (start[:-1] * self.scale).astype(np.float64)
            bias = float(start[-1] - weights @ self.mean)
            shaped = weights.reshape(-1, self.examples[0].cells.shape[2])
            if round_ < self.recipe.rounds:
                head = Head(shaped, bias, np.empty((0, 4)), np.empty(4))
                negatives = np.concatenate([negatives, self._scaled(self._hard(head))])
        return shaped, bias

    def _hard(self, head: Head) -> Floats32:
        """(n, D) features of the background boxes of highest score."""
        found = []
        for e in self.examples:
            boxes = dense_boxes(self.shapes, e.size, CELL)
            scores = dense_scores(e.cells.astype(np.float32), head, boxes)
            likely = np.flatnonzero(scores > -3)
            likely = likely[_background(boxes[likely], e)]
            likely = likely[np.argsort(-scores[likely], kind="stable")[:1000]]
            best = suppress(boxes[likely], scores[likely], 0.6, self.recipe.hard)
            found.append(self._describe(e, boxes[likely[best]]))
        return np.concatenate(found)

    def _regression(self) -> tuple[Floats, Floats]:
        """Ridge regression from boxes near the object to the shifts of their edges."""
        features, targets = [], []
        for e in self.examples:
            for box in e.boxes:
                near = _near(box, e.size, self.rng, 60, 0.15, 0.45)[:30]
                features.append(self._scaled(self._describe(e, near)))
                targets.append((box - near) / np.tile(near[:, 2:] - near[:, :2], 2))
        x = np.concatenate(features).astype(np.float64)
        y = np.concatenate(targets)
        x_mean, y_mean = x.mean(axis=0), y.mean(axis=0)
        x -= x_mean
        gram = x.T @ x
        gram[np.diag_indices_from(gram)] += self.recipe.ridge * np.trace(gram) / len(gram)
        solution = np.linalg.solve(gram, x.T @ (y - y_mean))
        moves = solution * self.scale[:, None]
        return moves, y_mean - x_mean @ solution - self.mean @ moves

    def _scaled(self, features: Floats32) -> Floats32:
        return np.asarray((features - self.mean) * self.scale, np.float32)


def _near(
    box: Floats,
    size: tuple[int, int],
    rng: np.random.Generator,
    n: int,
    spread: float,
    least: float,
) -> Floats:
    """The box, and those of ``n`` random ones near it whose IoU with it exceeds ``least``."""
    sides = np.tile(box[2:] - box[:2], 2)
    others = box + rng.normal(0, spread, (n, 4)) * sides
    others = geometry.clip(others, size)
    others = others[(others[:, 2:] - others[:, :2] >= MIN_SIDE).all(axis=1)]
    return np.concatenate([box[None], others[iou(others, box[None])[:, 0] > least]])


def _background(boxes: Floats, e: _Example) -> npt.NDArray[np.bool_]:
    free = np.ones(len(boxes), bool)
    if len(e.boxes):
        free &= iou(boxes, e.boxes).max(axis=1) < BACKGROUND_IOU
    if len(e.ignored):
        free &= iou(boxes, e.ignored).max(axis=1) < IGNORED_IOU
    return free


def _logistic(positives: Floats32, negatives: Floats32, start: Floats, recipe: Recipe) -> Floats:
    """Weights and bias of a logistic regression; both classes have the same total weight."""
    x = np.concatenate([positives, negatives])
    sign = np.repeat([1.0, -1.0], [len(positives), len(negatives)])
    weight = np.repeat(
        [0.5 / len(positives), 0.5 / len(negatives)], [len(positives), len(negatives)]
    )

    def loss(w: Floats) -> tuple[float, Floats]:
        margin = sign * (x @ w[:-1].astype(np.float32) + w[-1])
        error = -sign * weight / (1 + np.exp(np.clip(margin, -60, 60)))
        value = float(weight @ np.logaddexp(0, -margin)) + recipe.penalty / 2 * float(
            w[:-1] @ w[:-1]
        )
        gradient = x.T @ error.astype(np.float32) + recipe.penalty * w[:-1]
        return value, np.append(gradient, error.sum())

    limit: Any = {"maxiter": recipe.iterations}
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", options=limit).x)


class _HeldOut(NamedTuple):
    """(n,) scores of detections, whether each is right, and the number of objects missed."""

    scores: Floats
    right: npt.NDArray[np.bool_]
    missed: int


def _evaluate(e: _Example, head: Head, shapes: Floats) -> list[_HeldOut]:
    """Detections of a head in an image of its held-out fold.

    Also those among the background boxes alone, for the object suppresses most of them: they give
    the scores that the background can reach.
    """
    cells = e.cells.astype(np.float32)
    everywhere = dense_boxes(shapes, e.size, CELL)
    boxes, scores = locate(cells, head, everywhere, e.size)
    right = match(boxes, e.boxes)
    found = _HeldOut(scores, right, len(e.boxes) - int(right.sum()))
    rest = everywhere[_background(everywhere, e)]
    if len(rest) == 0:
        return [found]
    others, other_scores = locate(cells, head, rest, e.size)
    new = _background(others, e) & (iou(others, boxes).max(axis=1) < 0.5)
    return [found, _HeldOut(other_scores[new], np.zeros(new.sum(), bool), 0)]


def _calibration(held_out: Sequence[_HeldOut], images: int, sources: int) -> Calibration:
    """Log-odds of being right, raised as new videos need and false positives permit.

    images, sources : number of images, and of the videos they are from.
    """
    platt = _platt(held_out)
    odds = [platt.log_odds(s.scores) for s in held_out]
    objects = [
        np.append(o[s.right], [o.min()] * s.missed)
        for o, s in zip(odds, held_out, strict=True)
        if len(o)
    ]
    wrong = np.sort(np.concatenate([o[~s.right] for o, s in zip(odds, held_out, strict=True)]))[
        ::-1
    ]
    limit = wrong[min(int(FALSE_POSITIVES * images), len(wrong) - 1)] if len(wrong) else -np.inf
    cut = max(limit, _lower_bound(np.concatenate(objects), sources))
    raised = max(0.0, math.log(DETECTION_THRESHOLD / (1 - DETECTION_THRESHOLD)) - cut)
    return replace(platt, shift=platt.shift + raised)


def _lower_bound(values: Floats, sources: int) -> float:
    """What a value from a new source exceeds with probability RECALL.

    The prediction interval of a normal variable with as many samples as sources, for values of one
    source are correlated.
    """
    spread = values.std() * math.sqrt(sources / (sources - 1)) * math.sqrt(1 + 1 / sources)
    return float(values.mean() - stdtrit(sources - 1, RECALL) * spread)


def _platt(held_out: Sequence[_HeldOut]) -> Calibration:
    """Log-odds of being right (Platt, 1999, with his targets)."""
    scores = np.concatenate([s.scores for s in held_out])
    below = np.concatenate([s.scores - s.scores.max(initial=-np.inf) for s in held_out])
    right = np.concatenate([s.right for s in held_out])
    n_right, n_wrong = int(right.sum()), int((~right).sum())
    target = np.where(right, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
    inputs = np.stack([scores, below, np.ones(len(scores))])
    penalty = np.array([0, 1e-3, 0])  # of the contrast: use it only where it helps

    def loss(p: Floats) -> tuple[float, Floats]:
        logit = p @ inputs
        value = np.logaddexp(0, logit) - target * logit
        error = 1 / (1 + np.exp(-np.clip(logit, -60, 60))) - target
        gradient = inputs @ error / len(scores) + 2 * penalty * p
        return float(value.mean() + penalty @ p**2), gradient

    bounds = [(0.05, None), (0, None), (None, None)]  # the confidence increases with the score
    start = np.array([1.0, 0.0, 0.0])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Calibration(*found.tolist())

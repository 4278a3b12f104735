"""Training of a Faster R-CNN on labelled boxes, on a GPU or, for a trial, on a CPU.

From weights of COCO, ImageNet or a file, the network is fine-tuned: statistics of its batch
normalisation and its first layers are kept. From random weights all is learned, which takes some
hundred boxes and a few thousand steps. Images are mirrored, scaled, shifted and changed in colour
at random.

``fewshot_training.py`` needs fewer boxes and no GPU, and is the default.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.errors import LabelError, SettingError
from objectstates.base.torch_utils import needs_extra, torch_device
from objectstates.detect.labels import Labels
from objectstates.detect.rcnn import OBJECT, RcnnBackbone, RcnnModel, build, load_weights
from objectstates.video.reader import Image

Floats32 = npt.NDArray[np.float32]
Progress = Callable[[int, int, float], None]
"""Called with the number of steps done, of all steps, and the last loss."""

MIN_IMAGES = 4  # labelled images with a box
STEPS = {"random": 3000, "": 1000}  # from random weights, and from others
FIRST_LAYERS = tuple(
    f"backbone.body.{layer}." for layer in ("conv1", "bn1", "layer1", "0", "1")
)  # of ResNet-50, and of MobileNet
FILL = 114  # grey beside a shifted image
LEAST_LEFT = 0.3  # share of a box that must remain in a shifted image


@dataclass(frozen=True)
class RcnnRecipe:
    """How a network is trained.

    steps : None for 3,000 from random weights and 1,000 from others.
    batch : images per step.
    rate : highest learning rate of AdamW; it grows over the first ``warmup`` of the steps and falls
        to 0 along a cosine.
    side : longer side in pixels to which images are scaled.
    zoom, shift : largest factor of the scale, and share of the image's sides.
    hue : largest shift of the hue, of 180: the object may have any colour.
    gain : largest relative change of brightness and of each colour.
    seconds : stop after as many, with the schedule of as many steps as fit; None for no limit.
    """

    steps: int | None = None
    batch: int = 8
    rate: float = 2e-4
    warmup: float = 0.05
    decay: float = 1e-4
    clip: float = 10.0
    side: int = 480
    zoom: float = 1.4
    shift: float = 0.15
    hue: float = 90.0
    gain: float = 0.3
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("batch", "side"):
            if getattr(self, name) < 1:
                raise SettingError(f"`{name}` must be 1 or more, not {getattr(self, name)}")
        if self.steps is not None and self.steps < 1:
            raise SettingError(f"`steps` must be 1 or more, not {self.steps}")


class _Example(NamedTuple):
    """An image of at most the side's size, (H, W, 3), and its boxes (n, 4)."""

    image: Image
    boxes: Floats32


def train(
    labels: Labels,
    *,
    backbone: RcnnBackbone = "resnet50",
    weights: str = "coco",
    device: str = "cpu",
    seed: int = 0,
    recipe: RcnnRecipe | None = None,
    progress: Progress | None = None,
) -> RcnnModel:
    """Train a network; on a CPU the same labels and seed give the same one.

    weights : "random", "coco", "imagenet", or a file, see `load_weights`.
    """
    recipe = recipe or RcnnRecipe()
    with_box = sum(len(image.boxes) > 0 for image in labels.images)
    if with_box < MIN_IMAGES:
        raise LabelError(
            f"{labels.path} has {with_box} images with a box of {labels.object!r}: label at least "
            f"{MIN_IMAGES}, for this model better some hundred, of different videos"
        )
    with needs_extra("torch", "to train a Faster R-CNN"):
        import torch
    where = torch_device(device)
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []):
        torch.manual_seed(seed)
        network = build(backbone, recipe.side)
        if weights != "random":
            load_weights(network, backbone, weights)
        examples = [_Example(*_shrunk(px, image.boxes, recipe.side)) for image, px in labels.load()]
        _fit(network.to(where), examples, recipe, weights, where, seed, progress)
    return RcnnModel(
        object=labels.object,
        backbone=backbone,
        side=recipe.side,
        trained_on=labels.counts,
        weights_from=weights,
        network=network.eval().cpu(),
    )


def _shrunk(image: Image, boxes: Floats32, side: int) -> tuple[Image, Floats32]:
    """The image with a longer side of at most ``side`` pixels, and its boxes."""
    height, width = image.shape[:2]
    factor = min(1.0, side / max(height, width))
    if factor == 1:
        return image, boxes
    size = max(1, round(width * factor)), max(1, round(height * factor))
    small = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
    return small, np.asarray(boxes * factor, np.float32)


def _fit(
    network: Any,
    examples: Sequence[_Example],
    recipe: RcnnRecipe,
    weights: str,
    where: Any,
    seed: int,
    progress: Progress | None,
) -> None:
    import torch

    fine_tuned = weights != "random"
    steps = recipe.steps or STEPS["" if fine_tuned else "random"]
    for name, value in network.named_parameters():
        value.requires_grad_(not (fine_tuned and name.startswith(FIRST_LAYERS)))
    learned = [value for value in network.parameters() if value.requires_grad]
    optimiser = torch.optim.AdamW(learned, lr=recipe.rate, weight_decay=recipe.decay)
    rng = np.random.default_rng(seed)
    begun = time.monotonic()
    network.train()
    if fine_tuned:
        _keep_statistics(network)
    for step, batch in enumerate(_batches(examples, recipe.batch, rng)):
        part = step / steps
        if recipe.seconds is not None:
            part = max(part, (time.monotonic() - begun) / recipe.seconds)
        if part >= 1:
            break
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate * rate_at(part, recipe.warmup)
        loss = _step(network, [_augmented(e, recipe, rng) for e in batch], where)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learned, recipe.clip)
        optimiser.step()
        if progress is not None:
            progress(step + 1, steps, float(loss.detach()))


def rate_at(part: float, warmup: float) -> float:
    """Share of the highest learning rate after this part of the steps.

    >>> [round(rate_at(part, 0.1), 2) for part in (0.0, 0.05, 0.1, 0.55, 1.0)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if part < warmup:
        return part / warmup
    return 0.5 * (1 + math.cos(math.pi * (part - warmup) / (1 - warmup)))


def _keep_statistics(network: Any) -> None:
    """Batch normalisation with the statistics of the weights it began with."""
    import torch

    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eval()


def _batches(
    examples: Sequence[_Example], size: int, rng: np.random.Generator
) -> Iterator[list[_Example]]:
    """Every example once in random order, and again, without end."""
    queue: list[int] = []
    while True:
        while len(queue) < size:
            queue += rng.permutation(len(examples)).tolist()
        yield [examples[i] for i in queue[:size]]
        queue = queue[size:]


def _augmented(example: _Example, recipe: RcnnRecipe, rng: np.random.Generator) -> _Example:
    """A copy, mirrored in half of the cases, scaled, shifted, and changed in colour."""
    image, boxes = example
    height, width = image.shape[:2]
    zoom = float(np.exp(rng.uniform(-1, 1) * np.log(recipe.zoom)))
    mirror = -1.0 if rng.random() < 0.5 else 1.0
    middle = np.array([width / 2, height / 2])
    target = middle * (1 + 2 * recipe.shift * rng.uniform(-1, 1, 2))
    linear = np.diag([mirror * zoom, zoom])
    matrix = np.column_stack([linear, target - linear @ middle])
    moved = cv2.warpAffine(
        image, matrix, (width, height), flags=cv2.INTER_LINEAR, borderValue=(FILL, FILL, FILL)
    )
    hsv = cv2.cvtColor(moved, cv2.COLOR_RGB2HSV)
    hsv[..., 0] = (hsv[..., 0] + np.rint(recipe.hue * rng.uniform(-1, 1)) % 180) % 180
    moved = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)
    gains = (1 + recipe.gain * rng.uniform(-1, 1)) * (1 + recipe.gain * rng.uniform(-1, 1, 3) / 2)
    coloured = np.clip(moved * gains, 0, 255).astype(np.uint8)
    return _Example(coloured, transformed(boxes, matrix, (height, width)))


def transformed(
    boxes: Floats32, matrix: npt.NDArray[np.float64], size: tuple[int, int]
) -> Floats32:
    """Boxes under a scaling and shift (2, 3), clipped to ``size`` (height, width).

    Those of which little remains are dropped.
    """
    if len(boxes) == 0:
        return np.empty((0, 4), np.float32)
    corners = boxes.reshape(-1, 2, 2) @ matrix[:, :2].T + matrix[:, 2]
    whole = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    limits = np.array([size[1], size[0]] * 2)
    cut = np.clip(whole, 0, limits)
    areas = [np.prod(b[:, 2:] - b[:, :2], axis=1) for b in (cut, whole)]
    kept = (areas[0] >= LEAST_LEFT * areas[1]) & ((cut[:, 2:] - cut[:, :2]) >= 2).all(axis=1)
    return np.asarray(cut[kept], np.float32)


def _step(network: Any, batch: Sequence[_Example], where: Any) -> Any:
    """The sum of the network's four losses on a batch."""
    import torch

    images = [torch.from_numpy(e.image).to(where).permute(2, 0, 1) / 255 for e in batch]
    targets = [
        {
            "boxes": torch.from_numpy(e.boxes).to(where),
            "labels": torch.full((len(e.boxes),), OBJECT, dtype=torch.int64, device=where),
        }
        for e in batch
    ]
    return sum(network(images, targets).values())

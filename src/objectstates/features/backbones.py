"""Backbones: networks that turn frames into feature maps, by name.

``lite0`` is built in and needs nothing but the core dependencies; ``resnet50`` (the paper's) and
``hf:MODEL`` (any vision transformer of the Hugging Face hub) need an extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import SettingError

Images = npt.NDArray[np.uint8]
"""(B, H, W, 3) RGB frames of one size."""

Image = npt.NDArray[np.uint8]
"""(H, W, 3) RGB."""

Frames = Sequence[Image] | Images
"""Frames of one size, apart or in one array."""


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """One level of a network's features for a batch of frames.

    values : (B, h, w, C) float32. Cell ``[i, j]`` describes the square of ``stride`` pixels that
        begins at ``y = i * stride, x = j * stride``. The last row and column may reach beyond the
        frame.
    size : height and width of the frames in pixels.
    """

    values: npt.NDArray[np.float32]
    stride: int
    size: tuple[int, int]


class Look(Protocol):
    """What a backbone saw in a batch of B frames; keeps its maps for as long as it lives.

    The network may still be at work on the frames: what is asked of a look waits for it.
    """

    def frames(self) -> npt.NDArray[np.float32]:
        """(B, D) frames as wholes, from the coarsest map, see `roi.describe_frames`."""

    def cells(self) -> npt.NDArray[np.float16]:
        """(B, h * w, C) all cells of the finest map that boxes are described by."""

    def boxes(
        self, boxes: Sequence[npt.NDArray[np.floating]], *, context: float = ...
    ) -> list[npt.NDArray[np.float32]]:
        """For each frame its (n, 4) boxes as (n, D), see `roi.describe_boxes`; n may be 0."""


class Backbone(Protocol):
    """A network that describes frames at one or several resolutions in one pass."""

    @property
    def name(self) -> str:
        """The spec it was loaded by."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the numbers it gives may change; a key for caches."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Pixels per cell of each map, fine to coarse."""

    @property
    def channels(self) -> tuple[int, ...]:
        """Length of the vector in a cell of each map, in the order of ``strides``."""

    @property
    def appearance_strides(self) -> tuple[int, ...]:
        """The maps that tell the states of an object apart best; a subset of ``strides``."""

    def maps(self, images: Images) -> tuple[FeatureMap, ...]:
        """Maps of a batch of frames, in the order of ``strides``, in host memory."""

    def look(self, frames: Frames) -> Look:
        """The same, kept where they are computed, to describe boxes once these are known.

        The frames are their owner's again when this returns.
        """


def load_backbone(
    spec: str = "lite0",
    device: str = "cpu",
    *,
    strides: Sequence[int] | None = None,
    threads: int = 1,
) -> Backbone:
    """Load the backbone that ``spec`` names.

    spec : ``lite0``, ``resnet50``, or ``hf:MODEL`` with a model's name on the hub or its folder.
    device : where torch backbones run: ``cpu``, ``cuda``, ``cuda:1``. ``lite0`` runs on the CPU.
    strides : the maps wanted, if not all; leaving out the coarse ones of ``lite0`` saves their
        time.
    threads : on the CPU; one, because videos are processed one per core.
    """
    if spec == "lite0":
        from objectstates.features.lite0 import Lite0

        if device != "cpu":
            raise SettingError(f"lite0 runs on the CPU, not on {device!r}: use --device cpu")
        return Lite0(tuple(strides) if strides is not None else Lite0.STRIDES, threads)
    if spec == "resnet50":
        from objectstates.features.torch_backbones import resnet50

        backbone: Backbone = resnet50(device, threads)
    elif spec.startswith("hf:") and len(spec) > 3:
        from objectstates.features.torch_backbones import hub_model

        backbone = hub_model(spec.removeprefix("hf:"), device, threads)
    else:
        raise SettingError(f"no backbone {spec!r}: choose lite0, resnet50 or hf:MODEL")
    if strides is not None and tuple(strides) != backbone.strides:
        raise SettingError(f"backbone {spec} has strides {backbone.strides}, not {tuple(strides)}")
    return backbone


def at_strides(maps: Sequence[FeatureMap], strides: Sequence[int]) -> tuple[FeatureMap, ...]:
    """Pick the maps of some strides."""
    return tuple(m for m in maps if m.stride in strides)


def check_images(images: Images) -> None:
    """Refuse what is not a batch of RGB frames, before a network gives nonsense for it."""
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3 or 0 in images.shape:
        raise SettingError(
            f"a backbone takes (B, H, W, 3) uint8 RGB frames, not {images.shape} {images.dtype}"
        )


def padded(images: Images, multiple: int, fill: int) -> Images:
    """Extend frames at the bottom and right to whole multiples of ``multiple`` pixels."""
    count, height, width, _ = images.shape
    if height % multiple == 0 and width % multiple == 0:
        return np.ascontiguousarray(images)
    shape = (count, height + -height % multiple, width + -width % multiple, 3)
    out = np.full(shape, fill, np.uint8)
    out[:, :height, :width] = images
    return out

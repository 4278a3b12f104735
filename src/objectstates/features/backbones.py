"""What a backbone is: a network that turns frames into feature maps.

A new backbone is one file with a class that fits `Backbone`, and one line in ``registry.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import SettingError

Image = npt.NDArray[np.uint8]  # (H, W, 3) RGB

Images = npt.NDArray[np.uint8]  # (B, H, W, 3) RGB frames of one size

Frames = Sequence[Image] | Images  # frames of one size, as a list or in one array


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


class FeatureMaps(Protocol):
    """The feature maps of a batch of B frames, kept until the boxes in the frames are known.

    The network may still be running on the frames; every method waits for it.
    """

    def describe_frames(self) -> npt.NDArray[np.float32]:
        """(B, D) features of whole frames, from the coarsest map."""

    def cells(self) -> npt.NDArray[np.float16]:
        """(B, h * w, C) all cells of the finest map that boxes are described by."""

    def describe_boxes(
        self, boxes: Sequence[npt.NDArray[np.floating]], *, context: float = ...
    ) -> list[npt.NDArray[np.float32]]:
        """(n, D) features of the (n, 4) boxes of each frame; n may be 0."""


class Backbone(Protocol):
    """A network that describes frames at one or several resolutions in one run."""

    @property
    def name(self) -> str:
        """The name it was loaded by."""

    @property
    def fingerprint(self) -> str:
        """Part of cache keys: changes whenever the features may change."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Pixels per cell of each map, fine to coarse."""

    @property
    def channels(self) -> tuple[int, ...]:
        """Length of the vector in a cell of each map, in the order of ``strides``."""

    @property
    def appearance_strides(self) -> tuple[int, ...]:
        """The maps that separate the states of an object best; a subset of ``strides``."""

    def maps(self, images: Images) -> tuple[FeatureMap, ...]:
        """Maps of a batch of frames, in the order of ``strides``, in host memory."""

    def device_maps(self, frames: Frames) -> FeatureMaps:
        """The same, left on the device that computed them; the frames may then be overwritten."""


def at_strides(maps: Sequence[FeatureMap], strides: Sequence[int]) -> tuple[FeatureMap, ...]:
    """Pick the maps of some strides."""
    return tuple(m for m in maps if m.stride in strides)


def check_images(images: Images) -> None:
    """Raise unless this is a batch of RGB frames."""
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3 or 0 in images.shape:
        raise SettingError(
            f"a backbone takes (B, H, W, 3) uint8 RGB frames, not {images.shape} {images.dtype}"
        )


def padded(images: Images, multiple: int, fill: int) -> Images:
    """Pad frames at the bottom and right to whole multiples of ``multiple`` pixels."""
    count, height, width, _ = images.shape
    if height % multiple == 0 and width % multiple == 0:
        return np.ascontiguousarray(images)
    shape = (count, height + -height % multiple, width + -width % multiple, 3)
    out = np.full(shape, fill, np.uint8)
    out[:, :height, :width] = images
    return out

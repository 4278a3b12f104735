"""What a backbone saw in frames, kept until the boxes in them are known.

Tracks are linked in both directions, so where an object was in a frame is known seconds after the
frame went through the network. A `Look` (see `backbones`) keeps the maps for that long, in half
precision, where they were computed, and only vectors leave it. `HostLook` keeps them as numpy
arrays; `torch_looks` has the one whose maps stay on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from objectstates.features.backbones import FeatureMap, at_strides
from objectstates.features.roi_pooling import (
    CONTEXT,
    GRID,
    Boxes,
    Features,
    describe_boxes,
    describe_frames,
)

HALF_MAX = float(np.finfo(np.float16).max)


@dataclass(frozen=True, eq=False)
class HostLook:
    """Maps in host memory.

    kept : the maps that boxes are described by, in half precision.
    whole : (B, D) float32, the frames as wholes.
    """

    kept: tuple[FeatureMap, ...]
    whole: Features

    @classmethod
    def of(cls, maps: Sequence[FeatureMap], strides: Sequence[int]) -> Self:
        """Keep the maps of some strides, and what the coarsest says of whole frames."""
        kept = tuple(_halved(level) for level in at_strides(maps, strides))
        return cls(kept, describe_frames(maps[-1:]))

    def frames(self) -> Features:
        return self.whole

    def cells(self) -> npt.NDArray[np.float16]:
        values = self.kept[0].values
        return np.asarray(values.reshape(len(values), -1, values.shape[-1]), np.float16)

    def boxes(self, boxes: Sequence[Boxes], *, context: float = CONTEXT) -> list[Features]:
        length = GRID**2 * sum(level.values.shape[-1] for level in self.kept)
        out = [np.empty((0, length), np.float32)] * len(boxes)
        for index, found in enumerate(boxes):
            if len(found):
                maps = [_single(level, index) for level in self.kept]
                (out[index],) = describe_boxes(maps, [found], context=context)
        return out


def _halved(level: FeatureMap) -> FeatureMap:
    """In half precision, which is enough to keep."""
    values = np.clip(level.values, -HALF_MAX, HALF_MAX)
    return replace(level, values=values.astype(np.float16))


def _single(level: FeatureMap, index: int) -> FeatureMap:
    """One frame of a map, in the precision that is computed in."""
    return replace(level, values=level.values[index : index + 1].astype(np.float32))

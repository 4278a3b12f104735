"""Feature maps kept in host memory until the boxes in the frames are known.

Tracks are linked in both directions, so the boxes of a frame are known seconds after the frame went
through the network. `FeatureMaps` (see ``backbones.py``) keeps the maps for that long, where they
were computed, and gives out vectors only. Here they are numpy arrays; ``torch_feature_maps.py``
keeps them on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from objectstates.base.choices import BOX_CONTEXT
from objectstates.features.backbones import FeatureMap, at_strides
from objectstates.features.roi_pooling import GRID, Boxes, Features, describe_boxes, describe_frames

HALF_MAX = float(np.finfo(np.float16).max)


@dataclass(frozen=True, eq=False)
class HostFeatureMaps:
    """`FeatureMaps` in host memory.

    levels : the maps that boxes are described by.
    frames : (B, D) float32 features of whole frames.
    """

    levels: tuple[FeatureMap, ...]
    frames: Features

    @classmethod
    def of(cls, maps: Sequence[FeatureMap], strides: Sequence[int]) -> Self:
        """Keep the maps of some strides, and the features of whole frames in the coarsest map."""
        return cls(tuple(at_strides(maps, strides)), describe_frames(maps[-1:]))

    def describe_frames(self) -> Features:
        return self.frames

    def cells(self) -> npt.NDArray[np.float16]:
        values = np.clip(self.levels[0].values, -HALF_MAX, HALF_MAX)
        return values.reshape(len(values), -1, values.shape[-1]).astype(np.float16)

    def describe_boxes(
        self, boxes: Sequence[Boxes], *, context: float = BOX_CONTEXT
    ) -> list[Features]:
        length = GRID**2 * sum(level.values.shape[-1] for level in self.levels)
        out = [np.empty((0, length), np.float32)] * len(boxes)
        for index, frame_boxes in enumerate(boxes):
            if len(frame_boxes):
                maps = [_of_frame(level, index) for level in self.levels]
                (out[index],) = describe_boxes(maps, [frame_boxes], context=context)
        return out


def _of_frame(level: FeatureMap, index: int) -> FeatureMap:
    """One frame of a map."""
    return replace(level, values=level.values[index : index + 1])

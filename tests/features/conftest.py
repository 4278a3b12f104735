from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from skimage import data, transform

from objectstates.base.cache import cache_folder
from objectstates.features.backbones import Images
from objectstates.features.lite0 import Lite0
from tests.features.scenes import move, render, simulated_clips  # noqa: F401


@pytest.fixture(scope="session")
def graph_cache() -> Path:
    return cache_folder()


@pytest.fixture(scope="session")
def lite0(graph_cache: Path) -> Lite0:
    return Lite0()


@pytest.fixture(scope="session")
def photos() -> dict[str, Images]:
    """Central square of photographs, (1, 224, 224, 3)."""
    return {name: _square(name) for name in ("coffee", "camera", "chelsea", "rocket")}


def _square(name: str) -> Images:
    image = getattr(data, name)()
    if image.ndim == 2:
        image = np.stack([image] * 3, axis=2)
    side = min(image.shape[:2])
    top, left = ((n - side) // 2 for n in image.shape[:2])
    square = image[top : top + side, left : left + side]
    small = transform.resize(square, (224, 224), anti_aliasing=True, preserve_range=True)
    return np.asarray(np.round(small), np.uint8)[None]

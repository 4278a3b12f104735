"""Synthetic scenes whose motion is known exactly."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

SIZE = (320, 240)

Affine = np.ndarray  # (2, 3), from the scene at rest to the frame, in pixels
Render = Callable[..., np.ndarray]


def affine(
    dx: float = 0, dy: float = 0, degrees: float = 0, zoom: float = 1, centre=None
) -> Affine:
    """Turn clockwise on the screen (x towards y), enlarge about ``centre``, then move."""
    x, y = centre or (SIZE[0] / 2, SIZE[1] / 2)
    turn = np.radians(degrees)
    linear = zoom * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    shift = np.array([x + dx, y + dy]) - linear @ [x, y]
    return np.column_stack([linear, shift])


def texture(seed: int, margin: int = 100) -> np.ndarray:
    """Noise at several scales, larger than the frame by ``margin`` on all sides."""
    rng = np.random.default_rng(seed)
    shape = (SIZE[1] + 2 * margin, SIZE[0] + 2 * margin)
    image = np.zeros(shape)
    for sigma in (1.5, 3, 6):
        image += np.asarray(cv2.GaussianBlur(rng.normal(size=shape), (0, 0), sigma)) * sigma
    return np.asarray(np.clip(128 + 40 * image / image.std(), 0, 255), np.uint8)


def _draw(image: np.ndarray, motion: Affine, margin: int = 100) -> np.ndarray:
    moved = motion.copy()
    moved[:, 2] -= motion[:, :2] @ [margin, margin]
    return cv2.warpAffine(image, moved, SIZE, flags=cv2.INTER_CUBIC)


@pytest.fixture(scope="session")
def render() -> Render:
    """``render(camera, thing, box)``: a textured wall, and a textured thing that fills ``box``.

    Each is moved from where it rests by its own affine map.
    """
    wall, skin = texture(1), texture(2)

    def draw(camera: Affine | None = None, thing: Affine | None = None, box=None, disc=None):
        frame = _draw(wall, affine() if camera is None else camera)
        if box is None:
            return frame
        mask = np.zeros(wall.shape, np.uint8)
        x1, y1, x2, y2 = (int(v) + 100 for v in box)
        if disc:
            cv2.circle(mask, ((x1 + x2) // 2, (y1 + y2) // 2), (x2 - x1) // 2, 255, -1)
        else:
            mask[y1:y2, x1:x2] = 255
        motion = affine() if thing is None else thing
        alpha = _draw(mask, motion)[..., None] / 255.0
        layers = np.stack([_draw(skin, motion), frame], axis=2)
        return (layers[..., :1] * alpha + layers[..., 1:] * (1 - alpha))[..., 0].astype(np.uint8)

    return draw


@pytest.fixture(scope="session")
def move() -> Callable[..., Affine]:
    return affine


@pytest.fixture(scope="session")
def simulated_clips() -> Path:
    """The folder of simulated clips with exact truth, beside the repository."""
    beside = Path(__file__).resolve().parents[2].parent / "shared"
    folder = Path(os.environ.get("OBJECTSTATES_SHARED", beside)) / "data" / "sim"
    if not folder.is_dir():
        pytest.skip(f"needs the simulated clips in {folder}")
    return folder

from __future__ import annotations

import cv2
import numpy as np
import pytest

from objectstates.features.region_motion import LEAST_GRADIENT, region_motion

HEIGHT, WIDTH = 60, 80
BOX = np.zeros((HEIGHT, WIDTH), np.float32)
BOX[15:45, 20:60] = 0.8


def picture(seed: int = 0) -> np.ndarray:
    """(h, w, 3) a smooth texture, larger than a frame."""
    noise = np.random.default_rng(seed).random((HEIGHT + 40, WIDTH + 40, 3)).astype(np.float32)
    smooth = cv2.GaussianBlur(noise, (0, 0), 4)
    low, high = smooth.min(), smooth.max()
    return np.asarray(200 * (smooth - low) / (high - low) + 20, np.float32)


def moving(shifts: np.ndarray, exposure: np.ndarray | None = None) -> np.ndarray:
    """(n, h, w, 3) the texture shifted by ``shifts`` (n, 2) pixels, x and y."""
    frames = []
    for n, (x, y) in enumerate(shifts):
        where = np.array([[1, 0, x - 20], [0, 1, y - 20]], np.float64)
        frame = cv2.warpAffine(picture(), where, (WIDTH, HEIGHT))
        frames.append(frame + (0 if exposure is None else exposure[n]))
    return np.clip(np.round(frames), 0, 255).astype(np.uint8)


STILL = np.zeros((9, 3), np.float32)
PATH = np.array([[0, 0], [0, 0], [0.5, 0], [1, 0], [1.6, 0.8], [1.6, 0.8], [1, 0], [1, 0], [1, 1]])
STEPS = np.linalg.norm(np.diff(PATH, axis=0, prepend=PATH[:1]), axis=1)


def test_it_is_the_distance_in_picture_widths() -> None:
    found = region_motion(moving(PATH), STILL, BOX)
    assert found.dtype == np.float32
    assert found[0] == 0
    larger = 1 + LEAST_GRADIENT  # the gradient is, and the motion smaller
    assert larger * WIDTH * found == pytest.approx(STEPS, abs=0.12)


def test_light_is_no_motion() -> None:
    exposure = np.repeat(8 * np.sin(np.arange(9))[:, None], 3, axis=1).astype(np.float32)
    still = moving(np.zeros((9, 2)), exposure)
    assert WIDTH * region_motion(still, exposure, BOX).max() < 0.05
    assert WIDTH * region_motion(still, STILL, BOX).max() > 0.1


def test_motion_outside_of_the_region_does_not_count() -> None:
    frames = np.repeat(moving(PATH[:1]), 9, axis=0)
    frames[:, :10] = moving(3 * PATH)[:, :10]
    assert region_motion(frames, STILL, BOX).max() < 1e-6
    assert region_motion(frames, STILL, np.ones_like(BOX)).max() > 0


def test_a_plain_surface_in_front_shows_no_motion() -> None:
    frames = moving(PATH)
    frames[4:, 10:50, 10:70] = (120, 140, 130)
    rng = np.random.default_rng(0)
    frames[4:] = np.clip(frames[4:] + rng.integers(-1, 2, frames[4:].shape), 0, 255)
    assert WIDTH * region_motion(frames, STILL, BOX)[5:].max() < 0.05


@pytest.mark.parametrize("weights", [np.zeros_like(BOX), np.zeros((1, 1), np.float32)])
def test_without_a_region_there_is_no_motion(weights: np.ndarray) -> None:
    frames = moving(PATH)[:, : weights.shape[0], : weights.shape[1]]
    assert region_motion(frames, STILL, weights).tolist() == [0.0] * 9

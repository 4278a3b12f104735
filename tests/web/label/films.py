"""A film of a textured square that moves over a textured background."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.video.videos import write_video

WIDTH, HEIGHT, FPS, SIDE = 160, 120, 10, 40


def box_at(time: float) -> npt.NDArray[np.float64]:
    """Where the square is: it moves by eight pixels a second."""
    x, y = 10 + 8 * time, 40.0
    return np.array([[x, y, x + SIDE, y + SIDE]])


def write_moving_square(path: Path, seconds: float = 8.0, cut: float = np.inf) -> Path:
    """From ``cut`` (seconds) on, another picture."""
    rng = np.random.default_rng(0)
    background = rng.integers(60, 120, (HEIGHT // 4, WIDTH // 4, 3)).astype(np.uint8)
    square = rng.integers(0, 255, (SIDE // 4, SIDE // 4, 3)).astype(np.uint8)
    other = rng.integers(0, 255, (HEIGHT // 4, WIDTH // 4, 3)).astype(np.uint8)
    background, square, other = (
        picture.repeat(4, axis=0).repeat(4, axis=1) for picture in (background, square, other)
    )
    images = []
    for number in range(round(seconds * FPS)):
        time = number / FPS
        image = (other if time >= cut else background).copy()
        if time < cut:
            x1, y1, x2, y2 = (round(v) for v in box_at(time)[0].tolist())
            image[y1:y2, x1:x2] = square
        images.append(image)
    return write_video(path, images, fps=FPS, options={"crf": "5"})

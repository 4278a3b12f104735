"""Short films in which a thing changes at a known time, while a hand passes."""

from __future__ import annotations

import cv2
import numpy as np

from tests.features.scenes import SIZE, affine, texture

FPS = 25
THING = (130, 90, 190, 140)  # x1, y1, x2, y2


def film(
    *,
    seconds: float = 4.0,
    change: float | None = 2.0,
    sway: float = 0.0,
    flicker: float = 0.0,
    hand: tuple[float, float] | None = None,
    seed: int = 1,
) -> list[np.ndarray]:
    """RGB frames of a textured wall with a box that changes its colour.

    change : seconds; None for never. ``sway`` : amplitude of the camera's motion, in pixels.
    flicker : amplitude of the exposure. ``hand`` : when a hand comes in and covers the box, and
    when it leaves.
    """
    margin = 100
    wall = cv2.cvtColor(texture(seed, margin), cv2.COLOR_GRAY2RGB)
    frames = []
    for t in np.arange(round(seconds * FPS)) / FPS:
        scene = wall.copy()
        x1, y1, x2, y2 = (v + margin for v in THING)
        after = change is not None and t >= change
        scene[y1:y2, x1:x2] = (220, 60, 40) if after else (40, 60, 220)
        if hand is not None and hand[0] <= t < hand[1]:
            scene[y1 - 20 : y2 + 20, x1 - 20 : SIZE[0] + 2 * margin] = (200, 170, 140)
        moved = affine(sway * np.sin(2 * t), sway * np.cos(1.7 * t))
        moved[:, 2] -= moved[:, :2] @ [margin, margin]
        frame = cv2.warpAffine(scene, moved, SIZE).astype(np.float64)
        frames.append(np.clip(frame + flicker * np.sin(3 * t), 0, 255).astype(np.uint8))
    return frames

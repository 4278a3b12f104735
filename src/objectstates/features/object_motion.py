"""Motion centred on the object: how much of it moves, and in which direction.

The flow without the camera's motion is summarised in 3 x 3 cells of every box, slightly enlarged,
in units of box sizes per second, so that neither zoom nor frame rate matters.

What distinguishes a manipulation from a hand passing by is the fraction of the object that moves,
far more than its speed: reaching is fast, and manipulating slow. So a pixel counts by a speed that
saturates, v^2 / (v^2 + c^2), and the nine values of a cell are the fraction of it that moves, and
that fraction by direction. They are absolute amounts in 0..1: do not scale rows to unit length.
On simulated clips, neither mean speed, divergence nor curl added to these.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base import geometry
from objectstates.base.choices import BOX_CONTEXT
from objectstates.base.errors import SettingError
from objectstates.base.jit import compiled
from objectstates.features.flow import FlowStep

Floats = npt.NDArray[np.float64]
Floats16 = npt.NDArray[np.float16]
Floats32 = npt.NDArray[np.float32]

CELLS = 3  # across the enlarged box, in x and in y
ORIENTATIONS = 8  # direction b is centred on b * 45 degrees, from x towards y (downwards)
CELL_DIM = 1 + ORIENTATIONS
OBJECT_MOTION_DIM = CELLS * CELLS * CELL_DIM + 1  # row, column, (moving, by direction); no box
HALF_SPEED = 0.1  # box sizes per second at which a pixel counts half
TYPICAL_OBJECT = 0.3  # size of an object relative to the frame, where there is no box
STRIDE = 4  # working pixels per cell of the coarse grid


@dataclass(frozen=True, slots=True)
class MotionField:
    """Summary of a flow step, kept until the boxes are known: 19 kB for a 320 x 240 frame.

    velocity : (h, w, 2) on a coarse grid, without the camera's, in source pixels per second.
    size : width and height of the source frame in pixels.
    """

    start: float
    end: float
    size: tuple[float, float]
    velocity: Floats16

    @property
    def time(self) -> float:
        return (self.start + self.end) / 2


def motion_field(step: FlowStep) -> MotionField:
    """The step's motion on the coarse grid."""
    height, width, _ = step.motion.shape
    grid = (max(1, round(width / STRIDE)), max(1, round(height / STRIDE)))
    coarse = np.asarray(cv2.resize(step.motion, grid, interpolation=cv2.INTER_AREA))
    velocity = coarse / (np.array(step.scale) * step.seconds)
    limit = float(np.finfo(np.float16).max)
    return MotionField(
        start=step.start,
        end=step.end,
        size=(width / step.scale[0], height / step.scale[1]),
        velocity=np.clip(velocity, -limit, limit).astype(np.float16),
    )


def object_motion(
    field: MotionField,
    boxes: npt.ArrayLike,
    scores: npt.ArrayLike | None = None,
    *,
    context: float = BOX_CONTEXT,
) -> Floats32:
    """Describe the motion in and around the boxes at one time, (82,).

    Several boxes are averaged, weighted by their scores. Without any box (of positive score and
    size) the whole frame is taken as one, and the last entry is 1 instead of 0.

    boxes : (B, 4) x1, y1, x2, y2 in source pixels.
    scores : (B,) not negative; by default all equal.
    """
    corners = np.asarray(boxes, np.float64).reshape(-1, 4)
    weights = np.ones(len(corners)) if scores is None else np.asarray(scores, np.float64)
    if weights.shape != (len(corners),) or (weights < 0).any():
        raise SettingError(f"{len(corners)} boxes need as many scores, none negative: {weights}")
    usable = (weights > 0) & (geometry.areas(corners) > 0)
    corners, weights = corners[usable], weights[usable]
    sizes = np.sqrt(geometry.areas(corners))
    descriptor = np.zeros(OBJECT_MOTION_DIM, np.float32)
    if len(corners) == 0:
        width, height = field.size
        corners, weights = np.array([[0, 0, width, height]]), np.ones(1)
        sizes = TYPICAL_OBJECT * np.sqrt([width * height])
        context = 1.0
        descriptor[-1] = 1
    rows, columns, _ = field.velocity.shape
    pixel = np.array([field.size[0] / columns, field.size[1] / rows])
    velocity = field.velocity.astype(np.float32)
    for corner, size, weight in zip(corners, sizes, weights / weights.sum(), strict=True):
        window = geometry.enlarge(corner, context) / np.tile(pixel, 2)
        descriptor[:-1] += weight * _cells(velocity, window, HALF_SPEED * size)
    return descriptor


@compiled
def _overlap(low: float, high: float, k: int) -> float:
    """How much of pixel k, which spans [k, k + 1), lies in [low, high)."""
    return max(0.0, min(high, k + 1.0) - max(low, float(k)))


@compiled
def _cells(velocity: Floats32, window: Floats, half_speed: float) -> Floats:
    """Moving fractions of each cell of ``window`` (x1, y1, x2, y2 in grid pixels).

    Outside the frame nothing moves.
    """
    height, width, _ = velocity.shape
    across, down = (window[2] - window[0]) / CELLS, (window[3] - window[1]) / CELLS
    moved = np.zeros((CELLS, CELLS, CELL_DIM))
    for row in range(CELLS):
        top, bottom = window[1] + row * down, window[1] + (row + 1) * down
        for column in range(CELLS):
            left, right = window[0] + column * across, window[0] + (column + 1) * across
            for y in range(max(0, int(np.floor(top))), min(height, int(np.ceil(bottom)))):
                for x in range(max(0, int(np.floor(left))), min(width, int(np.ceil(right)))):
                    u, v = float(velocity[y, x, 0]), float(velocity[y, x, 1])
                    square = u * u + v * v
                    moving = square / (square + half_speed * half_speed)
                    moving *= _overlap(top, bottom, y) * _overlap(left, right, x) / (across * down)
                    place = (np.arctan2(v, u) / (2 * np.pi) % 1.0) * ORIENTATIONS
                    low = int(place)
                    moved[row, column, 0] += moving
                    moved[row, column, 1 + low % ORIENTATIONS] += moving * (1 - place + low)
                    moved[row, column, 1 + (low + 1) % ORIENTATIONS] += moving * (place - low)
    return moved.ravel()

"""Histograms of optical flow (HOF) along dense trajectories.

Wang & Schmid, Action recognition with improved trajectories, ICCV 2013, at one spatial scale:
points on a dense grid are tracked through the median-filtered flow for 15 frames; static and
erratic ones are dropped; the flow without the camera's motion is summarised in a 32 x 32 pixel
patch around the point, in 2 x 2 x 3 cells of 9 bins.

Two things differ. Whether a trajectory is static is decided on its path without the camera's
motion, so an object that the camera follows is kept. And histograms are summed frame by frame, so
a live trajectory holds one descriptor, not one per frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.errors import SettingError
from objectstates.base.jit import compiled
from objectstates.features.flow import FlowStep

Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

ORIENTATIONS = 8  # bin b is centred on the direction b * 45 degrees, from x towards y (downwards)
ZERO_BIN = ORIENTATIONS  # the last bin counts the pixels that hardly move
BINS = ORIENTATIONS + 1
CELLS_ACROSS = 2  # of the patch, in x and in y
CELLS_ALONG = 3  # of the trajectory, in time
FRAME_DIM = CELLS_ACROSS * CELLS_ACROSS * BINS
HOF_DIM = CELLS_ALONG * FRAME_DIM  # 108: time cell, row, column, bin
ZERO_MOTION = 0.4  # pixels per frame
MIN_TEXTURE = 1e-3  # of the frame's best corner; no trajectory starts below
MIN_SPREAD = 3.0**0.5  # pixels, standard deviation in x or y; static below in both
MAX_SPREAD = 50.0  # pixels; erratic beyond
MAX_JUMP, MAX_JUMP_FRACTION = 20.0, 0.7  # pixels, and of the path, in one frame: a flow error


@dataclass(frozen=True, slots=True)
class Trajectories:
    """n trajectories over the same frames, from ``start`` to ``end`` (seconds).

    positions : (n, 2) mean x, y, in pixels of the source frames.
    hof : (n, 108) unit vectors, laid out as time cell, row, column, bin.
    """

    start: float
    end: float
    positions: Floats32
    hof: Floats32

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def time(self) -> float:
        """The middle of the interval."""
        return (self.start + self.end) / 2


class DenseTrajectories:
    """From flow steps, one at a time, to the trajectories that end with each.

    Memory is bounded by the frame size: at most ``length`` points per grid square are alive.

    length : frames of a trajectory; 15 at 25 frames a second.
    step : pixels between the grid points where trajectories start.
    patch : side in pixels of the patch described.
    """

    def __init__(self, *, length: int = 15, step: int = 5, patch: int = 32) -> None:
        for name, value, least in (
            ("length", length, CELLS_ALONG),
            ("step", step, 1),
            ("patch", patch, CELLS_ACROSS),
        ):
            if value < least:
                raise SettingError(f"`{name}` is {value}; it must be at least {least}")
        self.length, self.step, self.patch = length, step, patch
        self.reset()

    def reset(self) -> None:
        """Drop all live trajectories: the next step belongs to a new shot."""
        self._starts: list[float] = []
        self._end = -np.inf
        self.ages = np.zeros(0, np.int64)
        # Positions so far, the newest at `ages`; displacements without the camera's; histograms
        # summed per time cell.
        self.paths = np.zeros((0, self.length + 1, 2), np.float32)
        self.shifts = np.zeros((0, self.length, 2), np.float32)
        self.sums = np.zeros((0, CELLS_ALONG, FRAME_DIM), np.float32)
        self._integral = np.zeros((0, 0, BINS), np.float32)

    def update(self, step: FlowStep) -> Trajectories:
        """Track every point through the step; a gap in time before it begins a new shot."""
        if self._starts and abs(step.start - self._end) > 1e-6:
            self.reset()
        self._starts = [*self._starts[1 - self.length :], step.start]
        self._end = step.end
        self._start_new(step.texture)
        height, width = step.texture.shape
        if self._integral.shape[:2] != (height + 1, width + 1):
            self._integral = np.zeros((height + 1, width + 1, BINS), np.float32)
        flow = np.asarray(cv2.medianBlur(step.flow, 5), np.float32)
        motion = np.asarray(step.motion, np.float32)
        magnitude, angle = cv2.cartToPolar(motion[..., 0], motion[..., 1])
        _integrate(np.asarray(magnitude, np.float32), np.asarray(angle, np.float32), self._integral)
        alive = _advance(
            flow, motion, self._integral, self.patch, self.ages, self.paths, self.shifts, self.sums
        )
        finished = alive & (self.ages == self.length)
        kept = finished.copy()
        kept[finished] = _moves(self.shifts[finished])
        positions = (self.paths[kept].mean(axis=1) / np.array(step.scale)).astype(np.float32)
        hof = _normalised(self.sums[kept])
        self._keep(alive & ~finished)
        return Trajectories(self._starts[0], step.end, positions, hof)

    def _start_new(self, texture: Floats32) -> None:
        """Start a point in the centre of every textured grid square without a live one."""
        height, width = texture.shape
        rows, columns = height // self.step, width // self.step
        if rows == 0 or columns == 0:
            return
        y = np.arange(rows) * self.step + self.step // 2
        x = np.arange(columns) * self.step + self.step // 2
        wanted = texture[np.ix_(y, x)] > MIN_TEXTURE * texture.max()
        here = self.paths[np.arange(len(self.ages)), self.ages]
        row, column = (here[:, ::-1] // self.step).astype(np.int64).T
        inside = (row < rows) & (column < columns)
        wanted[row[inside], column[inside]] = False
        row, column = np.nonzero(wanted)
        n = len(row)
        paths = np.zeros((n, self.length + 1, 2), np.float32)
        paths[:, 0, 0], paths[:, 0, 1] = x[column], y[row]
        self.ages = np.concatenate([self.ages, np.zeros(n, np.int64)])
        self.paths = np.concatenate([self.paths, paths])
        self.shifts = np.concatenate([self.shifts, np.zeros((n, self.length, 2), np.float32)])
        self.sums = np.concatenate([self.sums, np.zeros((n, CELLS_ALONG, FRAME_DIM), np.float32)])

    def _keep(self, kept: npt.NDArray[np.bool_]) -> None:
        self.ages, self.paths = self.ages[kept], self.paths[kept]
        self.shifts, self.sums = self.shifts[kept], self.sums[kept]


def _moves(shifts: Floats32) -> npt.NDArray[np.bool_]:
    """Which paths (n, length, 2) of displacements are neither static nor erratic, (n,)."""
    path = np.cumsum(shifts, axis=1)
    spread = np.sqrt(((path - path.mean(axis=1, keepdims=True)) ** 2).mean(axis=1)).max(axis=1)
    lengths = np.sqrt((shifts**2).sum(axis=2))
    jump = lengths.max(axis=1, initial=0)
    slipped = (jump > MAX_JUMP) & (jump > MAX_JUMP_FRACTION * lengths.sum(axis=1))
    return np.asarray((spread >= MIN_SPREAD) & (spread <= MAX_SPREAD) & ~slipped)


def _normalised(sums: Floats32) -> Floats32:
    flat = sums.reshape(len(sums), HOF_DIM)
    norms = np.sqrt((flat**2).sum(axis=1, keepdims=True))
    return np.asarray(flat / np.maximum(norms, 1e-12), np.float32)


@compiled
def _integrate(magnitude: Floats32, angle: Floats32, integral: Floats32) -> None:
    """Sum the flow's histogram over the rectangle up to each pixel: (h + 1, w + 1, 9) in place.

    A moving pixel adds its speed to the two nearest directions, by linear interpolation; any other
    adds 1 to the zero bin.
    """
    height, width = magnitude.shape
    row = np.zeros(BINS, np.float32)
    per_radian = np.float32(ORIENTATIONS / (2 * np.pi))
    for y in range(height):
        row[:] = 0
        for x in range(width):
            speed = magnitude[y, x]
            if speed <= ZERO_MOTION:
                row[ZERO_BIN] += np.float32(1)
            else:
                place = angle[y, x] * per_radian
                low = int(place)
                part = place - np.float32(low)
                row[low % ORIENTATIONS] += speed * (np.float32(1) - part)
                row[(low + 1) % ORIENTATIONS] += speed * part
            for b in range(BINS):
                integral[y + 1, x + 1, b] = integral[y, x + 1, b] + row[b]


@compiled
def _advance(
    flow: Floats32,
    motion: Floats32,
    integral: Floats32,
    patch: int,
    ages: Ints,
    paths: Floats32,
    shifts: Floats32,
    sums: Floats32,
) -> npt.NDArray[np.bool_]:
    """Add the histogram at every point, move the point; (n,) whether it is still in the frame."""
    height, width, _ = flow.shape
    length = shifts.shape[1]
    across, down = min(patch, width) // CELLS_ACROSS, min(patch, height) // CELLS_ACROSS
    histogram = np.zeros(FRAME_DIM, np.float32)
    alive = np.zeros(len(ages), np.bool_)
    for i in range(len(ages)):
        age = ages[i]
        x, y = paths[i, age, 0], paths[i, age, 1]
        column, row = min(int(x + 0.5), width - 1), min(int(y + 0.5), height - 1)
        left = max(min(column - across * CELLS_ACROSS // 2, width - across * CELLS_ACROSS), 0)
        top = max(min(row - down * CELLS_ACROSS // 2, height - down * CELLS_ACROSS), 0)
        total = np.float32(0)
        k = 0
        for cy in range(CELLS_ACROSS):
            y0, y1 = top + cy * down, top + (cy + 1) * down
            for cx in range(CELLS_ACROSS):
                x0, x1 = left + cx * across, left + (cx + 1) * across
                for b in range(BINS):
                    inside = integral[y1, x1, b] - integral[y0, x1, b]
                    inside -= integral[y1, x0, b] - integral[y0, x0, b]
                    histogram[k] = max(inside, np.float32(0))
                    total += histogram[k]
                    k += 1
        # Square roots of frequencies (RootSIFT): unit length, and fast pixels weigh less.
        if total > 0:
            cell = age * CELLS_ALONG // length
            for k in range(FRAME_DIM):
                sums[i, cell, k] += np.sqrt(histogram[k] / total)
        shifts[i, age] = motion[row, column]
        x += flow[row, column, 0]
        y += flow[row, column, 1]
        ages[i] = age + 1
        paths[i, age + 1, 0], paths[i, age + 1, 1] = x, y
        alive[i] = 0 <= x < width and 0 <= y < height
    return alive

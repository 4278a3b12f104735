"""Histograms of optical flow (HOF) along improved dense trajectories.

Wang & Schmid, Action recognition with improved trajectories, ICCV 2013, after their program: at
each of several spatial scales, points on a grid of 5 pixels are followed through the flow for 15
frames. A path is dropped if it is static (standard deviation below the root of 3 pixels in x and
in y) or erratic (above 50 pixels, or most of it in one jump), or if it moves by no more than a
pixel per frame without the camera's motion. The flow without the camera's motion is summarised in a
patch of 32 x 32 pixels around the point, in 2 x 2 x 3 cells of 9 bins. All lengths are in pixels of
the frame.

What differs from their program:

* the flow and the camera's motion: see ``pyramid_flow.py``;
* frames have at most 25 a second and a longer side of at most ``max_side`` pixels (``ingest``), so
  that a trajectory lasts 0.6 s and a patch covers the same part of the scene in all videos;
* of their four descriptors (trajectory, HOG, HOF, MBH) there is HOF alone, the one the paper uses;
* a frame that is smaller than a patch has cells as large as fit.

Histograms are summed frame by frame, so a live trajectory holds one descriptor, not one per frame;
the result is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.errors import SettingError
from objectstates.base.jit import compiled
from objectstates.features.pyramid_flow import FlowLevel, FlowPyramid

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
MIN_MOTION = 1.0  # pixels per frame without the camera's motion, once at least
SMOOTHING = 0.05  # added to every bin of a frame's histogram

VERSION = 2  # part of cache keys: raise it when the descriptors of the same frames may change


@dataclass(frozen=True, slots=True)
class Trajectories:
    """n trajectories over the same frames, from ``start`` to ``end`` (seconds), of all scales.

    positions : (n, 2) mean x, y, in pixels of the frame.
    hof : (n, 108), laid out as time cell, row, column, bin; the mean over a cell's frames of the
        square roots of the bins' shares.
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
    """From the motion between frames, one step at a time, to the trajectories that end with each.

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
        self._scales: list[_Scale] = []

    @property
    def alive(self) -> int:
        """Number of points that are followed."""
        return sum(len(scale.ages) for scale in self._scales)

    def update(self, step: FlowPyramid) -> Trajectories:
        """Follow every point through the step; a gap in time before it begins a new shot."""
        gap = abs(step.start - self._end) > 1e-6
        if gap or [scale.shape for scale in self._scales] != [_shape(lv) for lv in step.levels]:
            self.reset()
            sizes = (self.length, self.step, self.patch)
            self._scales = [_Scale(*sizes, _shape(level)) for level in step.levels]
        self._starts = [*self._starts[1 - self.length :], step.start]
        self._end = step.end
        finished = [s.update(level) for s, level in zip(self._scales, step.levels, strict=True)]
        positions, hof = (np.concatenate(parts) for parts in zip(*finished, strict=True))
        return Trajectories(self._starts[0], step.end, positions, hof)


def _shape(level: FlowLevel) -> tuple[int, int]:
    height, width = level.texture.shape
    return height, width


class _Scale:
    """The live trajectories of one spatial scale."""

    def __init__(self, length: int, step: int, patch: int, shape: tuple[int, int]) -> None:
        self.length, self.step, self.patch, self.shape = length, step, patch, shape
        self.ages = np.zeros(0, np.int64)
        # Positions so far, the newest at `ages`; displacements without the camera's; histograms
        # summed per time cell.
        self.paths = np.zeros((0, length + 1, 2), np.float32)
        self.shifts = np.zeros((0, length, 2), np.float32)
        self.sums = np.zeros((0, CELLS_ALONG, FRAME_DIM), np.float32)
        self._integral = np.zeros((shape[0] + 1, shape[1] + 1, BINS), np.float32)

    def update(self, level: FlowLevel) -> tuple[Floats32, Floats32]:
        """Mean positions (n, 2) in pixels of the frame, and HOF (n, 108), of those that end."""
        self._start_new(level.texture)
        motion = np.ascontiguousarray(level.motion, np.float32)
        magnitude, angle = cv2.cartToPolar(motion[..., 0], motion[..., 1])
        _integrate(np.asarray(magnitude, np.float32), np.asarray(angle, np.float32), self._integral)
        flow = np.ascontiguousarray(level.flow, np.float32)
        alive = _advance(
            flow, motion, self._integral, self.patch, self.ages, self.paths, self.shifts, self.sums
        )
        finished = alive & (self.ages == self.length)
        kept = finished.copy()
        shifts = self.shifts[finished] * level.factor
        own = np.sqrt((shifts**2).sum(axis=2)).max(axis=1, initial=0) > MIN_MOTION
        kept[finished] = steady(self.paths[finished] * level.factor) & own
        positions = (self.paths[kept].mean(axis=1) * level.factor).astype(np.float32)
        hof = self.sums[kept].reshape(-1, HOF_DIM) * np.float32(CELLS_ALONG / self.length)
        self._keep(alive & ~finished)
        return positions, hof

    def _start_new(self, texture: Floats32) -> None:
        """Start a point in the centre of every textured grid square without a live one."""
        here = self.paths[np.arange(len(self.ages)), self.ages]
        new = grid_points(texture, here, self.step)
        n = len(new)
        paths = np.zeros((n, self.length + 1, 2), np.float32)
        paths[:, 0] = new
        self.ages = np.concatenate([self.ages, np.zeros(n, np.int64)])
        self.paths = np.concatenate([self.paths, paths])
        self.shifts = np.concatenate([self.shifts, np.zeros((n, self.length, 2), np.float32)])
        self.sums = np.concatenate([self.sums, np.zeros((n, CELLS_ALONG, FRAME_DIM), np.float32)])

    def _keep(self, kept: npt.NDArray[np.bool_]) -> None:
        self.ages, self.paths = self.ages[kept], self.paths[kept]
        self.shifts, self.sums = self.shifts[kept], self.sums[kept]


def grid_points(texture: Floats32, live: Floats32, step: int) -> Floats32:
    """(n, 2) x, y of the centres of textured grid squares without a live point.

    live : (m, 2) x, y of the points that are followed. step : pixels, side of a grid square.
    """
    rows, columns = (side // step for side in texture.shape)
    y, x = (np.arange(count) * step + step // 2 for count in (rows, columns))
    wanted = texture[np.ix_(y, x)] > MIN_TEXTURE * texture.max(initial=0)
    column, row = (live // step).astype(np.int64).T
    inside = (row < rows) & (column < columns)
    wanted[row[inside], column[inside]] = False
    row, column = np.nonzero(wanted)
    return np.stack([x[column], y[row]], axis=1).astype(np.float32)


def steady(paths: Floats32) -> npt.NDArray[np.bool_]:
    """(n,) which paths (n, length + 1, 2), in pixels, are neither static nor erratic."""
    spread = paths.std(axis=1)
    lengths = np.sqrt((np.diff(paths, axis=1) ** 2).sum(axis=2))
    jump = lengths.max(axis=1, initial=0)
    slipped = (jump > MAX_JUMP) & (jump > MAX_JUMP_FRACTION * lengths.sum(axis=1))
    moves = (spread >= MIN_SPREAD).any(axis=1) & (spread <= MAX_SPREAD).all(axis=1)
    return np.asarray(moves & ~slipped)


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
                    histogram[k] = max(inside, np.float32(0)) + np.float32(SMOOTHING)
                    total += histogram[k]
                    k += 1
        # Square roots of frequencies (RootSIFT): unit length, and fast pixels weigh less.
        cell = age * CELLS_ALONG // length
        for k in range(FRAME_DIM):
            sums[i, cell, k] += np.sqrt(histogram[k] / total)
        shifts[i, age] = motion[row, column]
        x += flow[row, column, 0]
        y += flow[row, column, 1]
        ages[i] = age + 1
        paths[i, age + 1, 0], paths[i, age + 1, 1] = x, y
        alive[i] = 0 < x < width and 0 < y < height
    return alive

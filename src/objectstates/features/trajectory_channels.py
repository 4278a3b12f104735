"""All channels of dense trajectories: the path itself, HOG, HOF and MBH in x and y.

Wang & Schmid, Action recognition with improved trajectories, ICCV 2013. Points on a grid of 5
pixels are followed through the flow for 15 frames; static and erratic paths are dropped. Around
each point gradients of the image (HOG), the flow without the camera's motion (HOF) and the
gradients of that flow (MBH) are summarised in a patch of 32 x 32 pixels, in 2 x 2 x 3 cells.

What differs: there is one spatial scale, that of ``flow.py``, whose flow and camera motion are
used; and histograms are square roots of frequencies, averaged over the frames of a cell. For the
chunk features of the paper, which need HOF alone, see ``trajectories.py``: it has several scales,
smoothed histograms, and drops paths that are due to the camera alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from objectstates.base.jit import compiled
from objectstates.features.flow import FlowStep
from objectstates.features.trajectories import (
    CELLS_ACROSS,
    CELLS_ALONG,
    ORIENTATIONS,
    ZERO_MOTION,
    grid_points,
    steady,
)

Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

LENGTH = 15  # frames of a trajectory
GRID = 5  # pixels between the points where trajectories start
PATCH = 32  # pixels, side of the patch that is described
BINS = {"hog": ORIENTATIONS, "hof": ORIENTATIONS + 1, "mbhx": ORIENTATIONS, "mbhy": ORIENTATIONS}
"""Bins of the histogram of a cell, by channel; the last one of HOF counts what hardly moves."""

CELLS = CELLS_ACROSS * CELLS_ACROSS * CELLS_ALONG
CHANNELS = {"path": 2 * LENGTH, **{name: CELLS * bins for name, bins in BINS.items()}}
"""Length of the descriptor of each channel: 30, 96, 108, 96 and 96."""


@dataclass(frozen=True)
class ChannelRows:
    """n trajectories that end with a step: their middle (seconds), and descriptors by channel.

    channels : (n, `CHANNELS`) each.
    """

    time: float
    channels: dict[str, Floats32]

    def __len__(self) -> int:
        return len(self.channels["path"])


class TrajectoryChannels:
    """From flow steps and images, one at a time, to the trajectories that end with each.

    At most one point per grid square is started, so memory is bounded by the frame size.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Drop all live trajectories: the next step belongs to a new shot."""
        self._starts: list[float] = []
        self._end = -np.inf
        self._ages = np.zeros(0, np.int64)
        self._paths = np.zeros((0, LENGTH + 1, 2), np.float32)
        self._sums = {
            name: np.zeros((0, CELLS_ALONG, CELLS // CELLS_ALONG, bins), np.float32)
            for name, bins in BINS.items()
        }

    def update(self, step: FlowStep, gray: npt.NDArray[np.uint8]) -> ChannelRows:
        """Follow all points through a step; ``gray`` (H, W) is the frame at its start."""
        if self._starts and abs(step.start - self._end) > 1e-6:
            self.reset()
        self._starts = [*self._starts[1 - LENGTH :], step.start]
        self._end = step.end
        self._start_new(step.texture)
        self._describe(step, gray)
        flow = np.asarray(cv2.medianBlur(step.flow, 5), np.float32)
        height, width = step.texture.shape
        here = self._paths[np.arange(len(self._ages)), self._ages]
        column, row = _pixels(here, width, height)
        there = here + flow[row, column]
        self._ages = self._ages + 1
        self._paths[np.arange(len(self._ages)), self._ages] = there
        alive = ((there >= 0) & (there < [width, height])).all(axis=1)
        done = alive & (self._ages == LENGTH)
        done[done] = steady(self._paths[done])
        found = self._rows(done)
        self._keep(alive & (self._ages < LENGTH))
        return found

    def _start_new(self, texture: Floats32) -> None:
        """Start a point in the centre of every textured grid square without a live one."""
        here = self._paths[np.arange(len(self._ages)), self._ages]
        new = grid_points(texture, here, GRID)
        paths = np.zeros((len(new), LENGTH + 1, 2), np.float32)
        paths[:, 0] = new
        self._ages = np.concatenate([self._ages, np.zeros(len(new), np.int64)])
        self._paths = np.concatenate([self._paths, paths])
        for name, sums in self._sums.items():
            none = np.zeros((len(new), *sums.shape[1:]), np.float32)
            self._sums[name] = np.concatenate([sums, none])

    def _describe(self, step: FlowStep, gray: npt.NDArray[np.uint8]) -> None:
        """Add the histograms around every point to those of its time cell."""
        height, width = step.texture.shape
        here = self._paths[np.arange(len(self._ages)), self._ages]
        column, row = _pixels(here, width, height)
        cell = self._ages * CELLS_ALONG // LENGTH
        for name, integral in _integrals(step, gray).items():
            counts = _cells(integral, row, column)  # (n, cells, bins)
            totals = counts.sum(axis=(1, 2), keepdims=True)
            shares = np.sqrt(counts / np.maximum(totals, 1e-12))
            self._sums[name][np.arange(len(cell)), cell] += shares

    def _rows(self, done: npt.NDArray[np.bool_]) -> ChannelRows:
        steps = np.diff(self._paths[done], axis=1)
        lengths = np.sqrt((steps**2).sum(axis=2)).sum(axis=1)
        shape = steps / np.maximum(lengths, 1e-12)[:, None, None]
        channels = {"path": shape.reshape(-1, 2 * LENGTH).astype(np.float32)}
        per_cell = np.float32(CELLS_ALONG / LENGTH)
        for name, sums in self._sums.items():
            channels[name] = sums[done].reshape(-1, CHANNELS[name]) * per_cell
        return ChannelRows((self._starts[0] + self._end) / 2, channels)

    def _keep(self, kept: npt.NDArray[np.bool_]) -> None:
        self._ages, self._paths = self._ages[kept], self._paths[kept]
        self._sums = {name: sums[kept] for name, sums in self._sums.items()}


def _pixels(points: Floats32, width: int, height: int) -> tuple[Ints, Ints]:
    """Column and row of the pixels nearest to points (n, 2)."""
    column, row = (points + 0.5).astype(np.int64).T
    return np.minimum(column, width - 1), np.minimum(row, height - 1)


def _integrals(step: FlowStep, gray: npt.NDArray[np.uint8]) -> dict[str, Floats32]:
    """(h + 1, w + 1, bins) sums of histograms over the rectangle up to each pixel, by channel."""
    height, width = step.texture.shape
    image = cv2.resize(gray, (width, height), interpolation=cv2.INTER_AREA)
    x, y = (np.ascontiguousarray(step.motion[..., k], np.float32) for k in (0, 1))
    fields = {"hog": _gradient(image), "hof": (x, y), "mbhx": _gradient(x), "mbhy": _gradient(y)}
    integrals = {}
    for name, field in fields.items():
        integrals[name] = np.zeros((height + 1, width + 1, BINS[name]), np.float32)
        _integrate(*field, integrals[name])
    return integrals


def _gradient(values: npt.NDArray[Any]) -> tuple[Floats32, Floats32]:
    values = np.asarray(values, np.float32)
    x, y = (cv2.Sobel(values, cv2.CV_32F, dx, 1 - dx, ksize=1) for dx in (1, 0))
    return np.asarray(x, np.float32), np.asarray(y, np.float32)


@compiled
def _integrate(x: Floats32, y: Floats32, integral: Floats32) -> None:
    """Sum histograms of directions over the rectangle up to each pixel, in place.

    A vector adds its length to the two nearest directions, by linear interpolation. If there is a
    bin more than directions, vectors shorter than `ZERO_MOTION` add 1 to that one.
    """
    height, width = x.shape
    bins = integral.shape[2]
    row = np.zeros(bins, np.float32)
    per_radian = np.float32(ORIENTATIONS / (2 * np.pi))
    for i in range(height):
        row[:] = 0
        for j in range(width):
            length = np.sqrt(x[i, j] * x[i, j] + y[i, j] * y[i, j])
            if bins > ORIENTATIONS and length <= ZERO_MOTION:
                row[ORIENTATIONS] += np.float32(1)
            elif length > 0:
                angle = np.arctan2(y[i, j], x[i, j])
                if angle < 0:
                    angle += np.float32(2 * np.pi)
                place = angle * per_radian
                low = int(place)
                part = place - np.float32(low)
                row[low % ORIENTATIONS] += length * (np.float32(1) - part)
                row[(low + 1) % ORIENTATIONS] += length * part
            for b in range(bins):
                integral[i + 1, j + 1, b] = integral[i, j + 1, b] + row[b]


def _cells(integral: Floats32, row: Ints, column: Ints) -> Floats32:
    """(n, 4, bins) histograms of the cells of the patches around pixels, within the frame."""
    height, width = integral.shape[0] - 1, integral.shape[1] - 1
    down, across = (min(PATCH, side) // CELLS_ACROSS for side in (height, width))
    top = np.clip(row - down * CELLS_ACROSS // 2, 0, height - down * CELLS_ACROSS)
    left = np.clip(column - across * CELLS_ACROSS // 2, 0, width - across * CELLS_ACROSS)
    found = []
    for i in range(CELLS_ACROSS):
        for j in range(CELLS_ACROSS):
            y, x = top + i * down, left + j * across
            inside = integral[y + down, x + across] - integral[y, x + across]
            found.append(np.maximum(inside - integral[y + down, x] + integral[y, x], 0))
    return np.stack(found, axis=1)

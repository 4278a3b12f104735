"""One side of a shard's clips: factor rows and blocks of A in files, read a few clips at a time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import StorageError
from objectstates.base.jit import compiled_exactly
from objectstates.solver.block_steps import STEPS_PER_BLOCK, reweigh, with_capacity
from objectstates.solver.cost import normaliser
from objectstates.solver.oracle import Constraints, Floats, Ints, Labels
from objectstates.solver.problem import (
    Iterate,
    Side,
    block_offsets,
    classes_of,
    dot,
    merge_alike,
    missing_states,
    one_hot,
)
from objectstates.solver.scale.moments import FeatureRows, Whitening

SINGLE_FROM = 4  # float32 factor rows from this many rows per feature on (docs/scale.md)


class RowFile:
    """A matrix on disk, written from top to bottom and read anywhere."""

    def __init__(self, path: Path, width: int, dtype: npt.DTypeLike) -> None:
        self.path, self.width, self.dtype = path, width, np.dtype(dtype)
        self._file = path.open("w+b", buffering=0)

    def append(self, rows: npt.NDArray[Any]) -> None:
        left = memoryview(np.ascontiguousarray(rows, self.dtype).ravel().view(np.uint8).data)
        try:
            while left:  # a full disk, or more than two gigabytes, are written in part
                left = left[self._file.write(left) :]
        except OSError as problem:
            raise StorageError(
                f"`scratch`: no room for factor rows in {self.path.parent.parent} "
                f"({problem.strerror}): free some space, or choose another folder"
            ) from problem

    def read(self, lo: int, hi: int, buffer: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The rows lo to hi, in the memory of ``buffer``."""
        rows = buffer[: hi - lo]
        left = memoryview(rows.data).cast("B") if rows.size else memoryview(b"")
        self._file.seek(lo * self.width * self.dtype.itemsize)
        while left:
            count = self._file.readinto(left)
            if not count:
                raise OSError(f"{self.path} is shorter than it was written")
            left = left[count:]
        return rows

    def close(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


class ShardSide:
    """One side of a shard's clips; ``classes`` (K,) as in ``problem.Side``."""

    def __init__(
        self, constraints: Constraints, features: FeatureRows, classes: Ints | None = None
    ) -> None:
        self.constraints, self.features = constraints, features
        self.classes = classes_of(constraints.n_states, classes)
        self.block_offsets = block_offsets(constraints)
        self._files: list[RowFile] = []
        self.n_states, self.n_classes = constraints.n_states, int(self.classes.max()) + 1
        self.width = 1 + features.shape[1]  # of factor rows; final once prepared
        self.labels = np.zeros(constraints.linear.shape)
        self.missing = np.zeros((constraints.n_clips, constraints.n_states))

    def prepare(
        self, name: str, whitening: Whitening, folder: Path, batches: list[tuple[int, int]]
    ) -> None:
        """Write the factor rows and the blocks of A, one batch after another."""
        self._normaliser = float(normaliser(whitening.n_rows))
        self.width = 1 + whitening.n_kept
        single = whitening.n_rows >= SINGLE_FROM * whitening.n_kept
        self.rows = RowFile(folder / f"{name}.rows", self.width, "f4" if single else "f8")
        self.blocks = RowFile(folder / f"{name}.blocks", 1, "f8")
        self._files = [self.rows, self.blocks]
        offsets = self.constraints.offsets
        for first, last in batches if whitening.n_rows else ():
            features = self.features.read(int(offsets[first]), int(offsets[last]))
            rows = whitening.factor(features).astype(self.rows.dtype)
            self.rows.append(rows)
            for lo, hi in pairwise(offsets[first : last + 1] - offsets[first]):
                wide = rows[lo:hi].astype(np.float64)
                self.blocks.append((np.eye(hi - lo) - wide @ wide.T).ravel())

    def start(self, labels: Labels) -> None:
        """Go to one labelling, (M,)."""
        n_clips = self.constraints.n_clips
        self.labels = one_hot(labels, self.n_states)
        self.vertices = labels[:, None].astype(np.int8)
        self.weights, self.counts = np.ones((n_clips, 1)), np.ones(n_clips, np.int64)
        self.missing = missing_states(self.constraints, labels)

    def buffers(self, batches: list[tuple[int, int]]) -> tuple[npt.NDArray[Any], Floats]:
        """Memory for the rows and the blocks of any one batch."""
        rows = max(int(np.ptp(self.constraints.offsets[[a, b]])) for a, b in batches)
        blocks = max(int(np.ptp(self.block_offsets[[a, b]])) for a, b in batches)
        return np.empty((rows, self.width), self.rows.dtype), np.empty(blocks)

    def side(self, first: int, last: int, buffers: tuple[npt.NDArray[Any], Floats]) -> Side:
        """The clips first to last as a problem's side, read into ``buffers``."""
        rows, starts = self.span(first, last), self.block_offsets
        return Side(
            self.constraints.clips(first, last),
            self.rows.read(rows.start, rows.stop, buffers[0]),
            False,
            self.blocks.read(int(starts[first]), int(starts[last]), buffers[1]),
            starts[first : last + 1] - starts[first],
            self._normaliser,
            self.classes,
        )

    def span(self, first: int, last: int) -> slice:
        return slice(int(self.constraints.offsets[first]), int(self.constraints.offsets[last]))

    def iterate(self, first: int, last: int, side: Side, factor_sums: Floats) -> Iterate:
        """The current point of the clips first to last, as views: steps on it change this side."""
        rows, clips = self.span(first, last), slice(first, last)
        clip_sums = np.zeros((last - first, self.n_classes, self.width))
        labels = self.labels[rows]
        _add_clip_sums(side.rows, self.merged(labels), side.constraints.offsets, clip_sums)
        return Iterate(
            labels,
            clip_sums,
            factor_sums,
            self.vertices[rows],
            self.weights[clips],
            self.counts[clips],
            self.missing[clips],
        )

    def merged(self, labels: Floats) -> Floats:
        """(M, K) labels as (M, C)."""
        return merge_alike(labels, self.classes)

    def one_hot(self, labels: Labels) -> Floats:
        """Integer labels (M,) as (M, C)."""
        return self.merged(one_hot(labels, self.n_states))

    def zero_sums(self) -> Floats:
        """F'Y of no labels, (C, 1 + r)."""
        return np.zeros((self.n_classes, self.width))

    @property
    def point(self) -> Iterate:
        """The current point of all clips, without sums of factor rows."""
        sums = np.empty((0, 0, 0)), np.empty((0, 0))
        return Iterate(self.labels, *sums, self.vertices, self.weights, self.counts, self.missing)

    @point.setter
    def point(self, at: Iterate) -> None:
        self.labels, self.vertices, self.weights = at.labels, at.vertices, at.weights
        self.counts, self.missing = at.counts, at.missing

    def reserve_vertices(self, more: int = STEPS_PER_BLOCK) -> None:
        """Capacity for further vertices in each clip's combination; by default those of a pass."""
        self.point = with_capacity(self.point, more)

    def scale_step(self, earlier: Iterate, step_size: float) -> None:
        """Go from the earlier point only ``step_size`` of the step to the current one."""
        if step_size == 0.0:
            self.point = earlier
            return
        self.labels = earlier.labels + step_size * (self.labels - earlier.labels)
        self.missing = earlier.missing + step_size * (self.missing - earlier.missing)
        self.reserve_vertices(int(earlier.counts.max(initial=0)))
        blend(self.constraints.offsets, step_size, self.point, earlier)

    def close(self) -> None:
        for file in self._files:
            file.close()


def scores(rows: npt.NDArray[Any], factor_sums: Floats) -> Floats:
    """F (F'Y), (M, C), in float64 sums."""
    found = np.empty((len(rows), len(factor_sums)))
    _multiply(rows, factor_sums, found)
    return found


def add_factor_sums(rows: npt.NDArray[Any], labels: Floats, factor_sums: Floats) -> None:
    """Add F'Y of some rows, labels (M, C), to ``factor_sums`` (C, r)."""
    _add_clip_sums(rows, labels, np.array([0, len(labels)]), factor_sums[None])


@compiled_exactly
def _multiply(rows: Any, factor_sums: Floats, found: Floats) -> None:
    for i in range(len(rows)):
        for k in range(len(factor_sums)):
            found[i, k] = dot(rows[i], factor_sums[k])


@compiled_exactly
def _add_clip_sums(rows: Any, labels: Floats, offsets: Ints, clip_sums: Floats) -> None:
    """Add to ``clip_sums`` (N, C, r) per clip the sum of label times factor row."""
    for n in range(len(offsets) - 1):
        for i in range(offsets[n], offsets[n + 1]):
            for k in range(labels.shape[1]):
                weight = labels[i, k]
                if weight != 0.0:
                    for r in range(rows.shape[1]):
                        clip_sums[n, k, r] += weight * rows[i, r]


@compiled_exactly
def blend(offsets: Ints, step_size: float, at: Iterate, earlier: Iterate) -> None:
    """Mix each clip's combination with the earlier one: weights step_size and 1 - step_size."""
    for n in range(len(offsets) - 1):
        lo, hi = offsets[n], offsets[n + 1]
        for q in range(at.counts[n]):
            at.weights[n, q] *= step_size
        for e in range(earlier.counts[n]):
            weight = (1.0 - step_size) * earlier.weights[n, e]
            vertex = earlier.vertices[lo:hi, e].copy()
            at.counts[n] = reweigh(
                at.vertices[lo:hi], at.weights[n], at.counts[n], 1.0, -1, vertex, weight
            )

"""One side of a shard's clips: factor rows and blocks of A on disk, read a few clips at a time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import StorageError
from objectstates.base.jit import compiled_exactly
from objectstates.solver.block_steps import STEPS_PER_VISIT, with_room
from objectstates.solver.oracle import Constraints, Floats, Ints, Labels
from objectstates.solver.problem import Iterate, Side, dot, one_hot
from objectstates.solver.scale.moments import FeatureRows, Whitening

SINGLE_FROM = 4  # factor rows are kept in float32 from this many rows per feature on


class RowFile:
    """A matrix on disk, written from top to bottom and read anywhere."""

    def __init__(self, path: Path, width: int, dtype: npt.DTypeLike) -> None:
        self.path, self.width, self.dtype = path, width, np.dtype(dtype)
        self._file = path.open("w+b", buffering=0)

    def append(self, rows: npt.NDArray[Any]) -> None:
        left = memoryview(np.ascontiguousarray(rows, self.dtype).ravel().view(np.uint8).data)
        try:
            while len(left):  # a disk that fills up, or two gigabytes, are written in part
                left = left[self._file.write(left) :]
        except OSError as problem:
            raise StorageError(
                f"there is no room for factors in {self.path.parent.parent} ({problem.strerror}): "
                "make some, or choose another folder with --scratch"
            ) from problem

    def read(self, lo: int, hi: int, room: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The rows lo to hi, in the memory of ``room``."""
        rows = room[: hi - lo]
        left = memoryview(rows.data).cast("B") if rows.size else memoryview(b"")
        self._file.seek(lo * self.width * self.dtype.itemsize)
        while len(left):
            count = self._file.readinto(left)
            if not count:
                raise OSError(f"{self.path} is shorter than it was written")
            left = left[count:]
        return rows

    def close(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


class ShardSide:
    """One side of a shard's clips."""

    def __init__(self, constraints: Constraints, features: FeatureRows) -> None:
        self.constraints, self.features = constraints, features
        sizes = np.diff(constraints.offsets) ** 2
        self.block_offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.n_rows = 0
        self._files: list[RowFile] = []
        self.n_states = constraints.linear.shape[1]
        self.width = 1 + features.shape[1]  # of factor rows; known once prepared
        self.labels = np.zeros(constraints.linear.shape)

    def prepare(
        self, name: str, whitening: Whitening, folder: Path, batches: list[tuple[int, int]]
    ) -> None:
        """Write the factor rows and the blocks of A, one batch after another."""
        self.n_rows = whitening.n_rows
        self.width = 1 + whitening.n_kept
        single = whitening.n_rows >= SINGLE_FROM * whitening.n_kept
        self.rows = RowFile(folder / f"{name}.rows", self.width, "f4" if single else "f8")
        self.blocks = RowFile(folder / f"{name}.blocks", 1, "f8")
        self._files = [self.rows, self.blocks]
        offsets = self.constraints.offsets
        for first, last in batches if self.n_rows else ():
            features = self.features.read(int(offsets[first]), int(offsets[last]))
            rows = whitening.factor(features).astype(self.rows.dtype)
            self.rows.append(rows)
            for lo, hi in pairwise(offsets[first : last + 1] - offsets[first]):
                wide = rows[lo:hi].astype(np.float64)
                self.blocks.append((np.eye(hi - lo) - wide @ wide.T).ravel())

    def start(self, labels: Labels) -> None:
        """Stand at one labelling."""
        n_clips = self.constraints.n_clips
        self.labels = one_hot(labels, self.n_states)
        self.vertices = labels[:, None].astype(np.int8)
        self.weights, self.counts = np.ones((n_clips, 1)), np.ones(n_clips, np.int64)

    def room(self, batches: list[tuple[int, int]]) -> tuple[npt.NDArray[Any], Floats]:
        """Memory for any one batch."""
        rows = max(int(np.ptp(self.constraints.offsets[[a, b]])) for a, b in batches)
        blocks = max(int(np.ptp(self.block_offsets[[a, b]])) for a, b in batches)
        return np.empty((rows, self.width), self.rows.dtype), np.empty(blocks)

    def side(self, first: int, last: int, room: tuple[npt.NDArray[Any], Floats]) -> Side:
        """The clips first to last as a problem's side, read into ``room``."""
        offsets, starts = self.constraints.offsets, self.block_offsets
        lo, hi = int(offsets[first]), int(offsets[last])
        every = self.constraints
        return Side(
            Constraints(
                offsets[first : last + 1] - lo,
                every.order[lo:hi],
                every.before[lo:hi],
                every.exactly_one,
                every.linear[lo:hi],
                every.times[lo:hi],
            ),
            self.rows.read(lo, hi, room[0]),
            False,
            self.blocks.read(int(starts[first]), int(starts[last]), room[1]),
            starts[first : last + 1] - starts[first],
            self.n_rows,
        )

    def span(self, first: int, last: int) -> slice:
        return slice(int(self.constraints.offsets[first]), int(self.constraints.offsets[last]))

    def at(self, first: int, last: int, side: Side, whole: Floats) -> Iterate:
        """The clips' place, as views: what is done to it is done here."""
        rows = self.span(first, last)
        parts = np.zeros((last - first, self.n_states, self.width))
        labels = self.labels[rows]
        add_parts(side.rows, labels, side.constraints.offsets, parts)
        clips = slice(first, last)
        return Iterate(
            labels, parts, whole, self.vertices[rows], self.weights[clips], self.counts[clips]
        )

    def make_room(self) -> None:
        """Space for the labellings that one pass can add to each clip's combination."""
        whole, parts = np.empty((0, 0)), np.empty((0, 0, 0))
        at = with_room(
            Iterate(self.labels, parts, whole, self.vertices, self.weights, self.counts),
            STEPS_PER_VISIT,
        )
        self.vertices, self.weights = at.vertices, at.weights

    def close(self) -> None:
        for file in self._files:
            file.close()


def products(rows: npt.NDArray[Any], whole: Floats) -> Floats:
    """F (F'Y), in float64 sums."""
    scores = np.empty((len(rows), len(whole)))
    _multiply(rows, whole, scores)
    return scores


def add(side: Side, labels: Floats, whole: Floats) -> None:
    """Add F'Y of a batch to ``whole``."""
    offsets = np.array([0, len(labels)])
    add_parts(side.rows, labels, offsets, whole[None])


@compiled_exactly
def _multiply(rows: Any, whole: Floats, scores: Floats) -> None:
    for i in range(len(rows)):
        for k in range(len(whole)):
            scores[i, k] = dot(rows[i], whole[k])


@compiled_exactly
def add_parts(rows: Any, labels: Floats, offsets: Ints, parts: Floats) -> None:
    """Add to ``parts`` (N, K, r) per clip the sum of label times factor row."""
    for n in range(len(offsets) - 1):
        for i in range(offsets[n], offsets[n + 1]):
            for k in range(labels.shape[1]):
                weight = labels[i, k]
                if weight != 0.0:
                    for r in range(rows.shape[1]):
                        parts[n, k, r] += weight * rows[i, r]


@compiled_exactly
def blend(
    offsets: Ints,
    share: float,
    vertices: Labels,
    weights: Floats,
    counts: Ints,
    earlier_vertices: Labels,
    earlier_weights: Floats,
    earlier_counts: Ints,
) -> None:
    """Mix each clip's convex combination: ``share`` of it, the rest of what it was earlier."""
    for n in range(len(offsets) - 1):
        lo, hi = offsets[n], offsets[n + 1]
        for q in range(counts[n]):
            weights[n, q] *= share
        own = counts[n]
        for e in range(earlier_counts[n]):
            known = -1
            for q in range(own):
                if (vertices[lo:hi, q] == earlier_vertices[lo:hi, e]).all():
                    known = q
            if known < 0:
                known = counts[n]
                counts[n] += 1
                vertices[lo:hi, known] = earlier_vertices[lo:hi, e]
                weights[n, known] = 0.0
            weights[n, known] += (1.0 - share) * earlier_weights[n, e]

"""One side of a shard in device memory: factor rows, relaxed labels, and products of both."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from objectstates.base.errors import SettingError
from objectstates.solver.oracle import Constraints, Floats, Ints, Labels
from objectstates.solver.problem import one_hot
from objectstates.solver.scale import batched_torch
from objectstates.solver.scale.batched_torch import (
    ClipBatch,
    Tensor,
    batch_clips,
    cheapest_paths,
    labels_of,
)
from objectstates.solver.scale.disk_rows import SINGLE_FROM
from objectstates.solver.scale.moments import FeatureRows, Moments, Whitening

_BYTES = 2**28  # of float64 rows, temporary beside the stored ones


def kernels_for(device: Any) -> ModuleType:
    """``triton_kernels`` on a GPU with Triton, else the same functions of ``batched_torch``."""
    if device.type == "cuda":
        try:
            from objectstates.solver.scale import triton_kernels
        except ImportError:  # Triton is not part of torch on every system
            pass
        else:
            return triton_kernels
    return batched_torch


class Part(NamedTuple):
    """Clips whose tensors are padded to one size, their rows on the device, and their labels.

    flow : (3, K, m, N) as in ``batched_torch.py``; captured graphs need it to stay in place.
    """

    rows: slice
    clips: ClipBatch
    flow: Tensor

    @property
    def labels(self) -> Tensor:
        """(K, m, N)."""
        return labels_of(self.flow)

    @property
    def n_rows(self) -> int:
        return int(self.rows.stop - self.rows.start)


class GpuSide:
    """One side of a shard's clips on a device.

    batches : of each mini-batch, the clips of its parts. Rows are stored on the device in that
        order of clips, and in their own order within a clip.
    """

    def __init__(
        self,
        constraints: Constraints,
        features: FeatureRows,
        batches: list[list[Ints]],
        device: Any,
    ) -> None:
        self.constraints, self.features, self.device = constraints, features, device
        self.kernels: Any = kernels_for(device)
        self.n_states = constraints.linear.shape[1]
        self.n_rows = 0  # M of all shards together; set by :meth:`prepare`
        self.width = 1 + features.shape[1]  # of factor rows; set by :meth:`prepare`
        self.batches: list[list[Part]] = []
        order, first = [], 0
        for parts in batches:
            self.batches.append([])
            for clips in parts:
                batch = batch_clips(constraints, clips, device)
                order.append(_rows_of(constraints.offsets, clips))
                rows = slice(first, first + len(order[-1]))
                flow = batch.linear.new_zeros((3, *batch.linear.shape))
                self.batches[-1].append(Part(rows, batch, flow))
                first = rows.stop
        self.where = np.empty(constraints.n_rows, np.int64)  # of each row, its place on the device
        self.where[np.concatenate(order)] = np.arange(constraints.n_rows)

    @property
    def parts(self) -> list[Part]:
        """Of all mini-batches."""
        return [part for parts in self.batches for part in parts]

    @property
    def present(self) -> bool:
        return self.constraints.n_rows > 0

    # --- set-up ----------------------------------------------------------------------------------

    def measure(self, shift: Floats) -> Moments:
        """Copy the features to the device as ``rows`` (M, d); returns their moments."""
        import torch

        m, d = self.features.shape
        self._check_memory(4 * m * d)
        self.rows: Tensor = torch.empty((0, d), dtype=torch.float32, device=self.device)
        total = torch.zeros(d, dtype=torch.float64, device=self.device)
        products = torch.zeros((d, d), dtype=torch.float64, device=self.device)
        origin, where = self.on_device(shift), self.on_device(self.where)
        for lo, hi in self._row_blocks():
            some = torch.as_tensor(self.features.read(lo, hi)).to(self.device)
            if not len(self.rows):
                self.rows = torch.empty((m, d), dtype=some.dtype, device=self.device)
            self.rows[where[lo:hi]] = some
            shifted = some.double() - origin
            total += shifted.sum(0)
            products += shifted.T @ shifted
        return Moments(shift, m, total.cpu().numpy(), products.cpu().numpy())

    def prepare(self, whitening: Whitening) -> None:
        """Turn ``rows`` into factor rows (M, r) without their constant first column.

        In place where they keep their width and type; in float32 where those on disk are.
        """
        import torch

        self.n_rows, kept = whitening.n_rows, whitening.n_kept
        self.width = 1 + kept
        single = whitening.n_rows >= SINGLE_FROM * kept
        dtype = torch.float32 if single else torch.float64
        factors = self.rows
        if factors.dtype != dtype or factors.shape[1] != kept:
            factors = torch.empty((len(factors), kept), dtype=dtype, device=self.device)
        lower, mean = self.on_device(whitening.lower), self.on_device(whitening.mean)
        basis = None if whitening.basis is None else self.on_device(whitening.basis)
        for lo, hi in self._row_blocks():
            centred = (self.rows[lo:hi].double() - mean).T
            if basis is not None:
                centred = basis.T @ centred
            factors[lo:hi] = torch.linalg.solve_triangular(lower, centred, upper=False).T
        self.rows = factors

    def _row_blocks(self) -> Iterator[tuple[int, int]]:
        m, d = self.features.shape
        step = max(_BYTES // (8 * max(d, 1)), 1)
        for lo in range(0, m, step):
            yield lo, min(lo + step, m)

    def _check_memory(self, needed: int) -> None:
        if self.device.type != "cuda":
            return
        import torch

        free, _ = torch.cuda.mem_get_info(self.device)
        if needed + 8 * _BYTES > free:
            raise SettingError(
                f"`device`: the features take {needed / 1e9:.1f} GB, and {self.device} has "
                f"{free / 1e9:.1f} GB free: use 'cpu'"
            )

    def close(self) -> None:
        """Free the device memory."""
        self.rows, self.batches = None, []

    # --- labels ----------------------------------------------------------------------------------

    def start(self, costs: Floats) -> None:
        """Set the labels to the cheapest labelling at these costs (M, K)."""
        columns = self.in_order(costs)
        for part in self.parts:
            clips = part.clips
            padded = clips.pad(columns[part.rows]).masked_fill(clips.linear.isinf(), float("inf"))
            part.flow.copy_(cheapest_paths(padded, clips.before, clips.blocked)[1])

    @property
    def labels(self) -> Floats:
        """The relaxed labels (M, K), copied to the host."""
        return self.unpad([part.labels for part in self.parts])

    def one_hot(self, labels: Labels) -> Tensor:
        """Integer labels (M,) as a matrix (M, K), in the device's order of rows."""
        return self.in_order(one_hot(labels, self.n_states))

    def in_order(self, columns: Floats) -> Tensor:
        """(M, K) on the device, in its order of rows."""
        given = self.on_device(columns)
        ordered = given.new_empty(given.shape)
        ordered[self.on_device(self.where)] = given
        return ordered

    def to_host(self, columns: Tensor) -> Floats:
        """The inverse of :meth:`in_order`."""
        return np.asarray(columns.cpu().numpy()[self.where])

    def unpad(self, padded: list[Tensor]) -> Floats:
        """(K, m, N) of every part as (M, K) on the host."""
        import torch

        parts = zip(self.parts, padded, strict=True)
        return self.to_host(torch.cat([part.clips.unpad(x, part.n_rows) for part, x in parts]))

    def on_device(self, array: Any) -> Tensor:
        """A tensor on the device; it may share the array's memory there."""
        import torch

        return torch.as_tensor(np.ascontiguousarray(array), device=self.device)

    # --- products with factor rows ---------------------------------------------------------------

    @property
    def constant(self) -> float:
        """The first column of every factor row."""
        return float(max(self.n_rows, 1) ** -0.5)

    def scores(self, rows: slice, sums: Tensor) -> Tensor:
        """F (F'Y) of these rows, (rows, K), from F'Y (K, 1 + d)."""
        return self.kernels.scores(self.rows[rows], self.constant, sums)

    def factor_sums(self, rows: slice, columns: Tensor) -> Tensor:
        """F'Y of labels (rows, K) of these rows, (K, 1 + d)."""
        return self.kernels.factor_sums(self.rows[rows], self.constant, columns)

    def part_sums(self, part: Part, padded: Tensor) -> Tensor:
        """F'Y of labels (K, m, N) of a part."""
        return self.factor_sums(part.rows, part.clips.unpad(padded, part.n_rows))

    def held_out_scores(self, labels: Labels, sums: Floats) -> Floats:
        """Leave-one-clip-out scores (M, K) (``held_out.py``) of integer labels (M,).

        sums : F'Y of the labels of all clips of all shards.
        """
        import torch

        y, total = self.one_hot(labels), self.on_device(sums)
        found = torch.empty_like(y)
        for part in self.parts:
            residual = y[part.rows] - self.scores(part.rows, total)
            found[part.rows] = y[part.rows] - self._solve_blocks(part, residual)
        return self.to_host(found)

    def _solve_blocks(self, part: Part, residual: Tensor) -> Tensor:
        """(A_nn)^-1 residual (rows, K) of every clip of a part; least squares where singular."""
        import torch

        clips, rows = part.clips, self.rows[part.rows]
        longest, n_clips = clips.before.shape
        step = max(_BYTES // (8 * longest * rows.shape[1]), 1)
        solutions = []
        right_sides = clips.pad(residual).permute(2, 1, 0)  # (N, m, K)
        for first in range(0, n_clips, step):
            index = clips.rows[:, first : first + step].T  # (n, m)
            real = index < len(rows)
            factors = rows[index.clamp(max=len(rows) - 1)].double() * real[:, :, None]
            both = real[:, :, None] & real[:, None, :]
            block = torch.eye(longest, dtype=torch.float64, device=self.device)
            block = block - factors @ factors.mT - self.constant**2 * both
            right = right_sides[first : first + step]
            solved, _ = torch.linalg.solve_ex(block, right)
            singular = ~solved.isfinite().all(2).all(1)
            for n in singular.nonzero()[:, 0].tolist():
                solved[n] = torch.linalg.pinv(block[n], hermitian=True) @ right[n]
            solutions.append(solved)
        return clips.unpad(torch.cat(solutions).permute(2, 1, 0), len(rows))


def _rows_of(offsets: Ints, clips: Ints) -> Ints:
    """The rows of these clips, one clip after another."""
    counts = offsets[clips + 1] - offsets[clips]
    firsts = np.cumsum(counts) - counts
    rows: Ints = np.arange(int(counts.sum())) + np.repeat(offsets[clips] - firsts, counts)
    return rows

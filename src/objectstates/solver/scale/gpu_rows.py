"""One side's rows in the memory of a device, and what is computed from them there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from objectstates.base.errors import SettingError
from objectstates.solver.oracle import Constraints, Floats, Ints, Labels
from objectstates.solver.problem import one_hot
from objectstates.solver.scale import batched_torch as padded
from objectstates.solver.scale.batched_torch import Padded, Tensor, cheapest_paths, labels_of, pad
from objectstates.solver.scale.disk_rows import SINGLE_FROM
from objectstates.solver.scale.moments import FeatureRows, Moments, Whitening

PARTS = 4  # of a mini-batch, at most: rows of some are read while clips of others are visited
_FEWEST = 4096  # clips in a part: fewer would take as long to visit
_BYTES = 2**28  # of rows in float64, held beside the resident ones for a moment


def tools_for(device: Any) -> ModuleType:
    """``gpu_kernels`` where they run, else the same functions of ``padded``."""
    if device.type == "cuda":
        try:
            from objectstates.solver.scale import triton_kernels as gpu_kernels

            return gpu_kernels
        except ImportError:  # Triton is not part of torch everywhere; slower, and the same
            pass
    return padded


class Part(NamedTuple):
    """A run of clips of a mini-batch, and their rows on the device."""

    clips: slice
    rows: slice
    padded: Padded


class ResidentSide:
    """One side of a shard's clips on a device.

    batches : which clips are in each mini-batch. The rows lie on the device in that order, so that
        those of a mini-batch follow each other; within a clip they keep theirs.
    """

    def __init__(
        self, constraints: Constraints, features: FeatureRows, batches: list[Ints], device: Any
    ) -> None:
        self.constraints, self.features, self.device = constraints, features, device
        self.tools: Any = tools_for(device)
        self.n_states = constraints.linear.shape[1]
        self.n_rows = 0  # of all shards together, once prepared
        self.padded: list[Padded] = [pad(constraints, clips, device) for clips in batches]
        counts = np.diff(constraints.offsets)
        cuts = np.cumsum([0, *(int(counts[clips].sum()) for clips in batches)])
        self.spans = [slice(int(lo), int(hi)) for lo, hi in pairwise(cuts)]
        order = np.concatenate([_rows_of(constraints.offsets, clips) for clips in batches])
        self.where = np.empty_like(order)  # (M,) of each row, its place on the device
        self.where[order] = np.arange(len(order))
        self.parts = [
            list(_parts_of(side, counts[clips], span.start))
            for side, clips, span in zip(self.padded, batches, self.spans, strict=True)
        ]
        self.flows: list[list[Tensor]] = [  # (3, K, m, n) of every part, always in the same place
            [part.padded.linear.new_zeros((3, *part.padded.linear.shape)) for part in parts]
            for parts in self.parts
        ]
        self.width = 1 + features.shape[1]  # of factor rows; known once prepared

    @property
    def present(self) -> bool:
        return self.constraints.n_rows > 0

    @property
    def rows(self) -> Tensor:
        """(M, d) features, and once prepared factor rows without their first, constant column.

        Those are less wide where features were reduced.
        """
        return self._rows

    # --- once ------------------------------------------------------------------------------------

    def measure(self, shift: Floats) -> Moments:
        """Bring the features to the device; their moments."""
        import torch

        m, d = self.features.shape
        self._check_memory(4 * m * d)
        self._rows = torch.empty((0, d), dtype=torch.float32, device=self.device)
        total = torch.zeros(d, dtype=torch.float64, device=self.device)
        products = torch.zeros((d, d), dtype=torch.float64, device=self.device)
        at, where = self._tensor(shift), torch.as_tensor(self.where, device=self.device)
        for lo, hi in self._steps():
            some = torch.as_tensor(self.features.read(lo, hi)).to(self.device)
            if not len(self._rows):
                self._rows = torch.empty((m, d), dtype=some.dtype, device=self.device)
            self._rows[where[lo:hi]] = some
            wide = some.double() - at
            total += wide.sum(0)
            products += wide.T @ wide
        return Moments(shift, m, total.cpu().numpy(), products.cpu().numpy())

    def prepare(self, whitening: Whitening) -> None:
        """Turn features into factor rows, in place where they keep their width, in float32."""
        import torch

        self.n_rows = whitening.n_rows
        kept, self.width = whitening.n_kept, 1 + whitening.n_kept
        single = whitening.n_rows >= SINGLE_FROM * kept
        dtype = torch.float32 if single else torch.float64
        factors = self._rows
        if factors.dtype != dtype or factors.shape[1] != kept:
            factors = torch.empty((len(factors), kept), dtype=dtype, device=self.device)
        lower, mean = self._tensor(whitening.lower), self._tensor(whitening.mean)
        basis = None if whitening.basis is None else self._tensor(whitening.basis)
        for lo, hi in self._steps():
            wide = (self._rows[lo:hi].double() - mean).T
            if basis is not None:
                wide = basis.T @ wide
            factors[lo:hi] = torch.linalg.solve_triangular(lower, wide, upper=False).T
        self._rows = factors

    def _steps(self) -> Iterator[tuple[int, int]]:
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
                f"the features take {needed / 1e9:.1f} GB, and {self.device} has "
                f"{free / 1e9:.1f} GB free: use --device cpu"
            )

    def close(self) -> None:
        self._rows, self.flows = None, []

    # --- labels ----------------------------------------------------------------------------------

    def start(self, costs: Floats) -> None:
        """Stand at the labelling that is cheapest at these costs (M, K)."""
        there = self.to_device(costs)
        for b, (side, rows) in enumerate(zip(self.padded, self.spans, strict=True)):
            wide = side.spread(there[rows]).masked_fill(side.linear.isinf(), float("inf"))
            self.stand(b, cheapest_paths(wide, side.before, side.closed)[1])

    def stand(self, b: int, flow: Tensor) -> None:
        """Stand at a flow (3, K, m, N) of the mini-batch b."""
        for part, here in zip(self.parts[b], self.flows[b], strict=True):
            here.copy_(flow[..., part.clips])

    def labels(self, b: int) -> Tensor:
        """(K, m, N) of the mini-batch b."""
        return joined_labels(self.flows[b])

    def hot(self, labels: Labels) -> Tensor:
        """Integer labels (M,) as a matrix (M, K), in the device's order."""
        return self.to_device(one_hot(labels, self.n_states))

    def to_device(self, columns: Floats) -> Tensor:
        """(M, K) in the corpus's order, in the device's."""
        import torch

        there = torch.empty(columns.shape, dtype=torch.float64, device=self.device)
        there[torch.as_tensor(self.where, device=self.device)] = self._tensor(columns)
        return there

    def to_host(self, columns: Tensor) -> Floats:
        """(M, K) in the device's order, in the corpus's."""
        return np.asarray(columns.cpu().numpy()[self.where])

    def gather(self, wide: list[Tensor]) -> Floats:
        """(K, m, N) of every mini-batch as (M, K) in the corpus's order."""
        import torch

        columns = [
            side.collect(part, rows.stop - rows.start)
            for side, part, rows in zip(self.padded, wide, self.spans, strict=True)
        ]
        return self.to_host(torch.cat(columns))

    def _tensor(self, array: Floats) -> Tensor:
        import torch

        return torch.as_tensor(np.ascontiguousarray(array), device=self.device)

    # --- products --------------------------------------------------------------------------------

    def whole(self, given: Floats) -> Tensor:
        """F'Y, (K, 1 + d), on the device; a copy."""
        return self._tensor(given.copy())

    @property
    def constant(self) -> float:
        """The first column of every factor row."""
        return float(max(self.n_rows, 1) ** -0.5)

    def scores(self, rows: slice, whole: Tensor) -> Tensor:
        """F (F'Y) of these rows, (rows, K)."""
        return self.tools.scores(self._rows[rows], self.constant, whole)

    def spread_scores(self, b: int, whole: Tensor) -> Tensor:
        """The same of the mini-batch b, as (K, m, N)."""
        return self.padded[b].spread(self.scores(self.spans[b], whole))

    def sums(self, b: int, labels: Tensor) -> Tensor:
        """F'Y of labels (K, m, N) of the mini-batch b, (K, 1 + d)."""
        rows = self.spans[b]
        return self.sums_of(rows, self.padded[b].collect(labels, rows.stop - rows.start))

    def sums_of(self, rows: slice, columns: Tensor) -> Tensor:
        """F'Y of labels (m, K) of these rows, (K, 1 + d)."""
        return self.tools.sums(self._rows[rows], self.constant, columns)

    def weights(self, coupling: float) -> tuple[float, float]:
        """Of linear costs and pulls, in units of 1/M."""
        return self.n_rows, self.n_rows * coupling

    def costs(self, b: int, whole: Tensor, coupling: float, pull: Tensor | None) -> Tensor:
        """What labels (K, m, N) cost beside |Y|^2 / 2, when the classifier stands still.

        In units of 1/M. pull : (K, m, N) seconds of disorder, None without the other side.
        """
        side = self.padded[b]
        cost = side.linear if pull is None else side.linear + coupling * pull
        return self.n_rows * cost - self.spread_scores(b, whole)

    def without_clip(self, labels: Labels, whole: Floats) -> Floats:
        """Scores (M, K) by classifiers learned without the clip (``held_out.py``).

        labels : (M,) integers. whole : F'Y of the labels of all clips of all shards.
        """
        import torch

        hot, given = self.hot(labels), self.whole(whole)
        found = torch.empty_like(hot)
        for b, rows in enumerate(self.spans):
            residual = hot[rows] - self.scores(rows, given)
            found[rows] = hot[rows] - self._solved(b, residual)
        return self.to_host(found)

    def _solved(self, b: int, residual: Tensor) -> Tensor:
        """(A_nn)^-1 residual (rows, K) of every clip of a mini-batch."""
        import torch

        side, rows = self.padded[b], self._rows[self.spans[b]]
        longest, n_clips = side.before.shape
        step = max(_BYTES // (8 * longest * rows.shape[1]), 1)
        parts = []
        wide = side.spread(residual).permute(2, 1, 0)  # (N, m, K)
        for first in range(0, n_clips, step):
            index = side.rows[:, first : first + step].T  # (n, m)
            real = index < len(rows)
            some = rows[index.clamp(max=len(rows) - 1)].double() * real[:, :, None]
            both = real[:, :, None] & real[:, None, :]
            block = torch.eye(longest, dtype=torch.float64, device=self.device)
            block = block - some @ some.mT - self.constant**2 * both
            right = wide[first : first + step]
            solved, _ = torch.linalg.solve_ex(block, right)
            bad = ~solved.isfinite().all(2).all(1)
            for n in bad.nonzero()[:, 0].tolist():  # least squares, where undetermined
                solved[n] = torch.linalg.pinv(block[n], hermitian=True) @ right[n]
            parts.append(solved)
        return side.collect(torch.cat(parts).permute(2, 1, 0), len(rows))


def joined_labels(flows: list[Tensor]) -> Tensor:
    """The labels (K, m, N) of a mini-batch whose parts have these flows."""
    import torch

    return torch.cat([labels_of(flow) for flow in flows], 2)


def _parts_of(side: Padded, counts: Ints, first_row: int) -> Iterator[Part]:
    """A mini-batch in runs of about as many clips each.

    counts : (N,) of the rows of its clips, the first of which is ``first_row`` on the device.
    """
    ends = np.concatenate([[0], np.cumsum(counts)])
    n_parts = min(max(len(counts) // _FEWEST, 1), PARTS)
    cuts = np.linspace(0, len(counts), n_parts + 1).astype(int).tolist()
    for first, last in pairwise(cuts):
        clips, rows = slice(first, last), slice(int(ends[first]), int(ends[last]))
        on_device = slice(first_row + rows.start, first_row + rows.stop)
        yield Part(clips, on_device, side.part(clips, rows))


def _rows_of(offsets: Ints, clips: Ints) -> Ints:
    """The rows of these clips, one clip after another."""
    counts = offsets[clips + 1] - offsets[clips]
    firsts = np.cumsum(counts) - counts
    rows: Ints = np.arange(int(counts.sum())) + np.repeat(offsets[clips] - firsts, counts)
    return rows

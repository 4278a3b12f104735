"""A shard whose factor rows are in device memory: a GPU, or the CPU by torch.

It answers the same messages as a ``disk_shard.Shard``, for the same problem, schedule and
certificate; a pass differs. All clips of a mini-batch move at once, at fixed classifiers. With
w = F'Y fixed, the objective of labels Y is below

    (|Y - F w|^2 - |w|^2) / 2M  +  linear  +  coupling,        since A = I - F F' <= I,

with equality at the current Y: a step that lowers this bound lowers the objective at least as much.
The bound is a sum over clips, so each clip takes a few Frank-Wolfe steps on its own summand
(``batched_torch.frank_wolfe_steps``), first for the action and then for the states, and the
objective never rises however many clips move at once. A step gains in proportion to the square of
its gap, so the gaps tend to 0 and limit points are stationary points of the relaxed problem (optima
where it is convex): the guarantee of block-coordinate Frank-Wolfe, with A_nn replaced by I. Both
are alike where there are many more rows than features; elsewhere the solver in memory is better.

A pass reads all rows once for the scores, and the rows whose labels changed once more for the new
w. The steps overlap with that (``GpuShard._step_batch``). A pass is captured as a CUDA graph
(``cuda_streams.py``), with one small copy to the device and one back. Rows are float32 where those
of a shard on disk are; sums and all else are float64.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from objectstates.base.choices import SideName
from objectstates.base.errors import SettingError
from objectstates.solver.block_steps import STEPS_PER_BLOCK
from objectstates.solver.oracle import Constraints, Floats, Ints, Labels
from objectstates.solver.problem import Scales, one_hot
from objectstates.solver.scale import batched_torch
from objectstates.solver.scale.batched_torch import (
    Tensor,
    cheapest_paths,
    inner_products,
    labels_of,
    path_values,
    round_jointly,
)
from objectstates.solver.scale.cuda_streams import GraphCache, Streams
from objectstates.solver.scale.gpu_rows import GpuSide, Part, kernels_for
from objectstates.solver.scale.moments import FeatureRows, Moments, Whitening
from objectstates.solver.scale.shard_messages import (
    FactorSums,
    PassResult,
    SeparableTerms,
    ShardEvaluation,
    separable_terms,
)

MINI_BATCHES = 1  # at least; more leave less work to overlap, and save no passes (docs/scale.md)
PARTS = 4  # of a mini-batch, at most: rows of some are read during the steps of others
_MIN_CLIPS = 4096  # in a part: steps of fewer clips take as long
_ENTRIES = 2**25  # clips x tracklets x chunks of a mini-batch: 256 MB for a float64 tensor

Pair = tuple[Part, Part]
"""The same clips' action and states."""


def check_one_change(action: Constraints, state: Constraints, classes: Ints | None = None) -> None:
    """Raise unless the problem is one that a device solves: one action between two states.

    classes : (K,) as in ``problem.Side``, where states look alike.
    """
    alike = classes is not None and len(set(classes.tolist())) < len(classes)
    if action.n_states > 1 or state.n_states > 2 or action.optional or state.optional or alike:
        raise SettingError(
            "`device` must be cpu for more than one change, for optional steps and for states that "
            "look alike: the kernels on a device know one action between two states"
        )


class GpuShard:
    """Clips with their rows on a device, and a current relaxed point.

    action, state : the constraints of both sides of these clips, and their features.
    device : a ``torch.device``.
    single : there is no other shard, so that steps are never scaled, and need not be undone.
    """

    def __init__(
        self,
        action: tuple[Constraints, FeatureRows],
        state: tuple[Constraints, FeatureRows],
        device: Any,
        *,
        single: bool = True,
        mini_batches: int = MINI_BATCHES,
    ) -> None:
        check_one_change(action[0], state[0])
        self._single, self._kernels = single, kernels_for(device)
        batches = [_parts_of(x) for x in mini_batches_of(action[0], state[0], mini_batches)]
        self._action = GpuSide(*action, batches, device)
        self._state = GpuSide(*state, batches, device)
        self.sides = self._action, self._state
        self._present = [side for side in self.sides if side.present]
        self._streams = Streams(device)
        captured = single and device.type == "cuda" and self._kernels is not batched_torch
        self._graphs = GraphCache(captured)

    # --- once ------------------------------------------------------------------------------------

    def measure(self, action_shift: Floats, state_shift: Floats) -> tuple[Moments, Moments]:
        """Copy the features to the device; returns the moments of both sides."""
        return self._action.measure(action_shift), self._state.measure(state_shift)

    def prepare(self, action: Whitening, state: Whitening) -> None:
        """Turn features into factor rows."""
        self._action.prepare(action)
        self._state.prepare(state)
        self._graphs.clear()
        self._buffers = PassBuffers(*self.sides)

    def close(self) -> None:
        """Free the device memory."""
        self._graphs.clear()
        self._action.close()
        self._state.close()

    # --- passes ----------------------------------------------------------------------------------

    def start(self, seed: int | tuple[int, ...], scales: Scales) -> PassResult:
        """Go to the random labelling that a shard on disk would start from."""
        self._rng = np.random.default_rng(seed)
        for side in self.sides:
            side.start(self._rng.standard_normal(side.constraints.linear.shape))
        self._own = {side: np.zeros((side.n_states, side.width)) for side in self.sides}
        for side in self._present:
            for part in side.parts:
                self._own[side] += side.part_sums(part, part.labels).cpu().numpy()
        self._save_point()
        terms = self._terms(self._separable(x, x[0].labels, x[1].labels) for x in self._pairs)
        return PassResult(np.inf, self.own_sums, (terms.value(scales), 0.0, 0.0))

    def sweep(self, sums: FactorSums, scales: Scales, pairwise_steps: bool) -> PassResult:
        """Steps in all clips, mini-batch by mini-batch in random order; other shards are fixed.

        sums : F'Y of all clips of all shards.
        """
        self._save_point()
        self._buffers.upload(sums, scales.coupling)
        for b in self._rng.permutation(len(self._state.batches)).tolist():
            self._graphs.run((b, pairwise_steps), partial(self._step_batch, b, pairwise_steps))
        results = self._buffers.download()
        for side, result, before in zip(self.sides, results, sums, strict=True):
            self._own[side] = self._own[side] + (result.sums - before)
        action, state = results
        # The states' steps come after the action's: their distortion is that of both.
        terms = SeparableTerms(
            (action.square, state.square), (action.linear, state.linear), state.distortion
        )
        gap = sum(x.gap / s.n_rows for s, x in zip(self.sides, results, strict=True) if s.present)
        return self._result(gap, terms, scales)

    def _step_batch(self, b: int, pairwise_steps: bool) -> None:
        """Steps in all clips of a mini-batch at the buffers' classifiers, then their update.

        Scores and sums are bound by memory bandwidth; steps, a long chain of short operations,
        leave it idle. So the steps of some parts run while rows of others are read.
        """
        streams, buffers, last = self._streams, self._buffers, self._present[-1]
        steps: dict[GpuSide, list[tuple[Tensor, Tensor]]] = {s: [] for s in self._present}
        sums: dict[GpuSide, list[Tensor]] = {s: [] for s in self._present}
        begun = streams.record_event()
        scores, scored, moved, summed = [], [], [], []
        for part in last.batches[b]:
            scores.append(last.scores(part.rows, buffers.sums[last]))
            scored.append(streams.record_event())
        for n in range(len(scores)):
            with streams.side_stream(n, begun, urgent=True):
                for side in self._present[:-1]:
                    own = side.scores(side.batches[b][n].rows, buffers.sums[side])
                    steps[side].append(self._steps(side, b, n, own, pairwise_steps))
                streams.wait(scored[n])
                steps[last].append(self._steps(last, b, n, scores[n], pairwise_steps))
                moved.append(streams.record_event())
        for n in range(len(scores)):
            with streams.side_stream(n, moved[n], scored[-1]):
                for side in self._present:
                    change, _ = steps[side][n]
                    sums[side].append(side.factor_sums(side.batches[b][n].rows, change))
                summed.append(streams.record_event())
        streams.wait(*moved)
        for side in self._present:
            buffers.results[side] += _sum(results for _, results in steps[side])
        streams.wait(*summed)
        for side in self._present:
            buffers.sums[side] += _sum(sums[side])

    def _steps(
        self, side: GpuSide, b: int, n: int, scores: Tensor, pairwise_steps: bool
    ) -> tuple[Tensor, Tensor]:
        """Steps in part n of a mini-batch: the changes of labels (rows, K), and results (4,)."""
        part = side.batches[b][n]
        found: tuple[Tensor, Tensor] = self._kernels.frank_wolfe_steps(
            part.clips,
            scores,
            self._distortion((self._action.batches[b][n], self._state.batches[b][n]), side),
            part.flow,
            weights=self._buffers.weights[side],
            steps=STEPS_PER_BLOCK,
            pairwise=pairwise_steps,
        )
        return found

    def step(self, sums: FactorSums, scales: Scales) -> PassResult:
        """Move to the oracle's labelling of every clip: the end of a full Frank-Wolfe step."""
        self._save_point()
        totals = [side.on_device(x) for side, x in zip(self.sides, sums, strict=True)]
        gaps, terms = [], []
        for pair in self._pairs:
            gradients = [self._gradient(pair, k, totals[k], scales)[1] for k in range(2)]
            for part, side, gradient in zip(pair, self.sides, gradients, strict=True):
                if side.present:
                    clips, labels = part.clips, part.labels
                    least, path = cheapest_paths(gradient, clips.before, clips.blocked)
                    gaps.append((inner_products(gradient, labels) - least).sum() / side.n_rows)
                    part.flow.copy_(path)
                    change = side.part_sums(part, part.labels - labels)
                    self._own[side] = self._own[side] + change.cpu().numpy()
            terms.append(self._separable(pair, pair[0].labels, pair[1].labels))
        return self._result(float(_sum(gaps)), self._terms(terms), scales)

    def scale_step(self, step_size: float) -> None:
        """Scale the last pass's step by ``step_size``, from 0 to 1."""
        if step_size == 1.0:
            return
        for side in self._present:
            flows, own = self._before[side]
            for part, before in zip(side.parts, flows, strict=True):
                part.flow.copy_(before + step_size * (part.flow - before))
            self._own[side] = own + step_size * (self._own[side] - own)

    # --- evaluation ------------------------------------------------------------------------------

    def evaluate(self, sums: FactorSums, scales: Scales) -> ShardEvaluation:
        """The gap at this point, and its rounding, which :meth:`keep_rounding` keeps."""
        totals = [side.on_device(x) for side, x in zip(self.sides, sums, strict=True)]
        rounded_sums = [x.new_zeros(x.shape) for x in totals]
        gaps, here, rounded = [], [], []
        found: tuple[list[Tensor], ...] = [], [], [], []  # labels and scores of both sides
        for pair in self._pairs:
            costs = []
            for k, (part, side) in enumerate(zip(pair, self.sides, strict=True)):
                scores, gradient = self._gradient(pair, k, totals[k], scales)
                costs.append(scales.rounding_weights[k] * (1 - 2 * scores) + part.clips.linear)
                found[2 + k].append(scores)
                if side.present:
                    least = path_values(gradient, part.clips.before, part.clips.blocked)[-1, -1]
                    gap = (inner_products(gradient, part.labels) - least).sum()
                    gaps.append(gap / side.n_rows)
            here.append(self._separable(pair, pair[0].labels, pair[1].labels))
            labels = round_jointly(
                pair[0].clips, pair[1].clips, costs[0], costs[1], scales.coupling
            )
            rounded.append(self._separable(pair, *labels))
            for k, side in enumerate(self.sides):
                found[k].append(labels[k])
                if side.present:
                    rounded_sums[k] += side.part_sums(pair[k], labels[k])
        self._rounding = found
        return ShardEvaluation(
            float(_sum(gaps)),
            self._terms(here),
            self._terms(rounded),
            FactorSums(*(x.cpu().numpy() for x in rounded_sums)),
        )

    def keep_rounding(self) -> None:
        """Keep the rounding of the last evaluation."""
        self._kept = self._rounding

    def kept_rounding(self) -> tuple[Labels, Labels, Floats, Floats]:
        """The labels (T,) and (M,) that were kept, and the scores (T, 1), (M, 2) behind them."""
        z, y, action_scores, state_scores = (
            side.unpad(x) for side, x in zip(2 * self.sides, self._kept, strict=True)
        )
        states = (y @ np.arange(1, 3)).astype(np.int8)
        return z[:, 0].astype(np.int8), states, action_scores, state_scores

    def integer_terms(self, action: Labels, state: Labels) -> SeparableTerms:
        """The separable terms of integer labels (T,) and (M,)."""
        z, y = one_hot(action, 1), one_hot(state, 2)
        return separable_terms(self._action.constraints, self._state.constraints, z, y)

    def factor_sums(self, name: SideName, labels: Labels) -> Floats:
        """F'Y of integer labels of one side, (K, 1 + d)."""
        side = self._action if name == "action" else self._state
        return np.asarray(side.factor_sums(slice(None), side.one_hot(labels)).cpu().numpy())

    def held_out_scores(self, name: SideName, labels: Labels, sums: Floats) -> Floats:
        """Leave-one-clip-out scores (M, K) (``held_out.py``).

        sums : F'Y of the integer labels of all clips of all shards.
        """
        side = self._action if name == "action" else self._state
        return side.held_out_scores(labels, sums)

    # --- inside ----------------------------------------------------------------------------------

    @property
    def _pairs(self) -> list[Pair]:
        return list(zip(self._action.parts, self._state.parts, strict=True))

    @property
    def own_sums(self) -> FactorSums:
        """F'Y of these clips alone."""
        return FactorSums(self._own[self._action], self._own[self._state])

    def _gradient(self, pair: Pair, k: int, sums: Tensor, scales: Scales) -> tuple[Tensor, Tensor]:
        """Side k's scores, and the gradient of h in units of 1/M, both (K, m, N); sums : F'Y."""
        side, part = self.sides[k], pair[k]
        scores = part.clips.pad(side.scores(part.rows, sums))
        distortion = self._distortion(pair, side)
        costs = part.clips.linear
        if distortion is not None:
            costs = costs + scales.coupling * distortion
        return scores, side.n_rows * costs - scores + part.labels

    def _distortion(self, pair: Pair, side: GpuSide) -> Tensor | None:
        """The derivative of d by one side's labels (K, m, N); None without the other side."""
        action, state = pair
        if len(self._present) < 2:
            return None
        if side is self._action:
            return self._kernels.action_distortion(state.clips, action.clips, state.labels)
        return self._kernels.state_distortion(state.clips, action.clips, action.labels)

    def _separable(self, pair: Pair, z: Tensor, y: Tensor) -> Tensor:
        """(5,) of labels (1, T, N) and (2, M, N): |Z|^2, |Y|^2, linear costs of both, and d."""
        import torch

        action, state = pair
        distortion = y.new_zeros(())
        if len(self._present) == 2:
            distortion = (self._kernels.state_distortion(state.clips, action.clips, z) * y).sum()
        linear = [
            inner_products(part.clips.linear, x).sum() for part, x in ((action, z), (state, y))
        ]
        return torch.stack([z.square().sum(), y.square().sum(), *linear, distortion])

    @staticmethod
    def _terms(parts: Iterable[Tensor]) -> SeparableTerms:
        z, y, z_linear, y_linear, distortion = _sum(parts).tolist()
        return SeparableTerms((z, y), (z_linear, y_linear), distortion)

    def _save_point(self) -> None:
        if not self._single:
            self._before = {
                side: ([part.flow.clone() for part in side.parts], self._own[side])
                for side in self.sides
            }

    def _result(self, gap: float, terms: SeparableTerms, scales: Scales) -> PassResult:
        """The polynomial follows from the values at both ends and the curvature, since d is
        bilinear."""
        end = terms.value(scales)
        if self._single:
            return PassResult(gap, self.own_sums, (end, 0.0, 0.0))
        flows = zip(*(self._before[side][0] for side in self.sides), strict=True)
        before = [tuple(map(labels_of, pair)) for pair in flows]
        moves = list(zip(self._pairs, before, strict=True))
        begin = self._terms(self._separable(x, *old) for x, old in moves).value(scales)
        bent = self._terms(
            self._separable(x, x[0].labels - z, x[1].labels - y) for x, (z, y) in moves
        )
        square = replace(bent, linear=(0.0, 0.0)).value(scales)
        return PassResult(gap, self.own_sums, (begin, end - begin - square, square))


class SideResult(NamedTuple):
    """Of one side after a pass.

    gap : the sum of the clips' gaps before their steps, in units of 1/M. square, linear,
    distortion : |Y|^2, the linear cost and d of the labels. sums : F'Y, (K, 1 + d).
    """

    gap: float
    square: float
    linear: float
    distortion: float
    sums: Floats


class PassBuffers:
    """Inputs and outputs of a pass: one tensor on the device, and its page-locked copy on the host.

    weights, results, sums : of a side, the weights (2,) of its costs, the summed results (4,) of
        its steps, and F'Y (K, 1 + d); views that stay in place for captured graphs.
    """

    def __init__(self, *sides: GpuSide) -> None:
        import torch

        sizes = [6 + side.n_states * side.width for side in sides]
        device = sides[0].device
        self._sides = sides
        self._device = torch.zeros(sum(sizes), dtype=torch.float64, device=device)
        self._host = torch.zeros(sum(sizes), dtype=torch.float64, pin_memory=device.type == "cuda")
        self._host_views = np.split(self._host.numpy(), np.cumsum(sizes)[:-1])
        self.weights, self.results, self.sums = {}, {}, {}
        for side, view in zip(sides, self._device.split(sizes), strict=True):
            self.weights[side], self.results[side] = view[:2], view[2:6]
            self.sums[side] = view[6:].view(side.n_states, side.width)

    def upload(self, sums: FactorSums, coupling: float) -> None:
        """Set the inputs: F'Y of all clips, and the weights of linear costs and distortion."""
        for side, view, values in zip(self._sides, self._host_views, sums, strict=True):
            view[:2], view[2:6], view[6:] = (side.n_rows, side.n_rows * coupling), 0, values.ravel()
        self._device.copy_(self._host, non_blocking=True)

    def download(self) -> list[SideResult]:
        """Wait for the device; the results of both sides."""
        self._host.copy_(self._device)
        results = []
        for side, view in zip(self._sides, self._host_views, strict=True):
            gap, square, linear, distortion = view[2:6].tolist()
            sums = view[6:].reshape(side.n_states, side.width).copy()
            results.append(SideResult(gap, square, linear, distortion, sums))
        return results


def mini_batches_of(action: Constraints, state: Constraints, at_least: int) -> list[Ints]:
    """Clips of about the same number of rows together, in ranges of about equal padded size."""
    chunks, tracklets = np.diff(action.offsets), np.diff(state.offsets)
    order = np.lexsort((chunks, tracklets))
    area = np.maximum(chunks, 1) * np.maximum(tracklets, 1)
    filled = np.cumsum(area[order])
    count = max(at_least, -(-int(filled[-1]) // _ENTRIES))
    cuts = np.searchsorted(filled, np.linspace(0, filled[-1], count + 1)[1:-1])
    return [part for part in np.split(order, np.unique(cuts)) if len(part)]


def _parts_of(clips: Ints) -> list[Ints]:
    """A mini-batch's clips in ranges of about equal number."""
    count = min(max(len(clips) // _MIN_CLIPS, 1), PARTS)
    return np.split(clips, np.linspace(0, len(clips), count + 1).astype(int)[1:-1])


def _sum(tensors: Iterable[Tensor]) -> Tensor:
    """The sum in the order given, for the same bits in every run."""
    import torch

    return torch.stack(list(tensors)).sum(0)

"""A shard whose factor rows stay in the memory of a device: a GPU, or torch on the CPU.

What it is told and tells is what a ``disk_shard.Shard`` is told and tells;
the problem, the schedule and the certificate are the same. What differs is a pass. There is no one
after another on a GPU, so the clips of a mini-batch all move at once, as if the classifiers stood
still. With w = F'Y held, the cost of labels Y is below

    (|Y - F w|^2 - |w|^2) / 2M  +  linear  +  coupling,        since A = I - F F' <= I,

and equal to it where Y is: lowering this bound lowers the objective at least as much. It is a sum
over clips, so each clip takes a few Frank-Wolfe steps on its own part (``padded.visit``), first
for the action and then for the states, and the objective never rises however many clips move at
once. Each step gains in proportion to the square of the gap that it meets, so the gaps met tend to
0 and limit points are stationary points of the relaxed problem (optima where it is convex): the
guarantee of block-coordinate Frank-Wolfe, with A_nn replaced by I. The two are alike where there
are many more rows than features, as here; where there are not, the solver in memory is for that.

A pass reads the rows once for the scores of all labels, and of the rows whose labels changed once
more for the new w. Visits to clips hide behind that (``ResidentShard._move``); a pass is recorded
once and then asked for as one (``queues.py``), told all it must know in one copy, and tells in one.
Rows are float32 where a shard's on disk are; sums and all else are float64.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from objectstates.base.choices import SideName
from objectstates.solver.block_steps import STEPS_PER_BLOCK
from objectstates.solver.oracle import Constraints, Floats, Ints, Labels
from objectstates.solver.problem import Scales, one_hot
from objectstates.solver.scale import batched_torch as padded
from objectstates.solver.scale.batched_torch import (
    Tensor,
    cheapest_paths,
    labels_of,
    least_costs,
    round_jointly,
    weigh,
)
from objectstates.solver.scale.cuda_streams import Queues, Recorder
from objectstates.solver.scale.gpu_buffers import Desk
from objectstates.solver.scale.gpu_rows import ResidentSide, joined_labels, tools_for
from objectstates.solver.scale.moments import FeatureRows, Moments, Whitening
from objectstates.solver.scale.shard_messages import (
    FactorSums,
    PassResult,
    SeparableTerms,
    ShardEvaluation,
    separable_terms,
)

MINI_BATCHES = 1  # of clips, at least; more where padded tensors would grow too large
_PADDED = 2**25  # entries of clips x tracklets x chunks in a mini-batch


class ResidentShard:
    """Clips one after another with their rows on a device, and where the solver stands on them.

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
        self._single, self._tools = single, tools_for(device)
        self._batches = mini_batches_of(action[0], state[0], mini_batches)
        self._action = ResidentSide(*action, self._batches, device)
        self._state = ResidentSide(*state, self._batches, device)
        self._sides = [side for side in (self._action, self._state) if side.present]
        self._queues = Queues(device)
        self._recorder = Recorder(single and self._tools is not padded)

    # --- once ------------------------------------------------------------------------------------

    def measure(self, action_shift: Floats, state_shift: Floats) -> tuple[Moments, Moments]:
        """Bring the features to the device, and tell the moments of both sides."""
        return self._action.measure(action_shift), self._state.measure(state_shift)

    def prepare(self, action: Whitening, state: Whitening) -> None:
        """Turn features into factor rows, where they are."""
        self._action.prepare(action)
        self._state.prepare(state)
        self._recorder.forget()
        self._desk = Desk(self._action, self._state)

    def close(self) -> None:
        """Let go of the device's memory."""
        self._recorder.forget()
        self._action.close()
        self._state.close()

    # --- passes ----------------------------------------------------------------------------------

    def start(self, seed: int | tuple[int, ...], scales: Scales) -> PassResult:
        """Stand at the random labelling that a shard on disk would start from."""
        self._rng = np.random.default_rng(seed)
        for side in (self._action, self._state):
            side.start(self._rng.standard_normal(side.constraints.linear.shape))
        self._mine = {
            side: np.zeros((side.n_states, side.width)) for side in (self._action, self._state)
        }
        tally = _Tally(self)
        for b in range(len(self._batches)):
            for side in self._sides:
                self._mine[side] += side.sums(b, side.labels(b)).cpu().numpy()
            tally.add(b, self._action.labels(b), self._state.labels(b))
        self._remember()
        own = tally.totals()[1].value(scales), 0.0, 0.0
        return PassResult(np.inf, self._wholes(), own)

    def sweep(self, wholes: FactorSums, scales: Scales, pairwise_steps: bool) -> PassResult:
        """Visit all clips, mini-batch by mini-batch in random order, as if nobody else moved.

        wholes : F'Y of all clips of all shards.
        """
        self._remember()
        self._desk.put(wholes, scales.coupling)
        for b in self._rng.permutation(len(self._batches)).tolist():
            self._recorder.run((b, pairwise_steps), partial(self._move, b, pairwise_steps))
        told = self._desk.take()
        for side, begin in zip((self._action, self._state), wholes, strict=True):
            self._mine[side] = self._mine[side] + (told[side].whole - begin)
        action, state = told[self._action], told[self._state]
        # The states are visited after the action: only they know the disorder with both.
        ledger = SeparableTerms(
            (action.square, state.square), (action.linear, state.linear), state.disorder
        )
        gap = sum(told[side].gap / side.n_rows for side in self._sides)
        return self._report(gap, ledger, scales)

    def _move(self, b: int, pairwise_steps: bool) -> None:
        """Let all clips of a mini-batch move by the classifiers on the desk; then change those.

        Reading rows takes what the device's memory takes; visiting clips, a long chain of short
        steps, leaves it idle. So while some of the clips are visited, rows of others are read.
        """
        queues, desk, last = self._queues, self._desk, self._sides[-1]
        visits: dict[ResidentSide, list[tuple[Tensor, Tensor]]] = {s: [] for s in self._sides}
        sums: dict[ResidentSide, list[Tensor]] = {s: [] for s in self._sides}
        begun = queues.mark()
        scores, scored, moved, summed = [], [], [], []
        for part in last.parts[b]:
            scores.append(last.scores(part.rows, desk.wholes[last]))
            scored.append(queues.mark())
        for n in range(len(scores)):
            with queues.beside(n, begun, urgent=True):
                for side in self._sides[:-1]:
                    own = side.scores(side.parts[b][n].rows, desk.wholes[side])
                    visits[side].append(self._visit(side, b, n, own, pairwise_steps))
                queues.wait(scored[n])
                visits[last].append(self._visit(last, b, n, scores[n], pairwise_steps))
                moved.append(queues.mark())
        for n in range(len(scores)):
            with queues.beside(n, moved[n], scored[-1]):
                for side in self._sides:
                    rows, (changes, _) = side.parts[b][n].rows, visits[side][n]
                    sums[side].append(side.sums_of(rows, changes))
                summed.append(queues.mark())
        queues.wait(*moved)
        for side in self._sides:
            desk.facts[side] += sum_of(facts for _, facts in visits[side])
        queues.wait(*summed)
        for side in self._sides:
            desk.wholes[side] += sum_of(sums[side])

    def _visit(
        self, side: ResidentSide, b: int, n: int, scores: Tensor, pairwise_steps: bool
    ) -> tuple[Tensor, Tensor]:
        """Let the clips of a part move: the changes of labels (rows, K), and (4,) facts."""
        found: tuple[Tensor, Tensor] = self._tools.visit(
            side.parts[b][n].padded,
            scores,
            self._pull_on_part(b, n, side),
            side.flows[b][n],
            weights=self._desk.weights[side],
            steps=STEPS_PER_BLOCK,
            pairwise=pairwise_steps,
        )
        return found

    def step(self, wholes: FactorSums, scales: Scales) -> PassResult:
        """Go all the way to the oracle's labelling of every clip: a full Frank-Wolfe step's end."""
        self._remember()
        here = dict(zip((self._action, self._state), wholes, strict=True))
        tally = _Tally(self)
        for b in range(len(self._batches)):
            pulls = {side: self._pull(b, side) for side in self._sides}
            for side in self._sides:
                costs = side.costs(b, side.whole(here[side]), scales.coupling, pulls[side])
                labels, of = side.labels(b), side.padded[b]
                least, path = cheapest_paths(costs + labels, of.before, of.closed)
                tally.add_gaps(side, weigh(costs + labels, labels) - least)
                side.stand(b, path)
                change = side.sums(b, side.labels(b) - labels)
                self._mine[side] = self._mine[side] + change.cpu().numpy()
            tally.add(b, self._action.labels(b), self._state.labels(b))
        return self._report(*tally.totals(), scales)

    def scale_step(self, step_size: float) -> None:
        """Scale the last pass's step by ``step_size``, from 0 to 1."""
        if step_size == 1.0:
            return
        for side in self._sides:
            flows, mine = self._before[side]
            for old, new in zip(chain(*flows), chain(*side.flows), strict=True):
                new.copy_(old + step_size * (new - old))
            self._mine[side] = mine + step_size * (self._mine[side] - mine)

    # --- looking ---------------------------------------------------------------------------------

    def evaluate(self, wholes: FactorSums, scales: Scales) -> ShardEvaluation:
        """The gap at this point, and its rounding, which ``keep_rounding`` keeps."""
        here, rounded = _Tally(self), _Tally(self)
        given = dict(zip((self._action, self._state), wholes, strict=True))
        found: dict[ResidentSide, list[Tensor]] = {self._action: [], self._state: []}
        total = {side: side.whole(0.0 * self._mine[side]) for side in found}
        for b in range(len(self._batches)):
            costs: list[Tensor] = []
            for side in (self._action, self._state):
                of, labels = side.padded[b], side.labels(b)
                scores = side.spread_scores(b, side.whole(given[side]))
                weight = scales.rounding_weights[len(costs)]
                costs.append(weight * (1 - 2 * scores) + of.linear)
                found[side].append(scores)
                if side.present:
                    pull = self._pull(b, side)
                    cost = of.linear if pull is None else of.linear + scales.coupling * pull
                    gradient = side.n_rows * cost - scores + labels
                    least, _ = least_costs(gradient, of.before, of.closed)
                    here.add_gaps(side, weigh(gradient, labels) - least)
            here.add(b, self._action.labels(b), self._state.labels(b))
            integers = round_jointly(
                self._action.padded[b], self._state.padded[b], costs[0], costs[1], scales.coupling
            )
            rounded.add(b, *integers)
            for side, labels in zip(found, integers, strict=True):
                found[side][b] = (labels, found[side][b])
                if side.present:
                    total[side] += side.sums(b, labels)
        self._examined = found
        return ShardEvaluation(
            *here.totals(),
            rounded.totals()[1],
            FactorSums(*(total[side].cpu().numpy() for side in found)),
        )

    def keep_rounding(self) -> None:
        """Keep the rounding that was examined last."""
        self._kept = self._examined

    def kept_rounding(self) -> tuple[Labels, Labels, Floats, Floats]:
        """The labels (T,) and (M,) that were kept, and the scores (T, 1), (M, 2) behind them."""
        labels, scores = [], []
        for side, found in self._kept.items():
            hot = side.gather([labels for labels, _ in found])
            labels.append((hot @ np.arange(1, side.n_states + 1)).astype(np.int8))
            scores.append(side.gather([scores for _, scores in found]))
        return labels[0], labels[1], scores[0], scores[1]

    def integer_terms(self, action: Labels, state: Labels) -> SeparableTerms:
        """The separable terms of integer labels (T,) and (M,)."""
        z, y = one_hot(action, 1), one_hot(state, 2)
        return separable_terms(self._action.constraints, self._state.constraints, z, y)

    def factor_sums(self, kind: SideName, labels: Labels) -> Floats:
        """F'Y of integer labels of one side, (K, 1 + d)."""
        side: ResidentSide = getattr(self, f"_{kind}")
        return np.asarray(side.sums_of(slice(None), side.hot(labels)).cpu().numpy())

    def held_out_scores(self, kind: SideName, labels: Labels, whole: Floats) -> Floats:
        """Scores (M, K) by classifiers learned without the clip (``held_out.py``).

        whole : F'Y of the same integer labels of all clips of all shards.
        """
        side: ResidentSide = getattr(self, f"_{kind}")
        return side.without_clip(labels, whole)

    # --- inside ----------------------------------------------------------------------------------

    def _wholes(self) -> FactorSums:
        """F'Y of these clips alone."""
        return FactorSums(self._mine[self._action], self._mine[self._state])

    def _pull(self, b: int, on: ResidentSide) -> Tensor | None:
        """What the other side of the clips does to one, where they stand; None without it."""
        if len(self._sides) < 2:
            return None
        state, action = self._state.padded[b], self._action.padded[b]
        if on is self._action:
            return self._tools.pulls_on_action(state, action, self._state.labels(b))
        return self._tools.pulls_on_states(state, action, self._action.labels(b))

    def _pull_on_part(self, b: int, n: int, on: ResidentSide) -> Tensor | None:
        """The same of a part of a mini-batch."""
        if len(self._sides) < 2:
            return None
        state, action = self._state.parts[b][n].padded, self._action.parts[b][n].padded
        if on is self._action:
            return self._tools.pulls_on_action(state, action, labels_of(self._state.flows[b][n]))
        return self._tools.pulls_on_states(state, action, labels_of(self._action.flows[b][n]))

    def _disorder(self, b: int, action: Tensor, state: Tensor) -> Tensor:
        """d of labels (1, T, N) and (2, M, N), in seconds."""
        if len(self._sides) < 2:
            return state.new_zeros(())
        of = self._state.padded[b], self._action.padded[b]
        return (self._tools.pulls_on_states(*of, action) * state).sum()

    def _remember(self) -> None:
        if not self._single:
            self._before = {
                side: ([[flow.clone() for flow in flows] for flows in side.flows], self._mine[side])
                for side in self._sides
            }

    def _report(self, gap: float, ledger: SeparableTerms, scales: Scales) -> PassResult:
        """The objective without |F'Y|^2 along the way follows from its values at both ends and its
        curvature, d being bilinear."""
        end = ledger.value(scales)
        own = end, 0.0, 0.0
        if not self._single:
            first, way = _Tally(self), _Tally(self)
            for b in range(len(self._batches)):
                before = [
                    joined_labels(self._before[side][0][b]) if side.present else side.labels(b)
                    for side in (self._action, self._state)
                ]
                first.add(b, *before)
                way.add(b, self._action.labels(b) - before[0], self._state.labels(b) - before[1])
            begin = first.totals()[1].value(scales)
            bent = replace(way.totals()[1], linear=(0.0, 0.0))
            square = bent.value(scales)
            own = begin, end - begin - square, square
        return PassResult(gap, self._wholes(), own)


class _Tally:
    """Sums over mini-batches, on the device until they are asked for."""

    def __init__(self, shard: ResidentShard) -> None:
        import torch

        self._shard = shard
        self._sums: Tensor = torch.zeros(6, dtype=torch.float64, device=shard._state.device)

    def add(self, b: int, action: Tensor, state: Tensor) -> None:
        """Count labels (1, T, N) and (2, M, N) of a mini-batch."""
        import torch

        shard = self._shard
        linear = [
            torch.where(labels != 0, labels * side.padded[b].linear, 0.0).sum()
            for side, labels in ((shard._action, action), (shard._state, state))
        ]
        squares = action.square().sum(), state.square().sum()
        disorder = shard._disorder(b, action, state)
        self._sums[1:] += torch.stack([*squares, *linear, disorder])

    def add_gaps(self, side: ResidentSide, gaps: Tensor) -> None:
        """Count gaps (N,) in units of 1/M."""
        self._sums[0] += gaps.sum() / side.n_rows

    def totals(self) -> tuple[float, SeparableTerms]:
        """The gap and the ledger."""
        gap, z, y, z_linear, y_linear, disorder = self._sums.tolist()
        return gap, SeparableTerms((z, y), (z_linear, y_linear), disorder)


def sum_of(tensors: Iterable[Tensor]) -> Tensor:
    """In the order given, whenever each of them was done."""
    import torch

    return torch.stack(list(tensors)).sum(0)


def mini_batches_of(action: Constraints, state: Constraints, at_least: int) -> list[Ints]:
    """Clips of about the same number of rows together, in runs of about as many rows each."""
    chunks, tracklets = np.diff(action.offsets), np.diff(state.offsets)
    order = np.lexsort((chunks, tracklets))
    area = np.maximum(chunks, 1) * np.maximum(tracklets, 1)
    filled = np.cumsum(area[order])
    count = max(at_least, -(-int(filled[-1]) // _PADDED))
    cuts = np.searchsorted(filled, np.linspace(0, filled[-1], count + 1)[1:-1])
    return [part for part in np.split(order, np.unique(cuts)) if len(part)]

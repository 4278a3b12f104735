"""A shard whose factor rows stay in the memory of a device: a GPU, or torch on the CPU.

What it is told and tells is what a :class:`~objectstates.solver.shards.Shard` is told and tells;
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
more for the new w. Rows are float32 where a shard's on disk are; sums and all else are float64.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from objectstates.settings import SideName
from objectstates.solver.messages import (
    Examination,
    Ledger,
    Report,
    Wholes,
    ledger_of,
    value_of,
)
from objectstates.solver.moments import FeatureRows, Moments, Whitening
from objectstates.solver.oracle import Constraints, Floats, Ints, Labels
from objectstates.solver.padded import (
    Tensor,
    cheapest_paths,
    labels_of,
    least_costs,
    round_jointly,
    weigh,
)
from objectstates.solver.problem import one_hot
from objectstates.solver.resident_rows import ResidentSide, tools_for
from objectstates.solver.visits import STEPS_PER_VISIT

MINI_BATCHES = 1  # of clips, at least; more where padded tensors would grow too large
_PADDED = 2**25  # entries of clips x tracklets x chunks in a mini-batch


class ResidentShard:
    """Clips one after another with their rows on a device, and where the solver stands on them.

    action, state : the constraints of both sides of these clips, and their features.
    device : a ``torch.device``.
    alone : there is no other shard: passes need not be taken back, nor their way be remembered.
    """

    def __init__(
        self,
        action: tuple[Constraints, FeatureRows],
        state: tuple[Constraints, FeatureRows],
        device: Any,
        *,
        alone: bool = True,
        mini_batches: int = MINI_BATCHES,
    ) -> None:
        self._alone, self._tools = alone, tools_for(device)
        self._batches = mini_batches_of(action[0], state[0], mini_batches)
        self._action = ResidentSide(*action, self._batches, device)
        self._state = ResidentSide(*state, self._batches, device)
        self._sides = [side for side in (self._action, self._state) if side.present]
        self._aside = _Aside(device)

    # --- once ------------------------------------------------------------------------------------

    def measure(self, action_shift: Floats, state_shift: Floats) -> tuple[Moments, Moments]:
        """Bring the features to the device, and tell the moments of both sides."""
        return self._action.measure(action_shift), self._state.measure(state_shift)

    def prepare(self, action: Whitening, state: Whitening) -> None:
        """Turn features into factor rows, where they are."""
        self._action.prepare(action)
        self._state.prepare(state)

    def close(self) -> None:
        """Let go of the device's memory."""
        self._action.close()
        self._state.close()

    # --- passes ----------------------------------------------------------------------------------

    def start(self, seed: int | tuple[int, ...], coupling: float) -> Report:
        """Stand at the random labelling that a shard on disk would start from."""
        self._rng = np.random.default_rng(seed)
        for side in (self._action, self._state):
            side.start(self._rng.standard_normal(side.constraints.linear.shape))
        self._mine = {}
        for side in (self._action, self._state):
            self._mine[side] = side.whole(np.zeros((side.n_states, side.width)))
        tally = _Tally(self)
        for b in range(len(self._batches)):
            for side in self._sides:
                self._mine[side] += side.sums(b, side.labels(b))
            tally.add(b, self._action.labels(b), self._state.labels(b))
        self._remember()
        own = value_of(tally.totals()[1], self._counts, coupling), 0.0, 0.0
        return Report(np.inf, self._wholes(), own)

    def sweep(self, wholes: Wholes, coupling: float, pairwise_steps: bool) -> Report:
        """Visit all clips, mini-batch by mini-batch in random order, as if nobody else moved.

        wholes : F'Y of all clips of all shards.
        """
        self._remember()
        given = zip((self._action, self._state), wholes, strict=True)
        here = {side: side.whole(whole) for side, whole in given}
        begin = {side: here[side].clone() for side in self._sides}
        weights = {side: side.weights(coupling) for side in self._sides}
        tally = _Tally(self)

        def visit(side: ResidentSide, b: int, scores: Tensor) -> None:
            changes, facts = self._tools.visit(
                side.padded[b],
                scores,
                self._pull(b, side),
                side.flows[b],
                weights=weights[side],
                steps=STEPS_PER_VISIT,
                pairwise=pairwise_steps,
            )
            here[side] += side.sums_of(side.rows[side.spans[b]], changes)
            tally.add_visit(side, facts)

        for b in self._rng.permutation(len(self._batches)):
            self._aside.mark()  # the states' scores need not wait for the action, nor it for them
            if self._state.present:
                scores = self._state.scores(b, here[self._state])
            if self._action.present:
                with self._aside:
                    visit(self._action, b, self._action.scores(b, here[self._action]))
                self._aside.join()
            if self._state.present:
                visit(self._state, b, scores)
        for side in self._sides:
            self._mine[side] = self._mine[side] + (here[side] - begin[side])
        return self._report(tally, coupling)

    def step(self, wholes: Wholes, coupling: float) -> Report:
        """Go all the way to the oracle's labelling of every clip: a full Frank-Wolfe step's end."""
        self._remember()
        here = dict(zip((self._action, self._state), wholes, strict=True))
        tally = _Tally(self)
        for b in range(len(self._batches)):
            pulls = {side: self._pull(b, side) for side in self._sides}
            for side in self._sides:
                costs = side.costs(b, side.whole(here[side]), coupling, pulls[side])
                labels, of = side.labels(b), side.padded[b]
                least, path = cheapest_paths(costs + labels, of.before, of.closed)
                tally.add_gaps(side, weigh(costs + labels, labels) - least)
                side.flows[b] = path
                change = side.sums(b, side.labels(b) - labels)
                self._mine[side] = self._mine[side] + change
            tally.add(b, self._action.labels(b), self._state.labels(b))
        return self._report(tally, coupling)

    def settle(self, share: float) -> None:
        """Take back all but ``share`` of the way of the last pass."""
        if share == 1.0:
            return
        for side in self._sides:
            flows, mine = self._before[side]
            side.flows = [
                old + share * (new - old) for old, new in zip(flows, side.flows, strict=True)
            ]
            self._mine[side] = mine + share * (self._mine[side] - mine)

    # --- looking ---------------------------------------------------------------------------------

    def examine(self, wholes: Wholes, coupling: float) -> Examination:
        """The gap at this point, and its rounding, which ``keep`` keeps."""
        here, rounded = _Tally(self), _Tally(self)
        given = dict(zip((self._action, self._state), wholes, strict=True))
        found: dict[ResidentSide, list[Tensor]] = {self._action: [], self._state: []}
        total = {side: 0.0 * self._mine[side] for side in found}
        for b in range(len(self._batches)):
            costs = []
            for side in (self._action, self._state):
                of, labels = side.padded[b], side.labels(b)
                scores = side.spread_scores(b, side.whole(given[side]))
                weight = 1 / (2 * max(side.n_rows, 1))
                costs.append(weight * (1 - 2 * scores) + of.linear)
                found[side].append(scores)
                if side.present:
                    pull = self._pull(b, side)
                    cost = of.linear if pull is None else of.linear + coupling * pull
                    gradient = side.n_rows * cost - scores + labels
                    least, _ = least_costs(gradient, of.before, of.closed)
                    here.add_gaps(side, weigh(gradient, labels) - least)
            here.add(b, self._action.labels(b), self._state.labels(b))
            integers = round_jointly(
                self._action.padded[b], self._state.padded[b], costs[0], costs[1], coupling
            )
            rounded.add(b, *integers)
            for side, labels in zip(found, integers, strict=True):
                found[side][b] = (labels, found[side][b])
                if side.present:
                    total[side] += side.sums(b, labels)
        self._examined = found
        return Examination(
            *here.totals(),
            rounded.totals()[1],
            Wholes(*(total[side].cpu().numpy() for side in found)),
        )

    def keep(self) -> None:
        """Keep the rounding that was examined last."""
        self._kept = self._examined

    def rounding(self) -> tuple[Labels, Labels, Floats, Floats]:
        """The labels (T,) and (M,) that were kept, and the scores (T, 1), (M, 2) behind them."""
        labels, scores = [], []
        for side, found in self._kept.items():
            hot = side.gather([labels for labels, _ in found])
            labels.append((hot @ np.arange(1, side.n_states + 1)).astype(np.int8))
            scores.append(side.gather([scores for _, scores in found]))
        return labels[0], labels[1], scores[0], scores[1]

    def ledger(self, action: Labels, state: Labels) -> Ledger:
        """The ledger of integer labels (T,) and (M,)."""
        z, y = one_hot(action, 1), one_hot(state, 2)
        return ledger_of(self._action.constraints, self._state.constraints, z, y)

    def whole(self, kind: SideName, labels: Labels) -> Floats:
        """F'Y of integer labels of one side, (K, 1 + d)."""
        side: ResidentSide = getattr(self, f"_{kind}")
        return np.asarray(side.sums_of(side.rows, side.hot(labels)).cpu().numpy())

    def held_out(self, kind: SideName, labels: Labels, whole: Floats) -> Floats:
        """Scores (M, K) by classifiers learned without the clip (``held_out.py``).

        whole : F'Y of the same integer labels of all clips of all shards.
        """
        side: ResidentSide = getattr(self, f"_{kind}")
        return side.without_clip(labels, whole)

    # --- inside ----------------------------------------------------------------------------------

    @property
    def _counts(self) -> tuple[int, int]:
        return self._action.n_rows, self._state.n_rows

    def _wholes(self) -> Wholes:
        """F'Y of these clips alone."""
        return Wholes(self._mine[self._action].cpu().numpy(), self._mine[self._state].cpu().numpy())

    def _pull(self, b: int, on: ResidentSide) -> Tensor | None:
        """What the other side of the clips does to one, where they stand; None without it."""
        if len(self._sides) < 2:
            return None
        state, action = self._state.padded[b], self._action.padded[b]
        if on is self._action:
            return self._tools.pulls_on_action(state, action, self._state.labels(b))
        return self._tools.pulls_on_states(state, action, self._action.labels(b))

    def _disorder(self, b: int, action: Tensor, state: Tensor) -> Tensor:
        """d of labels (1, T, N) and (2, M, N), in seconds."""
        if len(self._sides) < 2:
            return state.new_zeros(())
        of = self._state.padded[b], self._action.padded[b]
        return (self._tools.pulls_on_states(*of, action) * state).sum()

    def _remember(self) -> None:
        if not self._alone:
            self._before = {
                side: ([flow.clone() for flow in side.flows], self._mine[side])
                for side in self._sides
            }

    def _report(self, tally: _Tally, coupling: float) -> Report:
        """The objective without |F'Y|^2 along the way follows from its values at both ends and its
        curvature, d being bilinear."""
        gap, ledger = tally.totals()
        end = value_of(ledger, self._counts, coupling)
        own = end, 0.0, 0.0
        if not self._alone:
            first, way = _Tally(self), _Tally(self)
            for b in range(len(self._batches)):
                before = [
                    labels_of(self._before[side][0][b]) if side.present else side.labels(b)
                    for side in (self._action, self._state)
                ]
                first.add(b, *before)
                way.add(b, self._action.labels(b) - before[0], self._state.labels(b) - before[1])
            begin = value_of(first.totals()[1], self._counts, coupling)
            bent = replace(way.totals()[1], linear=(0.0, 0.0))
            square = value_of(bent, self._counts, coupling)
            own = begin, end - begin - square, square
        return Report(gap, self._wholes(), own)


class _Aside:
    """What is done within it waits for what was asked before ``mark``, and only what comes after
    ``join`` waits for it: on a GPU, the small work of one side beside the large of the other."""

    def __init__(self, device: Any) -> None:
        self._stream: Any = None
        if device.type == "cuda":
            import torch

            self._torch, self._stream = torch.cuda, torch.cuda.Stream(device)

    def mark(self) -> None:
        if self._stream is not None:
            self._event = self._torch.current_stream().record_event()

    def __enter__(self) -> None:
        if self._stream is not None:
            self._stream.wait_event(self._event)
            self._within = self._torch.stream(self._stream)
            self._within.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._stream is not None:
            self._within.__exit__(*error)

    def join(self) -> None:
        if self._stream is not None:
            self._torch.current_stream().wait_stream(self._stream)


class _Tally:
    """Sums over mini-batches, on the device until they are asked for."""

    def __init__(self, shard: ResidentShard) -> None:
        self._shard = shard
        self._sums: Tensor = shard._mine[shard._state].new_zeros(6)
        self._visits: dict[ResidentSide, Tensor] = {}

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

    def add_visit(self, side: ResidentSide, facts: Tensor) -> None:
        """Count what visits tell."""
        known = self._visits.get(side)
        self._visits[side] = facts if known is None else known + facts

    def totals(self) -> tuple[float, Ledger]:
        """The gap and the ledger."""
        gap, *sums = self._sums.tolist()
        for side, facts in self._visits.items():
            k = 0 if side is self._shard._action else 1
            met, square, linear, disorder = facts.tolist()
            gap += met / side.n_rows
            sums[k] += square
            sums[2 + k] += linear
            if k == 1:  # the states are visited after the action: only they know of both
                sums[4] += disorder
        z, y, z_linear, y_linear, disorder = sums
        return gap, Ledger((z, y), (z_linear, y_linear), disorder)


def mini_batches_of(action: Constraints, state: Constraints, at_least: int) -> list[Ints]:
    """Clips of about the same number of rows together, in runs of about as many rows each."""
    chunks, tracklets = np.diff(action.offsets), np.diff(state.offsets)
    order = np.lexsort((chunks, tracklets))
    area = np.maximum(chunks, 1) * np.maximum(tracklets, 1)
    filled = np.cumsum(area[order])
    count = max(at_least, -(-int(filled[-1]) // _PADDED))
    cuts = np.searchsorted(filled, np.linspace(0, filled[-1], count + 1)[1:-1])
    return [part for part in np.split(order, np.unique(cuts)) if len(part)]

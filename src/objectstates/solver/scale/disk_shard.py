"""A shard: some of the clips, with factor rows on disk, and the solver's work on them.

In memory a shard holds what is small: constraints, labels, and the labellings of each clip's convex
combination, some tens of bytes per row. Factor rows and the diagonal blocks of A lie in files, and
are read batch of clips by batch of clips, the next one while one is worked on. What a shard is told
and tells is of the size of a classifier, (1 + d) K numbers per side, however many clips it has.

The work in a batch is done by the very kernels of the solver in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from objectstates.base.choices import SideName
from objectstates.base.jit import compiled_exactly
from objectstates.solver.block_steps import sweep
from objectstates.solver.frank_wolfe import random_labels
from objectstates.solver.held_out import scores_without_clip
from objectstates.solver.oracle import Constraints, Floats, Ints, Labels
from objectstates.solver.problem import (
    Side,
    action_pull,
    best_response,
    block_gradient,
    inner_product,
    one_hot,
    state_pull,
)
from objectstates.solver.rounding import joint_rounding
from objectstates.solver.scale.disk_rows import ShardSide, add, blend, products
from objectstates.solver.scale.moments import FeatureRows, Moments, Whitening, measure
from objectstates.solver.scale.shard_messages import (
    Examination,
    Ledger,
    Report,
    Wholes,
    ledger_of,
    value_of,
)

BATCH_BYTES = 16 * 2**20  # of factor rows; two batches are held at a time


class _Batch(NamedTuple):
    """Some clips of a shard, with their rows in memory for now."""

    first: int
    last: int
    action: Side
    state: Side


class Shard:
    """Clips one after another, and where the solver stands on them.

    action, state : the constraints of both sides of these clips alone, and their features.
    folder : where its files go; ``close`` removes them.
    alone : there is no other shard: passes need not be taken back, nor their way be remembered.
    """

    def __init__(
        self,
        action: tuple[Constraints, FeatureRows],
        state: tuple[Constraints, FeatureRows],
        folder: Path,
        *,
        alone: bool = True,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self._action, self._state = ShardSide(*action), ShardSide(*state)
        self.folder, self._alone = folder, alone
        self._batch_bytes = batch_bytes
        self._batches = self._divide()

    @property
    def n_clips(self) -> int:
        return self._state.constraints.n_clips

    # --- once ------------------------------------------------------------------------------------

    def measure(self, action_shift: Floats, state_shift: Floats) -> tuple[Moments, Moments]:
        """The moments of both sides' features: the only d x d numbers ever told."""
        return (
            measure(self._action.features, action_shift),
            measure(self._state.features, state_shift),
        )

    def prepare(self, action: Whitening, state: Whitening) -> None:
        """Write the factor rows."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._action.prepare("action", action, self.folder, self._batches)
        self._state.prepare("state", state, self.folder, self._batches)
        self._batches = self._divide()  # factor rows may be less wide than features
        self._rooms = [
            (self._action.room(self._batches), self._state.room(self._batches)) for _ in range(2)
        ]

    def close(self) -> None:
        """Remove the files."""
        self._action.close()
        self._state.close()

    # --- passes ----------------------------------------------------------------------------------

    def start(self, seed: int | tuple[int, ...], coupling: float) -> Report:
        """Stand at a random labelling."""
        self._rng = np.random.default_rng(seed)
        for side in (self._action, self._state):
            side.start(random_labels(side.constraints, self._rng))
        self._remember()
        wholes = self._nothing()
        for batch in self._read():
            self._gather(batch, self._action.labels, self._state.labels, wholes)
        return Report(np.inf, wholes, self._own(coupling))

    def sweep(self, wholes: Wholes, coupling: float, pairwise_steps: bool) -> Report:
        """Visit all clips, batches and the clips of each in random order, as if nobody else moved.

        wholes : F'Y of all clips of all shards.
        """
        self._remember()
        self._action.make_room()
        self._state.make_room()
        here, mine = Wholes(wholes.action.copy(), wholes.state.copy()), self._nothing()
        gap = 0.0
        for batch in self._read(shuffled=True):
            first, last = batch.first, batch.last
            action = self._action.at(first, last, batch.action, here.action)
            state = self._state.at(first, last, batch.state, here.state)
            clips = self._rng.permutation(last - first)
            gap += sweep(batch.action, batch.state, coupling, action, state, clips, pairwise_steps)
            mine.action[:] += action.parts.sum(axis=0)
            mine.state[:] += state.parts.sum(axis=0)
        return Report(gap, mine, self._own(coupling))

    def step(self, wholes: Wholes, coupling: float) -> Report:
        """Go all the way to the oracle's labelling of every clip: a full Frank-Wolfe step's end."""
        self._remember()
        z, y = np.zeros_like(self._action.labels), np.zeros_like(self._state.labels)
        mine, gap = self._nothing(), 0.0
        for batch in self._read():
            rows = self._rows(batch)
            gap += self._targets(batch, wholes, coupling, z[rows[0]], y[rows[1]])
            self._gather(batch, z, y, mine)
        self._action.labels, self._state.labels = z, y
        return Report(gap, mine, self._own(coupling))

    def settle(self, share: float) -> None:
        """Take back all but ``share`` of the way of the last pass."""
        if share == 1.0:
            return
        for side, before in zip(self._sides, self._before, strict=True):
            labels, vertices, weights, counts = before
            if share == 0.0:
                side.labels, side.vertices, side.weights, side.counts = before
                continue
            side.labels = labels + share * (side.labels - labels)
            capacity = max(int((side.counts + counts).max(initial=1)), side.weights.shape[1])
            more = ((0, 0), (0, capacity - side.weights.shape[1]))
            side.vertices, side.weights = np.pad(side.vertices, more), np.pad(side.weights, more)
            blend(
                side.constraints.offsets, share, side.vertices, side.weights, side.counts,
                vertices, weights, counts,
            )  # fmt: skip

    # --- looking ---------------------------------------------------------------------------------

    def examine(self, wholes: Wholes, coupling: float) -> Examination:
        """The gap at this point, and its rounding, which ``keep`` keeps."""
        counts = len(self._action.labels), len(self._state.labels)
        scores = np.empty((counts[0], 1)), np.empty((counts[1], 2))
        labels = np.empty(counts[0], np.int8), np.empty(counts[1], np.int8)
        gap = 0.0
        rounded = self._nothing()
        for batch in self._read():
            z, y = self._rows(batch)
            nowhere = np.zeros_like(scores[0][z]), np.zeros_like(scores[1][y])
            gap += self._targets(batch, wholes, coupling, *nowhere)
            scores[0][z] = products(batch.action.rows, wholes.action)
            scores[1][y] = products(batch.state.rows, wholes.state)
            labels[0][z], labels[1][y] = joint_rounding(
                batch.action.constraints,
                batch.state.constraints,
                scores[0][z],
                scores[1][y],
                action_weight=1 / (2 * max(self._action.n_rows, 1)),
                state_weight=1 / (2 * max(self._state.n_rows, 1)),
                coupling=coupling,
            )
            add(batch.action, one_hot(labels[0][z], 1), rounded.action)
            add(batch.state, one_hot(labels[1][y], 2), rounded.state)
        self._examined = (*labels, *scores)
        here = self._ledger(self._action.labels, self._state.labels)
        return Examination(gap, here, self.ledger(*labels), rounded)

    def keep(self) -> None:
        """Keep the rounding that was examined last."""
        self._kept = self._examined

    def rounding(self) -> tuple[Labels, Labels, Floats, Floats]:
        """The labels (T,) and (M,) that were kept, and the scores (T, 1), (M, 2) behind them."""
        return self._kept

    def ledger(self, action: Labels, state: Labels) -> Ledger:
        """The ledger of integer labels (T,) and (M,)."""
        return self._ledger(one_hot(action, 1), one_hot(state, 2))

    def whole(self, kind: SideName, labels: Labels) -> Floats:
        """F'Y of integer labels of one side, (K, 1 + d)."""
        mine = getattr(self, f"_{kind}")
        hot, whole = one_hot(labels, mine.n_states), np.zeros((mine.n_states, mine.width))
        for rows, side in self._read_side(mine):
            add(side, hot[rows], whole)
        return whole

    def held_out(self, kind: SideName, labels: Labels, whole: Floats) -> Floats:
        """Scores (M, K) by classifiers learned without the clip (``held_out.py``).

        whole : F'Y of the same integer labels of all clips of all shards.
        """
        mine = getattr(self, f"_{kind}")
        hot = one_hot(labels, mine.n_states)
        found = np.empty_like(hot)
        for rows, side in self._read_side(mine):
            residual = hot[rows] - products(side.rows, whole)
            found[rows] = scores_without_clip(side, hot[rows], residual)
        return found

    # --- inside ----------------------------------------------------------------------------------

    @property
    def _sides(self) -> tuple[ShardSide, ShardSide]:
        return self._action, self._state

    def _divide(self) -> list[tuple[int, int]]:
        filled = sum(4 * side.width * side.constraints.offsets for side in self._sides)
        return _batches(np.asarray(filled), self._batch_bytes)

    def _read(self, shuffled: bool = False) -> Iterator[_Batch]:
        """All batches; while one is worked on, the next is read."""
        order = np.arange(len(self._batches))
        if shuffled and len(order) > 1:
            order = self._rng.permutation(len(order))

        def load(position: int) -> _Batch:
            first, last = self._batches[order[position]]
            room = self._rooms[position % 2]
            action = self._action.side(first, last, room[0])
            return _Batch(first, last, action, self._state.side(first, last, room[1]))

        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(load, 0)
            for position in range(len(order)):
                batch = coming.result()
                if position + 1 < len(order):
                    coming = reader.submit(load, position + 1)
                yield batch

    def _read_side(self, side: ShardSide) -> Iterator[tuple[slice, Side]]:
        """One side alone: where a batch's rows stand, and the rows."""
        room = side.room(self._batches)
        for first, last in self._batches:
            yield side.span(first, last), side.side(first, last, room)

    def _targets(
        self, batch: _Batch, wholes: Wholes, coupling: float, z: Floats, y: Floats
    ) -> float:
        """Write the oracle's labels of a batch into z and y; the gap."""
        rows = self._rows(batch)
        here = self._action.labels[rows[0]], self._state.labels[rows[1]]
        return _targets(batch.action, batch.state, coupling, *here, *wholes, z, y)

    def _rows(self, batch: _Batch) -> tuple[slice, slice]:
        return (
            self._action.span(batch.first, batch.last),
            self._state.span(batch.first, batch.last),
        )

    def _nothing(self) -> Wholes:
        return Wholes(np.zeros((1, self._action.width)), np.zeros((2, self._state.width)))

    def _gather(self, batch: _Batch, action: Floats, state: Floats, wholes: Wholes) -> None:
        """Add the batch's F'Y to ``wholes``."""
        rows = self._rows(batch)
        add(batch.action, action[rows[0]], wholes.action)
        add(batch.state, state[rows[1]], wholes.state)

    def _remember(self) -> None:
        if not self._alone:
            self._before = [
                (side.labels.copy(), side.vertices.copy(), side.weights.copy(), side.counts.copy())
                for side in self._sides
            ]

    def _ledger(self, z: Floats, y: Floats) -> Ledger:
        return ledger_of(self._action.constraints, self._state.constraints, z, y)

    def _own(self, coupling: float) -> tuple[float, float, float]:
        """The objective without |F'Y|^2 along the way, as in :class:`Report`: from its values at
        both ends and its curvature, d being bilinear."""
        z, y = self._action.labels, self._state.labels
        end = self._value(self._ledger(z, y), coupling)
        if self._alone:
            return end, 0.0, 0.0
        z_before, y_before = (before[0] for before in self._before)
        begin = self._value(self._ledger(z_before, y_before), coupling)
        z_way, y_way = z - z_before, y - y_before
        bent = replace(self._ledger(z_way, y_way), linear=(0.0, 0.0))
        square = self._value(bent, coupling)
        return begin, end - begin - square, square

    def _value(self, ledger: Ledger, coupling: float) -> float:
        return value_of(ledger, (self._action.n_rows, self._state.n_rows), coupling)


def _batches(filled: Ints, size: int) -> list[tuple[int, int]]:
    """Runs of clips that hold about ``size``; ``filled`` (N + 1,) counts what clips before hold."""
    batches, first, n_clips = [], 0, len(filled) - 1
    while first < n_clips:
        last = int(np.searchsorted(filled, filled[first] + size, side="right")) - 1
        last = min(max(last, first + 1), n_clips)
        batches.append((first, last))
        first = last
    return batches


@compiled_exactly
def _targets(
    action: Side,
    state: Side,
    coupling: float,
    z: Floats,
    y: Floats,
    z_whole: Floats,
    y_whole: Floats,
    z_target: Floats,
    y_target: Floats,
) -> float:
    """Write the oracle's answer for every clip into the targets; return the gap."""
    gap = 0.0
    for n in range(len(state.constraints.offsets) - 1):
        pull = action_pull(action, state, n, y)
        gap += _target(action, n, coupling, pull, z, z_whole, z_target)
        pull = state_pull(action, state, n, z)
        gap += _target(state, n, coupling, pull, y, y_whole, y_target)
    return gap


@compiled_exactly
def _target(
    side: Side, n: int, coupling: float, pull: Floats, labels: Floats, whole: Floats, target: Floats
) -> float:
    lo, hi = side.constraints.offsets[n], side.constraints.offsets[n + 1]
    if lo == hi:
        return 0.0
    gradient = block_gradient(side, labels, whole, n, coupling, pull)
    found = np.empty(hi - lo, np.int8)
    least = best_response(side, n, gradient, found)
    target[lo:hi] = one_hot(found, labels.shape[1])
    return inner_product(gradient, labels[lo:hi]) - least

"""A shard: a set of clips with factor rows on disk, and the solver's work on them.

In memory it holds constraints, labels, and the labellings of each clip's convex combination, some
tens of bytes per row. Factor rows and the diagonal blocks of A are in files and are read batch of
clips by batch of clips, the next one while the current one is worked on. Messages
(``shard_messages.py``) have (1 + d) K numbers per side, however many clips there are.

Batches are worked on by the same kernels as rows in memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from objectstates.base.choices import SideName
from objectstates.base.errors import SettingError
from objectstates.solver.block_steps import sweep
from objectstates.solver.held_out import scores_without_clip
from objectstates.solver.oracle import Constraints, Floats, Ints, Labels, random_labels
from objectstates.solver.problem import (
    Scales,
    Side,
    duality_gap,
    missing_states,
    one_hot,
    repeat_alike,
)
from objectstates.solver.rounding import joint_rounding
from objectstates.solver.scale.disk_rows import ShardSide, add_factor_sums, scores
from objectstates.solver.scale.moments import FeatureRows, Moments, Whitening, measure
from objectstates.solver.scale.shard_messages import (
    FactorSums,
    PassResult,
    SeparableTerms,
    ShardEvaluation,
    separable_terms,
)

BATCH_BYTES = 16 * 2**20  # of factor rows; two batches are in memory at a time


class _Batch(NamedTuple):
    """The clips first to last, with their rows in memory."""

    first: int
    last: int
    action: Side
    state: Side


class Shard:
    """Clips with a current relaxed point.

    action, state : the constraints of both sides of these clips alone, and their features.
    folder : made for its files; ``close`` removes it.
    single : there is no other shard, so that steps are never scaled, and need not be undone.
    classes : (K,) which states look alike, as in ``problem.Side``.
    """

    def __init__(
        self,
        action: tuple[Constraints, FeatureRows],
        state: tuple[Constraints, FeatureRows],
        folder: Path,
        *,
        single: bool = True,
        batch_bytes: int = BATCH_BYTES,
        classes: Ints | None = None,
    ) -> None:
        self._action, self._state = ShardSide(*action), ShardSide(*state, classes)
        self.folder, self._single = folder, single
        self._batch_bytes = batch_bytes
        self._batches = self._divide()
        try:
            shutil.rmtree(folder, ignore_errors=True)  # left by an actor that was lost
            folder.mkdir(mode=0o700)
        except OSError as problem:
            raise SettingError(
                f"`scratch`: no files can be written in {folder.parent} ({problem.strerror}): "
                "choose another folder"
            ) from None

    # --- once ------------------------------------------------------------------------------------

    def measure(self, action_shift: Floats, state_shift: Floats) -> tuple[Moments, Moments]:
        """The moments of both sides' features: the only message of d x d numbers."""
        return (
            measure(self._action.features, action_shift),
            measure(self._state.features, state_shift),
        )

    def prepare(self, action: Whitening, state: Whitening) -> None:
        """Write the factor rows."""
        self._action.prepare("action", action, self.folder, self._batches)
        self._state.prepare("state", state, self.folder, self._batches)
        self._batches = self._divide()  # factor rows may be narrower than features
        self._buffers = [tuple(side.buffers(self._batches) for side in self._sides) for _ in "ab"]

    def close(self) -> None:
        """Remove the files and their folder."""
        self._action.close()
        self._state.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- passes ----------------------------------------------------------------------------------

    def start(self, seed: int | tuple[int, ...], scales: Scales) -> PassResult:
        """Go to a random labelling."""
        self._rng = np.random.default_rng(seed)
        for side in self._sides:
            side.start(random_labels(side.constraints, self._rng))
        self._save_point()
        sums = self._zero_sums()
        for batch in self.read_batches():
            self._add_sums(batch, self._action.labels, self._state.labels, sums)
        return PassResult(np.inf, sums, self._polynomial(scales))

    def sweep(self, sums: FactorSums, scales: Scales, pairwise_steps: bool) -> PassResult:
        """Block steps on all clips; batches, and clips within a batch, in random order.

        sums : F'Y of all clips of all shards.
        """
        self._save_point()
        for side in self._sides:
            side.reserve_vertices()
        total, own = FactorSums(sums.action.copy(), sums.state.copy()), self._zero_sums()
        gap = 0.0
        for batch in self.read_batches(shuffled=True):
            first, last = batch.first, batch.last
            action = self._action.iterate(first, last, batch.action, total.action)
            state = self._state.iterate(first, last, batch.state, total.state)
            clips = self._rng.permutation(last - first)
            gap += sweep(
                batch.action, batch.state, scales.coupling, action, state, clips, pairwise_steps
            )
            own.action[:] += action.clip_sums.sum(axis=0)
            own.state[:] += state.clip_sums.sum(axis=0)
        return PassResult(gap, own, self._polynomial(scales))

    def step(self, sums: FactorSums, scales: Scales) -> PassResult:
        """Move to the oracle's labelling of every clip: the end of a full Frank-Wolfe step."""
        self._save_point()
        z, y = np.zeros_like(self._action.labels), np.zeros_like(self._state.labels)
        missing = {side: np.zeros_like(side.missing) for side in self._sides}
        own, gap = self._zero_sums(), 0.0
        for batch in self.read_batches():
            rows = self._rows(batch)
            more, targets = self._gap(batch, sums, scales)
            gap += more
            for side, labels, target, part in zip(self._sides, (z, y), targets, rows, strict=True):
                labels[part] = one_hot(target, side.n_states)
                clips = slice(batch.first, batch.last)
                some = side.constraints.clips(batch.first, batch.last)
                missing[side][clips] = missing_states(some, target)
            self._add_sums(batch, z, y, own)
        self._action.labels, self._state.labels = z, y
        for side in self._sides:
            side.missing = missing[side]
        return PassResult(gap, own, self._polynomial(scales))

    def scale_step(self, step_size: float) -> None:
        """Scale the last pass's step by ``step_size``, from 0 to 1."""
        if step_size == 1.0:
            return
        for side, earlier in zip(self._sides, self._before, strict=True):
            side.scale_step(earlier, step_size)

    # --- evaluation ------------------------------------------------------------------------------

    def evaluate(self, sums: FactorSums, scales: Scales) -> ShardEvaluation:
        """The gap at this point, and its rounding, which :meth:`keep_rounding` keeps."""
        counts = len(self._action.labels), len(self._state.labels)
        found = np.empty_like(self._action.labels), np.empty_like(self._state.labels)
        labels = np.empty(counts[0], np.int8), np.empty(counts[1], np.int8)
        rounded, gap = self._zero_sums(), 0.0
        for batch in self.read_batches():
            z, y = self._rows(batch)
            gap += self._gap(batch, sums, scales)[0]
            found[0][z] = repeat_alike(scores(batch.action.rows, sums.action), batch.action.classes)
            found[1][y] = repeat_alike(scores(batch.state.rows, sums.state), batch.state.classes)
            labels[0][z], labels[1][y] = joint_rounding(
                batch.action.constraints, batch.state.constraints, found[0][z], found[1][y], scales
            )
            add_factor_sums(batch.action.rows, self._action.one_hot(labels[0][z]), rounded.action)
            add_factor_sums(batch.state.rows, self._state.one_hot(labels[1][y]), rounded.state)
        self._rounding = (*labels, *found)
        here = self._terms(*((side.labels, side.missing) for side in self._sides))
        return ShardEvaluation(gap, here, self.integer_terms(*labels), rounded)

    def keep_rounding(self) -> None:
        """Keep the rounding of the last evaluation."""
        self._kept = self._rounding

    def kept_rounding(self) -> tuple[Labels, Labels, Floats, Floats]:
        """The labels (T,) and (M,) that were kept, and the scores (T, K - 1), (M, K) of them."""
        return self._kept

    def integer_terms(self, action: Labels, state: Labels) -> SeparableTerms:
        """The separable terms of integer labels (T,) and (M,)."""
        return self._terms(
            *(
                (one_hot(labels, side.n_states), missing_states(side.constraints, labels))
                for side, labels in zip(self._sides, (action, state), strict=True)
            )
        )

    def factor_sums(self, name: SideName, labels: Labels) -> Floats:
        """F'Y of integer labels of one side, (C, 1 + d)."""
        side = self._side(name)
        y, sums = side.one_hot(labels), side.zero_sums()
        for rows, batch in self._read_side(side):
            add_factor_sums(batch.rows, y[rows], sums)
        return sums

    def held_out_scores(self, name: SideName, labels: Labels, sums: Floats) -> Floats:
        """Leave-one-clip-out scores (M, K) (``held_out.py``).

        sums : F'Y of the integer labels of all clips of all shards.
        """
        side = self._side(name)
        y = side.one_hot(labels)
        found = np.empty_like(y)
        for rows, batch in self._read_side(side):
            residual = y[rows] - scores(batch.rows, sums)
            found[rows] = scores_without_clip(batch, y[rows], residual)
        return repeat_alike(found, side.classes)

    # --- inside ----------------------------------------------------------------------------------

    @property
    def _sides(self) -> tuple[ShardSide, ShardSide]:
        return self._action, self._state

    def _side(self, name: SideName) -> ShardSide:
        return self._action if name == "action" else self._state

    def _divide(self) -> list[tuple[int, int]]:
        filled = sum(4 * side.width * side.constraints.offsets for side in self._sides)
        return _batches(np.asarray(filled), self._batch_bytes)

    def read_batches(self, shuffled: bool = False) -> Iterator[_Batch]:
        """All batches; while one is worked on, the next is read."""
        order = np.arange(len(self._batches))
        if shuffled and len(order) > 1:
            order = self._rng.permutation(len(order))

        def load(position: int) -> _Batch:
            first, last = self._batches[order[position]]
            buffers = self._buffers[position % 2]
            action = self._action.side(first, last, buffers[0])
            return _Batch(first, last, action, self._state.side(first, last, buffers[1]))

        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(load, 0)
            for position in range(len(order)):
                batch = coming.result()
                if position + 1 < len(order):
                    coming = reader.submit(load, position + 1)
                yield batch

    def _read_side(self, side: ShardSide) -> Iterator[tuple[slice, Side]]:
        """The batches of one side: the range of rows, and the rows."""
        buffers = side.buffers(self._batches)
        for first, last in self._batches:
            yield side.span(first, last), side.side(first, last, buffers)

    def _gap(
        self, batch: _Batch, sums: FactorSums, scales: Scales
    ) -> tuple[float, tuple[Labels, Labels]]:
        """A batch's gap, and the oracle's labels of both sides."""
        z, y = self._rows(batch)
        here = self._action.labels[z], self._state.labels[y]
        targets = np.empty(len(here[0]), np.int8), np.empty(len(here[1]), np.int8)
        clips = slice(batch.first, batch.last)
        missing = self._action.missing[clips], self._state.missing[clips]
        gap = duality_gap(
            batch.action, batch.state, scales.coupling, *here, *sums, *missing, *targets
        )
        return gap, targets

    def _rows(self, batch: _Batch) -> tuple[slice, slice]:
        return (
            self._action.span(batch.first, batch.last),
            self._state.span(batch.first, batch.last),
        )

    def _zero_sums(self) -> FactorSums:
        return FactorSums(self._action.zero_sums(), self._state.zero_sums())

    def _add_sums(self, batch: _Batch, z: Floats, y: Floats, sums: FactorSums) -> None:
        """Add the batch's F'Y to ``sums``."""
        rows = self._rows(batch)
        add_factor_sums(batch.action.rows, self._action.merged(z[rows[0]]), sums.action)
        add_factor_sums(batch.state.rows, self._state.merged(y[rows[1]]), sums.state)

    def _save_point(self) -> None:
        if not self._single:
            self._before = [deepcopy(side.point) for side in self._sides]

    def _terms(self, action: tuple[Floats, Floats], state: tuple[Floats, Floats]) -> SeparableTerms:
        """Of both sides' labels (M, K), and what clips lack (N, K)."""
        return separable_terms(
            self._action.constraints,
            self._state.constraints,
            action[0],
            state[0],
            missing=(action[1], state[1]),
            classes=(self._action.classes, self._state.classes),
        )

    def _polynomial(self, scales: Scales) -> tuple[float, float, float]:
        """Of :class:`PassResult`: from the values at both ends and the curvature, since d is
        bilinear."""
        action, state = ((side.labels, side.missing) for side in self._sides)
        end = self._terms(action, state).value(scales)
        if self._single:
            return end, 0.0, 0.0
        z, y = ((before.labels, before.missing) for before in self._before)
        begin = self._terms(z, y).value(scales)
        ways = (action[0] - z[0], action[1] - z[1]), (state[0] - y[0], state[1] - y[1])
        bent = replace(self._terms(*ways), linear=(0.0, 0.0))
        square = bent.value(scales)
        return begin, end - begin - square, square


def _batches(filled: Ints, size: int) -> list[tuple[int, int]]:
    """Ranges of clips of about ``size`` bytes; ``filled`` (N + 1,) sums those of clips before."""
    batches, first, n_clips = [], 0, len(filled) - 1
    while first < n_clips:
        last = int(np.searchsorted(filled, filled[first] + size, side="right")) - 1
        last = min(max(last, first + 1), n_clips)
        batches.append((first, last))
        first = last
    return batches

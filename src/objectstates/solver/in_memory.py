"""The joint problem with all rows in memory: the ``Problem`` of ``frank_wolfe.py`` on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from objectstates.base.choices import SideName, Solver
from objectstates.solver.block_steps import STEPS_PER_BLOCK, exact_step, sweep, with_capacity
from objectstates.solver.distortion import distortion
from objectstates.solver.frank_wolfe import Evaluation, Learned, Rounding
from objectstates.solver.held_out import held_out_scores
from objectstates.solver.oracle import Constraints, Floats, Ints, Labels, random_labels
from objectstates.solver.problem import (
    Iterate,
    JointProblem,
    Side,
    Terms,
    classifier_scores,
    duality_gap,
    mean_of_vertices,
    merge_alike,
    one_hot,
    refresh,
    repeat_alike,
    vertex,
)
from objectstates.solver.rounding import joint_rounding

SIDES: tuple[SideName, SideName] = ("action", "state")
MORE_VERTICES = 64  # that a clip's combination gets room for at a time, at least


Classifier = Callable[[SideName, Floats, Floats], tuple[Floats, Floats]]
"""(W, b) of one side, (d, K) and (K,), from labels (M, K) and their residual A Y (M, K)."""


class SidePoint(NamedTuple):
    """One side of a solution, and the constraints it was found under.

    labels, vertices, weights, counts, missing : as in `Iterate`.
    """

    constraints: Constraints
    labels: Floats
    vertices: Labels
    weights: Floats
    counts: Ints
    missing: Floats

    def of_clips(self, clips: Ints, offsets: Ints) -> SidePoint:
        """The clips with these numbers, -1 for one without a solution, which becomes NaN.

        offsets : (N + 1,) first row of each clip in the problem to come.
        """
        n_rows, n_states, capacity = offsets[-1], self.labels.shape[1], self.weights.shape[1]
        labels = np.full((n_rows, n_states), np.nan)
        vertices = np.zeros((n_rows, capacity), np.int8)
        linear = np.full((n_rows, n_states), np.nan)
        weights, counts = np.zeros((len(clips), capacity)), np.ones(len(clips), np.int64)
        missing = np.zeros((len(clips), n_states))
        for n, old in enumerate(clips):
            if old >= 0:
                mine = slice(offsets[n], offsets[n + 1])
                rows = slice(self.constraints.offsets[old], self.constraints.offsets[old + 1])
                labels[mine], vertices[mine] = self.labels[rows], self.vertices[rows]
                linear[mine] = self.constraints.linear[rows]
                weights[n], counts[n] = self.weights[old], self.counts[old]
                missing[n] = self.missing[old]
        constraints = self.constraints._replace(offsets=offsets, linear=linear)
        return SidePoint(constraints, labels, vertices, weights, counts, missing)

    def changed(self, side: Side) -> npt.NDArray[np.bool_]:
        """(N,) which clips have other constraints in ``side``, or no solution."""
        if not np.array_equal(side.constraints.absent, self.constraints.absent):
            return np.ones(len(self.counts), np.bool_)
        rows = (side.constraints.linear != self.constraints.linear).any(axis=1)  # NaN is unequal
        owner = np.repeat(np.arange(len(self.counts)), np.diff(side.constraints.offsets))
        return np.bincount(owner[rows], minlength=len(self.counts)) > 0

    def begun(self, side: Side, fresh: Iterate, changed: npt.NDArray[np.bool_]) -> Iterate:
        """An iterate here, with the labels of ``fresh``, a vertex, in clips that changed."""
        at = fresh._replace(
            labels=self.labels.copy(),
            vertices=self.vertices.copy(),
            weights=self.weights.copy(),
            counts=self.counts.copy(),
            missing=self.missing.copy(),
        )
        at.counts[changed] = 1
        at.weights[changed, 0] = 1.0
        rows = np.repeat(changed, np.diff(side.constraints.offsets))
        at.labels[rows], at.vertices[rows, 0] = fresh.labels[rows], fresh.vertices[rows, 0]
        at.missing[changed] = fresh.missing[changed]
        refresh(side, at)
        return at


class Point(NamedTuple):
    """A solution, to start another problem of the same clips from."""

    action: SidePoint
    state: SidePoint

    def of_clips(self, clips: Ints, action: Constraints, state: Constraints) -> Point:
        """The clips with these numbers, -1 for one without a solution, for other constraints."""
        return Point(
            self.action.of_clips(clips, action.offsets), self.state.of_clips(clips, state.offsets)
        )


class InMemoryProblem:
    """A joint problem with a current point, ``action`` and ``state``.

    classifier : computes classifiers from labels, where the features are at hand.
    begin_at : the solution of a problem with the same rows and states, and other constraints. Clips
        whose constraints are the same start there, the others at random labels.
    starts : random labellings whose mean it starts at otherwise.
    sweeps : over all clips in one pass of block steps. Several take less time than as many passes,
        most of all where there are few rows; the gap met is their mean.
    """

    def __init__(
        self,
        joint: JointProblem,
        classifier: Classifier,
        begin_at: Point | None = None,
        *,
        starts: int = 1,
        sweeps: int = 1,
    ) -> None:
        self._sweeps = sweeps
        self.joint, self._classifier, self._begin_at = joint, classifier, begin_at
        self._starts = starts if begin_at is None else 1

    @property
    def coupled(self) -> bool:
        return self.joint.scales.coupling > 0

    def start(self, seed: int) -> float:
        joint, self._free = self.joint, 0
        self._rng = np.random.default_rng(seed)
        self.action, self.state = (self._random(side) for side in (joint.action, joint.state))
        if self._begin_at is not None:
            begin_at = self._begin_at
            changed = begin_at.action.changed(joint.action) | begin_at.state.changed(joint.state)
            self.action = begin_at.action.begun(joint.action, self.action, changed)
            self.state = begin_at.state.begun(joint.state, self.state, changed)
        return joint.terms(self.action, self.state).total

    def _random(self, side: Side) -> Iterate:
        drawn = [random_labels(side.constraints, self._rng) for _ in range(self._starts)]
        return mean_of_vertices(side, drawn)

    def run_pass(self, solver: Solver, share: float) -> tuple[float, float]:
        current = self.joint.with_nu(share * self.joint.nu)
        if solver == "full":
            gap = full_step(current, self.action, self.state)
        else:
            self.action, self.state = self._room_for_steps(self.action, self.state)
            clips = [self._rng.permutation(current.n_clips) for _ in range(self._sweeps)]
            gap = sweep(
                current.action,
                current.state,
                current.scales.coupling,
                self.action,
                self.state,
                clips[0] if self._sweeps == 1 else np.concatenate(clips),
                share == 1.0,
            )
            gap /= self._sweeps
        return current.terms(self.action, self.state).total, gap

    def _room_for_steps(self, *sides: Iterate) -> tuple[Iterate, ...]:
        """The same points, with room for the vertices of a pass; copied only now and then."""
        added = self._sweeps * STEPS_PER_BLOCK
        if self._free < added:  # by the last count: steps drop vertices, too
            sides = tuple(
                at if _free_in(at) >= added else with_capacity(at, max(added, MORE_VERTICES))
                for at in sides
            )
            self._free = min(_free_in(at) for at in sides)
        self._free -= added
        return sides

    def evaluate(self) -> Evaluation:
        refresh(self.joint.action, self.action)
        refresh(self.joint.state, self.state)
        return Evaluation(
            self.joint.terms(self.action, self.state), self.joint.gap(self.action, self.state)
        )

    def round(self) -> Terms:
        joint = self.joint
        scores = (
            classifier_scores(joint.action, self.action),
            classifier_scores(joint.state, self.state),
        )
        labels = joint_rounding(
            joint.action.constraints, joint.state.constraints, *scores, joint.scales
        )
        self._rounding = labels, scores
        return joint.integer_terms(*labels)

    def keep_rounding(self) -> None:
        relaxed = self.action.labels.copy(), self.state.labels.copy()
        self._kept = *self._rounding, relaxed

    def kept_rounding(self) -> Rounding:
        labels, scores, relaxed = self._kept

        def classifiers() -> dict[SideName, tuple[Floats, Floats]]:
            sides = zip(SIDES, relaxed, scores, strict=True)
            return {name: self._learned(name, y, s) for name, y, s in sides if len(y)}

        return Rounding(*labels, *scores, classifiers)

    def _learned(self, name: SideName, y: Floats, scores: Floats) -> tuple[Floats, Floats]:
        """(W, b), (d, K) and (K,), of relaxed labels (M, K) and the scores (M, K) they imply."""
        classes = self._classes(name)
        firsts = np.unique(classes, return_index=True)[1]  # one state of each look
        merged = merge_alike(y, classes)
        own = scores if len(firsts) == len(classes) else scores[:, firsts]
        weights, bias = self._classifier(name, merged, merged - own)
        return repeat_alike(weights, classes), repeat_alike(bias, classes)

    def _classes(self, name: SideName) -> Ints:
        return self.joint.action.classes if name == "action" else self.joint.state.classes

    def point(self) -> Point:
        """The current point; its arrays are not copied."""
        sides = ((self.joint.action, self.action), (self.joint.state, self.state))
        return Point(
            *(
                SidePoint(
                    side.constraints, at.labels, at.vertices, at.weights, at.counts, at.missing
                )
                for side, at in sides
            )
        )

    def integer_terms(self, action: Labels, state: Labels) -> Terms:
        return self.joint.integer_terms(action, state)

    def learn(self, side: SideName, labels: Labels) -> Learned:
        of: Side = getattr(self.joint, side)
        y = merge_alike(one_hot(labels, of.constraints.n_states), of.classes)
        scores, residual = held_out_scores(of, y)

        def classifier() -> tuple[Floats, Floats]:
            weights, bias = self._classifier(side, y, residual)
            return repeat_alike(weights, of.classes), repeat_alike(bias, of.classes)

        return Learned(repeat_alike(scores, of.classes), classifier)


def _free_in(at: Iterate) -> int:
    """Vertices that every clip's combination has room for."""
    return int(at.weights.shape[1] - at.counts.max(initial=0))


def full_step(problem: JointProblem, action: Iterate, state: Iterate) -> float:
    """Move both sides of all clips towards the oracle's labelling; the gap before.

    Along the joint direction the curvature may be negative, d being bilinear: the step is then 1.
    """
    coupling = problem.scales.coupling
    targets = [np.empty(len(at.labels), np.int8) for at in (action, state)]
    gap = duality_gap(
        problem.action, problem.state, coupling,
        action.labels, state.labels, action.factor_sums, state.factor_sums,
        action.missing, state.missing, *targets,
    )  # fmt: skip
    z_target, y_target = vertex(problem.action, targets[0]), vertex(problem.state, targets[1])
    z, y = z_target.labels - action.labels, y_target.labels - state.labels
    constraints = problem.action.constraints, problem.state.constraints
    curvature = (
        _curvature(
            problem.action,
            merge_alike(z, problem.action.classes),
            z_target.factor_sums - action.factor_sums,
        )
        + _curvature(
            problem.state,
            merge_alike(y, problem.state.classes),
            y_target.factor_sums - state.factor_sums,
        )
        + 2 * coupling * distortion(*constraints, z, y)
    )
    step = exact_step(-gap, curvature, 1.0)
    for iterate, target in ((action, z_target), (state, y_target)):
        for k in range(3):  # labels and running sums, in place
            iterate[k][...] += step * (target[k] - iterate[k])
        iterate.missing[...] += step * (target.missing - iterate.missing)
    return gap


def _curvature(side: Side, direction: Floats, factor_sums: Floats) -> float:
    """D' A D / M of a direction D (M, C), given its F'D."""
    if side.dense:
        product = float(np.vdot(direction.T, factor_sums))
    else:
        product = float(np.vdot(direction, direction) - np.vdot(factor_sums, factor_sums))
    return 2 * product / side.normaliser

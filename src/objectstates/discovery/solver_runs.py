"""Runs of the solver for an estimator: who watches, how long it takes, which rounding is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import numpy as np

from objectstates.base.choices import Solver
from objectstates.base.errors import SettingError
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Classifier
from objectstates.discovery.out_of_core import ProblemOnDisk, RoundingOnDisk
from objectstates.solver.frank_wolfe import Progress, Solution, classifier_scores, minimise
from objectstates.solver.problem import JointProblem, Terms
from objectstates.solver.rounding import joint_rounding
from objectstates.solver.scale.factor_gpu import HostAlgebra
from objectstates.solver.scale.sharded import ShardedProgress, ShardedSolution


@dataclass(frozen=True)
class FitProgress:
    """What a callback of :meth:`JointDiscovery.fit` sees after every pass.

    ``objective`` and ``gap`` are those of the relaxed problem (while it starts, at the coupling of
    the moment); ``rounded`` is the lowest objective of integer labels so far, infinite at first.
    """

    restart: int
    stage: Literal["start", "joint"]
    passes: int
    objective: float
    gap: float
    rounded: float


class Watch:
    """The callback, and whether it has asked to stop: from then on nothing is run to its end."""

    def __init__(self, callback: Callable[[FitProgress], bool | None] | None) -> None:
        self.stopped = False
        self._callback = callback

    def __call__(self, progress: FitProgress) -> bool:
        if self._callback is not None and not self.stopped:
            self.stopped = bool(self._callback(progress))
        return self.stopped


class Clock:
    """Seconds per stage, of all runs together."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now


@dataclass(frozen=True, eq=False)
class Rounding:
    """Integer labels, the relaxed point and the classifier scores that gave them."""

    action: Array  # (T,) 0/1
    state: Array  # (M,) 0/1/2
    action_scores: Array  # (T, 1)
    state_scores: Array  # (M, 2)
    relaxed_action: Array
    relaxed_state: Array
    terms: Terms
    passes: int


AnyRounding = TypeVar("AnyRounding", Rounding, RoundingOnDisk)


@dataclass(frozen=True, eq=False)
class Run(Generic[AnyRounding]):
    """One run of the solver.

    trace : per pass the seconds since its start, the relaxed objective, the duality gap, and the
        lowest objective of integer labels so far.
    """

    rounding: AnyRounding
    solution: Solution | ShardedSolution
    trace: list[list[float]]


def check_finite(classifiers: dict[str, Classifier]) -> None:
    """Say so if a classifier is of no use."""
    for side, classifier in classifiers.items():
        if not (np.isfinite(classifier.weights).all() and np.isfinite(classifier.bias).all()):
            raise SettingError(f"the {side} classifier is not finite: raise its ridge")


def round_relaxed(problem: JointProblem, point: Progress | Solution) -> Rounding:
    """Round a relaxed point with the classifiers that it implies."""
    action, state = problem.action.constraints, problem.state.constraints
    action_scores = classifier_scores(problem.action, point.action)
    state_scores = classifier_scores(problem.state, point.state)
    action_labels, state_labels = joint_rounding(
        action,
        state,
        action_scores,
        state_scores,
        action_weight=1 / (2 * max(action.n_rows, 1)),
        state_weight=1 / (2 * max(state.n_rows, 1)),
        coupling=problem.coupling,
    )
    return Rounding(
        action_labels,
        state_labels,
        action_scores,
        state_scores,
        point.action.labels.copy(),
        point.state.labels.copy(),
        problem.integer_terms(action_labels, state_labels),
        point.passes,
    )


@dataclass(frozen=True)
class Schedule:
    """When a run ends, and where it begins."""

    solver: Solver
    tol: float
    max_passes: int
    seed: int


def best_run(
    restarts: int, watch: Watch, run: Callable[[int], Run[AnyRounding]]
) -> Run[AnyRounding]:
    """The restart with the lowest rounded objective, of those until the callback stops."""
    runs: list[Run[AnyRounding]] = []
    while not runs or (len(runs) < restarts and not watch.stopped):
        runs.append(run(len(runs)))
    best = min(runs, key=lambda run: run.rounding.terms.total)
    if best.solution.terms.total < -1e-9:  # a sum of squares: nothing is left of its digits
        raise SettingError(
            "the features are too large for these ridge weights: scale them to unit length, "
            "or raise mu (states) and lam (action)"
        )
    return best


def run_in_memory(
    problem: JointProblem, schedule: Schedule, restart: int, callback: Callable[[FitProgress], bool]
) -> Run[Rounding]:
    """One run of the solver; of the roundings after every pass the cheapest is kept."""
    best: Rounding | None = None
    trace: list[list[float]] = []
    begun = time.perf_counter()

    def after_pass(progress: Progress) -> bool:
        nonlocal best
        if progress.stage == "joint":
            rounding = round_relaxed(problem, progress)
            if best is None or rounding.terms.total < best.terms.total:
                best = rounding
            seconds = time.perf_counter() - begun
            trace.append([seconds, progress.objective, progress.gap, best.terms.total])
        return callback(
            FitProgress(
                restart,
                progress.stage,
                progress.passes,
                progress.objective,
                progress.gap,
                math.inf if best is None else best.terms.total,
            )
        )

    solution = minimise(
        problem,
        solver=schedule.solver,
        tol=schedule.tol,
        max_passes=schedule.max_passes,
        seed=schedule.seed + restart,
        callback=after_pass,
    )
    if best is None:  # stopped while still starting
        best = round_relaxed(problem, solution)
    return Run(best, solution, trace)


def run_sharded(
    problem: ProblemOnDisk,
    schedule: Schedule,
    restart: int,
    callback: Callable[[FitProgress], bool],
) -> Run[RoundingOnDisk]:
    """One run over shards."""
    trace: list[list[float]] = []
    begun = time.perf_counter()

    def after_pass(at: ShardedProgress) -> bool:
        if at.stage == "joint" and at.rounded < math.inf:
            seconds = time.perf_counter() - begun
            trace.append([seconds, at.objective, at.gap, at.rounded])
        return callback(FitProgress(restart, at.stage, at.passes, at.objective, at.gap, at.rounded))

    solution = problem.sharded.minimise(
        solver=schedule.solver,
        tol=schedule.tol,
        max_passes=schedule.max_passes,
        seed=schedule.seed + restart,
        callback=after_pass,
    )
    return Run(problem.rounding(solution), solution, trace)


def relaxed_classifiers(
    corpus: Corpus, rounding: Rounding, algebra: HostAlgebra, *, mu: float, lam: float
) -> dict[str, Classifier]:
    """The classifiers behind the rounding, from the relaxed point that was rounded."""
    found = {}
    for side, features, labels, scores, ridge in (
        ("action", corpus.chunks.features, rounding.relaxed_action, rounding.action_scores, lam),
        ("state", corpus.tracklets.features, rounding.relaxed_state, rounding.state_scores, mu),
    ):
        if len(labels):
            weights, bias = algebra.linear_classifier(features, labels, labels - scores, ridge)
            found[side] = Classifier(weights, bias, len(labels), np.ones(len(bias)))
    return found

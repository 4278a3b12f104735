"""Frank-Wolfe on the relaxed joint problem: one loop, wherever the rows are.

:func:`minimise` runs on any :class:`Problem`: arrays in memory (``in_memory.py``) or shards on
disk, in processes, on a Ray cluster or on a GPU (``scale/sharded.py``). Two solvers use the same
oracle and the same exact line search:

``full``
    the paper's: one step moves all clips at once, after 30 steps on f and g alone, from the mean of
    five random labellings (out of core from one).
``block``
    clip by clip, a few steps each, first on Z_n and then on Y_n (each a convex problem, d being
    bilinear), in three stages:

    1. f and g alone, as the paper starts;
    2. the coupling grows geometrically from 1 % to all of nu, with plain steps towards a vertex.
       The joint problem is not convex; entering it slowly ends in lower and more truthful
       solutions than entering it at once;
    3. at full coupling, pairwise steps: weight moves from the worst labelling in a clip's convex
       combination to the best one. They converge linearly, where plain steps zigzag, but started
       too early they commit to poor local solutions.

The gap returned is that of the whole relaxed problem at the final point, with either solver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Literal, Protocol

import numpy as np

from objectstates.base.choices import SideName, Solver
from objectstates.solver.oracle import TIE, Floats, Labels
from objectstates.solver.problem import Terms

UNCOUPLED_PASSES = 10  # block passes on f and g alone
GROWING_PASSES = 40  # block passes while the coupling grows ...
GROWING_FROM = 0.01  # ... from this share of nu to all of it
FULL_STARTS = 5  # random labellings whose mean full steps start at, as in the authors' code
UNCOUPLED_STEPS = 30  # full steps on f and g alone, as in the authors' code


@dataclass(frozen=True)
class Schedule:
    """Block passes before the coupling is full.

    uncoupled : on f and g alone.
    growing : while the coupling grows.
    """

    uncoupled: int = UNCOUPLED_PASSES
    growing: int = GROWING_PASSES


WHOLE = Schedule()
NEGLIGIBLE = 1e-8
"""A gap of this share of the objective at the start counts as 0: f and g alone can reach 0, and
float32 factor rows (``scale/disk_rows.py``) resolve no smaller one."""


@dataclass(frozen=True)
class Evaluation:
    """Objective and duality gap, computed afresh at a point."""

    terms: Terms
    gap: float


@dataclass(frozen=True, eq=False)
class Learned:
    """One side learned from integer labels.

    scores : (M, K) leave-one-clip-out, by classifiers learned without the row's clip.
    classifier : computes (W, b), (d, K) and (K,), learned on all clips.
    """

    scores: Floats
    classifier: Callable[[], tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class Rounding:
    """Integer labels (T,) of 0..K-1 and (M,) of 0..K, and the scores (T, K - 1), (M, K) of them.

    classifiers : computes the classifiers (W, b) that gave the scores, of the sides that have rows.
        States that look alike have the same column.
    """

    action: Labels
    state: Labels
    action_scores: Floats
    state_scores: Floats
    classifiers: Callable[[], dict[SideName, tuple[Floats, Floats]]]


class Problem(Protocol):
    """A joint problem over N clips, with a current relaxed point. Arrays only."""

    @property
    def coupled(self) -> bool:
        """Whether states and action are coupled: both have rows, and nu is not 0."""
        ...

    def start(self, seed: int) -> float:
        """Go to random labels, forget the kept rounding; the objective there."""
        ...

    def run_pass(self, solver: Solver, share: float) -> tuple[float, float]:
        """A block sweep or a full step at this share of nu.

        The objective after it at that share, and the gap met: of each block just before its steps.
        Block steps are pairwise at the full share, plain below.
        """
        ...

    def evaluate(self) -> Evaluation:
        """Objective and gap of the current point at full coupling, without accumulated error."""
        ...

    def round(self) -> Terms:
        """Round the current point with its classifiers; the objective of the integer labels."""
        ...

    def keep_rounding(self) -> None:
        """Keep the last rounding for :meth:`kept_rounding`."""
        ...

    def kept_rounding(self) -> Rounding:
        """The rounding that was kept last since the start."""
        ...

    def integer_terms(self, action: Labels, state: Labels) -> Terms:
        """The objective of integer labels (T,) and (M,)."""
        ...

    def learn(self, side: SideName, labels: Labels) -> Learned:
        """Leave-one-clip-out scores and the classifier of integer labels of one side."""
        ...


@dataclass(frozen=True)
class Progress:
    """The state of a run after a pass.

    stage : "start" while the coupling is not yet full; then "joint".
    objective, gap : of the relaxed problem at the coupling of the pass; the gap is that met during
        the pass unless the point was evaluated.
    rounded : the lowest objective of integer labels so far, infinite at first.
    """

    stage: Literal["start", "joint"]
    passes: int
    objective: float
    gap: float
    rounded: float


@dataclass(frozen=True)
class Solution:
    """The certificate of a relaxed solution, and the objective of the best rounding met."""

    terms: Terms
    gap: float
    passes: int
    converged: bool
    rounded_terms: Terms
    rounded_at_pass: int


def minimise(
    problem: Problem,
    *,
    solver: Solver = "block",
    tol: float = 0.01,
    max_passes: int = 500,
    seed: int = 0,
    round_every: int = 1,
    evaluate_every: int | None = None,
    warm: bool = False,
    schedule: Schedule = WHOLE,
    callback: Callable[[Progress], bool | None] | None = None,
) -> Solution:
    """Minimise the relaxed problem from random labels; the problem is left at the solution.

    Stops when the gap is at most ``tol`` times the objective (or negligible), after ``max_passes``
    passes (full steps count as passes), or when ``callback`` returns true. In the stage "joint" the
    objective never rises.

    round_every : joint passes between roundings, of which the lowest objective is kept.
    evaluate_every : joint passes between exact evaluations of the gap; None evaluates only when the
        gap met during a pass suggests convergence. Out of core, an evaluation and a rounding of the
        same point read the rows once.
    warm : the problem starts at the solution of a similar one, and the coupling is full at once.
    schedule : of block passes before that otherwise.
    """
    negligible = NEGLIGIBLE * problem.start(seed)
    best = _BestRounding(problem)
    passes, converged, evaluation = 0, False, None
    shares = coupling_shares(solver, problem.coupled, max_passes, warm=warm, schedule=schedule)
    for passes, share in enumerate(shares, start=1):
        objective, gap = problem.run_pass(solver, share)
        evaluation, rounded = None, False
        if share == 1.0:
            suggested = gap <= max(tol * objective, negligible)
            if suggested or (evaluate_every and passes % evaluate_every == 0):
                evaluation = problem.evaluate()
                objective, gap = evaluation.terms.total, evaluation.gap
                converged = gap <= max(tol * objective, negligible)
            if rounded := evaluation is not None or passes % round_every == 0:
                best.consider(passes)
        stage: Literal["start", "joint"] = "joint" if share == 1.0 else "start"
        progress = Progress(stage, passes, objective, gap, best.objective)
        stopped = callback is not None and callback(progress)
        if converged or stopped:
            break
    if evaluation is None:
        evaluation = problem.evaluate()
    if not rounded:
        best.consider(passes)
    assert best.terms is not None
    return Solution(evaluation.terms, evaluation.gap, passes, converged, best.terms, best.passes)


class _BestRounding:
    """The rounding of lowest objective, the first of equal ones; its labels stay with the
    problem."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self.passes = problem, 0
        self.terms: Terms | None = None

    @property
    def objective(self) -> float:
        return np.inf if self.terms is None else self.terms.total

    def consider(self, passes: int) -> None:
        terms = self._problem.round()
        if self.terms is None or terms.total < self.objective - TIE * abs(self.objective):
            self.terms, self.passes = terms, passes
            self._problem.keep_rounding()


def coupling_shares(
    solver: Solver,
    coupled: bool,
    max_passes: int,
    *,
    warm: bool = False,
    schedule: Schedule = WHOLE,
) -> Iterator[float]:
    """The share of nu at each pass: none, then growing (block solver, if coupled), then all.

    warm : all at once.
    """
    start: list[float] = []
    if warm:
        pass
    elif solver == "full":
        start = [0.0] * UNCOUPLED_STEPS
    else:
        growing = np.geomspace(GROWING_FROM, 1.0, schedule.growing + 1)[:-1].tolist()
        start = [0.0] * schedule.uncoupled + (growing if coupled else [])
    return islice(chain(start, repeat(1.0)), max_passes)

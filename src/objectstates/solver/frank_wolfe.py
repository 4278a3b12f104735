"""Frank-Wolfe on the relaxed joint problem.

Two solvers over the same problem, oracle and exact line search:

``full``
    the paper's: one step moves all clips at once, after 30 steps on f and g alone.
``block``
    clip by clip, a few steps each, first on Z_n and then on Y_n (each a convex problem, d being
    bilinear). It goes through three stages:

    1. f and g alone, as the paper starts;
    2. the coupling grows geometrically from 1 % to all of nu, one plain step towards a vertex
       after another. The joint problem is not convex; entering it slowly ends in lower and more
       truthful solutions than entering it at once;
    3. at full coupling, pairwise steps: weight moves from the worst labelling in a clip's convex
       combination to the best one. They converge linearly, where plain steps zigzag, but started
       too early they commit to poor local solutions.

Whatever the solver, the gap returned is that of the whole relaxed problem at the point returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Literal

import numpy as np

from objectstates.base.choices import Solver
from objectstates.solver.block_steps import STEPS_PER_VISIT, exact_step, sweep, with_room
from objectstates.solver.oracle import Constraints, Floats, Labels, label_clips
from objectstates.solver.problem import (
    Iterate,
    JointProblem,
    Side,
    Terms,
    action_pull,
    block_gradient,
    disorder,
    inner_product,
    refresh,
    residual,
    state_pull,
    vertex,
)

UNCOUPLED_PASSES = 10  # block passes on f and g alone
GROWING_PASSES = 40  # block passes while the coupling grows ...
GROWING_FROM = 0.01  # ... from this share of nu to all of it
UNCOUPLED_STEPS = 30  # full steps on f and g alone, as in the authors' code


@dataclass(frozen=True)
class Progress:
    """Where a run stands after a pass. Between checks the gap is that met on the way."""

    stage: Literal["start", "joint"]
    passes: int
    action: Iterate
    state: Iterate
    terms: Terms
    gap: float

    @property
    def objective(self) -> float:
        return self.terms.total


Callback = Callable[[Progress], bool | None]


@dataclass(frozen=True)
class Solution:
    """A relaxed solution and its certificate."""

    action: Iterate
    state: Iterate
    terms: Terms
    gap: float
    passes: int
    converged: bool


def minimise(
    problem: JointProblem,
    *,
    solver: Solver = "block",
    tol: float = 0.01,
    max_passes: int = 500,
    seed: int = 0,
    callback: Callback | None = None,
) -> Solution:
    """Minimise the relaxed problem from a random labelling.

    Stops when the gap is at most ``tol`` times the objective (or 1e-10 times the objective at the
    start: f and g alone can reach 0), after ``max_passes`` passes (full steps count as passes), or
    when ``callback`` returns true. In the stage "start" the callback
    sees the objective at the coupling of the moment; in the stage "joint" it never rises.
    """
    rng = np.random.default_rng(seed)
    action = vertex(problem.action, random_labels(problem.action.constraints, rng))
    state = vertex(problem.state, random_labels(problem.state.constraints, rng))
    passes = _full_passes if solver == "full" else _block_passes
    progress = Progress("start", 0, action, state, problem.terms(action, state), np.inf)
    negligible = 1e-10 * progress.objective
    converged = verified = False
    for progress in passes(problem, action, state, max_passes, rng):
        verified = False
        if progress.stage == "joint" and progress.gap <= max(tol * progress.objective, negligible):
            progress, verified = _verified(problem, progress), True
            converged = progress.gap <= max(tol * progress.objective, negligible)
        stopped = callback is not None and callback(progress)
        if converged or stopped:
            break
    if not verified:
        progress = _verified(problem, progress)
    return Solution(
        progress.action, progress.state, progress.terms, progress.gap, progress.passes, converged
    )


def classifier_scores(side: Side, at: Iterate) -> Floats:
    """Scores X W + b, (M, K), of the classifier that the relaxed labels imply."""
    return at.labels - residual(side, at)


def random_labels(constraints: Constraints, rng: np.random.Generator) -> Labels:
    """A labelling of all clips: the best one at random costs."""
    linear = constraints.linear
    costs = np.where(np.isinf(linear), np.inf, rng.standard_normal(linear.shape))
    return label_clips(costs, constraints)[1]


def _verified(problem: JointProblem, progress: Progress) -> Progress:
    """The same point with its sums recomputed, and its exact objective and gap."""
    action, state = progress.action, progress.state
    refresh(problem.action, action)
    refresh(problem.state, state)
    terms, gap = problem.terms(action, state), problem.gap(action, state)
    return Progress(progress.stage, progress.passes, action, state, terms, gap)


# --- full steps ------------------------------------------------------------------------------


def _full_passes(
    problem: JointProblem,
    action: Iterate,
    state: Iterate,
    max_passes: int,
    rng: np.random.Generator,
) -> Iterator[Progress]:
    for done in range(1, max_passes + 1):
        starting = done <= UNCOUPLED_STEPS
        current = problem.with_nu(0.0) if starting else problem
        gap = full_step(current, action, state)
        yield Progress(
            "start" if starting else "joint",
            done,
            action,
            state,
            current.terms(action, state),
            gap,
        )


def full_step(problem: JointProblem, action: Iterate, state: Iterate) -> float:
    """Move both sides of all clips towards the oracle's labelling; return the gap before.

    Along the joint direction the curvature may be negative, d being bilinear: the step is then 1.
    """
    coupling = problem.coupling
    pulls = [
        (
            action_pull(problem.action, problem.state, n, state.labels),
            state_pull(problem.action, problem.state, n, action.labels),
        )
        for n in range(problem.n_clips)
    ]
    z_target, z_gap = _full_target(problem.action, action, coupling, [p[0] for p in pulls])
    y_target, y_gap = _full_target(problem.state, state, coupling, [p[1] for p in pulls])
    z, y = z_target.labels - action.labels, y_target.labels - state.labels
    curvature = (
        _curvature(problem.action, z, z_target.whole - action.whole)
        + _curvature(problem.state, y, y_target.whole - state.whole)
        + 2 * coupling * disorder(problem.action, problem.state, z, y)
    )
    gap = z_gap + y_gap
    step = exact_step(-gap, curvature, 1.0)
    for iterate, target in ((action, z_target), (state, y_target)):
        for here, there in zip(iterate[:3], target[:3], strict=True):
            here += step * (there - here)
    return gap


def _full_target(
    side: Side, at: Iterate, coupling: float, pulls: list[Floats]
) -> tuple[Iterate, float]:
    gradient = np.concatenate(
        [
            block_gradient(side, at.labels, at.whole, n, coupling, pull)
            for n, pull in enumerate(pulls)
        ]
    )
    values, labels = label_clips(gradient, side.constraints)
    if len(labels) == 0:
        return vertex(side, labels), 0.0
    return vertex(side, labels), inner_product(gradient, at.labels) - float(values.sum())


def _curvature(side: Side, direction: Floats, whole: Floats) -> float:
    """D' A D / M, given the direction's sum of factor rows."""
    if side.dense:
        product = float(np.vdot(direction.T, whole))
    else:
        product = float(np.vdot(direction, direction) - np.vdot(whole, whole))
    return product / max(len(direction), 1)


# --- block steps -----------------------------------------------------------------------------


def _block_passes(
    problem: JointProblem,
    action: Iterate,
    state: Iterate,
    max_passes: int,
    rng: np.random.Generator,
) -> Iterator[Progress]:
    for done, share in enumerate(coupling_shares(problem.coupling > 0, max_passes), start=1):
        starting = share < 1.0
        current = problem.with_nu(share * problem.nu)
        action, state = with_room(action, STEPS_PER_VISIT), with_room(state, STEPS_PER_VISIT)
        clips = rng.permutation(problem.n_clips)
        gap = sweep(
            current.action, current.state, current.coupling, action, state, clips, not starting
        )
        terms = current.terms(action, state)
        yield Progress("start" if starting else "joint", done, action, state, terms, gap)


def coupling_shares(coupled: bool, max_passes: int) -> Iterator[float]:
    """The share of nu at each pass: none, then growing (if there is any coupling), then all."""
    growing = np.geomspace(GROWING_FROM, 1.0, GROWING_PASSES + 1)[:-1].tolist()
    start = [0.0] * UNCOUPLED_PASSES + (growing if coupled else [])
    return islice(chain(start, repeat(1.0)), max_passes)

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

from objectstates.compiled import compiled
from objectstates.settings import Solver
from objectstates.solver.oracle import Constraints, Floats, Ints, Labels, label_clips
from objectstates.solver.problem import (
    Iterate,
    JointProblem,
    Side,
    Terms,
    action_pull,
    best_response,
    block_gradient,
    disorder,
    inner_product,
    refresh,
    residual,
    state_pull,
    vertex,
)

STEPS_PER_VISIT = 3  # block steps on one side of a clip before going on to the next
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


@compiled
def exact_step(slope: float, curvature: float, limit: float) -> float:
    """The s in [0, limit] that minimises slope s + curvature s^2 / 2, the slope being negative."""
    if slope >= 0.0:  # optimal, to rounding error
        return 0.0
    if -slope >= curvature * limit:
        return limit
    return -slope / curvature


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


def with_room(at: Iterate, more: int) -> Iterate:
    """The same iterate, with space for ``more`` further vertices in every clip."""
    capacity = at.weights.shape[1]
    needed = int(at.counts.max(initial=0)) + more
    if needed <= capacity:
        return at
    added = max(needed, 2 * capacity) - capacity
    return at._replace(
        vertices=np.pad(at.vertices, ((0, 0), (0, added))),
        weights=np.pad(at.weights, ((0, 0), (0, added))),
    )


@compiled
def sweep(
    action: Side,
    state: Side,
    coupling: float,
    action_at: Iterate,
    state_at: Iterate,
    clips: Ints,
    pairwise: bool,
) -> float:
    """Visit both sides of each clip; return the sum of the gaps met, each before its steps."""
    gap = 0.0
    for n in clips:
        pull = action_pull(action, state, n, state_at.labels)
        gap += _visit(action, action_at, n, coupling, pull, pairwise)
        pull = state_pull(action, state, n, action_at.labels)
        gap += _visit(state, state_at, n, coupling, pull, pairwise)
    return gap


@compiled
def _visit(side: Side, at: Iterate, n: int, coupling: float, pull: Floats, pairwise: bool) -> float:
    """A few steps on one side of clip n. Inside the clip A_nn is all that is needed; what the
    other clips see of it (``parts`` and ``whole``) is brought up to date once, at the end."""
    lo, hi = side.constraints.offsets[n], side.constraints.offsets[n + 1]
    if lo == hi:
        return 0.0
    n_rows, n_states = side.n_rows, side.constraints.linear.shape[1]
    block = side.blocks[side.block_offsets[n] : side.block_offsets[n + 1]].reshape(hi - lo, hi - lo)
    labels = at.labels[lo:hi]
    gradient = block_gradient(side, at.labels, at.whole, n, coupling, pull)
    target, source = np.empty(hi - lo, np.int8), np.zeros(hi - lo, np.int8)
    bent = np.empty((n_states, hi - lo))  # A_nn times the direction, (K, m)
    own = np.zeros((n_states, hi - lo))  # A_nn Y_n; pairwise steps need none
    if not pairwise:
        _add_product(own, block, labels)
    entry_gap = 0.0
    kept, moved = 1.0, np.zeros((hi - lo, n_states))  # labels = kept * labels at entry + moved
    for step in range(STEPS_PER_VISIT):
        here = inner_product(gradient, labels)
        least = best_response(side, n, gradient, target)
        gap = here - least
        if step == 0:
            entry_gap = gap
        if gap <= 1e-15 * abs(here):
            break
        if pairwise:  # towards the best labelling, away from the worst
            worst, most = _worst_vertex(at, n, lo, hi, gradient)
            source[:] = at.vertices[lo:hi, worst]
            slope, limit = least - most, at.weights[n, worst]
            bent[:] = 0.0
        else:  # towards the best labelling, away from here
            worst, slope, limit = -1, -gap, 1.0
            bent[:] = -own
        _add_rows(bent, block, target, source)
        curvature = _along(bent, target, source)
        if not pairwise:
            curvature -= inner_product(bent.T, labels)
        size = exact_step(slope, curvature / n_rows, limit)
        shrink = 1.0 if pairwise else 1.0 - size
        kept *= shrink
        _go(labels, shrink, size, target, source)
        _go(moved, shrink, size, target, source)
        for k in range(n_states):
            for i in range(hi - lo):
                labels[i, k] = max(labels[i, k], 0.0)  # less by rounding errors only
                gradient[i, k] += size / n_rows * bent[k, i]
                own[k, i] += size * bent[k, i]
        _reweigh(at, n, lo, hi, shrink, worst, target, size)
    _push(side, at, n, lo, kept, moved)
    return entry_gap


@compiled
def _add_product(product: Floats, block: Floats, labels: Floats) -> None:
    """Add the symmetric block times labels (m, K) to product (K, m)."""
    for i in range(labels.shape[0]):
        for k in range(labels.shape[1]):
            weight = labels[i, k]
            if weight != 0.0:
                for j in range(len(block)):
                    product[k, j] += weight * block[i, j]


@compiled
def _add_rows(product: Floats, block: Floats, target: Labels, source: Labels) -> None:
    """The same for the difference of two labellings."""
    for i in range(len(target)):
        if target[i] != source[i]:
            if target[i] > 0:
                for j in range(len(block)):
                    product[target[i] - 1, j] += block[i, j]
            if source[i] > 0:
                for j in range(len(block)):
                    product[source[i] - 1, j] -= block[i, j]


@compiled
def _along(bent: Floats, target: Labels, source: Labels) -> float:
    """<bent, direction> of (K, m) and the difference of two labellings."""
    total = 0.0
    for i in range(len(target)):
        if target[i] != source[i]:
            if target[i] > 0:
                total += bent[target[i] - 1, i]
            if source[i] > 0:
                total -= bent[source[i] - 1, i]
    return total


@compiled
def _go(labels: Floats, shrink: float, size: float, target: Labels, source: Labels) -> None:
    """labels (m, K) times ``shrink``, with ``size`` given to ``target``, taken from ``source``."""
    if shrink != 1.0:
        for i in range(labels.shape[0]):
            for k in range(labels.shape[1]):
                labels[i, k] *= shrink
    for i in range(len(target)):
        if target[i] != source[i]:
            if target[i] > 0:
                labels[i, target[i] - 1] += size
            if source[i] > 0:
                labels[i, source[i] - 1] -= size


@compiled
def _worst_vertex(at: Iterate, n: int, lo: int, hi: int, gradient: Floats) -> tuple[int, float]:
    """The vertex in clip n's combination that costs most, and what it costs."""
    costs = np.zeros(at.counts[n])
    for i in range(hi - lo):
        first, second = gradient[i, 0], gradient[i, -1]
        for q in range(len(costs)):
            label = at.vertices[lo + i, q]
            costs[q] += first if label == 1 else (second if label == 2 else 0.0)
    worst = int(np.argmax(costs))
    return worst, costs[worst]


@compiled
def _known_vertex(at: Iterate, n: int, lo: int, target: Labels) -> int:
    """Where ``target`` stands in clip n's combination, -1 if it does not."""
    same = np.ones(at.counts[n], np.bool_)
    for i in range(len(target)):
        if target[i] > 0:  # these tell most labellings apart
            any_same = False
            for q in range(len(same)):
                same[q] &= at.vertices[lo + i, q] == target[i]
                any_same |= same[q]
            if not any_same:
                return -1
    for q in range(len(same)):
        if same[q] and np.array_equal(at.vertices[lo : lo + len(target), q], target):
            return q
    return -1


@compiled
def _reweigh(
    at: Iterate,
    n: int,
    lo: int,
    hi: int,
    shrink: float,
    source: int,
    target: Labels,
    size: float,
) -> None:
    """Keep clip n's convex combination true to a step: all weights times ``shrink``, ``size``
    taken from ``source`` (if any) and given to ``target``; vertices of no weight are dropped."""
    for q in range(at.counts[n]):
        at.weights[n, q] *= shrink
    if source >= 0:
        at.weights[n, source] -= size
    known = _known_vertex(at, n, lo, target)
    if known < 0:
        known = at.counts[n]
        at.counts[n] += 1
        at.vertices[lo:hi, known] = target
        at.weights[n, known] = 0.0
    at.weights[n, known] += size
    q = 0
    while q < at.counts[n]:
        if at.weights[n, q] > 0.0:
            q += 1
            continue
        last = at.counts[n] - 1
        at.weights[n, q] = at.weights[n, last]
        at.vertices[lo:hi, q] = at.vertices[lo:hi, last]
        at.counts[n] = last


@compiled
def _push(side: Side, at: Iterate, n: int, lo: int, kept: float, moved: Floats) -> None:
    """Bring the sums of label times factor row up to date with labels = kept * before + moved."""
    part, whole, rows = at.parts[n], at.whole, side.rows
    for k in range(moved.shape[1]):
        change = (kept - 1.0) * part[k]
        used = np.flatnonzero(moved[:, k])
        whole_fours = len(used) // 4 * 4
        for first in range(0, whole_fours, 4):  # four at a time: memory is read faster
            a, b, c, d = used[first], used[first + 1], used[first + 2], used[first + 3]
            u, v, w, x = moved[a, k], moved[b, k], moved[c, k], moved[d, k]
            for r in range(len(change)):
                change[r] += (
                    u * rows[lo + a, r]
                    + v * rows[lo + b, r]
                    + w * rows[lo + c, r]
                    + x * rows[lo + d, r]
                )
        for i in used[whole_fours:]:
            weight = moved[i, k]
            for r in range(len(change)):
                change[r] += weight * rows[lo + i, r]
        for r in range(len(change)):
            part[k, r] += change[r]
            whole[k, r] += change[r]

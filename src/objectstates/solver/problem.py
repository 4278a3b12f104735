"""The relaxed joint problem: two clustering costs, their constraints, and what couples them.

    h(Z, Y) = f(Z) + g(Y) + <linear, Y> + nu/T sum_n d(Z_n, Y_n)

over the convex hull of the labellings of every clip. Z (action: T rows, K = 1, exactly one per
clip) and Y (states: M rows, K = 2) are two :class:`Side` objects of one make. d penalises state 1
after the action and state 2 before it, by the seconds between; it is bilinear and local to a clip.
A side without rows is simply absent: that is how states or actions are discovered alone.

Nothing here knows of videos: rows, times, labels and costs only.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from objectstates.base.jit import compiled_exactly, compiled_into_callers
from objectstates.solver.cost import ClusteringCost
from objectstates.solver.oracle import Constraints, Floats, Ints, Labels, cheapest_labels


class Side(NamedTuple):
    """All that is fixed about one of the two label matrices, as arrays for the kernels.

    rows, dense : the factor of the clustering cost (see ``cost.py``), (M, r).
    blocks : the diagonal blocks A_nn of all clips, flattened one after another; clip n's begins at
        ``block_offsets[n]``.
    n_rows : how many rows the cost is a mean over: those of all clips, of which these may be a part
        (``shards.py``).
    """

    constraints: Constraints
    rows: Floats
    dense: bool
    blocks: Floats
    block_offsets: Ints
    n_rows: int


class Iterate(NamedTuple):
    """A point of one side's feasible set, with what makes a step from it cheap. Mutable arrays.

    labels : (M, K) relaxed labels.
    parts : (N, K, r) per clip the sum of label times factor row; ``whole`` (K, r) is their sum.
        When the factor is dense, ``whole`` is (A Y)' itself.
    vertices : (M, capacity) labellings; clip n's labels are the convex combination of its first
        ``counts[n]`` with ``weights[n]``, (N, capacity).
    """

    labels: Floats
    parts: Floats
    whole: Floats
    vertices: Labels
    weights: Floats
    counts: Ints


@dataclass(frozen=True)
class Terms:
    """The parts of h, in the paper's units."""

    action: float
    state: float
    joint: float

    @property
    def total(self) -> float:
        return self.action + self.state + self.joint


@dataclass(frozen=True)
class JointProblem:
    """Both sides over the same N clips, and the weight of their coupling (the paper's nu)."""

    action: Side
    state: Side
    nu: float

    @property
    def n_clips(self) -> int:
        return self.state.constraints.n_clips

    @property
    def coupling(self) -> float:
        """nu/T, per second of disorder; 0 when either side is absent."""
        n_chunks, n_tracklets = self.action.constraints.n_rows, self.state.constraints.n_rows
        return self.nu / n_chunks if n_chunks and n_tracklets else 0.0

    def with_nu(self, nu: float) -> JointProblem:
        return JointProblem(self.action, self.state, nu)

    def terms(self, action: Iterate, state: Iterate) -> Terms:
        """The relaxed objective."""
        return Terms(*_terms(self.action, self.state, self.coupling, action, state))

    def integer_terms(self, action: Labels, state: Labels) -> Terms:
        """The objective of integer labels (T,) and (M,), at the cost of the labelled rows alone."""
        z, y = one_hot(action, 1), one_hot(state, 2)
        return Terms(
            action=_integer_quadratic(self.action, action) + linear_cost(self.action, z),
            state=_integer_quadratic(self.state, state) + linear_cost(self.state, y),
            joint=self.coupling * disorder(self.action, self.state, z, y),
        )

    def gap(self, action: Iterate, state: Iterate) -> float:
        """Frank-Wolfe gap over the whole product set; bounds the suboptimality when nu = 0."""
        return _gap(self.action, self.state, self.coupling, action, state)


def make_side(cost: ClusteringCost, constraints: Constraints) -> Side:
    """Put a factored cost and its constraints together."""
    offsets = constraints.offsets
    block_offsets = np.concatenate([[0], np.cumsum(np.diff(offsets) ** 2)]).astype(np.int64)
    blocks = np.empty(block_offsets[-1])
    for n, (lo, hi) in enumerate(pairwise(offsets)):
        rows = cost.rows[lo:hi]
        block = rows[:, lo:hi] if cost.dense else np.eye(hi - lo) - rows @ rows.T
        blocks[block_offsets[n] : block_offsets[n + 1]] = block.ravel()
    return Side(constraints, cost.rows, cost.dense, blocks, block_offsets, constraints.n_rows)


@compiled_exactly
def one_hot(labels: Labels, n_states: int) -> Floats:
    """(m,) labels 0..K as an (m, K) matrix."""
    matrix = np.zeros((len(labels), n_states))
    for i in range(len(labels)):
        if labels[i] > 0:
            matrix[i, labels[i] - 1] = 1.0
    return matrix


def vertex(side: Side, labels: Labels) -> Iterate:
    """The iterate that is one labelling, (M,)."""
    n_clips, n_states = side.constraints.n_clips, side.constraints.linear.shape[1]
    iterate = Iterate(
        labels=one_hot(labels, n_states),
        parts=np.empty((n_clips, n_states, side.rows.shape[1])),
        whole=np.empty((n_states, side.rows.shape[1])),
        vertices=labels[:, None].astype(np.int8),
        weights=np.ones((n_clips, 1)),
        counts=np.ones(n_clips, np.int64),
    )
    refresh(side, iterate)
    return iterate


def refresh(side: Side, iterate: Iterate) -> None:
    """Recompute the running sums from the labels, so that rounding errors don't pile up."""
    offsets = side.constraints.offsets
    for n, (lo, hi) in enumerate(pairwise(offsets)):
        iterate.parts[n] = iterate.labels[lo:hi].T @ side.rows[lo:hi]
    np.sum(iterate.parts, axis=0, out=iterate.whole)


def residual(side: Side, iterate: Iterate) -> Floats:
    """A Y, (M, K): the labels minus the scores of the classifier they imply."""
    if side.dense:
        return iterate.whole.T.copy()
    return iterate.labels - side.rows @ iterate.whole.T


@compiled_into_callers
def dot(one: npt.NDArray[Any], other: Floats) -> float:
    """The product of two vectors, in float64."""
    total = 0.0
    for r in range(len(other)):
        total += one[r] * other[r]
    return total


@compiled_exactly
def inner_product(gradient: Floats, labels: Floats) -> float:
    """<gradient, labels>, where a forbidden entry (infinite times zero) counts nothing."""
    total = 0.0
    for i in range(labels.shape[0]):
        for k in range(labels.shape[1]):
            if labels[i, k] != 0.0:
                total += gradient[i, k] * labels[i, k]
    return total


@compiled_exactly
def _quadratic(side: Side, iterate: Iterate) -> float:
    """tr(Y' A Y) / 2M."""
    labels, whole = iterate.labels, iterate.whole
    product = 0.0
    for k in range(labels.shape[1]):
        for i in range(labels.shape[0]):
            product += labels[i, k] * (whole[k, i] if side.dense else labels[i, k])
        if not side.dense:
            product -= dot(whole[k], whole[k])
    return product / (2 * max(side.n_rows, 1))


@compiled_exactly
def _terms(
    action: Side, state: Side, coupling: float, action_at: Iterate, state_at: Iterate
) -> tuple[float, float, float]:
    return (
        _quadratic(action, action_at) + linear_cost(action, action_at.labels),
        _quadratic(state, state_at) + linear_cost(state, state_at.labels),
        coupling * disorder(action, state, action_at.labels, state_at.labels),
    )


@compiled_exactly
def _integer_quadratic(side: Side, labels: Labels) -> float:
    product = 0.0
    for state in range(1, side.constraints.linear.shape[1] + 1):
        chosen = np.flatnonzero(labels == state)
        if side.dense:
            for i in chosen:
                for j in chosen:
                    product += side.rows[i, j]
        else:
            whole = np.zeros(side.rows.shape[1])
            for i in chosen:
                for r in range(len(whole)):
                    whole[r] += side.rows[i, r]
            product += len(chosen) - dot(whole, whole)
    return product / (2 * max(side.n_rows, 1))


@compiled_exactly
def linear_cost(side: Side, labels: Floats) -> float:
    """What labels (M, K) cost beside the clustering cost; a forbidden entry is never used."""
    return inner_product(side.constraints.linear, labels)


@compiled_exactly
def disorder(action: Side, state: Side, z: Floats, y: Floats) -> float:
    """sum_n d(Z_n, Y_n), in seconds: the bilinear form of the paper's distortion."""
    total = 0.0
    for n in range(len(state.constraints.offsets) - 1):
        first = action.constraints.offsets[n]
        pull = action_pull(action, state, n, y)
        for t in range(len(pull)):
            total += z[first + t, 0] * pull[t, 0]
    return total


@compiled_exactly
def _rows_of(side: Side, n: int) -> slice:
    """Clip n's rows. Loops over such a part of an array run from 0 and become vector code, which
    those over ``first + i`` do not: there an index might be negative, for all the compiler knows.
    """
    return slice(side.constraints.offsets[n], side.constraints.offsets[n + 1])


@compiled_exactly
def action_pull(action: Side, state: Side, n: int, y: Floats) -> Floats:
    """For each action row of clip n, the seconds by which the states disagree with it, (T_n, 1)."""
    chunks, tracklets = _rows_of(action, n), _rows_of(state, n)
    action_times, state_times = action.constraints.times[chunks], state.constraints.times[tracklets]
    labels = y[tracklets]
    pull = np.zeros((len(action_times), 1))
    for i in range(len(state_times)):
        first, second, time = labels[i, 0], labels[i, 1], state_times[i]
        if first != 0.0 or second != 0.0:
            for t in range(len(action_times)):
                late = time - action_times[t]
                pull[t, 0] += first * max(late, 0.0) + second * max(-late, 0.0)
    return pull


@compiled_exactly
def state_pull(action: Side, state: Side, n: int, z: Floats) -> Floats:
    """For each state row of clip n, the seconds by which the action disagrees, (M_n, 2)."""
    chunks, tracklets = _rows_of(action, n), _rows_of(state, n)
    action_times, state_times = action.constraints.times[chunks], state.constraints.times[tracklets]
    labels = z[chunks]
    pull = np.zeros((len(state_times), 2))
    for t in range(len(action_times)):
        weight, time = labels[t, 0], action_times[t]
        if weight != 0.0:
            for i in range(len(state_times)):
                late = state_times[i] - time
                pull[i, 0] += weight * max(late, 0.0)
                pull[i, 1] += weight * max(-late, 0.0)
    return pull


@compiled_exactly
def block_gradient(
    side: Side, labels: Floats, whole: Floats, n: int, coupling: float, pull: Floats
) -> Floats:
    """The gradient of h in clip n's entries of one side, (m, K); infinite where forbidden.

    ``labels`` and ``whole`` are those of an :class:`Iterate`.
    """
    lo, hi = side.constraints.offsets[n], side.constraints.offsets[n + 1]
    n_states = side.constraints.linear.shape[1]
    gradient = np.empty((hi - lo, n_states))
    for i in range(hi - lo):
        for k in range(n_states):
            if side.dense:
                product = whole[k, lo + i]
            else:
                product = labels[lo + i, k] - dot(side.rows[lo + i], whole[k])
            linear = side.constraints.linear[lo + i, k]
            gradient[i, k] = product / side.n_rows + linear + coupling * pull[i, k]
    return gradient


@compiled_exactly
def best_response(side: Side, n: int, gradient: Floats, labels: Labels) -> float:
    """The oracle for clip n: write the labelling that minimises <gradient, .>, return its value."""
    lo, hi = side.constraints.offsets[n], side.constraints.offsets[n + 1]
    order, before = side.constraints.order[lo:hi], side.constraints.before[lo:hi]
    return cheapest_labels(gradient, order, before, side.constraints.exactly_one, labels)


@compiled_exactly
def _gap(
    action: Side, state: Side, coupling: float, action_at: Iterate, state_at: Iterate
) -> float:
    """max over all labellings of <gradient, here - there>."""
    gap = 0.0
    for n in range(len(state.constraints.offsets) - 1):
        pull = action_pull(action, state, n, state_at.labels)
        gap += _side_gap(action, action_at, n, coupling, pull)
        pull = state_pull(action, state, n, action_at.labels)
        gap += _side_gap(state, state_at, n, coupling, pull)
    return gap


@compiled_exactly
def _side_gap(side: Side, at: Iterate, n: int, coupling: float, pull: Floats) -> float:
    lo, hi = side.constraints.offsets[n], side.constraints.offsets[n + 1]
    if lo == hi:
        return 0.0
    gradient = block_gradient(side, at.labels, at.whole, n, coupling, pull)
    labels = np.empty(hi - lo, np.int8)
    least = best_response(side, n, gradient, labels)
    return inner_product(gradient, at.labels[lo:hi]) - least

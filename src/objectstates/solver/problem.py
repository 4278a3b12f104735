"""The relaxed joint problem: two clustering costs, their constraints, and the distortion.

    h(Z, Y) = f(Z) + g(Y) + <linear, (Z, Y)> + nu/T sum_n d(Z_n, Y_n)

over the convex hull of the labellings of every clip. Z (T chunks, K - 1 actions in order, exactly
one chunk each) and Y (M tracklets, K states) are two :class:`Side` objects. f and g are the costs
of ``cost.py``, d is that of ``distortion.py``. A side without rows is absent: that is how states or
actions are discovered alone.

A state that a clip may lack has a price, which is one more linear cost: of the weight, in a clip's
convex combination, of the labellings that lack it (``Iterate.missing``). States that look alike
(``Side.classes``) share one classifier: their labels are added before the clustering cost.

Objective, gradient and duality gap are defined here, once, for rows in memory and on disk. To
change what a label costs, change the dense definition in ``reference.py`` first, then ``cost.py``
(the clustering cost) or this module (how costs are summed and weighted).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import SettingError
from objectstates.base.jit import compiled_exactly, compiled_into_callers
from objectstates.solver.cost import ClusteringCost, normaliser
from objectstates.solver.distortion import action_distortion, distortion, state_distortion
from objectstates.solver.oracle import Constraints, Floats, Ints, Labels, cheapest_labels


@dataclass(frozen=True)
class Scales:
    """The weights of the objective's terms, in the paper's units, for T chunks and M tracklets.

    share : of nu, below 1 while the coupling grows (``frank_wolfe.py``).
    """

    n_chunks: int
    n_tracklets: int
    nu: float
    share: float = 1.0

    @property
    def normalisers(self) -> tuple[int, int]:
        """2T and 2M, by which the squared errors of action and states are divided."""
        return normaliser(self.n_chunks), normaliser(self.n_tracklets)

    @property
    def rounding_weights(self) -> tuple[float, float]:
        """1/2T and 1/2M, of 1 - 2 score in joint rounding."""
        return 1 / self.normalisers[0], 1 / self.normalisers[1]

    @property
    def coupling(self) -> float:
        """nu/T, per second of distortion; 0 when either side is absent."""
        return self.share * (self.nu / self.n_chunks) if self.n_chunks and self.n_tracklets else 0.0


@dataclass(frozen=True)
class Terms:
    """The terms of h: f and g, each with its linear costs, and nu/T d."""

    action: float
    state: float
    joint: float

    @property
    def total(self) -> float:
        return self.action + self.state + self.joint


class Side(NamedTuple):
    """The fixed data of one of the two label matrices, as arrays for the kernels.

    rows, dense : the factor of the clustering cost (``cost.py``), (M, r).
    blocks : the diagonal blocks A_nn of all clips, flattened and concatenated; clip n's begins at
        ``block_offsets[n]``.
    normaliser : 2M, by which the cost is divided. M counts the rows of all clips, of which this
        side may hold a part (``scale/disk_shard.py``).
    classes : (K,) the column of the clustering cost of each state, in order of first use: 0, 1, 0
        where the last state looks like the first. C columns in all.
    """

    constraints: Constraints
    rows: Floats
    dense: bool
    blocks: Floats
    block_offsets: Ints
    normaliser: float
    classes: Ints


class Iterate(NamedTuple):
    """A point of one side's feasible set, with running sums for cheap steps. Mutable arrays.

    labels : (M, K) relaxed labels.
    clip_sums : (N, C, r) per clip the sum of label times factor row.
    factor_sums : (C, r) their sum, F'Y; when the factor is dense, (A Y)'.
    vertices : (M, capacity) labellings; clip n's labels are the convex combination of its first
        ``counts[n]`` with ``weights[n]``, (N, capacity).
    missing : (N, K) weight of the labellings that lack a state; 0 where all clips have it.
    """

    labels: Floats
    clip_sums: Floats
    factor_sums: Floats
    vertices: Labels
    weights: Floats
    counts: Ints
    missing: Floats


@dataclass(frozen=True)
class JointProblem:
    """Both sides over the same N clips, and the weight nu of their coupling."""

    action: Side
    state: Side
    nu: float

    @property
    def n_clips(self) -> int:
        return self.state.constraints.n_clips

    @property
    def scales(self) -> Scales:
        return Scales(self.action.constraints.n_rows, self.state.constraints.n_rows, self.nu)

    def with_nu(self, nu: float) -> JointProblem:
        return JointProblem(self.action, self.state, nu)

    def terms(self, action: Iterate, state: Iterate) -> Terms:
        """The relaxed objective."""
        return Terms(*_terms(self.action, self.state, self.scales.coupling, action, state))

    def integer_terms(self, action: Labels, state: Labels) -> Terms:
        """The objective of integer labels (T,) and (M,), at the cost of the labelled rows alone."""
        return Terms(*_integer_terms(self.action, self.state, self.scales.coupling, action, state))

    def gap(self, action: Iterate, state: Iterate) -> float:
        """Duality gap over the whole product set; bounds the suboptimality when nu = 0."""
        targets = (np.empty(len(at.labels), np.int8) for at in (action, state))
        return duality_gap(
            self.action, self.state, self.scales.coupling,
            action.labels, state.labels, action.factor_sums, state.factor_sums,
            action.missing, state.missing, *targets,
        )  # fmt: skip


def make_side(cost: ClusteringCost, constraints: Constraints, classes: Ints | None = None) -> Side:
    """Combine a factored cost and its constraints; by default no two states look alike."""
    starts = block_offsets(constraints)
    blocks = np.empty(starts[-1])
    for n, (lo, hi) in enumerate(pairwise(constraints.offsets)):
        rows = cost.rows[lo:hi]
        block = rows[:, lo:hi] if cost.dense else np.eye(hi - lo) - rows @ rows.T
        blocks[starts[n] : starts[n + 1]] = block.ravel()
    scale = float(normaliser(constraints.n_rows))
    classes = classes_of(constraints.n_states, classes)
    return Side(constraints, cost.rows, cost.dense, blocks, starts, scale, classes)


def classes_of(n_states: int, classes: Ints | None = None) -> Ints:
    """(K,) those given, checked, or one for each state."""
    if classes is None:
        return np.arange(n_states)
    numbers = [int(number) for number in classes]
    if len(numbers) != n_states or list(dict.fromkeys(numbers)) != list(range(len(set(numbers)))):
        raise SettingError(
            f"`classes` must number the looks of {n_states} states in order of first use, "
            f"as in 0, 1, 0, not {numbers}"
        )
    return np.array(numbers, np.int64)


def merge_alike(labels: Floats, classes: Ints) -> Floats:
    """(M, K) labels as (M, C): those of states that look alike are added."""
    n_classes = int(classes.max(initial=-1)) + 1
    if n_classes == labels.shape[1]:
        return labels
    merged = np.zeros((len(labels), n_classes))
    for k, column in enumerate(classes):
        merged[:, column] += labels[:, k]
    return merged


def repeat_alike(columns: Floats, classes: Ints) -> Floats:
    """(..., C) scores or weights as (..., K): states that look alike have the same."""
    if len(classes) == columns.shape[-1]:
        return columns
    return np.ascontiguousarray(columns[..., classes])


def block_offsets(constraints: Constraints) -> Ints:
    """(N + 1,) where each clip's block of A begins, when they are concatenated."""
    sizes = np.diff(constraints.offsets) ** 2
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


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
    n_clips, n_states = side.constraints.n_clips, side.constraints.n_states
    n_classes = int(side.classes.max()) + 1
    iterate = Iterate(
        labels=one_hot(labels, n_states),
        clip_sums=np.empty((n_clips, n_classes, side.rows.shape[1])),
        factor_sums=np.empty((n_classes, side.rows.shape[1])),
        vertices=labels[:, None].astype(np.int8),
        weights=np.ones((n_clips, 1)),
        counts=np.ones(n_clips, np.int64),
        missing=missing_states(side.constraints, labels),
    )
    refresh(side, iterate)
    return iterate


def mean_of_vertices(side: Side, labellings: Sequence[Labels]) -> Iterate:
    """The iterate that is the mean of labellings, (M,) each."""
    if len(labellings) == 1:
        return vertex(side, labellings[0])
    points = [vertex(side, labels) for labels in labellings]
    count, n_clips = len(points), side.constraints.n_clips
    iterate = points[0]._replace(
        labels=np.mean([point.labels for point in points], axis=0),
        vertices=np.concatenate([point.vertices for point in points], axis=1),
        weights=np.full((n_clips, count), 1 / count),
        counts=np.full(n_clips, count),
        missing=np.mean([point.missing for point in points], axis=0),
    )
    refresh(side, iterate)
    return iterate


def refresh(side: Side, iterate: Iterate) -> None:
    """Recompute the running sums from the labels, so that rounding errors do not accumulate."""
    labels = merge_alike(iterate.labels, side.classes)
    for n, (lo, hi) in enumerate(pairwise(side.constraints.offsets)):
        iterate.clip_sums[n] = labels[lo:hi].T @ side.rows[lo:hi]
    np.sum(iterate.clip_sums, axis=0, out=iterate.factor_sums)


def residual(side: Side, iterate: Iterate) -> Floats:
    """A Y, (M, C): the labels minus the scores of the classifier they imply."""
    if side.dense:
        return iterate.factor_sums.T.copy()
    return merge_alike(iterate.labels, side.classes) - side.rows @ iterate.factor_sums.T


def classifier_scores(side: Side, iterate: Iterate) -> Floats:
    """Scores X W + b, (M, K), of the classifier that the relaxed labels imply."""
    scores = merge_alike(iterate.labels, side.classes) - residual(side, iterate)
    return repeat_alike(scores, side.classes)


# --- kernels: objective, gradient, gap -----------------------------------------------------------


@compiled_into_callers
def dot(one: npt.NDArray[Any], other: Floats) -> float:
    """The product of two vectors, in float64."""
    total = 0.0
    for r in range(len(other)):
        total += one[r] * other[r]
    return total


@compiled_exactly
def inner_product(costs: Floats, labels: Floats) -> float:
    """<costs, labels>, where a forbidden entry (infinite times zero) counts nothing."""
    total = 0.0
    for i in range(labels.shape[0]):
        for k in range(labels.shape[1]):
            if labels[i, k] != 0.0:
                total += costs[i, k] * labels[i, k]
    return total


@compiled_exactly
def missing_states(constraints: Constraints, labels: Labels) -> Floats:
    """(N, K) 1 where integer labels (M,) lack a state that a clip may lack, else 0."""
    missing = np.zeros((len(constraints.offsets) - 1, len(constraints.absent)))
    for n in range(len(missing)):
        lo, hi = constraints.offsets[n], constraints.offsets[n + 1]
        if lo < hi:
            mark_missing(constraints.absent, labels[lo:hi], missing[n])
    return missing


@compiled_exactly
def mark_missing(absent: Floats, labels: Labels, missing: Floats) -> None:
    """The same of one clip, written into ``missing`` (K,)."""
    for k in range(len(absent)):
        missing[k] = 0.0 if absent[k] == np.inf else 1.0
    for i in range(len(labels)):
        if labels[i] > 0:
            missing[labels[i] - 1] = 0.0


@compiled_exactly
def absence_cost(constraints: Constraints, missing: Floats) -> float:
    """What clips pay for the states that they lack, of missing (N, K)."""
    total = 0.0
    for n in range(missing.shape[0]):
        total += price_of(constraints.absent, missing[n])
    return total


@compiled_exactly
def price_of(absent: Floats, missing: Floats) -> float:
    """<absent, missing>, both (K,); a state that is not missing counts nothing."""
    total = 0.0
    for k in range(len(absent)):
        if missing[k] != 0.0:
            total += absent[k] * missing[k]
    return total


@compiled_exactly
def _integer_linear(constraints: Constraints, labels: Labels, hot: Floats) -> float:
    """The linear costs of integer labels (M,), also given as a matrix (M, K)."""
    missing = missing_states(constraints, labels)
    return inner_product(constraints.linear, hot) + absence_cost(constraints, missing)


@compiled_exactly
def _terms(
    action: Side, state: Side, coupling: float, action_at: Iterate, state_at: Iterate
) -> tuple[float, float, float]:
    z, y = action_at.labels, state_at.labels
    absent = (
        absence_cost(action.constraints, action_at.missing),
        absence_cost(state.constraints, state_at.missing),
    )
    return (
        _quadratic(action, action_at) + inner_product(action.constraints.linear, z) + absent[0],
        _quadratic(state, state_at) + inner_product(state.constraints.linear, y) + absent[1],
        coupling * distortion(action.constraints, state.constraints, z, y),
    )


@compiled_exactly
def _quadratic(side: Side, iterate: Iterate) -> float:
    """tr(Y' A Y) / 2M."""
    labels, sums = iterate.labels, iterate.factor_sums
    product = 0.0
    for c in range(sums.shape[0]):
        for i in range(labels.shape[0]):
            label = label_of_class(labels[i], side.classes, c)
            product += label * (sums[c, i] if side.dense else label)
        if not side.dense:
            product -= dot(sums[c], sums[c])
    return product / side.normaliser


@compiled_into_callers
def label_of_class(labels: Floats, classes: Ints, column: int) -> float:
    """The sum of a row's labels (K,) of the states that have this column."""
    total = 0.0
    for k in range(len(classes)):
        if classes[k] == column:
            total += labels[k]
    return total


@compiled_exactly
def _integer_terms(
    action: Side, state: Side, coupling: float, z: Labels, y: Labels
) -> tuple[float, float, float]:
    z_hot = one_hot(z, action.constraints.linear.shape[1])
    y_hot = one_hot(y, state.constraints.linear.shape[1])
    return (
        _integer_quadratic(action, z) + _integer_linear(action.constraints, z, z_hot),
        _integer_quadratic(state, y) + _integer_linear(state.constraints, y, y_hot),
        coupling * distortion(action.constraints, state.constraints, z_hot, y_hot),
    )


@compiled_exactly
def _integer_quadratic(side: Side, labels: Labels) -> float:
    """tr(Y' A Y) / 2M of integer labels (M,)."""
    product = 0.0
    columns = np.full(len(side.classes) + 1, -1)  # of the labels 0..K
    columns[1:] = side.classes
    for c in range(side.classes.max() + 1):
        chosen = np.flatnonzero(columns[labels] == c)
        if side.dense:
            for i in chosen:
                for j in chosen:
                    product += side.rows[i, j]
        else:
            sums = np.zeros(side.rows.shape[1])
            for i in chosen:
                for r in range(len(sums)):
                    sums[r] += side.rows[i, r]
            product += len(chosen) - dot(sums, sums)
    return product / side.normaliser


@compiled_exactly
def block_gradient(
    side: Side, labels: Floats, factor_sums: Floats, n: int, coupling: float, distorted: Floats
) -> Floats:
    """The gradient of h in clip n's entries of one side, (m, K); infinite where forbidden.

    labels, factor_sums : as in :class:`Iterate`.
    distorted : (m, K) the derivative of d in these entries (``distortion.py``).
    """
    lo, hi = side.constraints.offsets[n], side.constraints.offsets[n + 1]
    n_states, n_rows = side.constraints.linear.shape[1], side.normaliser / 2
    gradient = np.empty((hi - lo, n_states))
    for i in range(hi - lo):
        for k in range(n_states):
            c = side.classes[k]
            if side.dense:
                product = factor_sums[c, lo + i]
            else:
                label = label_of_class(labels[lo + i], side.classes, c)
                product = label - dot(side.rows[lo + i], factor_sums[c])
            linear = side.constraints.linear[lo + i, k]
            gradient[i, k] = product / n_rows + linear + coupling * distorted[i, k]
    return gradient


@compiled_exactly
def block_gap(
    gradient: Floats,
    labels: Floats,
    missing: Floats,
    order: Ints,
    before: Ints,
    exactly_one: bool,
    absent: Floats,
    target: Labels,
) -> float:
    """max over a clip's labellings of <gradient, labels - labelling>, absence (K,) included.

    The oracle's labelling, at which the maximum is attained, is written into ``target`` (m,).
    order, before, exactly_one, absent : of the clip's ``Constraints``.
    """
    here = inner_product(gradient, labels) + price_of(absent, missing)
    return here - cheapest_labels(gradient, order, before, exactly_one, absent, target)


@compiled_exactly
def duality_gap(
    action: Side,
    state: Side,
    coupling: float,
    z: Floats,
    y: Floats,
    action_sums: Floats,
    state_sums: Floats,
    z_missing: Floats,
    y_missing: Floats,
    z_target: Labels,
    y_target: Labels,
) -> float:
    """The sum of all clips' gaps; the oracle's labels are written into the targets (T,), (M,)."""
    gap = 0.0
    for n in range(len(state.constraints.offsets) - 1):
        distorted = action_distortion(action.constraints, state.constraints, n, y)
        gap += _side_gap(action, n, coupling, distorted, z, action_sums, z_missing, z_target)
        distorted = state_distortion(action.constraints, state.constraints, n, z)
        gap += _side_gap(state, n, coupling, distorted, y, state_sums, y_missing, y_target)
    return gap


@compiled_exactly
def _side_gap(
    side: Side,
    n: int,
    coupling: float,
    distorted: Floats,
    labels: Floats,
    factor_sums: Floats,
    missing: Floats,
    target: Labels,
) -> float:
    lo, hi = side.constraints.offsets[n], side.constraints.offsets[n + 1]
    if lo == hi:
        return 0.0
    gradient = block_gradient(side, labels, factor_sums, n, coupling, distorted)
    order, before = side.constraints.order[lo:hi], side.constraints.before[lo:hi]
    exactly_one, absent = side.constraints.exactly_one, side.constraints.absent
    at, lacks, out = labels[lo:hi], missing[n], target[lo:hi]
    return block_gap(gradient, at, lacks, order, before, exactly_one, absent, out)

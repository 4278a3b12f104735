"""Block-coordinate Frank-Wolfe steps: one clip (block) after another, in memory and on disk.

On each side of a clip a few steps are taken while all other clips are fixed. A plain step goes
towards the oracle's labelling; a pairwise step moves weight from the worst labelling in the clip's
convex combination to the oracle's. Along either the objective is quadratic, and the step size is
its exact minimum.
"""

from __future__ import annotations

import numpy as np

from objectstates.base.jit import compiled_exactly
from objectstates.solver.distortion import action_distortion, state_distortion
from objectstates.solver.oracle import TIE, Floats, Ints, Labels, tie_with_absence
from objectstates.solver.problem import (
    Iterate,
    Side,
    block_gap,
    block_gradient,
    mark_missing,
    price_of,
)

STEPS_PER_BLOCK = 3  # on one side of a clip, before going on to the next


def with_capacity(at: Iterate, more: int) -> Iterate:
    """The same iterate, with capacity for ``more`` further vertices in every clip."""
    capacity = at.weights.shape[1]
    needed = int(at.counts.max(initial=0)) + more
    if needed <= capacity:
        return at
    enlarged = max(needed, 2 * capacity)
    vertices = np.zeros((len(at.vertices), enlarged), np.int8)
    weights = np.zeros((len(at.weights), enlarged))
    vertices[:, :capacity], weights[:, :capacity] = at.vertices, at.weights
    return at._replace(vertices=vertices, weights=weights)


@compiled_exactly
def exact_step(slope: float, curvature: float, limit: float) -> float:
    """The step size s in [0, limit] that minimises slope s + curvature s^2 / 2, for slope < 0.

    Negative curvature (d is bilinear) gives the limit. So does a step that is as long but for
    rounding errors: what is left of a weight would be one.
    """
    if slope >= 0.0:  # optimal, to rounding error
        return 0.0
    if -slope >= (1.0 - TIE) * curvature * limit:
        return limit
    return -slope / curvature


@compiled_exactly
def sweep(
    action: Side,
    state: Side,
    coupling: float,
    action_at: Iterate,
    state_at: Iterate,
    clips: Ints,
    pairwise: bool,
) -> float:
    """Steps on both sides of each clip; the sum of the block gaps, each before its steps."""
    gap = 0.0
    for n in clips:
        distorted = action_distortion(action.constraints, state.constraints, n, state_at.labels)
        gap += _block_steps(action, action_at, n, coupling, distorted, pairwise)
        distorted = state_distortion(action.constraints, state.constraints, n, action_at.labels)
        gap += _block_steps(state, state_at, n, coupling, distorted, pairwise)
    return gap


@compiled_exactly
def _block_steps(
    side: Side, at: Iterate, n: int, coupling: float, distorted: Floats, pairwise: bool
) -> float:
    """A few steps on one side of clip n; the gap before them.

    The steps need A_nn alone; ``clip_sums`` and ``factor_sums`` are updated once, at the end.
    """
    lo, hi = side.constraints.offsets[n], side.constraints.offsets[n + 1]
    if lo == hi:
        return 0.0
    n_rows, n_states, classes = side.normaliser / 2, len(side.classes), side.classes
    absent, exactly_one = side.constraints.absent, side.constraints.exactly_one
    block = side.blocks[side.block_offsets[n] : side.block_offsets[n + 1]].reshape(hi - lo, hi - lo)
    order, before = side.constraints.order[lo:hi], side.constraints.before[lo:hi]
    labels, missing = at.labels[lo:hi], at.missing[n]
    vertices, weights, count = at.vertices[lo:hi], at.weights[n], at.counts[n]
    gradient = block_gradient(side, at.labels, at.factor_sums, n, coupling, distorted)
    target, source = np.empty(hi - lo, np.int8), np.zeros(hi - lo, np.int8)
    lacks = np.zeros((2, n_states))  # what target and source lack
    product = np.zeros((len(at.factor_sums), hi - lo))  # A_nn Y_n; not for pairwise steps
    bent = np.empty_like(product)  # A_nn times the direction, (C, m)
    if not pairwise:
        _add_product(product, block, labels, classes)
    entry_gap, tie = 0.0, tie_with_absence(gradient, absent)
    kept, moved = 1.0, np.zeros((hi - lo, n_states))  # labels = kept * labels at entry + moved
    for step in range(STEPS_PER_BLOCK):
        gap = block_gap(gradient, labels, missing, order, before, exactly_one, absent, target)
        if step == 0:
            entry_gap = gap
        if gap <= tie:
            break
        mark_missing(absent, target, lacks[0])
        if pairwise:  # from the worst vertex to the oracle's
            worst = _worst_vertex(vertices, count, gradient, absent, tie)
            source[:] = vertices[:, worst]
            mark_missing(absent, source, lacks[1])
            slope, limit = _along(gradient, target, source), weights[worst]
            slope += price_of(absent, lacks[0] - lacks[1])
            bent[:] = 0.0
        else:  # from the labels to the oracle's vertex
            worst, slope, limit = -1, -gap, 1.0
            bent[:] = -product
        _add_rows(bent, block, target, source, classes)
        curvature = _along_classes(bent, target, source, classes)
        if not pairwise:
            curvature -= _product_with(bent, labels, classes)
        size = exact_step(slope, curvature / n_rows, limit)
        shrink = 1.0 if pairwise else 1.0 - size
        kept *= shrink
        _move(labels, shrink, size, target, source)
        _move(moved, shrink, size, target, source)
        for k in range(n_states):
            missing[k] = max(shrink * missing[k] + size * (lacks[0, k] - lacks[1, k]), 0.0)
            for i in range(hi - lo):
                labels[i, k] = max(labels[i, k], 0.0)  # negative by rounding errors only
        _follow(gradient, product, bent, size, n_rows, classes)
        count = reweigh(vertices, weights, count, shrink, worst, target, size)
    at.counts[n] = count
    _update_sums(side.rows[lo:hi], at.clip_sums[n], at.factor_sums, kept, _merged(moved, classes))
    return entry_gap


@compiled_exactly
def _follow(
    gradient: Floats, product: Floats, bent: Floats, size: float, n_rows: float, classes: Ints
) -> None:
    """Update the gradient (m, K) and A_nn Y_n (C, m) after a step of this size."""
    for k in range(len(classes)):
        for i in range(len(gradient)):
            gradient[i, k] += size / n_rows * bent[classes[k], i]
    for c in range(len(product)):
        for i in range(len(gradient)):
            product[c, i] += size * bent[c, i]


@compiled_exactly
def _add_product(product: Floats, block: Floats, labels: Floats, classes: Ints) -> None:
    """Add the symmetric block times labels (m, K) to product (C, m)."""
    for i in range(labels.shape[0]):
        for k in range(labels.shape[1]):
            weight, c = labels[i, k], classes[k]
            if weight != 0.0:
                for j in range(len(block)):
                    product[c, j] += weight * block[i, j]


@compiled_exactly
def _add_rows(
    product: Floats, block: Floats, target: Labels, source: Labels, classes: Ints
) -> None:
    """Add the block times (target - source), two labellings (m,), to product (C, m)."""
    for i in range(len(target)):
        to, of = _class_of(target[i], classes), _class_of(source[i], classes)
        if to != of:
            if to >= 0:
                for j in range(len(block)):
                    product[to, j] += block[i, j]
            if of >= 0:
                for j in range(len(block)):
                    product[of, j] -= block[i, j]


@compiled_exactly
def _class_of(label: int, classes: Ints) -> int:
    """The column of a label's state, -1 for none."""
    return classes[label - 1] if label > 0 else -1


@compiled_exactly
def _along_classes(bent: Floats, target: Labels, source: Labels, classes: Ints) -> float:
    """<bent (C, m), target - source>, as :func:`_along`."""
    total = 0.0
    for i in range(len(target)):
        to, of = _class_of(target[i], classes), _class_of(source[i], classes)
        if to != of:
            if to >= 0:
                total += bent[to, i]
            if of >= 0:
                total -= bent[of, i]
    return total


@compiled_exactly
def _product_with(bent: Floats, labels: Floats, classes: Ints) -> float:
    """<bent (C, m), labels (m, K)>."""
    total = 0.0
    for i in range(labels.shape[0]):
        for k in range(labels.shape[1]):
            if labels[i, k] != 0.0:
                total += bent[classes[k], i] * labels[i, k]
    return total


@compiled_exactly
def _merged(moved: Floats, classes: Ints) -> Floats:
    """(m, K) as (m, C), as ``problem.merge_alike``."""
    n_classes = classes.max() + 1
    if n_classes == len(classes):
        return moved
    merged = np.zeros((len(moved), n_classes))
    for k in range(len(classes)):
        merged[:, classes[k]] += moved[:, k]
    return merged


@compiled_exactly
def _along(matrix: Floats, target: Labels, source: Labels) -> float:
    """<matrix (m, K), target - source>: terms that both labellings have cancel exactly."""
    total = 0.0
    for i in range(len(target)):
        if target[i] != source[i]:
            if target[i] > 0:
                total += matrix[i, target[i] - 1]
            if source[i] > 0:
                total -= matrix[i, source[i] - 1]
    return total


@compiled_exactly
def _move(labels: Floats, shrink: float, size: float, target: Labels, source: Labels) -> None:
    """labels (m, K) = shrink * labels + size * (target - source)."""
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


@compiled_exactly
def _worst_vertex(
    vertices: Labels, count: int, gradient: Floats, absent: Floats, tie: float
) -> int:
    """Of the first ``count`` vertices (m, count) that of largest <gradient, vertex>, absence
    included, the first of those that differ by at most ``tie``."""
    costs, n_states = np.zeros(count), gradient.shape[1]
    if n_states <= 2:  # two labels are compared faster than looked up
        for i in range(len(vertices)):
            first, second = gradient[i, 0], gradient[i, -1]
            for q in range(count):
                label = vertices[i, q]
                costs[q] += first if label == 1 else (second if label == 2 else 0.0)
    else:
        of_label = np.zeros(n_states + 1)
        for i in range(len(vertices)):
            of_label[1:] = gradient[i]
            for q in range(count):
                costs[q] += of_label[vertices[i, q]]
    if absent.min() < np.inf:
        lacks = np.empty(n_states)
        for q in range(count):
            mark_missing(absent, vertices[:, q], lacks)
            costs[q] += price_of(absent, lacks)
    least = costs.max() - tie
    for q in range(count):
        if costs[q] >= least:
            return q
    return -1


@compiled_exactly
def _known_vertex(vertices: Labels, count: int, target: Labels) -> int:
    """The index of ``target`` (m,) among the first ``count`` vertices, -1 if it is not there."""
    same = np.ones(count, np.bool_)
    for i in range(len(target)):
        if target[i] > 0:  # few rows are labelled, and they exclude most vertices
            any_same = False
            for q in range(count):
                same[q] &= vertices[i, q] == target[i]
                any_same |= same[q]
            if not any_same:
                return -1
    for q in range(count):
        if same[q]:
            for i in range(len(target)):
                same[q] &= vertices[i, q] == target[i]
            if same[q]:
                return q
    return -1


@compiled_exactly
def reweigh(
    vertices: Labels,
    weights: Floats,
    count: int,
    shrink: float,
    source: int,
    target: Labels,
    size: float,
) -> int:
    """Update a clip's convex combination, its first ``count`` vertices (m, capacity) and weights;
    the new count.

    All weights are multiplied by ``shrink``, ``size`` is taken from vertex ``source`` (unless -1)
    and added to ``target``; vertices of zero weight are dropped.
    """
    for q in range(count):
        weights[q] *= shrink
    if source >= 0:
        weights[source] -= size
    known = _known_vertex(vertices, count, target)
    if known < 0:
        known = count
        count += 1
        for i in range(len(target)):
            vertices[i, known] = target[i]
        weights[known] = 0.0
    weights[known] += size
    q = 0
    while q < count:
        if weights[q] > 0.0:
            q += 1
            continue
        count -= 1
        weights[q] = weights[count]
        for i in range(len(target)):
            vertices[i, q] = vertices[i, count]
    return count


@compiled_exactly
def _update_sums(
    rows: Floats, clip_sums: Floats, factor_sums: Floats, kept: float, moved: Floats
) -> None:
    """Update the sums (C, r) of label times factor row (m, r), of a clip and of all of them, for
    labels = kept * earlier ones + moved (m, C)."""
    used = np.empty(len(moved), np.int64)
    for k in range(moved.shape[1]):
        change = (kept - 1.0) * clip_sums[k]
        n_used = 0
        for i in range(len(moved)):
            if moved[i, k] != 0.0:
                used[n_used] = i
                n_used += 1
        in_fours = n_used // 4 * 4
        for first in range(0, in_fours, 4):  # four rows at a time: memory is read faster
            a, b, c, d = used[first], used[first + 1], used[first + 2], used[first + 3]
            u, v, w, x = moved[a, k], moved[b, k], moved[c, k], moved[d, k]
            for r in range(len(change)):
                change[r] += u * rows[a, r] + v * rows[b, r] + w * rows[c, r] + x * rows[d, r]
        for i in used[in_fours:n_used]:
            weight = moved[i, k]
            for r in range(len(change)):
                change[r] += weight * rows[i, r]
        for r in range(len(change)):
            clip_sums[k, r] += change[r]
            factor_sums[k, r] += change[r]

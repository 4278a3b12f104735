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
    added = max(needed, 2 * capacity) - capacity
    return at._replace(
        vertices=np.pad(at.vertices, ((0, 0), (0, added))),
        weights=np.pad(at.weights, ((0, 0), (0, added))),
    )


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
    n_classes, absent = at.factor_sums.shape[0], side.constraints.absent
    block = side.blocks[side.block_offsets[n] : side.block_offsets[n + 1]].reshape(hi - lo, hi - lo)
    labels, missing = at.labels[lo:hi], at.missing[n]
    gradient = block_gradient(side, at.labels, at.factor_sums, n, coupling, distorted)
    target, source = np.empty(hi - lo, np.int8), np.zeros(hi - lo, np.int8)
    lacks = np.zeros((2, n_states))  # what target and source lack
    bent = np.empty((n_classes, hi - lo))  # A_nn times the direction, (C, m)
    product = np.zeros((n_classes, hi - lo))  # A_nn Y_n; pairwise steps do not need it
    if not pairwise:
        _add_product(product, block, labels, classes)
    entry_gap, tie = 0.0, tie_with_absence(gradient, absent)
    kept, moved = 1.0, np.zeros((hi - lo, n_states))  # labels = kept * labels at entry + moved
    for step in range(STEPS_PER_BLOCK):
        gap = block_gap(side.constraints, n, gradient, labels, missing, target)
        if step == 0:
            entry_gap = gap
        if gap <= tie:
            break
        mark_missing(absent, target, lacks[0])
        if pairwise:  # from the worst vertex to the oracle's
            worst = _worst_vertex(at, n, lo, hi, gradient, absent, tie)
            source[:] = at.vertices[lo:hi, worst]
            mark_missing(absent, source, lacks[1])
            slope, limit = _along(gradient.T, target, source), at.weights[n, worst]
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
                gradient[i, k] += size / n_rows * bent[classes[k], i]
        for c in range(n_classes):
            for i in range(hi - lo):
                product[c, i] += size * bent[c, i]
        reweigh(at, n, lo, hi, shrink, worst, target, size)
    _update_sums(side, at, n, lo, kept, _merged(moved, classes))
    return entry_gap


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
    """<matrix (K, m), target - source>: terms that both labellings have cancel exactly."""
    total = 0.0
    for i in range(len(target)):
        if target[i] != source[i]:
            if target[i] > 0:
                total += matrix[target[i] - 1, i]
            if source[i] > 0:
                total -= matrix[source[i] - 1, i]
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
    at: Iterate, n: int, lo: int, hi: int, gradient: Floats, absent: Floats, tie: float
) -> int:
    """The vertex of largest <gradient, vertex> in clip n's combination, absence included, the first
    of those that differ by at most ``tie``."""
    costs, n_states = np.zeros(at.counts[n]), gradient.shape[1]
    if n_states <= 2:  # two labels are compared faster than looked up
        for i in range(hi - lo):
            first, second = gradient[i, 0], gradient[i, -1]
            for q in range(len(costs)):
                label = at.vertices[lo + i, q]
                costs[q] += first if label == 1 else (second if label == 2 else 0.0)
    else:
        of_label = np.zeros(n_states + 1)
        for i in range(hi - lo):
            of_label[1:] = gradient[i]
            for q in range(len(costs)):
                costs[q] += of_label[at.vertices[lo + i, q]]
    if absent.min() < np.inf:
        lacks = np.empty(n_states)
        for q in range(len(costs)):
            mark_missing(absent, at.vertices[lo:hi, q], lacks)
            costs[q] += price_of(absent, lacks)
    return int(np.argmax(costs >= costs.max() - tie))


@compiled_exactly
def _known_vertex(at: Iterate, n: int, lo: int, target: Labels) -> int:
    """The index of ``target`` in clip n's combination, -1 if it is not in it."""
    same = np.ones(at.counts[n], np.bool_)
    for i in range(len(target)):
        if target[i] > 0:  # few rows are labelled, and they exclude most vertices
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


@compiled_exactly
def reweigh(
    at: Iterate,
    n: int,
    lo: int,
    hi: int,
    shrink: float,
    source: int,
    target: Labels,
    size: float,
) -> None:
    """Update clip n's convex combination: all weights times ``shrink``, ``size`` taken from vertex
    ``source`` (unless -1) and added to ``target``; vertices of zero weight are dropped."""
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


@compiled_exactly
def _update_sums(side: Side, at: Iterate, n: int, lo: int, kept: float, moved: Floats) -> None:
    """Update the sums of label times factor row for labels = kept * earlier ones + moved (m, C)."""
    clip_sums, factor_sums, rows = at.clip_sums[n], at.factor_sums, side.rows
    for k in range(moved.shape[1]):
        change = (kept - 1.0) * clip_sums[k]
        used = np.flatnonzero(moved[:, k])
        in_fours = len(used) // 4 * 4
        for first in range(0, in_fours, 4):  # four rows at a time: memory is read faster
            a, b, c, d = used[first], used[first + 1], used[first + 2], used[first + 3]
            u, v, w, x = moved[a, k], moved[b, k], moved[c, k], moved[d, k]
            for r in range(len(change)):
                change[r] += (
                    u * rows[lo + a, r]
                    + v * rows[lo + b, r]
                    + w * rows[lo + c, r]
                    + x * rows[lo + d, r]
                )
        for i in used[in_fours:]:
            weight = moved[i, k]
            for r in range(len(change)):
                change[r] += weight * rows[lo + i, r]
        for r in range(len(change)):
            clip_sums[k, r] += change[r]
            factor_sums[k, r] += change[r]

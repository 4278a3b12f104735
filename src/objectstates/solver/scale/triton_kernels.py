"""The functions of ``batched_torch.py`` that dominate a pass, as Triton kernels for a GPU.

Triton is part of torch on Linux; this module is imported only where there is a GPU. A thread works
through the positions of one clip; neighbouring threads read neighbouring numbers. A thread reads
back only what it wrote itself, since there are as many clips per program as threads.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from objectstates.solver.oracle import TIE
from objectstates.solver.scale import batched_torch
from objectstates.solver.scale.batched_torch import MIN_FLOW, ClipBatch

_LANES = 32  # clips per program of the steps: one warp, one clip a thread
_BLOCK = 128  # clips per program of the distortion
_INF = tl.constexpr(float("inf"))
_MIN_FLOW = tl.constexpr(MIN_FLOW)
_TIE = tl.constexpr(TIE)


# --- products with factor rows: bound by memory bandwidth, summed in float64 ----------------------


@triton.jit
def _scores_kernel(
    rows, weights, firsts, out, n_rows, width,
    K: tl.constexpr, HEIGHT: tl.constexpr, SPAN: tl.constexpr,
):  # fmt: skip
    """Each group of four columns, one vector load of a thread, is summed before accumulation.

    A quarter of the accumulators: fewer registers, higher occupancy.
    """
    i = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)
    first = tl.zeros((HEIGHT, SPAN // 4), tl.float64)
    second = tl.zeros((HEIGHT, SPAN // 4), tl.float64)
    for begin in range(0, width, SPAN):
        c = begin + tl.arange(0, SPAN)
        inside = c < width
        x = tl.load(
            rows + i[:, None] * width + c[None, :],
            mask=(i < n_rows)[:, None] & inside[None, :],
            other=0.0,
        ).to(tl.float64)
        w = tl.load(weights + c, mask=inside, other=0.0)
        first += tl.sum(tl.reshape(x * w[None, :], (HEIGHT, SPAN // 4, 4)), 2)
        if K == 2:
            w = tl.load(weights + width + c, mask=inside, other=0.0)
            second += tl.sum(tl.reshape(x * w[None, :], (HEIGHT, SPAN // 4, 4)), 2)
    tl.store(out + i * K, tl.sum(first, 1) + tl.load(firsts), mask=i < n_rows)
    if K == 2:
        tl.store(out + i * K + 1, tl.sum(second, 1) + tl.load(firsts + 1), mask=i < n_rows)


def scores(rows: Any, constant: float, sums: Any) -> Any:
    """``batched_torch.scores``; K is 1 or 2."""
    (n_rows, width), n_states = rows.shape, len(sums)
    out = torch.empty((n_rows, n_states), dtype=torch.float64, device=rows.device)
    height, span = 16, 64  # rows and columns of a tile
    if n_rows:
        _scores_kernel[(triton.cdiv(n_rows, height),)](
            rows, sums[:, 1:].contiguous(), constant * sums[:, 0], out, n_rows, width,
            n_states, height, span, num_warps=4,
        )  # fmt: skip
    return out


@triton.jit
def _factor_sums_kernel(
    rows, labels, out, n_rows, width, share,
    K: tl.constexpr, HEIGHT: tl.constexpr, SPAN: tl.constexpr,
):  # fmt: skip
    """Program (p, c) sums the rows p share to (p + 1) share of SPAN columns."""
    part = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * SPAN + tl.arange(0, SPAN)
    first = tl.zeros((HEIGHT, SPAN), tl.float64)
    second = tl.zeros((HEIGHT, SPAN), tl.float64)
    i = part * share + tl.arange(0, HEIGHT)
    end = tl.minimum((part + 1) * share, n_rows)
    one = tl.load(labels + i * K, mask=i < end, other=0.0)
    two = one
    if K == 2:
        two = tl.load(labels + i * K + 1, mask=i < end, other=0.0)
    for _ in range(0, share, HEIGHT):
        # Rows without a label are not read; labels are loaded one iteration ahead.
        used = (one != 0.0) | (two != 0.0)
        x = tl.load(
            rows + i[:, None] * width + c[None, :],
            mask=used[:, None] & (c < width)[None, :],
            other=0.0,
        ).to(tl.float64)
        i += HEIGHT
        next_one = tl.load(labels + i * K, mask=i < end, other=0.0)
        next_two = next_one
        if K == 2:
            next_two = tl.load(labels + i * K + 1, mask=i < end, other=0.0)
        first += x * one[:, None]
        if K == 2:
            second += x * two[:, None]
        one = next_one
        two = next_two
    tl.store(out + (part * K) * width + c, tl.sum(first, 0), mask=c < width)
    if K == 2:
        tl.store(out + (part * K + 1) * width + c, tl.sum(second, 0), mask=c < width)


def factor_sums(rows: Any, constant: float, labels: Any) -> Any:
    """``batched_torch.factor_sums``; K is 1 or 2."""
    (n_rows, width), n_states = rows.shape, labels.shape[1]
    if not n_rows or not width:  # an absent side
        return batched_torch.factor_sums(rows, constant, labels)
    span = min(max(triton.next_power_of_2(width), 16), 512)
    warps = max(span // 128, 1)  # a thread has 4 columns, and all rows of an iteration
    share = 64 * warps * triton.cdiv(width, span)  # a warp for every 64 rows, for any width
    parts = triton.cdiv(n_rows, share)
    out = torch.empty((parts, n_states, width), dtype=torch.float64, device=rows.device)
    _factor_sums_kernel[(parts, triton.cdiv(width, span))](
        rows, labels.contiguous(), out, n_rows, width, share, n_states, 4, span, num_warps=warps
    )
    return torch.cat([constant * labels.sum(0)[:, None], out.sum(0)], 1)


# --- distortion -----------------------------------------------------------------------------------


@triton.jit
def _state_distortion_kernel(
    times, action_times, z, out, n_clips, longest, n_chunks, LANES: tl.constexpr
):
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    i = tl.program_id(1)
    real = lane < n_clips
    time = tl.load(times + i * n_clips + lane, mask=real, other=0.0)
    late = tl.zeros((LANES,), tl.float64)
    early = tl.zeros((LANES,), tl.float64)
    for t in range(n_chunks):
        weight = tl.load(z + t * n_clips + lane, mask=real, other=0.0)
        by = time - tl.load(action_times + t * n_clips + lane, mask=real, other=0.0)
        late += weight * tl.maximum(by, 0.0)
        early += weight * tl.maximum(-by, 0.0)
    tl.store(out + i * n_clips + lane, late, mask=real)
    tl.store(out + (longest + i) * n_clips + lane, early, mask=real)


def state_distortion(state: ClipBatch, action: ClipBatch, z: Any) -> Any:
    """``batched_torch.state_distortion``."""
    out = torch.empty_like(state.linear)
    longest, n_clips = state.times.shape
    _state_distortion_kernel[(triton.cdiv(n_clips, _BLOCK), longest)](
        state.times, action.times, z, out, n_clips, longest, len(action.times), _BLOCK, num_warps=4
    )
    return out


@triton.jit
def _action_distortion_kernel(times, action_times, y, out, n_clips, longest, LANES: tl.constexpr):
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    t = tl.program_id(1)
    real = lane < n_clips
    action_time = tl.load(action_times + t * n_clips + lane, mask=real, other=0.0)
    total = tl.zeros((LANES,), tl.float64)
    for i in range(longest):
        by = tl.load(times + i * n_clips + lane, mask=real, other=0.0) - action_time
        total += tl.load(y + i * n_clips + lane, mask=real, other=0.0) * tl.maximum(by, 0.0)
        second = tl.load(y + (longest + i) * n_clips + lane, mask=real, other=0.0)
        total += second * tl.maximum(-by, 0.0)
    tl.store(out + t * n_clips + lane, total, mask=real)


def action_distortion(state: ClipBatch, action: ClipBatch, y: Any) -> Any:
    """``batched_torch.action_distortion``."""
    out = torch.empty_like(action.linear)
    n_chunks, n_clips = action.times.shape
    _action_distortion_kernel[(triton.cdiv(n_clips, _BLOCK), n_chunks)](
        state.times, action.times, y, out, n_clips, len(state.times), _BLOCK, num_warps=4
    )
    return out


# --- steps ----------------------------------------------------------------------------------------


@triton.jit
def _relax(reached, same, cost, skip, tie, ONE: tl.constexpr):
    """One position of ``batched_torch.cheapest_paths``: the value, and the kind of edge taken."""
    if ONE:
        taken, kind = reached + cost, 1
    else:
        taken = tl.minimum(same, reached) + cost
        kind = tl.where(same < reached - tie, 2, 1)
    better = taken < skip - tie
    return tl.minimum(taken, skip), tl.where(better, kind, 0).to(tl.int8)


@triton.jit
def _relax_in_flow(reached, same, cost, skip, tie, first_flow, again_flow, skip_flow):
    """The same along edges with positive flow."""
    first = tl.where(first_flow > 0.0, reached, _INF)
    again = tl.where(again_flow > 0.0, same, _INF)
    skipped = tl.where(skip_flow > 0.0, skip, _INF)
    taken = tl.minimum(first, again) + cost
    better = taken < skipped - tie
    kind = tl.where(again < first - tie, 2, 1)
    return tl.minimum(taken, skipped), tl.where(better, kind, 0).to(tl.int8)


# One kernel for all steps, and so a long one: launches and global barriers between its phases would
# take longer than the phases. K is 1 or 2, unrolled by hand to keep both states in registers.
@triton.jit
def _steps_kernel(  # noqa: C901, PLR0912, PLR0915
    scores, linear, distortion, weights, rows, flow, before, costs, value, edges, changes, sums,
    n_clips, longest, plane, n_rows,
    K: tl.constexpr, COUPLED: tl.constexpr, ONE: tl.constexpr, PAIRWISE: tl.constexpr,
    STEPS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """``batched_torch.frank_wolfe_steps``.

    plane : m N, the size of one kind of edge and state in ``flow``. Work space: costs (K, m, N);
    value (2, K, m + 1, N) and edges (2, K + 1, m, N), of the best and the worst path.
    """
    lane = (tl.program_id(0) * LANES + tl.arange(0, LANES)).to(tl.int64)
    real = lane < n_clips
    level = plane + n_clips  # of one state in the values
    entry = tl.zeros((LANES,), tl.float64)
    nothing = tl.zeros((LANES,), tl.float64)
    never = tl.full((LANES,), float("inf"), tl.float64)
    for number in tl.static_range(2 * K):
        tl.store(value + number * level + lane, never, mask=real)
    weight, distortion_weight = tl.load(weights), tl.load(weights + 1)
    tie = nothing
    for j in range(longest):
        at = j * n_clips + lane
        row = tl.load(rows + at, mask=real, other=n_rows)
        there = row < n_rows
        for state in tl.static_range(K):
            cost = weight * tl.load(linear + state * plane + at, mask=real, other=0.0)
            if COUPLED:
                cost += distortion_weight * tl.load(
                    distortion + state * plane + at, mask=real, other=0.0
                )
            cost -= tl.load(scores + row * K + state, mask=there, other=0.0)
            tl.store(costs + state * plane + at, cost, mask=real)
            tie = tl.maximum(tie, tl.where(tl.abs(cost) < _INF, _TIE * tl.abs(cost), 0.0))
            y = tl.load(flow + (K + state) * plane + at, mask=real, other=0.0)
            y += tl.load(flow + (2 * K + state) * plane + at, mask=real, other=0.0)
            tl.store(changes + row * K + state, -y, mask=there)
    for step in range(STEPS):
        here, square = nothing, nothing
        v1, v2, w1, w2 = never, never, never, never
        # Forwards. Loads are issued one position ahead: they never overtake stores.
        p_next = tl.load(before + lane, mask=real, other=0)
        first_next = tl.load(flow + K * plane + lane, mask=real, other=0.0)
        again_next = tl.load(flow + 2 * K * plane + lane, mask=real, other=0.0)
        skip_next = tl.load(flow + lane, mask=real, other=0.0)
        cost_next = tl.load(costs + lane, mask=real, other=0.0)
        first2_next, again2_next, skip2_next, cost2_next = nothing, nothing, nothing, nothing
        if K == 2:
            first2_next = tl.load(flow + (K + 1) * plane + lane, mask=real, other=0.0)
            again2_next = tl.load(flow + (2 * K + 1) * plane + lane, mask=real, other=0.0)
            skip2_next = tl.load(flow + plane + lane, mask=real, other=0.0)
            cost2_next = tl.load(costs + plane + lane, mask=real, other=0.0)
        for j in range(longest):
            at = j * n_clips + lane
            then = at + n_clips
            p = p_next.to(tl.int64) * n_clips + lane
            first, again, skip = first_next, again_next, skip_next
            first2, again2, skip2 = first2_next, again2_next, skip2_next
            y = first + again
            y2 = first2 + again2
            g = cost_next + y
            g2 = cost2_next + y2
            p1 = tl.load(value + p, mask=real, other=0.0)
            p2, q1, q2 = nothing, nothing, nothing
            if K == 2:
                p2 = tl.load(value + level + p, mask=real, other=0.0)
            if PAIRWISE:
                q1 = tl.load(value + K * level + p, mask=real, other=0.0)
                if K == 2:
                    q2 = tl.load(value + (K + 1) * level + p, mask=real, other=0.0)
            more = real & (then < plane)
            p_next = tl.load(before + then, mask=more, other=0)
            first_next = tl.load(flow + K * plane + then, mask=more, other=0.0)
            again_next = tl.load(flow + 2 * K * plane + then, mask=more, other=0.0)
            cost_next = tl.load(costs + then, mask=more, other=0.0)
            if PAIRWISE:
                skip_next = tl.load(flow + then, mask=more, other=0.0)
            if K == 2:
                first2_next = tl.load(flow + (K + 1) * plane + then, mask=more, other=0.0)
                again2_next = tl.load(flow + (2 * K + 1) * plane + then, mask=more, other=0.0)
                cost2_next = tl.load(costs + plane + then, mask=more, other=0.0)
                if PAIRWISE:
                    skip2_next = tl.load(flow + plane + then, mask=more, other=0.0)
            here += tl.where(y > 0.0, g * y, 0.0)
            square += y * y
            v1, move = _relax(nothing, p1, g, v1, tie, ONE)
            tl.store(value + then, v1, mask=real)
            tl.store(edges + at, move, mask=real)
            if PAIRWISE:
                back = tl.where(y > 0.0, -g, _INF)
                w1, move = _relax_in_flow(nothing, q1, back, w1, tie, first, again, skip)
                tl.store(value + K * level + then, w1, mask=real)
                tl.store(edges + (K + 1) * plane + at, move, mask=real)
            if K == 2:
                here += tl.where(y2 > 0.0, g2 * y2, 0.0)
                square += y2 * y2
                v2, move = _relax(p1, p2, g2, v2, tie, ONE)
                tl.store(value + level + then, v2, mask=real)
                tl.store(edges + plane + at, move, mask=real)
                if PAIRWISE:
                    back = tl.where(y2 > 0.0, -g2, _INF)
                    w2, move = _relax_in_flow(q1, q2, back, w2, tie, first2, again2, skip2)
                    tl.store(value + (K + 1) * level + then, w2, mask=real)
                    tl.store(edges + (K + 2) * plane + at, move, mask=real)
        least, most = v1, w1
        if K == 2:
            least, most = v2, w2
        gap = here - least
        entry = tl.where(step == 0, gap, entry)

        # Backwards along both paths: how they differ, and how much the worst one can lose. An edge
        # is encoded as 3 (k - 1) + kind, and written to the last plane of its path's edges.
        limit, curvature = never, nothing
        k = tl.full((LANES,), K, tl.int32)
        end = tl.zeros((LANES,), tl.int32) + longest
        k_worse, end_worse = k, end
        for back_j in range(longest):
            j = longest - 1 - back_j
            at = j * n_clips + lane
            p = tl.load(before + at, mask=real, other=0).to(tl.int32)
            on = real & (end == j + 1) & (k > 0)
            move = tl.load(edges + (k - 1) * plane + at, mask=on, other=0).to(tl.int32)
            edge = tl.where(on, 3 * (k - 1) + move, -1)
            label = tl.where(on & (move > 0), k, 0)
            end = tl.where(on, tl.where(move > 0, p, j), end)
            k = k - tl.where(on & (move == 1), 1, 0)
            tl.store(edges + K * plane + at, edge.to(tl.int8), mask=real)
            if PAIRWISE:
                on = real & (end_worse == j + 1) & (k_worse > 0)
                source = (K + 1) * plane + (k_worse - 1) * plane + at
                move = tl.load(edges + source, mask=on, other=0).to(tl.int32)
                worse = tl.where(on, 3 * (k_worse - 1) + move, -1)
                lost = on & (worse != edge)
                where = (move * K + k_worse - 1) * plane + at
                limit = tl.minimum(limit, tl.load(flow + where, mask=lost, other=float("inf")))
                old = tl.where(on & (move > 0), k_worse, 0)
                both = (label > 0).to(tl.float64) + (old > 0).to(tl.float64)
                curvature += tl.where(label != old, both, 0.0)
                end_worse = tl.where(on, tl.where(move > 0, p, j), end_worse)
                k_worse = k_worse - tl.where(on & (move == 1), 1, 0)
                tl.store(edges + (2 * K + 1) * plane + at, worse.to(tl.int8), mask=real)
            else:
                taken = real & (label > 0)
                where = (K + label - 1) * plane + at
                y = tl.load(flow + where, mask=taken, other=0.0)
                y += tl.load(flow + where + K * plane, mask=taken, other=0.0)
                curvature += tl.where(taken, 1.0 - 2.0 * y, 0.0)
        if PAIRWISE:
            slope = least + most
        else:
            slope = -gap
            curvature += square
            limit = nothing + 1.0
        size = tl.minimum(-slope / tl.maximum(curvature, 1e-300), limit)
        size = tl.where((slope < 0.0) & (gap > tie), size, 0.0)
        for j in range(longest):
            at = j * n_clips + lane
            edge = tl.load(edges + K * plane + at, mask=real, other=-1).to(tl.int32)
            if PAIRWISE:  # only edges of either path, not of both, change
                worse = tl.load(edges + (2 * K + 1) * plane + at, mask=real, other=-1).to(tl.int32)
                moved = real & (edge != worse) & (size > 0.0)
                gaining, losing = moved & (edge >= 0), moved & (worse >= 0)
                to = flow + (edge % 3 * K + edge // 3) * plane + at
                source = flow + (worse % 3 * K + worse // 3) * plane + at
                more = tl.load(to, mask=gaining, other=0.0) + size
                less = tl.load(source, mask=losing, other=0.0) - size
                tl.store(to, tl.where(more < _MIN_FLOW, 0.0, more), mask=gaining)
                tl.store(source, tl.where(less < _MIN_FLOW, 0.0, less), mask=losing)
            else:
                for state in tl.static_range(K):
                    for kind in tl.static_range(3):
                        where = flow + (kind * K + state) * plane + at
                        x = (1.0 - size) * tl.load(where, mask=real, other=0.0)
                        x += tl.where(edge == 3 * state + kind, size, 0.0)
                        tl.store(where, tl.where(x < _MIN_FLOW, 0.0, x), mask=real)
    square, linear_cost, misplaced = nothing, nothing, nothing
    for j in range(longest):
        at = j * n_clips + lane
        row = tl.load(rows + at, mask=real, other=n_rows)
        there = row < n_rows
        for state in tl.static_range(K):
            y = tl.load(flow + (K + state) * plane + at, mask=real, other=0.0)
            y += tl.load(flow + (2 * K + state) * plane + at, mask=real, other=0.0)
            square += y * y
            cost = tl.load(linear + state * plane + at, mask=real, other=0.0)
            linear_cost += tl.where(y > 0.0, cost * y, 0.0)
            if COUPLED:
                misplaced += y * tl.load(distortion + state * plane + at, mask=real, other=0.0)
            old = tl.load(changes + row * K + state, mask=there, other=0.0)
            tl.store(changes + row * K + state, old + y, mask=there)
    tl.store(sums + lane, entry, mask=real)
    tl.store(sums + n_clips + lane, square, mask=real)
    tl.store(sums + 2 * n_clips + lane, linear_cost, mask=real)
    tl.store(sums + 3 * n_clips + lane, misplaced, mask=real)


def frank_wolfe_steps(
    batch: ClipBatch,
    scores: Any,
    distortion: Any,
    flow: Any,
    *,
    weights: Any,
    steps: int,
    pairwise: bool,
) -> tuple[Any, Any]:
    """``batched_torch.frank_wolfe_steps``."""
    n_states, longest, n_clips = batch.linear.shape
    changes, sums = torch.empty_like(scores), flow.new_empty((4, n_clips))
    value = flow.new_empty((2, n_states, longest + 1, n_clips))
    edges = flow.new_empty((2, n_states + 1, longest, n_clips), dtype=torch.int8)
    _steps_kernel[(triton.cdiv(n_clips, _LANES),)](
        scores.contiguous(), batch.linear, batch.linear if distortion is None else distortion,
        weights, batch.rows, flow, batch.before, torch.empty_like(batch.linear), value, edges,
        changes, sums, n_clips, longest, longest * n_clips, len(scores),
        n_states, distortion is not None, batch.exactly_one, pairwise, steps, _LANES, num_warps=1,
    )  # fmt: skip
    return changes, sums.sum(1)

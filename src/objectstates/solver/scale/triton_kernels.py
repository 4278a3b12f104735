"""The work of ``padded.py`` and of thin products, as kernels for a GPU (Triton, part of torch).

Imported only where there is one. Clips are lanes: a thread goes through the positions of one clip,
and neighbours read neighbouring numbers. Every thread reads back only what it wrote itself: there
are as many lanes as threads.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from objectstates.solver.scale.batched_torch import DUST, Padded

_LANES = 32  # clips per program, one a thread
_INF = tl.constexpr(float("inf"))
_DUST = tl.constexpr(DUST)


# --- thin products: as fast as memory is read, in float64 sums ------------------------------------


@triton.jit
def _scores_kernel(
    rows,
    weights,
    firsts,
    out,
    n_rows,
    width,
    K: tl.constexpr,
    HEIGHT: tl.constexpr,
    SPAN: tl.constexpr,
):
    """Four neighbours, which a thread loads at once, are added up before they are remembered.

    That is a quarter of the sums: fewer registers, more programs at once, and room for visits.
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


def scores(rows: Any, constant: float, whole: Any) -> Any:
    """As in ``padded.py``; K is 1 or 2."""
    (n_rows, width), n_states = rows.shape, len(whole)
    out = torch.empty((n_rows, n_states), dtype=torch.float64, device=rows.device)
    height, span = 16, 64
    if not n_rows:
        return out
    _scores_kernel[(triton.cdiv(n_rows, height),)](
        rows,
        whole[:, 1:].contiguous(),
        constant * whole[:, 0],
        out,
        n_rows,
        width,
        n_states,
        height,
        span,
        num_warps=4,
    )
    return out


@triton.jit
def _sums_kernel(
    rows,
    labels,
    out,
    n_rows,
    width,
    share,
    K: tl.constexpr,
    HEIGHT: tl.constexpr,
    SPAN: tl.constexpr,
):
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
        # A row that no label touches is not even read; which those are is known a turn before.
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


def sums(rows: Any, constant: float, labels: Any) -> Any:
    """As in ``padded.py``; K is 1 or 2."""
    (n_rows, width), n_states = rows.shape, labels.shape[1]
    span = min(max(triton.next_power_of_2(width), 16), 512)
    warps = max(span // 128, 1)  # so that a thread has 4 columns, and all rows of a turn
    share = 64 * warps * triton.cdiv(width, span)  # a warp for every 64 rows, whatever their width
    parts = triton.cdiv(n_rows, share)
    out = torch.empty((parts, n_states, width), dtype=torch.float64, device=rows.device)
    _sums_kernel[(parts, triton.cdiv(width, span))](
        rows, labels.contiguous(), out, n_rows, width, share, n_states, 4, span, num_warps=warps
    )
    return torch.cat([constant * labels.sum(0)[:, None], out.sum(0)], 1)


# --- what the sides of a clip do to each other ----------------------------------------------------


@triton.jit
def _state_pull_kernel(
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


def pulls_on_states(state: Padded, action: Padded, action_labels: Any) -> Any:
    """As in ``padded.py``."""
    out = torch.empty_like(state.linear)
    longest, n_clips = state.times.shape
    _state_pull_kernel[(triton.cdiv(n_clips, 128), longest)](
        state.times,
        action.times,
        action_labels,
        out,
        n_clips,
        longest,
        len(action.times),
        128,
        num_warps=4,
    )
    return out


@triton.jit
def _action_pull_kernel(times, action_times, y, out, n_clips, longest, LANES: tl.constexpr):
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    t = tl.program_id(1)
    real = lane < n_clips
    action_time = tl.load(action_times + t * n_clips + lane, mask=real, other=0.0)
    pull = tl.zeros((LANES,), tl.float64)
    for i in range(longest):
        by = tl.load(times + i * n_clips + lane, mask=real, other=0.0) - action_time
        pull += tl.load(y + i * n_clips + lane, mask=real, other=0.0) * tl.maximum(by, 0.0)
        second = tl.load(y + (longest + i) * n_clips + lane, mask=real, other=0.0)
        pull += second * tl.maximum(-by, 0.0)
    tl.store(out + t * n_clips + lane, pull, mask=real)


def pulls_on_action(state: Padded, action: Padded, state_labels: Any) -> Any:
    """As in ``padded.py``."""
    out = torch.empty_like(action.linear)
    n_chunks, n_clips = action.times.shape
    _action_pull_kernel[(triton.cdiv(n_clips, 128), n_chunks)](
        state.times,
        action.times,
        state_labels,
        out,
        n_clips,
        len(state.times),
        128,
        num_warps=4,
    )
    return out


# --- visits ---------------------------------------------------------------------------------------


@triton.jit
def _relax(reached, same, cost, skip, ONE: tl.constexpr):
    """One position of the recursion: the new value, and which edge led there."""
    if ONE:
        again = same != same  # never
        base = reached
    else:
        again = same < reached
        base = tl.where(again, same, reached)
    taken = base + cost
    better = taken < skip
    move = tl.where(better, tl.where(again, 2, 1), 0)
    return tl.where(better, taken, skip), move.to(tl.int8)


@triton.jit
def _retrace(reached, same, cost, skip, first_flow, again_flow, skip_flow):
    """The same along edges that carry flow."""
    first = tl.where(first_flow > 0.0, reached, _INF)
    again = tl.where(again_flow > 0.0, same, _INF)
    taken = tl.minimum(first, again) + cost
    skipped = tl.where(skip_flow > 0.0, skip, _INF)
    better = taken < skipped
    move = tl.where(better, tl.where(again < first, 2, 1), 0)
    return tl.where(better, taken, skipped), move.to(tl.int8)


@triton.jit
def _visit_kernel(
    scores,
    linear,
    pull,
    weights,
    rows,
    flow,
    before,
    costs,
    value,
    moves,
    changes,
    facts,
    n_clips,
    longest,
    plane,
    n_rows,
    K: tl.constexpr,
    COUPLED: tl.constexpr,
    ONE: tl.constexpr,
    PAIRWISE: tl.constexpr,
    STEPS: tl.constexpr,
    LANES: tl.constexpr,
):
    """``padded.visit``. value is (2, K, m + 1, N), moves is (2, K + 1, m, N), for either path.

    plane : m N, the size of one edge and state in the flow. costs (K, m, N), value and moves are
    for its own use. weights : of linear costs and of pulls.
    """
    lane = (tl.program_id(0) * LANES + tl.arange(0, LANES)).to(tl.int64)
    real = lane < n_clips
    level = plane + n_clips  # of one state in the values
    entry = tl.zeros((LANES,), tl.float64)
    nothing = tl.zeros((LANES,), tl.float64)
    never = tl.full((LANES,), float("inf"), tl.float64)
    for number in tl.static_range(2 * K):
        tl.store(value + number * level + lane, never, mask=real)
    weight, weight_of_pull = tl.load(weights), tl.load(weights + 1)
    for j in range(longest):
        at = j * n_clips + lane
        row = tl.load(rows + at, mask=real, other=n_rows)
        there = row < n_rows
        for state in tl.static_range(K):
            cost = weight * tl.load(linear + state * plane + at, mask=real, other=0.0)
            if COUPLED:
                cost += weight_of_pull * tl.load(pull + state * plane + at, mask=real, other=0.0)
            cost -= tl.load(scores + row * K + state, mask=there, other=0.0)
            tl.store(costs + state * plane + at, cost, mask=real)
            y = tl.load(flow + (K + state) * plane + at, mask=real, other=0.0)
            y += tl.load(flow + (2 * K + state) * plane + at, mask=real, other=0.0)
            tl.store(changes + row * K + state, -y, mask=there)
    for step in range(STEPS):
        here, square = nothing, nothing
        v1, v2, w1, w2 = never, never, never, never
        # What a position needs is loaded one position ahead: loads never overtake stores.
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
            v1, move = _relax(nothing, p1, g, v1, ONE)
            tl.store(value + then, v1, mask=real)
            tl.store(moves + at, move, mask=real)
            if PAIRWISE:
                back = tl.where(y > 0.0, -g, _INF)
                w1, move = _retrace(nothing, q1, back, w1, first, again, skip)
                tl.store(value + K * level + then, w1, mask=real)
                tl.store(moves + (K + 1) * plane + at, move, mask=real)
            if K == 2:
                here += tl.where(y2 > 0.0, g2 * y2, 0.0)
                square += y2 * y2
                v2, move = _relax(p1, p2, g2, v2, ONE)
                tl.store(value + level + then, v2, mask=real)
                tl.store(moves + plane + at, move, mask=real)
                if PAIRWISE:
                    back = tl.where(y2 > 0.0, -g2, _INF)
                    w2, move = _retrace(q1, q2, back, w2, first2, again2, skip2)
                    tl.store(value + (K + 1) * level + then, w2, mask=real)
                    tl.store(moves + (K + 2) * plane + at, move, mask=real)
        least, most = v1, w1
        if K == 2:
            least, most = v2, w2
        gap = here - least
        entry = tl.where(step == 0, gap, entry)

        # Backwards along both paths: how they differ, and how much the worse one can lose. An
        # edge is told as 3 (k - 1) + kind, and written over the last plane of the moves.
        limit, bend = never, nothing
        k = tl.full((LANES,), K, tl.int32)
        end = tl.zeros((LANES,), tl.int32) + longest
        k_worse, end_worse = k, end
        for back_j in range(longest):
            j = longest - 1 - back_j
            at = j * n_clips + lane
            p = tl.load(before + at, mask=real, other=0).to(tl.int32)
            on = real & (end == j + 1) & (k > 0)
            move = tl.load(moves + (k - 1) * plane + at, mask=on, other=0).to(tl.int32)
            edge = tl.where(on, 3 * (k - 1) + move, -1)
            label = tl.where(on & (move > 0), k, 0)
            end = tl.where(on, tl.where(move > 0, p, j), end)
            k = k - tl.where(on & (move == 1), 1, 0)
            tl.store(moves + K * plane + at, edge.to(tl.int8), mask=real)
            if PAIRWISE:
                on = real & (end_worse == j + 1) & (k_worse > 0)
                source = (K + 1) * plane + (k_worse - 1) * plane + at
                move = tl.load(moves + source, mask=on, other=0).to(tl.int32)
                worse = tl.where(on, 3 * (k_worse - 1) + move, -1)
                lost = on & (worse != edge)
                where = (move * K + k_worse - 1) * plane + at
                limit = tl.minimum(limit, tl.load(flow + where, mask=lost, other=float("inf")))
                old = tl.where(on & (move > 0), k_worse, 0)
                both = (label > 0).to(tl.float64) + (old > 0).to(tl.float64)
                bend += tl.where(label != old, both, 0.0)
                end_worse = tl.where(on, tl.where(move > 0, p, j), end_worse)
                k_worse = k_worse - tl.where(on & (move == 1), 1, 0)
                tl.store(moves + (2 * K + 1) * plane + at, worse.to(tl.int8), mask=real)
            else:
                taken = real & (label > 0)
                where = (K + label - 1) * plane + at
                y = tl.load(flow + where, mask=taken, other=0.0)
                y += tl.load(flow + where + K * plane, mask=taken, other=0.0)
                bend += tl.where(taken, 1.0 - 2.0 * y, 0.0)
        if PAIRWISE:
            slope = least + most
        else:
            slope = -gap
            bend += square
            limit = nothing + 1.0
        size = tl.minimum(-slope / tl.maximum(bend, 1e-300), limit)
        size = tl.where((slope < 0.0) & (gap > 0.0), size, 0.0)
        for j in range(longest):
            at = j * n_clips + lane
            edge = tl.load(moves + K * plane + at, mask=real, other=-1).to(tl.int32)
            if PAIRWISE:  # only edges of either path, not of both, change
                worse = tl.load(moves + (2 * K + 1) * plane + at, mask=real, other=-1).to(tl.int32)
                moved = real & (edge != worse) & (size > 0.0)
                gaining, losing = moved & (edge >= 0), moved & (worse >= 0)
                to = flow + (edge % 3 * K + edge // 3) * plane + at
                source = flow + (worse % 3 * K + worse // 3) * plane + at
                more = tl.load(to, mask=gaining, other=0.0) + size
                less = tl.load(source, mask=losing, other=0.0) - size
                tl.store(to, tl.where(more < _DUST, 0.0, more), mask=gaining)
                tl.store(source, tl.where(less < _DUST, 0.0, less), mask=losing)
            else:
                for state in tl.static_range(K):
                    for kind in tl.static_range(3):
                        where = flow + (kind * K + state) * plane + at
                        x = (1.0 - size) * tl.load(where, mask=real, other=0.0)
                        x += tl.where(edge == 3 * state + kind, size, 0.0)
                        tl.store(where, tl.where(x < _DUST, 0.0, x), mask=real)
    square, straight, disorder = nothing, nothing, nothing
    for j in range(longest):
        at = j * n_clips + lane
        row = tl.load(rows + at, mask=real, other=n_rows)
        there = row < n_rows
        for state in tl.static_range(K):
            y = tl.load(flow + (K + state) * plane + at, mask=real, other=0.0)
            y += tl.load(flow + (2 * K + state) * plane + at, mask=real, other=0.0)
            square += y * y
            cost = tl.load(linear + state * plane + at, mask=real, other=0.0)
            straight += tl.where(y > 0.0, cost * y, 0.0)
            if COUPLED:
                disorder += y * tl.load(pull + state * plane + at, mask=real, other=0.0)
            old = tl.load(changes + row * K + state, mask=there, other=0.0)
            tl.store(changes + row * K + state, old + y, mask=there)
    tl.store(facts + lane, entry, mask=real)
    tl.store(facts + n_clips + lane, square, mask=real)
    tl.store(facts + 2 * n_clips + lane, straight, mask=real)
    tl.store(facts + 3 * n_clips + lane, disorder, mask=real)


def visit(
    side: Padded,
    scores: Any,
    pull: Any,
    flow: Any,
    *,
    weights: Any,
    steps: int,
    pairwise: bool,
) -> tuple[Any, Any]:
    """As in ``padded.py``."""
    n_states, longest, n_clips = side.linear.shape
    real, whole = {"dtype": torch.float64, "device": flow.device}, torch.int8
    changes = torch.empty_like(scores)
    facts = torch.empty((4, n_clips), **real)
    _visit_kernel[(triton.cdiv(n_clips, _LANES),)](
        scores.contiguous(),
        side.linear,
        side.linear if pull is None else pull,
        weights,
        side.rows,
        flow,
        side.before,
        torch.empty(side.linear.shape, **real),
        torch.empty((2, n_states, longest + 1, n_clips), **real),
        torch.empty((2, n_states + 1, longest, n_clips), dtype=whole, device=flow.device),
        changes,
        facts,
        n_clips,
        longest,
        longest * n_clips,
        len(scores),
        n_states,
        pull is not None,
        side.exactly_one,
        pairwise,
        steps,
        _LANES,
        num_warps=1,
    )
    return changes, facts.sum(1)

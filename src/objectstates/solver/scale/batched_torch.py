"""Oracle, Frank-Wolfe steps and rounding for a batch of clips at once, as torch tensors.

Clips of about the same number of rows are padded to the longest: tensors are (..., m, N), position
in order of end time by clip. The recursion over the m positions is a loop; N is the parallel axis,
contiguous in memory.

A labelling of a clip is a path through the recursion of ``oracle.py``, from V_0 to V_K[m], along
three kinds of edges into V_k[j]:

    0 skip   V_k[j-1]            the row does not get label k
    1 first  V_{k-1}[before[j]]  the row is the first of state k
    2 again  V_k[before[j]]      the row is a further one of state k

A point of the convex hull is a unit flow along these edges, stored as (3, K, m, N); its labels are
the flow on "first" and "again". No list of labellings is needed: the worst labelling of the convex
combination is the most expensive path along edges with positive flow, and can lose as much as its
least edge carries (Garber and Meshi, "Linear-memory and decomposition-invariant linearly convergent
conditional gradient", 2016).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from objectstates.solver.oracle import TIE, Constraints, Ints

Tensor = Any
"""A torch tensor. Torch is an optional dependency, imported where used."""

MIN_FLOW = 1e-12  # less is rounding error of float64 sums of a few hundred steps
_ROWS = 2**14  # converted to float64 at a time: 256 MB at 2,048 features


class ClipBatch(NamedTuple):
    """One side of N clips of at most m rows, with K states.

    before : (m, N) as in ``Constraints``, by position in order of end time.
    rows : (m, N) index of the row at each position, counted from the batch's first row; one past
        the last where a clip has no such row (padding).
    exactly_one : each state labels exactly one row, so that no labelling uses "again".
    linear : (K, m, N) linear cost of labels, infinite where forbidden and in the padding.
    times : (m, N) in seconds.
    """

    before: Tensor
    rows: Tensor
    exactly_one: bool
    linear: Tensor
    times: Tensor

    @property
    def n_states(self) -> int:
        return int(self.linear.shape[0])

    @property
    def blocked(self) -> Tensor:
        """(3, 1, 1, 1) infinite for the kinds of edges that no labelling may use, else 0."""
        again = float("inf") if self.exactly_one else 0.0
        return self.linear.new_tensor([0.0, 0.0, again]).reshape(3, 1, 1, 1)

    def pad(self, columns: Tensor) -> Tensor:
        """(rows, K) as (K, m, N), 0 in the padding."""
        padding = columns.new_zeros((1, columns.shape[1]))
        return _torch().cat([columns, padding])[self.rows].permute(2, 0, 1).contiguous()

    def unpad(self, padded: Tensor, n_rows: int) -> Tensor:
        """(K, m, N) as (rows, K)."""
        columns = padded.new_zeros((n_rows + 1, len(padded)))
        columns[self.rows] = padded.permute(1, 2, 0)
        return columns[:n_rows]


def batch_clips(constraints: Constraints, clips: Ints, device: Any) -> ClipBatch:
    """A batch of some clips of ``constraints``; their rows are concatenated in the order given."""
    torch = _torch()
    counts = np.diff(constraints.offsets)[clips]
    longest, n_clips = int(counts.max(initial=0)), len(clips)
    starts = np.cumsum(counts) - counts
    position = np.arange(longest)[:, None]
    real = position < counts
    sorted_rows = (constraints.offsets[clips] + position)[real]  # by end time
    in_clip = constraints.order[sorted_rows]
    source = np.broadcast_to(constraints.offsets[clips], real.shape)[real] + in_clip
    before, times = np.zeros((longest, n_clips), np.int64), np.zeros((longest, n_clips))
    rows = np.full((longest, n_clips), counts.sum(), np.int64)
    linear = np.full((constraints.linear.shape[1], longest, n_clips), np.inf)
    before[real], times[real] = constraints.before[sorted_rows], constraints.times[source]
    rows[real] = np.broadcast_to(starts, real.shape)[real] + in_clip
    linear[:, real] = constraints.linear[source].T
    before, rows, linear, times = (
        torch.as_tensor(x, device=device) for x in (before, rows, linear, times)
    )
    return ClipBatch(before, rows, constraints.exactly_one, linear, times)


# --- oracle ---------------------------------------------------------------------------------------


def path_values(costs: Tensor, before: Tensor, blocked: Tensor) -> Tensor:
    """The recursion: V_k[j] of ``oracle.py`` for every clip, (K + 1, m + 1, N).

    ``[-1, -1]`` is the least cost of a labelling, infinite where there is none. costs : (K, m, N)
    of the labels. blocked : infinite for unusable edges, else 0; broadcasts to (3, K, m, N).
    """
    n_states, longest, n_clips = costs.shape
    skip, first, again = blocked.expand(3, *costs.shape)
    value = costs.new_full((n_states + 1, longest + 1, n_clips), float("inf"))
    value[0] = 0.0
    for j in range(longest):
        reached = value.gather(1, before[j].expand(n_states + 1, 1, n_clips))[:, 0]
        base = _torch().minimum(reached[:-1] + first[:, j], reached[1:] + again[:, j])
        value[1:, j + 1] = _torch().minimum(base + costs[:, j], value[1:, j] + skip[:, j])
    return value


def tie_of(costs: Tensor) -> Tensor:
    """(N,) the difference below which sums of a clip's costs (K, m, N) are equal, as in
    ``oracle.py``."""
    torch = _torch()
    sizes = torch.where(costs.isinf(), 0.0, costs.abs())
    return TIE * sizes.amax((0, 1)) if sizes.numel() else costs.new_zeros(costs.shape[2])


def cheapest_paths(
    costs: Tensor, before: Tensor, blocked: Tensor, tie: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The least cost (N,) of a labelling and its path (3, K, m, N); see :func:`path_values`.

    Of paths that differ by at most ``tie`` (N,), by default :func:`tie_of`, the one of
    ``oracle.py`` is taken.
    """
    torch = _torch()
    n_states, longest, n_clips = costs.shape
    tie = tie_of(costs) if tie is None else tie
    value = path_values(costs, before, blocked)
    reached = value.gather(1, before.expand(n_states + 1, longest, n_clips))
    first, again = reached[:-1] + blocked[1], reached[1:] + blocked[2]
    taken = torch.minimum(first, again) + costs < value[1:, :-1] + blocked[0] - tie
    edges = taken * (1 + (again < first - tie).long())  # into V_k[j], (K, m, N)
    path = torch.zeros((3, *costs.shape), dtype=torch.float64, device=costs.device)
    clips = torch.arange(n_clips, device=costs.device)
    state, end = torch.full_like(clips, n_states), torch.full_like(clips, longest)
    for j in range(longest, 0, -1):  # backtracking
        here = (end == j) & (state > 0)
        k = (state - 1).clamp(min=0)
        edge = edges[k, j - 1, clips]
        path[edge, k, j - 1, clips] = here.double()
        end = torch.where(here, torch.where(edge > 0, before[j - 1], j - 1), end)
        state = state - (here & (edge == 1)).long()
    return value[-1, -1], path


def labels_of(flow: Tensor) -> Tensor:
    """The labels (K, m, N) of a flow or path."""
    return flow[1] + flow[2]


def inner_products(costs: Tensor, labels: Tensor) -> Tensor:
    """<costs, labels> of every clip, (N,); the infinite cost of an unused label counts 0."""
    return _torch().where(labels != 0, costs * labels, 0.0).sum((0, 1))


# --- steps ----------------------------------------------------------------------------------------


def frank_wolfe_steps(
    batch: ClipBatch,
    scores: Tensor,
    distortion: Tensor | None,
    flow: Tensor,
    *,
    weights: Tensor,
    steps: int,
    pairwise: bool,
) -> tuple[Tensor, Tensor]:
    """A few steps in every clip, at fixed classifiers, on |Y|^2 / 2 + <costs, Y>; changes ``flow``.

    costs = weights[0] linear + weights[1] distortion - scores, in units of 1/M. Steps go towards
    the oracle's labelling, from the clip's labels or (``pairwise``) from the worst labelling in
    their combination. scores : (rows, K). distortion : (K, m, N) the derivative of d in seconds,
    None without the other side.

    Returns the change of the labels (rows, K) and four sums over clips: the gap before the steps,
    and |Y|^2, the linear cost and d after them.
    """
    torch = _torch()
    costs = weights[0] * batch.linear - batch.pad(scores)
    if distortion is not None:
        costs = costs + weights[1] * distortion
    tie = tie_of(costs)
    before = labels = labels_of(flow)
    gap_before = costs.new_zeros(())
    for step in range(steps):
        gradient = costs + labels
        least, target = cheapest_paths(gradient, batch.before, batch.blocked, tie)
        gap = inner_products(gradient, labels) - least
        gap_before = gap.sum() if step == 0 else gap_before
        if pairwise:
            carries = torch.where(flow > 0, 0.0, float("inf"))
            backwards = torch.where(labels > 0, -gradient, float("inf"))
            most, source = cheapest_paths(backwards, batch.before, carries, tie)
            slope = least + most
            limit = torch.where(source > target, flow, float("inf")).amin((0, 1, 2))
        else:
            source, slope, limit = flow, -gap, torch.ones_like(gap)
        change = target - source
        curvature = labels_of(change).square().sum((0, 1))
        size = torch.minimum(-slope / curvature.clamp(min=1e-300), limit)
        size = torch.where((slope < 0) & (gap > tie), size, 0.0)
        flow += size * change
        flow[flow < MIN_FLOW] = 0.0
        labels = labels_of(flow)
    sums = [gap_before, labels.square().sum(), inner_products(batch.linear, labels).sum()]
    sums.append(costs.new_zeros(()) if distortion is None else (distortion * labels).sum())
    return batch.unpad(labels - before, len(scores)), torch.stack(sums)


# --- distortion and rounding ----------------------------------------------------------------------


def misplaced_seconds(state_times: Tensor, action_times: Tensor) -> Tensor:
    """(2, ...) [t_y - t_z]_+ of state 1 and [t_z - t_y]_+ of state 2 (paper, eq. 4)."""
    late = state_times - action_times
    return _torch().stack([late.clamp(min=0), (-late).clamp(min=0)])


def state_distortion(state: ClipBatch, action: ClipBatch, z: Tensor) -> Tensor:
    """(2, M, N) the derivative of d by the states, at the action z (1, T, N)."""
    return misplaced_seconds(state.times.unsqueeze(1), action.times).mul_(z).sum(2)


def action_distortion(state: ClipBatch, action: ClipBatch, y: Tensor) -> Tensor:
    """(1, T, N) the derivative of d by the action, at the states y (2, M, N)."""
    seconds = misplaced_seconds(state.times.unsqueeze(1), action.times)  # (2, M, T, N)
    return seconds.mul_(y.unsqueeze(2)).sum(1).sum(0, keepdim=True)


def round_jointly(
    action: ClipBatch, state: ClipBatch, action_costs: Tensor, state_costs: Tensor, coupling: float
) -> tuple[Tensor, Tensor]:
    """The best integer labels (1, T, N) and (2, M, N): ``rounding.py`` for a batch of clips.

    The costs, of the same shapes, are those of labels without the coupling. A side without rows is
    absent.
    """
    torch = _torch()
    (n_chunks, n_clips), z = action.times.shape, torch.zeros_like(action_costs)
    if n_chunks:
        values, tie = action_costs[0], tie_of(action_costs)
        if len(state.times):  # the recursion for every time of the action, as T N clips
            by_time = misplaced_seconds(state.times.unsqueeze(1), action.times)
            by_time.mul_(coupling).add_(state_costs.unsqueeze(2))  # (2, M, T, N)
            before = state.before.repeat(1, n_chunks)
            least = path_values(by_time.flatten(2), before, state.blocked)[-1, -1]
            values = values + least.view(n_chunks, n_clips)
            tie = torch.maximum(tie, tie_of(state_costs))
        equal = values <= values.amin(0) + tie
        z[0].scatter_(0, equal.byte().argmax(0, keepdim=True), 1.0)  # the first of equal ones
    if not len(state.times):
        return z, torch.zeros_like(state_costs)
    coupled = state_costs + coupling * state_distortion(state, action, z)
    return z, labels_of(cheapest_paths(coupled, state.before, state.blocked)[1])


# --- products with factor rows --------------------------------------------------------------------


def scores(rows: Tensor, constant: float, sums: Tensor) -> Tensor:
    """F (F'Y), (M, K) in float64, where factor rows are a constant and then rows (M, d).

    sums : F'Y, (K, 1 + d).
    """
    weights = sums[:, 1:].T
    parts = [part.double() @ weights for part in rows.split(_ROWS)]
    found = _torch().cat(parts) if parts else sums.new_zeros((0, len(sums)))
    return found + constant * sums[:, 0]


def factor_sums(rows: Tensor, constant: float, labels: Tensor) -> Tensor:
    """F'Y of labels (M, K), (K, 1 + d) in float64; factor rows as for :func:`scores`."""
    total = labels.new_zeros((labels.shape[1], rows.shape[1]))
    for part, some in zip(rows.split(_ROWS), labels.split(_ROWS), strict=True):
        total += some.T @ part.double()
    return _torch().cat([constant * labels.sum(0)[:, None], total], 1)


def _torch() -> Any:
    import torch

    return torch

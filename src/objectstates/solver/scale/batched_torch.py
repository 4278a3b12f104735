"""The oracle and the visits of ``frank_wolfe.py`` for many clips at once, as torch tensors.

Clips of about the same number of rows stand side by side, padded to the longest: tensors are
(..., m, N), position in order of end time by clip, so that neighbours in memory are neighbours in
work. What is sequential, the m positions, is a loop; N is as wide as a device likes.

A labelling of a clip is a path through the recursion of ``oracle.py``: from V_0 at the top to
V_K[m], along three kinds of edges into V_k[j],

    0 skip   V_k[j-1]            the row gets no label k here
    1 first  V_{k-1}[before[j]]  the row is the first of state k
    2 again  V_k[before[j]]      the row is one more of state k

so a point of the convex hull is a flow of 1 along these edges, and is kept as such: (3, K, m, N),
of which the labels are the flow on "first" and "again". A convex combination of labellings needs
no list of them: the worst labelling in it is the dearest path along edges that carry flow, and may
lose as much as its weakest edge carries (Garber and Meshi, "Linear-memory and
decomposition-invariant linearly convergent conditional gradient", 2016).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from objectstates.solver.oracle import Constraints, Ints

Tensor = Any
"""A torch tensor; torch is an extra, and imported where used."""

DUST = 1e-12  # less flow than this is rounding error
_ROWS = 2**14  # widened to float64 at a time


class Padded(NamedTuple):
    """One side of some clips (N), of at most m rows and with K labels.

    before : (m, N) as in ``Constraints``, by position in order of end time.
    rows : (m, N) where the row at a position stands, counted from the clips' first; where a clip
        has no such row, one past the last.
    exactly_one : each state once, so that no labelling uses "again".
    linear : (K, m, N) cost of labels beside the clustering cost, infinite where forbidden or
        where there is no row.
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
    def closed(self) -> Tensor:
        """(3, 1, 1, 1) 0, or infinite for edges that no labelling may use."""
        last = float("inf") if self.exactly_one else 0.0
        return self.linear.new_tensor([0.0, 0.0, last]).reshape(3, 1, 1, 1)

    def part(self, clips: slice, rows: slice) -> Padded:
        """Some of the clips, which follow each other, and whose rows these are; a copy."""
        places = (self.rows[:, clips] - rows.start).clamp(max=rows.stop - rows.start)
        return Padded(
            self.before[:, clips].contiguous(),
            places,
            self.exactly_one,
            self.linear[:, :, clips].contiguous(),
            self.times[:, clips].contiguous(),
        )

    def spread(self, columns: Tensor, beyond: float = 0.0) -> Tensor:
        """(rows, K) as (K, m, N), with ``beyond`` where there is no row."""
        padding = columns.new_full((1, columns.shape[1]), beyond)
        wide = _torch().cat([columns, padding])[self.rows]
        return wide.permute(2, 0, 1).contiguous()

    def collect(self, wide: Tensor, n_rows: int) -> Tensor:
        """(K, m, N) as (rows, K)."""
        columns = wide.new_zeros((n_rows + 1, len(wide)))
        columns[self.rows] = wide.permute(1, 2, 0)
        return columns[:n_rows]


def pad(constraints: Constraints, clips: Ints, device: Any) -> Padded:
    """The clips of ``constraints`` side by side; their rows are taken to follow each other."""
    torch = _torch()
    counts = np.diff(constraints.offsets)[clips]
    longest, n_clips = int(counts.max(initial=0)), len(clips)
    n_states = constraints.linear.shape[1]
    firsts = np.concatenate([[0], np.cumsum(counts)])
    before = np.zeros((longest, n_clips), np.int64)
    rows = np.full((longest, n_clips), firsts[-1], np.int64)
    linear = np.full((n_states, longest, n_clips), np.inf)
    times = np.zeros((longest, n_clips))
    position = np.arange(longest)[:, None]
    real = position < counts
    source = (constraints.offsets[clips] + position)[real]  # in order of end time, in the corpus
    before[real] = constraints.before[source]
    rows[real] = (firsts[:-1] + np.zeros_like(position))[real] + constraints.order[source]
    at = (constraints.offsets[clips] + np.zeros_like(position))[real] + constraints.order[source]
    linear[:, real] = constraints.linear[at].T
    times[real] = constraints.times[at]
    before, rows, linear, times = (
        torch.as_tensor(x, device=device) for x in (before, rows, linear, times)
    )
    return Padded(before, rows, constraints.exactly_one, linear, times)


def cheapest_paths(costs: Tensor, before: Tensor, closed: Tensor) -> tuple[Tensor, Tensor]:
    """The least cost (N,) of a path, infinite where there is none, and the path (3, K, m, N).

    Arguments as in :func:`least_costs`.
    """
    least, moves = least_costs(costs, before, closed)
    return least, _walk(moves, before)


def least_costs(costs: Tensor, before: Tensor, closed: Tensor) -> tuple[Tensor, Tensor]:
    """The least cost (N,) of a path, and the recursion's choices (K, m, N).

    costs : (K, m, N) of the labels. closed : infinite for edges that may not be used, else 0, of a
    shape that broadcasts to (3, K, m, N). Ties are broken as in ``oracle.py``.
    """
    torch = _torch()
    n_states, longest, n_clips = costs.shape
    closed = closed.expand(3, n_states, longest, n_clips)
    value = costs.new_full((n_states + 1, longest + 1, n_clips), float("inf"))
    value[0] = 0.0
    moves = before.new_zeros((n_states, longest, n_clips))
    for j in range(1, longest + 1):
        at = before[j - 1].expand(n_states + 1, 1, n_clips)
        reached = value.gather(1, at)[:, 0]
        skip = value[1:, j - 1] + closed[0, :, j - 1]
        first = reached[:-1] + closed[1, :, j - 1]
        again = reached[1:] + closed[2, :, j - 1]
        taken = torch.minimum(first, again) + costs[:, j - 1]
        value[1:, j] = torch.minimum(taken, skip)
        moves[:, j - 1] = (taken < skip) * (1 + (again < first).long())
    return value[n_states, longest], moves


def _walk(moves: Tensor, before: Tensor) -> Tensor:
    """The path (3, K, m, N) that the recursion's choices (K, m, N) lead along, from its end."""
    torch = _torch()
    n_states, longest, n_clips = moves.shape
    path = torch.zeros((3, *moves.shape), dtype=torch.float64, device=moves.device)
    clips = torch.arange(n_clips, device=moves.device)
    state = torch.full_like(clips, n_states)
    at = torch.full_like(clips, longest)
    for j in range(longest, 0, -1):
        here = (at == j) & (state > 0)
        row = (state - 1).clamp(min=0)
        move = moves[row, j - 1, clips]
        path[move, row, j - 1, clips] = here.double()
        at = torch.where(here, torch.where(move > 0, before[j - 1], j - 1), at)
        state = state - (here & (move == 1)).long()
    return path


def labels_of(flow: Tensor) -> Tensor:
    """The labels (K, m, N) of a flow or path."""
    return flow[1] + flow[2]


def weigh(costs: Tensor, labels: Tensor) -> Tensor:
    """<costs, labels> of every clip, (N,); a forbidden entry counts nothing."""
    return _torch().where(labels > 0, costs * labels, 0.0).sum((0, 1))


def visit(
    side: Padded,
    scores: Tensor,
    pull: Tensor | None,
    flow: Tensor,
    *,
    weights: Tensor,
    steps: int,
    pairwise: bool,
) -> tuple[Tensor, Tensor]:
    """Let every clip take a few steps while the classifier, whose scores these are, stands still.

    Changes ``flow`` (3, K, m, N). scores : (rows, K). pull : (K, m, N) seconds of disorder, None
    without the other side. weights : (2,) what linear costs and pulls are multiplied by.

    By how much the labels changed, (rows, K); and (4,) the sum of the gaps met, and of the new
    labels the sum of squares, the linear cost and the disorder.
    """
    torch = _torch()
    costs = weights[0] * side.linear - side.spread(scores)
    if pull is not None:
        costs = costs + weights[1] * pull
    before = labels_of(flow)
    gaps = descend(side, costs, flow, steps=steps, pairwise=pairwise)
    after = labels_of(flow)
    facts = [gaps.sum(), after.square().sum(), weigh(side.linear, after).sum()]
    facts.append(gaps.new_zeros(()) if pull is None else (pull * after).sum())
    return side.collect(after - before, len(scores)), torch.stack(facts)


def descend(side: Padded, costs: Tensor, flow: Tensor, *, steps: int, pairwise: bool) -> Tensor:
    """A few Frank-Wolfe steps in every clip on |labels|^2 / 2 + <costs, labels>; the gaps (N,).

    Changes ``flow`` (3, K, m, N). The gaps are those before the first step. Steps go towards the
    best labelling, from where the clip is or (``pairwise``) from the worst labelling in it.
    """
    torch = _torch()
    entry = None
    for _ in range(steps):
        labels = labels_of(flow)
        gradient = costs + labels
        least, target = cheapest_paths(gradient, side.before, side.closed)
        gap = weigh(gradient, labels) - least
        entry = gap if entry is None else entry
        if pairwise:
            carries = torch.where(flow > 0, 0.0, float("inf"))
            backwards = torch.where(labels > 0, -gradient, float("inf"))
            most, source = cheapest_paths(backwards, side.before, carries)
            slope = least + most
            lost = source > target
            limit = torch.where(lost, flow, float("inf")).amin((0, 1, 2))
        else:
            source, slope, limit = flow, -gap, torch.ones_like(gap)
        change = target - source
        curvature = labels_of(change).square().sum((0, 1))
        size = torch.minimum(-slope / curvature.clamp(min=1e-300), limit)
        size = torch.where((slope < 0) & (gap > 0), size, 0.0)
        flow += size * change
        flow[flow < DUST] = 0.0
    return entry


def pulls_on_states(state: Padded, action: Padded, action_labels: Tensor) -> Tensor:
    """(2, M, N) seconds by which the action (1, T, N) disagrees with each label of each row."""
    late, weight = _lateness(state, action), action_labels[0].unsqueeze(0)
    pulls = [(late.clamp(min=0) * weight).sum(1), ((-late).clamp(min=0) * weight).sum(1)]
    return _torch().stack(pulls)


def pulls_on_action(state: Padded, action: Padded, state_labels: Tensor) -> Tensor:
    """(1, T, N) seconds by which the states (2, M, N) disagree with each of the action's rows."""
    late = _lateness(state, action)
    first, second = state_labels.unsqueeze(2)
    pull = (late.clamp(min=0) * first).sum(0) + ((-late).clamp(min=0) * second).sum(0)
    return pull.unsqueeze(0)


def _lateness(state: Padded, action: Padded) -> Tensor:
    """(M, T, N) the states' times less the action's."""
    return state.times.unsqueeze(1) - action.times.unsqueeze(0)


def round_jointly(
    action: Padded, state: Padded, action_costs: Tensor, state_costs: Tensor, coupling: float
) -> tuple[Tensor, Tensor]:
    """The best integer labels (1, T, N) and (2, M, N): ``rounding.py`` for many clips at once.

    The costs, of the same shapes, are those of labels without the coupling. A side without rows is
    absent.
    """
    torch = _torch()
    both = len(action.times) and len(state.times)
    chosen = torch.zeros_like(action_costs)
    if len(action.times):
        values = action_costs[0]
        if both:
            values = values + _least_by_time(action, state, state_costs, coupling)
        chosen[0].scatter_(0, values.argmin(0, keepdim=True), 1.0)
    if both:
        state_costs = state_costs + coupling * pulls_on_states(state, action, chosen)
    if not len(state.times):
        return chosen, torch.zeros_like(state_costs)
    _, path = cheapest_paths(state_costs, state.before, state.closed)
    return chosen, labels_of(path)


def _least_by_time(action: Padded, state: Padded, costs: Tensor, coupling: float) -> Tensor:
    """(T, N) the least cost of the states for each of the action's times."""
    torch = _torch()
    shape = (len(costs[0]) + 1, *action.times.shape)
    one, both = costs.new_full(shape, float("inf")), costs.new_full(shape, float("inf"))
    for j in range(1, shape[0]):
        at = state.before[j - 1].expand(1, *shape[1:])
        one_there, both_there = one.gather(0, at)[0], both.gather(0, at)[0]
        late = state.times[j - 1] - action.times
        first = costs[0, j - 1] + coupling * late.clamp(min=0)
        second = costs[1, j - 1] + coupling * (-late).clamp(min=0)
        if not state.exactly_one:
            first = first + one_there.clamp(max=0)
            both_there = torch.minimum(one_there, both_there)
        else:
            both_there = one_there
        one[j] = torch.minimum(one[j - 1], first)
        both[j] = torch.minimum(both[j - 1], both_there + second)
    return both[-1]


# --- thin products --------------------------------------------------------------------------------


def scores(rows: Tensor, constant: float, whole: Tensor) -> Tensor:
    """F (F'Y), (M, K) in float64, where factor rows are a constant and then rows (M, d).

    whole : F'Y, (K, 1 + d).
    """
    weights = whole[:, 1:].T
    parts = [part.double() @ weights for part in rows.split(_ROWS)]
    found = _torch().cat(parts) if parts else whole.new_zeros((0, len(whole)))
    return found + constant * whole[:, 0]


def sums(rows: Tensor, constant: float, labels: Tensor) -> Tensor:
    """F'Y of labels (M, K), (K, 1 + d) in float64; factor rows as for :func:`scores`."""
    total = labels.new_zeros((labels.shape[1], rows.shape[1]))
    for part, some in zip(rows.split(_ROWS), labels.split(_ROWS), strict=True):
        total += some.T @ part.double()
    return _torch().cat([constant * labels.sum(0)[:, None], total], 1)


def _torch() -> Any:
    import torch

    return torch

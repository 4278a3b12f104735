"""Joint rounding of chains: the best rows of K - 1 ordered actions, given the costs of all labels.

State k follows action k - 1 (none for the first state) and precedes action k. Let action k - 1 be
at row t and action k at row u, so that t ends before u starts. A tracklet of state k then belongs
to one of two groups, the first of which comes first:

* before t: it pays to t alone;
* from t on: it pays to u alone, nothing if it lies between the two.

So what is known of t is needed no longer once the first tracklet of the second group is taken. With
rows in order of end time, p = before[j] and tau_j the time of tracklet j,

    W_k[j, t]  the states before k are complete in the first j rows, action k - 1 is at t
    E_k[j, t]  and state k has tracklets, all before t:
               min(E_k[j-1, t], min(W_k[p, t], E_k[p, t]) + cost_k[j] + late) if tau_j < t
    V_k[j, u]  and state k has tracklets, the last one not before t:
               min(V_k[j-1, u], min(V_k[p, u], min of W_k, E_k[p, t]) + cost_k[j] + early)
               over all t that end before u starts, with t <= tau_j

from which W_{k+1}[j, u] follows, in O(M T) for each state: the minimum over t is a running one. An
absent action k, with the state after it, leaves state k to pay to t alone:

    R_k[j, t]  as E_k, for all j
    S_k[j, t]  min(R_k[j, t], S_{k-1}[j, t] + price_{k-1}): the same, steps before may be absent

The least cost is the minimum of the last S[m, t]; the actions follow by backtracking. Times must
lie within their intervals, so that they are ordered as the rows are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from objectstates.base.jit import compiled_exactly
from objectstates.solver.oracle import Constraints, Floats, Ints, tie_with_absence

_COMPLETE, _EARLY, _PASSED, _ALONE = 0, 1, 2, 3  # tables W, E, V, S, while backtracking


class _Clip(NamedTuple):
    """One clip. Positions count rows in order of end time.

    costs : (m, K) of the states, by position. times, before : (m,) by position.
    action_costs : (1 + T, K - 1) by position. Position 0 is a row before all others: the start of
        the chain, where the first state begins.
    action_times : (1 + T,); minus infinity at position 0.
    last_before : (1 + T,) the last position whose row ends before this one starts.
    prices : (K,) of the action before a state together with that state; infinite if required.
    """

    costs: Floats
    times: Floats
    before: Ints
    action_costs: Floats
    action_times: Floats
    last_before: Ints
    prices: Floats
    exactly_one: bool
    coupling: float
    tie: float


class _Tables(NamedTuple):
    """W, E, V, R and S, (K, m + 1, 1 + T) each."""

    complete: Floats
    early: Floats
    passed: Floats
    alone: Floats
    best: Floats


@compiled_exactly
def times_in_order(constraints: Constraints) -> bool:
    """Whether of any two rows of a clip, one before the other, the times are in that order."""
    for n in range(len(constraints.offsets) - 1):
        lo, hi = constraints.offsets[n], constraints.offsets[n + 1]
        latest = np.full(hi - lo + 1, -np.inf)  # of the first j rows
        for j in range(hi - lo):
            time = constraints.times[lo + constraints.order[lo + j]]
            if time < latest[constraints.before[lo + j]]:
                return False
            latest[j + 1] = max(latest[j], time)
    return True


@compiled_exactly
def choose_actions(
    action: Constraints,
    state: Constraints,
    n: int,
    action_costs: Floats,
    state_costs: Floats,
    coupling: float,
) -> Ints:
    """The rows (K - 1,) of clip n's actions in the best joint labelling, -1 for an absent one.

    action_costs, state_costs : (T, K - 1) and (M, K) of the labels, without the coupling. Of
    equally good rows the first is taken. All are -1 if there is no labelling.
    """
    clip = _clip_of(action, state, n, action_costs, state_costs, coupling)
    n_states, m, n_rows = clip.costs.shape[1], len(clip.costs), len(clip.action_times)
    shape = (n_states, m + 1, n_rows)
    tables = _Tables(
        np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape)
    )
    tables.complete[0] = np.inf
    tables.complete[0, :, 0] = 0.0
    for k in range(n_states):
        optional = k + 1 < n_states and clip.prices[k + 1] != np.inf
        if optional or k + 1 == n_states:
            _fill_alone(clip, tables, k)
        if k + 1 < n_states:
            _fill_early(clip, tables, k)
            _fill_passed(clip, tables, k)
            _fill_complete(clip, tables, k)
    first, last = action.offsets[n], action.offsets[n + 1]
    return _backtrack(clip, tables, first + action.order[first:last])


@compiled_exactly
def _clip_of(
    action: Constraints,
    state: Constraints,
    n: int,
    action_costs: Floats,
    state_costs: Floats,
    coupling: float,
) -> _Clip:
    first, last = action.offsets[n], action.offsets[n + 1]
    lo, hi = state.offsets[n], state.offsets[n + 1]
    rows, chunks = lo + state.order[lo:hi], first + action.order[first:last]
    starts = np.full((1 + len(chunks), action_costs.shape[1]), np.inf)
    starts[1:] = action_costs[chunks]
    action_times = np.full(1 + len(chunks), -np.inf)
    action_times[1:] = action.times[chunks]
    last_before = np.zeros(1 + len(chunks), np.int64)
    last_before[1:] = action.before[first:last]
    prices = np.full(state_costs.shape[1], np.inf)
    prices[1:] = action.absent + state.absent[1:]
    tie = max(
        tie_with_absence(action_costs[first:last], action.absent),
        tie_with_absence(state_costs[lo:hi], state.absent),
    )
    return _Clip(
        state_costs[rows],
        state.times[rows],
        state.before[lo:hi],
        starts,
        action_times,
        last_before,
        prices,
        state.exactly_one,
        coupling,
        tie,
    )


# --- the recursions, t (or u) being the innermost, contiguous axis --------------------------------


@compiled_exactly
def _fill_alone(clip: _Clip, tables: _Tables, k: int) -> None:
    """R_k and S_k."""
    complete, alone, best = tables.complete[k], tables.alone[k], tables.best[k]
    alone[0] = np.inf
    for j in range(1, len(alone)):
        p, time, cost = clip.before[j - 1], clip.times[j - 1], clip.costs[j - 1, k]
        start, again, skipped, now = complete[p], alone[p], alone[j - 1], alone[j]
        for t in range(len(now)):
            base = start[t] if clip.exactly_one else min(start[t], again[t])
            late = clip.coupling * max(clip.action_times[t] - time, 0.0)
            now[t] = min(skipped[t], base + cost + late)
    best[:] = alone
    if clip.prices[k] != np.inf:
        earlier = tables.best[k - 1]
        for j in range(len(best)):
            for t in range(best.shape[1]):
                best[j, t] = min(best[j, t], earlier[j, t] + clip.prices[k])


@compiled_exactly
def _fill_early(clip: _Clip, tables: _Tables, k: int) -> None:
    """E_k."""
    complete, early = tables.complete[k], tables.early[k]
    early[0] = np.inf
    for j in range(1, len(early)):
        p, time, cost = clip.before[j - 1], clip.times[j - 1], clip.costs[j - 1, k]
        start, again, skipped, now = complete[p], early[p], early[j - 1], early[j]
        for t in range(len(now)):
            base = start[t] if clip.exactly_one else min(start[t], again[t])
            late = clip.action_times[t] - time
            taken = base + cost + clip.coupling * max(late, 0.0)
            now[t] = min(skipped[t], taken if late > 0.0 else np.inf)


@compiled_exactly
def _fill_passed(clip: _Clip, tables: _Tables, k: int) -> None:
    """V_k."""
    complete, early, passed = tables.complete[k], tables.early[k], tables.passed[k]
    passed[0] = np.inf
    running = np.empty(passed.shape[1])
    for j in range(1, len(passed)):
        p, time, cost = clip.before[j - 1], clip.times[j - 1], clip.costs[j - 1, k]
        start, begun, again, skipped = complete[p], early[p], passed[p], passed[j - 1]
        least = np.inf  # over the actions up to t, not later than this row
        for t in range(len(running)):
            base = start[t] if clip.exactly_one else min(start[t], begun[t])
            least = min(least, base if clip.action_times[t] <= time else np.inf)
            running[t] = least
        now = passed[j]
        for u in range(len(running)):
            base = running[clip.last_before[u]]
            base = base if clip.exactly_one else min(base, again[u])
            late = clip.coupling * max(time - clip.action_times[u], 0.0)
            now[u] = min(skipped[u], base + cost + late)
        now[0] = np.inf  # no action is chosen there


@compiled_exactly
def _fill_complete(clip: _Clip, tables: _Tables, k: int) -> None:
    """W_{k+1}."""
    early, passed, complete = tables.early[k], tables.passed[k], tables.complete[k + 1]
    absent = clip.prices[k] != np.inf
    running = np.empty(early.shape[1])
    for j in range(len(complete)):
        least = np.inf
        for t in range(len(running)):
            least = min(least, early[j, t])
            if absent:
                least = min(least, tables.best[k - 1, j, t] + clip.prices[k])
            running[t] = least
        for u in range(len(running)):
            base = min(passed[j, u], running[clip.last_before[u]])
            complete[j, u] = base + clip.action_costs[u, k]
        complete[j, 0] = np.inf


# --- backtracking ---------------------------------------------------------------------------------


@compiled_exactly
def _backtrack(clip: _Clip, tables: _Tables, rows: Ints) -> Ints:
    """The rows (K - 1,) of the actions, -1 for an absent one; ``rows`` (T,) by position."""
    n_states, j = clip.costs.shape[1], len(clip.costs)
    chosen = np.full(n_states - 1, -1)
    t = _first_least(tables.best[n_states - 1, j], clip.tie)
    if t < 0:
        return chosen
    k, table = n_states - 1, _ALONE
    while k > 0 or table != _COMPLETE:
        if table == _ALONE and clip.prices[k] != np.inf:
            lacking = tables.best[k - 1, j, t] + clip.prices[k]
            if lacking != np.inf and not tables.alone[k, j, t] < lacking - clip.tie:
                k -= 1
                continue
        if table == _ALONE:
            j = _first_of_state(clip, tables.complete[k], tables.alone[k], j, t)
            table = _COMPLETE
        elif table == _EARLY:
            j = _first_of_state(clip, tables.complete[k], tables.early[k], j, t)
            table = _COMPLETE
        elif table == _PASSED:
            table, j, t = _before_passed(clip, tables, k, j, t)
        else:
            chosen[k - 1] = rows[t - 1]
            table, k, t = _before_complete(clip, tables, k - 1, j, t)
    return chosen


@compiled_exactly
def _first_least(values: Floats, tie: float) -> int:
    """The first of the values that differ from the least by at most ``tie``; -1 if all are
    infinite."""
    least = values.min()
    return -1 if least == np.inf else int(np.argmax(values <= least + tie))


@compiled_exactly
def _first_of_state(clip: _Clip, complete: Floats, table: Floats, j: int, t: int) -> int:
    """How many rows come before the first tracklet of a state, from R_k or E_k."""
    while True:
        while not table[j, t] < table[j - 1, t] - clip.tie:
            j -= 1
        j = clip.before[j - 1]
        if clip.exactly_one or not table[j, t] < complete[j, t] - clip.tie:
            return j


@compiled_exactly
def _before_passed(clip: _Clip, tables: _Tables, k: int, j: int, u: int) -> tuple[int, int, int]:
    """From V_k[j, u] back to W_k or E_k: the table, the position and the action before."""
    complete, early, passed = tables.complete[k], tables.early[k], tables.passed[k]
    while True:
        while not passed[j, u] < passed[j - 1, u] - clip.tie:
            j -= 1
        time = clip.times[j - 1]
        j = clip.before[j - 1]
        values = np.full(clip.last_before[u] + 1, np.inf)
        for t in range(len(values)):
            if clip.action_times[t] <= time:
                values[t] = complete[j, t]
                if not clip.exactly_one:
                    values[t] = min(values[t], early[j, t])
        if clip.exactly_one or not passed[j, u] < values.min() - clip.tie:
            t = _first_least(values, clip.tie)
            begun = not clip.exactly_one and early[j, t] < complete[j, t] - clip.tie
            return (_EARLY if begun else _COMPLETE), j, t


@compiled_exactly
def _before_complete(clip: _Clip, tables: _Tables, k: int, j: int, u: int) -> tuple[int, int, int]:
    """From W_{k+1}[j, u] back to S_{k-1}, E_k or V_k: the table, its state, and its action."""
    last = clip.last_before[u] + 1
    best, table = np.inf, _PASSED
    if clip.prices[k] != np.inf:
        best, table = tables.best[k - 1, j, :last].min() + clip.prices[k], _ALONE
    early = tables.early[k, j, :last].min()
    if early < best - clip.tie:
        best, table = early, _EARLY
    if tables.passed[k, j, u] < best - clip.tie:
        return _PASSED, k, u
    if table == _ALONE:
        return _ALONE, k - 1, _first_least(tables.best[k - 1, j, :last], clip.tie)
    return _EARLY, k, _first_least(tables.early[k, j, :last], clip.tie)

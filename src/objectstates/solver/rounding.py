"""Joint rounding (Algorithm 1 of the paper): integer labels from fixed classifiers.

With the scores s = X_v W_v + b and S = X_s W_s + b fixed, every clip minimises

    (1 - 2 s_t) / 2T  +  sum over labelled rows of (1 - 2 S_ik) / 2M + linear_ik + nu/T d_ik(t)

over its action row t and its states, exactly (the squares are linear on 0/1 labels). The recursion
of ``oracle.py`` runs for all t of a clip at once, t being the innermost, contiguous axis. Chains of
several actions are rounded by ``chain_rounding.py``, also exactly.
"""

from __future__ import annotations

import numpy as np

from objectstates.base.errors import CorpusError
from objectstates.base.jit import compiled_exactly
from objectstates.solver.chain_rounding import choose_actions, times_in_order
from objectstates.solver.distortion import STATE_AFTER, STATE_BEFORE, seconds_misplaced
from objectstates.solver.oracle import (
    Constraints,
    Floats,
    Ints,
    Labels,
    cheapest_labels,
    tie_of,
)
from objectstates.solver.problem import Scales


def joint_rounding(
    action: Constraints,
    state: Constraints,
    action_scores: Floats,
    state_scores: Floats,
    scales: Scales,
) -> tuple[Labels, Labels]:
    """The best integer labels, (T,) of 0..K-1 and (M,) of 0..K, of every clip.

    scales : of the clips that the classifiers (scores (T, K - 1) and (M, K)) were learned on.
    A side without rows is absent; every clip must be feasible. An action that a clip may lack is
    absent together with the state after it, at the price of both.
    """
    action_weight, state_weight = scales.rounding_weights
    action_costs = action_weight * (1 - 2 * action_scores) + action.linear
    state_costs = state_weight * (1 - 2 * state_scores) + state.linear
    action_labels = np.zeros(action.n_rows, np.int8)
    state_labels = np.zeros(state.n_rows, np.int8)
    single = action.n_states == 1 and not (action.optional or state.optional)
    if single and (state.n_states == 2 or not action.n_rows):
        _round_clips(
            action, state, action_costs, state_costs, scales.coupling, action_labels, state_labels
        )
        return action_labels, state_labels
    both = action.n_rows > 0 and state.n_rows > 0
    if both and action.n_states != state.n_states - 1:
        raise ValueError(f"{action.n_states} actions do not lead through {state.n_states} states")
    if both and not (times_in_order(action) and times_in_order(state)):
        raise CorpusError(
            "the time of a tracklet or chunk lies outside its interval: chains need it within"
        )
    _round_chains(
        action, state, action_costs, state_costs, scales.coupling, action_labels, state_labels
    )
    return action_labels, state_labels


@compiled_exactly
def _round_clips(
    action: Constraints,
    state: Constraints,
    action_costs: Floats,
    state_costs: Floats,
    coupling: float,
    action_labels: Labels,
    state_labels: Labels,
) -> None:
    for n in range(len(state.offsets) - 1):
        first, last = action.offsets[n], action.offsets[n + 1]
        lo, hi = state.offsets[n], state.offsets[n + 1]
        costs, times = state_costs[lo:hi].copy(), state.times[lo:hi]
        order, before = state.order[lo:hi], state.before[lo:hi]
        if first < last:
            values = action_costs[first:last, 0].copy()
            tie = max(tie_of(action_costs[first:last]), tie_of(costs))
            if lo < hi:
                values += _least_costs(
                    costs,
                    times,
                    order,
                    before,
                    state.exactly_one,
                    coupling,
                    action.times[first:last],
                )
            best = first + np.argmax(values <= values.min() + tie)  # the first of equal ones
            action_labels[best] = 1
            for i in range(hi - lo):
                for k in (STATE_BEFORE, STATE_AFTER):
                    costs[i, k] += coupling * seconds_misplaced(k, times[i], action.times[best])
        if lo < hi:
            cheapest_labels(
                costs, order, before, state.exactly_one, state.absent, state_labels[lo:hi]
            )


@compiled_exactly
def _round_chains(
    action: Constraints,
    state: Constraints,
    action_costs: Floats,
    state_costs: Floats,
    coupling: float,
    action_labels: Labels,
    state_labels: Labels,
) -> None:
    for n in range(len(state.offsets) - 1):
        first, last = action.offsets[n], action.offsets[n + 1]
        lo, hi = state.offsets[n], state.offsets[n + 1]
        order, before = action.order[first:last], action.before[first:last]
        if lo == hi and first < last:
            cheapest_labels(
                action_costs[first:last],
                order,
                before,
                True,
                action.absent,
                action_labels[first:last],
            )
        if lo == hi:
            continue
        costs, absent = state_costs[lo:hi].copy(), state.absent.copy()
        if first < last:
            chosen = choose_actions(action, state, n, action_costs, state_costs, coupling)
            for k in range(len(chosen)):
                if chosen[k] >= 0:
                    action_labels[chosen[k]] = k + 1
            _fix_actions(action, chosen, state.times[lo:hi], coupling, costs, absent)
        cheapest_labels(
            costs,
            state.order[lo:hi],
            state.before[lo:hi],
            state.exactly_one,
            absent,
            state_labels[lo:hi],
        )


@compiled_exactly
def _fix_actions(
    action: Constraints,
    chosen: Ints,
    times: Floats,
    coupling: float,
    costs: Floats,
    absent: Floats,
) -> None:
    """Add what tracklets (m, K) pay to the chosen actions: rows (K - 1,), -1 for an absent one.

    A state is then absent if and only if the action before it is.
    """
    absent[:] = np.inf
    for k in range(len(chosen)):
        if chosen[k] < 0:
            costs[:, k + 1] = np.inf
            absent[k + 1] = 0.0
            continue
        time = action.times[chosen[k]]
        for i in range(len(times)):
            for side in (STATE_BEFORE, STATE_AFTER):
                costs[i, k + side] += coupling * seconds_misplaced(side, times[i], time)


@compiled_exactly
def _least_costs(
    costs: Floats,
    times: Floats,
    order: Ints,
    before: Ints,
    exactly_one: bool,
    coupling: float,
    action_times: Floats,
) -> Floats:
    """The least cost of the two states of a clip for each possible time of the action, (T_n,)."""
    m, n_times = len(costs), len(action_times)
    one = np.full((m + 1, n_times), np.inf)  # V_1 and V_2 of oracle.py
    both = np.full((m + 1, n_times), np.inf)
    for j in range(1, m + 1):
        row, p = order[j - 1], before[j - 1]
        first, second, time = costs[row, 0], costs[row, 1], times[row]
        one_then, one_skipped, one_now = one[p], one[j - 1], one[j]
        for t in range(n_times):
            cost = first + coupling * seconds_misplaced(STATE_BEFORE, time, action_times[t])
            base = 0.0 if exactly_one else min(0.0, one_then[t])
            one_now[t] = min(one_skipped[t], base + cost)
        both_then, both_skipped, both_now = both[p], both[j - 1], both[j]
        for t in range(n_times):
            cost = second + coupling * seconds_misplaced(STATE_AFTER, time, action_times[t])
            base = one_then[t] if exactly_one else min(one_then[t], both_then[t])
            both_now[t] = min(both_skipped[t], base + cost)
    least: Floats = both[m]
    return least

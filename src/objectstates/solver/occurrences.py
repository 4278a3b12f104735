"""The occurrences of a chain in a long video: how many there are, and where their actions lie.

The chain of ``oracle.py``, K states with an action between each and the next, may happen several
times in a long video, or not at all. Rows are the T chunks of the video, in order of time, with
scores of A = K - 1 actions and K states: about 1 for what looks like the label, 0 for what does
not. An occurrence has

* a chunk for each action: t_1 < ... < t_A, with as many chunks between two as ``gaps`` allows,
* state 1 in the ``margin`` chunks before t_1, state K in those after t_A, fewer only at the ends of
  the video, and the other states in the chunks between two actions,
* a score: half the mean score of its actions, plus half the mean over states of the mean score of
  the state's chunks.

Occurrences do not overlap. Their number is free: each is worth its score minus a ``minimum``, and
the set of greatest total worth is found. So every occurrence scores above the minimum, and a video
may have none. With F[n] the greatest worth within the first n chunks, and U_k[t] that of having
begun an occurrence whose action k is chunk t,

    U_1[t] = F[t - margin] + state_1 + action_1[t]
    U_k[t] = max over t' of  U_{k-1}[t'] + state_k(t', t) + action_k[t]
    F[n]   = max(F[n-1], U_A[n - 1 - margin] + state_K - minimum)

After state K the recursion is back at state 1: the chain is a cycle. It takes O(T A G) time for
gaps of at most G chunks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from objectstates.base.errors import SettingError
from objectstates.base.jit import compiled_exactly
from objectstates.solver.oracle import TIE, Floats, Ints


class Occurrences(NamedTuple):
    """n occurrences in order of time.

    actions : (n, A) chunks of their actions.
    scores : (n,) each above the minimum.
    best : the highest score of any occurrence, found or not; minus infinity if none is possible.
    """

    actions: Ints
    scores: Floats
    best: float


def find_occurrences(
    actions: Floats, states: Floats, *, margin: int, gaps: Ints, minimum: float
) -> Occurrences:
    """The set of occurrences of greatest total score above ``minimum`` in one video.

    actions : (T, A) scores of the chunks. Minus infinity where an action is not allowed.
    states : (T, A + 1), finite.
    margin : chunks of state 1 before the first action and of state K after the last, at least 1.
    gaps : (A - 1, 2) least and greatest number of chunks between two actions, at least 1.
    """
    actions = np.ascontiguousarray(actions, np.float64)
    states = np.ascontiguousarray(states, np.float64)
    gaps = np.ascontiguousarray(gaps, np.int64).reshape(-1, 2)
    _check(actions, states, margin, gaps)
    size = max(1.0, float(np.abs(actions[np.isfinite(actions)]).max(initial=0.0)))
    tie = TIE * max(size, float(np.abs(states).max(initial=0.0)))
    found, scores = _best_set(actions, states, margin, gaps, float(minimum), False, tie)
    if len(scores):
        return Occurrences(found, scores, float(scores.max()))
    low = -size - float(np.abs(states).max(initial=0.0))  # below all scores
    _, highest = _best_set(actions, states, margin, gaps, low, True, tie)
    return Occurrences(found, scores, float(highest.max(initial=-np.inf)))


def _check(actions: Floats, states: Floats, margin: int, gaps: Ints) -> None:
    n_chunks, n_actions = actions.shape
    if states.shape != (n_chunks, n_actions + 1) or len(gaps) != n_actions - 1:
        raise SettingError(
            f"{n_actions} actions need `states` of {n_actions + 1} columns and as many rows, and "
            f"{n_actions - 1} `gaps`"
        )
    if not np.isfinite(states).all() or np.isnan(actions).any() or (actions == np.inf).any():
        raise SettingError("`states` must be finite, and `actions` finite or minus infinity")
    if margin < 1 or (gaps[:, 0] < 1).any() or (gaps[:, 1] < gaps[:, 0]).any():
        raise SettingError("`margin` and `gaps` must be at least one chunk")


@compiled_exactly
def _best_set(
    actions: Floats,
    states: Floats,
    margin: int,
    gaps: Ints,
    minimum: float,
    single: bool,
    tie: float,
) -> tuple[Ints, Floats]:
    """The chunks (n, A) and scores (n,) of the best set, in order of time.

    single : at most one occurrence.
    """
    n_chunks, n_actions = actions.shape
    sums = np.zeros((n_chunks + 1, n_actions + 1))
    for t in range(n_chunks):
        sums[t + 1] = sums[t] + states[t]
    best = np.zeros(n_chunks + 1)  # F
    before = np.zeros(n_chunks + 1) if single else best
    last = np.full(n_chunks + 1, -1)  # last action of an occurrence that ends there; -1 for none
    begun = np.full((n_actions, n_chunks), -np.inf)  # U
    previous = np.full((n_actions, n_chunks), -1)
    for t in range(n_chunks + 1):
        if t > 0:
            best[t] = best[t - 1]
        # Where the video ends the last state may have fewer chunks.
        first_end = t - 1 - margin if t < n_chunks else max(0, t - 1 - margin)
        for u in range(max(0, first_end), first_end + 1 if t < n_chunks else t - 1):
            if begun[n_actions - 1, u] == -np.inf:
                continue
            total = begun[n_actions - 1, u] - minimum
            total += _state_score(sums, n_actions, u + 1, t)
            if total > best[t] + tie:
                best[t], last[t] = total, u
        if t < n_chunks:
            _begin(actions, sums, margin, gaps, before, begun, previous, t, tie)
    return _backtrack(best, before, last, previous, margin, minimum, single)


@compiled_exactly
def _state_score(sums: Floats, state: int, first: int, end: int) -> float:
    """Half the mean score of a state in chunks ``[first, end)``, as one of all states."""
    n_states = sums.shape[1]
    return float((sums[end, state] - sums[first, state]) / (end - first) / (2 * n_states))


@compiled_exactly
def _begin(
    actions: Floats,
    sums: Floats,
    margin: int,
    gaps: Ints,
    before: Floats,
    begun: Floats,
    previous: Ints,
    t: int,
    tie: float,
) -> None:
    """Fill column ``t`` of ``begun``, and of ``previous`` with the chunk of the action before."""
    n_actions = len(begun)
    if t > 0:
        first = max(0, t - margin)
        begun[0, t] = before[first] + _state_score(sums, 0, first, t)
        begun[0, t] += actions[t, 0] / (2 * n_actions)
    for k in range(1, n_actions):
        for between in range(gaps[k - 1, 0], gaps[k - 1, 1] + 1):
            u = t - 1 - between
            if u < 0:
                break
            if begun[k - 1, u] == -np.inf:
                continue
            total = begun[k - 1, u] + _state_score(sums, k, u + 1, t)
            total += actions[t, k] / (2 * n_actions)
            if total > begun[k, t] + tie:
                begun[k, t], previous[k, t] = total, u


@compiled_exactly
def _backtrack(
    best: Floats,
    before: Floats,
    last: Ints,
    previous: Ints,
    margin: int,
    minimum: float,
    single: bool,
) -> tuple[Ints, Floats]:
    """The occurrences behind the last value of ``best``; ``before`` is what each began with."""
    n_actions, n_chunks = previous.shape
    found = np.full((n_chunks + 1, n_actions), -1)
    scores = np.empty(n_chunks + 1)
    count, n = 0, n_chunks
    while n > 0:
        if last[n] < 0:
            n -= 1
            continue
        found[count, n_actions - 1] = last[n]
        for k in range(n_actions - 1, 0, -1):
            found[count, k - 1] = previous[k, found[count, k]]
        first = max(0, int(found[count, 0]) - margin)
        scores[count] = best[n] - before[first] + minimum
        count, n = count + 1, 0 if single else first
    return found[:count][::-1].copy(), scores[:count][::-1].copy()

"""The distortion d(Z, Y) that couples states and action (the paper's joint cost).

A tracklet of state 1 after the action, or of state 2 before it, costs the seconds between the two:
:func:`seconds_misplaced`. From that one function follow the value of d, which is bilinear in Z and
Y and a sum over clips, its gradients with respect to either, and the costs of joint rounding
(``rounding.py``). Costs are in seconds; the objective weighs them by nu/T (``problem.Scales``).
"""

from __future__ import annotations

import numpy as np

from objectstates.base.jit import compiled_exactly, compiled_into_callers
from objectstates.solver.oracle import Constraints, Floats

STATE_1, STATE_2 = 0, 1  # columns of Y


@compiled_into_callers
def seconds_misplaced(column: int, state_time: float, action_time: float) -> float:
    """d of one tracklet of a state (column of Y) and one chunk of the action."""
    late = state_time - action_time
    return max(late, 0.0) if column == STATE_1 else max(-late, 0.0)


@compiled_exactly
def action_distortion(action: Constraints, state: Constraints, n: int, y: Floats) -> Floats:
    """The derivative of d with respect to clip n's Z, (T_n, 1), at states y (M, 2)."""
    chunks, tracklets = _clip(action, n), _clip(state, n)
    action_times, state_times = action.times[chunks], state.times[tracklets]
    labels = y[tracklets]
    gradient = np.zeros((len(action_times), 1))
    for i in range(len(state_times)):
        first, second, time = labels[i, 0], labels[i, 1], state_times[i]
        if first != 0.0 or second != 0.0:
            for t in range(len(action_times)):
                gradient[t, 0] += first * seconds_misplaced(
                    STATE_1, time, action_times[t]
                ) + second * seconds_misplaced(STATE_2, time, action_times[t])
    return gradient


@compiled_exactly
def state_distortion(action: Constraints, state: Constraints, n: int, z: Floats) -> Floats:
    """The derivative of d with respect to clip n's Y, (M_n, 2), at action z (T, 1)."""
    chunks, tracklets = _clip(action, n), _clip(state, n)
    action_times, state_times = action.times[chunks], state.times[tracklets]
    labels = z[chunks]
    gradient = np.zeros((len(state_times), 2))
    for t in range(len(action_times)):
        weight, time = labels[t, 0], action_times[t]
        if weight != 0.0:
            for i in range(len(state_times)):
                gradient[i, 0] += weight * seconds_misplaced(STATE_1, state_times[i], time)
                gradient[i, 1] += weight * seconds_misplaced(STATE_2, state_times[i], time)
    return gradient


@compiled_exactly
def distortion(action: Constraints, state: Constraints, z: Floats, y: Floats) -> float:
    """sum_n d(Z_n, Y_n) of labels (T, 1) and (M, 2), in seconds."""
    total = 0.0
    for n in range(len(state.offsets) - 1):
        first = action.offsets[n]
        gradient = action_distortion(action, state, n, y)
        for t in range(len(gradient)):
            total += z[first + t, 0] * gradient[t, 0]
    return total


@compiled_exactly
def _clip(constraints: Constraints, n: int) -> slice:
    """Clip n's rows. Loops over such a part of an array run from 0 and become vector code, which
    those over ``first + i`` do not: the compiler cannot exclude that such an index is negative.
    """
    return slice(constraints.offsets[n], constraints.offsets[n + 1])

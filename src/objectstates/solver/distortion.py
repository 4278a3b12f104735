"""The distortion d(Z, Y) that couples states and actions (the paper's joint cost).

Action k leads from state k to state k + 1. A tracklet of state k after it, or of state k + 1 before
it, costs the seconds between the two: :func:`seconds_misplaced`. A state between two actions pays
to both. From that one function follow the value of d, which is bilinear in Z and Y and a sum over
clips, its gradients with respect to either, and the costs of joint rounding (``rounding.py``).
Costs are in seconds; the objective weighs them by nu/T (``problem.Scales``).
"""

from __future__ import annotations

import numpy as np

from objectstates.base.jit import compiled_exactly, compiled_into_callers
from objectstates.solver.oracle import Constraints, Floats

STATE_BEFORE, STATE_AFTER = 0, 1  # of an action: its own column of Y, and the next


@compiled_into_callers
def seconds_misplaced(side: int, state_time: float, action_time: float) -> float:
    """d of one tracklet of the state before or after an action, and one chunk of that action."""
    late = state_time - action_time
    return max(late, 0.0) if side == STATE_BEFORE else max(-late, 0.0)


@compiled_exactly
def action_distortion(action: Constraints, state: Constraints, n: int, y: Floats) -> Floats:
    """The derivative of d with respect to clip n's Z, (T_n, K - 1), at states y (M, K)."""
    chunks, tracklets = _clip(action, n), _clip(state, n)
    action_times, state_times = action.times[chunks], state.times[tracklets]
    labels = y[tracklets]
    gradient = np.zeros((len(action_times), action.linear.shape[1]))
    for k in range(gradient.shape[1]):
        column = np.zeros(len(action_times))
        for i in range(len(state_times)):
            first, second, time = labels[i, k], labels[i, k + 1], state_times[i]
            if first != 0.0 or second != 0.0:
                for t in range(len(action_times)):
                    column[t] += first * seconds_misplaced(
                        STATE_BEFORE, time, action_times[t]
                    ) + second * seconds_misplaced(STATE_AFTER, time, action_times[t])
        gradient[:, k] = column
    return gradient


@compiled_exactly
def state_distortion(action: Constraints, state: Constraints, n: int, z: Floats) -> Floats:
    """The derivative of d with respect to clip n's Y, (M_n, K), at actions z (T, K - 1)."""
    chunks, tracklets = _clip(action, n), _clip(state, n)
    action_times, state_times = action.times[chunks], state.times[tracklets]
    labels = z[chunks]
    gradient = np.zeros((len(state_times), state.linear.shape[1]))
    for k in range(labels.shape[1] if len(action_times) and len(state_times) else 0):
        late, early = np.zeros(len(state_times)), np.zeros(len(state_times))
        for t in range(len(action_times)):
            weight, time = labels[t, k], action_times[t]
            if weight != 0.0:
                for i in range(len(state_times)):
                    late[i] += weight * seconds_misplaced(STATE_BEFORE, state_times[i], time)
                    early[i] += weight * seconds_misplaced(STATE_AFTER, state_times[i], time)
        gradient[:, k] += late
        gradient[:, k + 1] += early
    return gradient


@compiled_exactly
def distortion(action: Constraints, state: Constraints, z: Floats, y: Floats) -> float:
    """sum_n d(Z_n, Y_n) of labels (T, K - 1) and (M, K), in seconds."""
    total = 0.0
    for n in range(len(state.offsets) - 1):
        first = action.offsets[n]
        gradient = action_distortion(action, state, n, y)
        for t in range(gradient.shape[0]):
            for k in range(gradient.shape[1]):
                total += z[first + t, k] * gradient[t, k]
    return total


@compiled_exactly
def _clip(constraints: Constraints, n: int) -> slice:
    """Clip n's rows. Loops over such a part of an array run from 0 and become vector code, which
    those over ``first + i`` do not: the compiler cannot exclude that such an index is negative.
    """
    return slice(constraints.offsets[n], constraints.offsets[n + 1])

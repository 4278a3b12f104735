"""Labels from leave-one-clip-out scores.

The paper's rounding labels one tracklet per state and clip, nearly always: a classifier scores the
rows it was learned on high, and all others low. Scores of a classifier learned without the clip are
comparable across rows, and cost one small linear system per clip. With C the clip's rows and A the
quadratic form of ``cost.py`` they are

    S_C = Y_C - (A_CC)^-1 (A Y)_C.

They are smaller than 1 by a factor that depends on the features and the ridge. Divided by the mean
over clips of the largest score, 1 means a row like those labelled in the other clips, and 0 one
unlike them.

The chunks around the action's that score like it are the action's extent. During an action an
object has neither state; before action k state k is possible, after it state k + 1.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from objectstates.solver.oracle import Constraints, Floats, Ints, Labels, label_clips
from objectstates.solver.problem import Side

# Chosen by precision and recall on simulated clips; docs/method.md, docs/evaluation.md.
ABOVE = 0.6  # a row is labelled when its score exceeds this
EXTENT = 0.4  # chunks that score at least this share of the action's chunk belong to the action
HALF = 0.5  # a row of which this share lies within the action loses 1, more than a label is worth
WRONG_SIDE = 3.0  # a row on the wrong side of the action loses this: only used if none else can be


def held_out_scores(side: Side, labels: Floats) -> tuple[Floats, Floats]:
    """Leave-one-clip-out scores (M, K) for labels (M, K), and the residual A Y (M, K) of the
    classifier learned on all clips."""
    rows = side.rows
    residual = rows @ labels if side.dense else labels - rows @ (rows.T @ labels)
    return scores_without_clip(side, labels, residual), residual


def scores_without_clip(side: Side, labels: Floats, residual: Floats) -> Floats:
    """The same scores from the residual (M, K), with the diagonal blocks of A alone."""
    scores = np.empty_like(residual)
    for n, (lo, hi) in enumerate(pairwise(side.constraints.offsets)):
        block = side.blocks[side.block_offsets[n] : side.block_offsets[n + 1]]
        scores[lo:hi] = labels[lo:hi] - _solve(block.reshape(hi - lo, hi - lo), residual[lo:hi])
    return scores


def _solve(matrix: Floats, right: Floats) -> Floats:
    """Least squares where the block is singular: the other clips leave a direction undetermined."""
    try:
        solution = np.linalg.solve(matrix, right)
        if np.isfinite(solution).all():
            return np.asarray(solution)
    except np.linalg.LinAlgError:
        pass
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])


def common_scale(scores: Floats, offsets: Ints) -> Floats:
    """(K,) mean over clips of each column's largest score; 1 where that is not positive."""
    firsts = offsets[:-1][np.diff(offsets) > 0]
    scale = np.maximum.reduceat(scores, firsts).mean(axis=0)
    return np.where(scale > 0, scale, 1.0)


def action_extent(scores: Floats, chosen: Ints, offsets: Ints) -> Ints:
    """First and one past the last row, (N, 2), of the run around ``chosen`` that scores like it.

    scores : (T,) of the chunks.
    chosen : (N,) row of each clip's action.
    """
    similar = scores >= EXTENT * np.repeat(scores[chosen], np.diff(offsets))
    extent = np.stack([chosen, chosen + 1], axis=1)
    for n, (lo, hi) in enumerate(pairwise(offsets)):
        while extent[n, 0] > lo and similar[extent[n, 0] - 1]:
            extent[n, 0] -= 1
        while extent[n, 1] < hi and similar[extent[n, 1]]:
            extent[n, 1] += 1
    return extent


def states_around(
    constraints: Constraints,
    worth: Floats,
    start: Floats,
    end: Floats,
    action_time: Floats,
    action_span: Floats,
) -> Labels:
    """The best labels (M,) of the states, before and after given actions.

    State k must lie after action k - 1 and before action k, wherever a clip has them. Where a clip
    lacks an action that it may lack, it lacks the state after it too.

    worth : (M, K) scores of the labels, on the scale of ``ABOVE``.
    start, end : (M,) of the rows.
    action_time, action_span : (N, K - 1) and (N, K - 1, 2), in the same seconds, NaN where a clip
        lacks an action; or (N,) and (N, 2) for one action.
    """
    counts = np.diff(constraints.offsets)
    n_actions = constraints.n_states - 1
    time = np.repeat(action_time.reshape(-1, n_actions), counts, axis=0)
    span = np.repeat(action_span.reshape(-1, n_actions, 2), counts, axis=0)
    overlap = np.minimum(end[:, None], span[..., 1]) - np.maximum(start[:, None], span[..., 0])
    shares = np.nan_to_num(overlap / (end - start)[:, None])
    worth = worth - np.clip(shares.max(axis=1) / HALF, 0, 1)[:, None]
    instant = constraints.times[:, None]
    worth[:, :-1] -= WRONG_SIDE * (instant > time)  # false for NaN
    worth[:, 1:] -= WRONG_SIDE * (instant < time)
    if not constraints.optional:
        return states_alone(constraints, worth)
    lacked = np.isnan(time) & np.isfinite(constraints.absent[1:])
    labels = np.zeros(constraints.n_rows, np.int8)
    for steps in np.unique(lacked, axis=0):  # clips that lack the same steps
        absent = np.where(np.append(False, steps), 0.0, np.inf)
        linear = constraints.linear + np.where(np.append(False, steps), np.inf, 0.0)
        mine = (lacked == steps).all(axis=1)
        alike = constraints._replace(linear=linear, absent=absent)
        labels[mine] = states_alone(alike, worth)[mine]
    return labels


def states_alone(constraints: Constraints, worth: Floats) -> Labels:
    """The best labels (M,) of the states by their ``worth`` (M, K) alone."""
    weight = 1 / max(constraints.n_rows, 1)  # as squared errors weigh against the linear costs
    _, labels = label_clips(weight * (ABOVE - worth) + constraints.linear, constraints)
    return labels

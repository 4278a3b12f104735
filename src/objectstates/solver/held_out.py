"""Labels from scores that a clip did not help to learn.

The rounding of the paper labels one tracklet per state and clip, nearly always: scores of the
classifier that was learned on the very labels it scores are low everywhere else. A classifier
learned without the clip says more, and costs next to nothing. With C the clip's rows and A the
quadratic form of ``cost.py``, its scores are

    S_C = Y_C - (A_CC)^-1 (A Y)_C,

one small system per clip. They come out smaller than 1 by a factor that depends on the features
and the ridge; divided by the mean over clips of the largest score, 1 again stands for a row that is
like those labelled in the other clips, and 0 for one that is not.

The chunks around the action's that score like it are the action's extent. While it lasts, an object
is in neither state; before it in the first at most, after it in the second.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from objectstates.solver.oracle import Constraints, Floats, Ints, Labels, label_clips
from objectstates.solver.problem import Side

ABOVE = 0.6  # a row is labelled where it is worth more than this
EXTENT = 0.4  # chunks that score at least this share of the action's own belong to it
HALF = 0.5  # a row that lies in the action by this share is worth no label ...
WRONG_SIDE = 3.0  # ... and one on the wrong side is a last resort, to keep clips feasible


def held_out_scores(side: Side, labels: Floats) -> tuple[Floats, Floats]:
    """Scores (M, K) of rows by the classifier of ``labels`` (M, K) learned without their clip.

    And the residual A Y of the classifier that was learned with all clips.
    """
    rows = side.rows
    residual = rows @ labels if side.dense else labels - rows @ (rows.T @ labels)
    scores = np.empty_like(residual)
    for n, (lo, hi) in enumerate(pairwise(side.constraints.offsets)):
        block = side.blocks[side.block_offsets[n] : side.block_offsets[n + 1]]
        scores[lo:hi] = labels[lo:hi] - _solve(block.reshape(hi - lo, hi - lo), residual[lo:hi])
    return scores, residual


def _solve(matrix: Floats, right: Floats) -> Floats:
    """Least squares where the other clips leave a direction of this one undetermined."""
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
    like = scores >= EXTENT * np.repeat(scores[chosen], np.diff(offsets))
    extent = np.stack([chosen, chosen + 1], axis=1)
    for n, (lo, hi) in enumerate(pairwise(offsets)):
        while extent[n, 0] > lo and like[extent[n, 0] - 1]:
            extent[n, 0] -= 1
        while extent[n, 1] < hi and like[extent[n, 1]]:
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
    """The best labels (M,) of the states, before and after an action that is known.

    worth : (M, 2) of each label, on the scale of ``ABOVE``.
    start, end : (M,) of the rows.
    action_time, action_span : (N,) and (N, 2), in the same seconds.
    """
    counts = np.diff(constraints.offsets)
    time = np.repeat(action_time, counts)
    span = np.repeat(action_span, counts, axis=0)
    overlap = np.minimum(end, span[:, 1]) - np.maximum(start, span[:, 0])
    worth = worth - np.clip(overlap / (end - start) / HALF, 0, 1)[:, None]
    worth[:, 0] -= WRONG_SIDE * (constraints.times > time)
    worth[:, 1] -= WRONG_SIDE * (constraints.times < time)
    return states_alone(constraints, worth)


def states_alone(constraints: Constraints, worth: Floats) -> Labels:
    """The best labels (M,) of the states by their ``worth`` (M, 2) alone."""
    weight = 1 / max(constraints.n_rows, 1)  # beside the linear costs, as in the objective
    _, labels = label_clips(weight * (ABOVE - worth) + constraints.linear, constraints)
    return labels

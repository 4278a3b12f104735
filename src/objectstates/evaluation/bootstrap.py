"""How sure a mean over clips is: the bootstrap over clips.

Clips are drawn with replacement, the whole statistic is computed of every draw, and the interval
is between percentiles of the draws. Scores of one clip stay together, and with several groups (the
actions of a table, say) each is redrawn by itself and the groups' means are averaged. A method
that is right, or wrong, in every clip gets an interval of no width: the clips do not tell more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from objectstates.data.corpus import Array

DRAWS = 10_000
LEVEL = 0.95
_AT_ONCE = 2_000_000  # drawn indices that are held in memory


@dataclass(frozen=True)
class Interval:
    """A mean, and the bounds between which it lies with the given probability."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """The mean difference of two methods on the same clips, its bounds, and a two-sided p.

    ``p`` is twice the share of draws in which the difference is not on the side of its mean.
    """

    difference: float
    low: float
    high: float
    p: float
    n_clips: int


def macro_mean(groups: Sequence[Array]) -> float:
    """The mean of the groups' means; NaN entries, and groups of nothing else, do not count."""
    means = [float(np.nanmean(group)) for group in groups if not np.isnan(group).all()]
    return float(np.mean(means)) if means else np.nan


def interval(
    groups: Sequence[Array], *, level: float = LEVEL, draws: int = DRAWS, seed: int = 0
) -> Interval:
    """The macro mean of scores with bounds; a group is (clips,) or (clips, scores of a clip).

    >>> interval([np.array([0.0, 1.0, 1.0, 1.0])], seed=0)
    Interval(mean=0.75, low=0.25, high=1.0)
    """
    drawn = _draw(groups, draws, seed)
    if not len(drawn):
        return Interval(np.nan, np.nan, np.nan)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(macro_mean(groups), float(low), float(high))


def paired(
    groups: Sequence[tuple[Array, Array]],
    *,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
) -> Comparison:
    """How much better the first of each pair is than the second: scores (clips,) of the same clips.

    Clips that have no score (NaN) of either method do not count. Several groups count the same.
    """
    differences = []
    for first, second in groups:
        difference = np.asarray(first, np.float64) - np.asarray(second, np.float64)
        differences.append(difference[~np.isnan(difference)])
    drawn = _draw(differences, draws, seed)
    if not len(drawn):
        return Comparison(np.nan, np.nan, np.nan, np.nan, 0)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    other_side = min((drawn <= 1e-12).sum(), (drawn >= -1e-12).sum())
    p = min(1.0, 2 * (int(other_side) + 1) / (draws + 1))
    n_clips = sum(map(len, differences))
    return Comparison(macro_mean(differences), float(low), float(high), p, n_clips)


def _draw(groups: Sequence[Array], draws: int, seed: int) -> Array:
    """(draws,) macro means of resampled clips; empty if there is nothing to draw from."""
    rng = np.random.default_rng(seed)
    totals = []
    for group in groups:
        if not len(group):
            continue
        scores = np.asarray(group, np.float64).reshape(len(group), -1)
        known = ~np.isnan(scores)
        kept = known.any(axis=1)  # a clip without any score has nothing to tell
        if kept.any():
            totals.append(_resampled_means(scores[kept], known[kept], draws, rng))
    return np.mean(totals, axis=0) if totals else np.empty(0)


def _resampled_means(scores: Array, known: Array, draws: int, rng: np.random.Generator) -> Array:
    sums, counts = np.where(known, scores, 0.0).sum(axis=1), known.sum(axis=1)
    means = np.empty(draws)
    step = max(1, _AT_ONCE // len(sums))
    for first in range(0, draws, step):
        chosen = rng.integers(len(sums), size=(min(step, draws - first), len(sums)))
        means[first : first + step] = sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1)
    return means

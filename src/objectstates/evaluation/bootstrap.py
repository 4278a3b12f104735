"""Confidence intervals of means over clips: the percentile bootstrap.

Clips are resampled with replacement, and the interval lies between percentiles of the resampled
statistic. Scores of one clip stay together. Several groups (such as the actions of a table) are
resampled separately and their means averaged. If all clips have the same score the interval has
no width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from objectstates.data.corpus import Array

DRAWS = 10_000  # resamples: 250 of them lie beyond each bound
LEVEL = 0.95
_MAX_INDICES = 2_000_000  # resampled indices held in memory at once, 16 MB


@dataclass(frozen=True)
class Interval:
    """A mean with the bounds of its confidence interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """The mean difference of two methods on the same clips, its bounds, and a two-sided p-value.

    ``p`` is twice the fraction of resamples whose difference has not the sign of the mean.
    """

    difference: float
    low: float
    high: float
    p: float
    n_clips: int


def macro_mean(groups: Sequence[Array]) -> float:
    """The mean of the groups' means, without NaN entries and groups of NaN alone."""
    means = [float(np.nanmean(group)) for group in groups if not np.isnan(group).all()]
    return float(np.mean(means)) if means else np.nan


def interval(
    groups: Sequence[Array], *, level: float = LEVEL, draws: int = DRAWS, seed: int = 0
) -> Interval:
    """The macro mean of scores with bounds; a group is (clips,) or (clips, scores per clip).

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
    """The mean difference of pairs of scores (clips,) of two methods on the same clips.

    Clips with a NaN score of either method are left out. All groups have the same weight.
    """
    differences = []
    for first, second in groups:
        difference = np.asarray(first, np.float64) - np.asarray(second, np.float64)
        differences.append(difference[~np.isnan(difference)])
    drawn = _draw(differences, draws, seed)
    if not len(drawn):
        return Comparison(np.nan, np.nan, np.nan, np.nan, 0)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    other_sign = min((drawn <= 1e-12).sum(), (drawn >= -1e-12).sum())
    p = min(1.0, 2 * (int(other_sign) + 1) / (draws + 1))
    n_clips = sum(map(len, differences))
    return Comparison(macro_mean(differences), float(low), float(high), p, n_clips)


def _draw(groups: Sequence[Array], draws: int, seed: int) -> Array:
    """(draws,) macro means of resampled clips; empty if no clip has a score."""
    rng = np.random.default_rng(seed)
    totals = []
    for group in groups:
        if not len(group):
            continue
        scores = np.asarray(group, np.float64).reshape(len(group), -1)
        known = ~np.isnan(scores)
        kept = known.any(axis=1)
        if kept.any():
            totals.append(_resampled_means(scores[kept], known[kept], draws, rng))
    return np.mean(totals, axis=0) if totals else np.empty(0)


def _resampled_means(scores: Array, known: Array, draws: int, rng: np.random.Generator) -> Array:
    sums, counts = np.where(known, scores, 0.0).sum(axis=1), known.sum(axis=1)
    means = np.empty(draws)
    step = max(1, _MAX_INDICES // len(sums))
    for first in range(0, draws, step):
        chosen = rng.integers(len(sums), size=(min(step, draws - first), len(sums)))
        means[first : first + step] = sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1)
    return means

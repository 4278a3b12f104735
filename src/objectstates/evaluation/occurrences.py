"""How many occurrences in long videos are found: F1 at an overlap in time.

An occurrence is the span of a video from the start of its first action to the end of its last. One
that was found and a true one match if their intersection over union reaches a threshold; each
matches at most one. Of all such assignments, per video, that with the most matches counts. Counts
are summed over videos before precision, recall and F1 are computed (micro average): a video without
occurrences counts by what is found there in error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from objectstates.data.corpus import Array
from objectstates.data.result import Result

IOU = 0.25
Span = tuple[float, float]


@dataclass(frozen=True)
class VideoCount:
    """Numbers of occurrences in one video: found, true, and pairs of both that match."""

    video: str
    found: int
    true: int
    matched: int


@dataclass(frozen=True)
class OccurrenceScore:
    """Of several videos, by the summed counts."""

    videos: tuple[VideoCount, ...]

    @property
    def precision(self) -> float:
        """Share of the found that match; 1 if none was found."""
        return _share(self._sum("matched"), self._sum("found"))

    @property
    def recall(self) -> float:
        """Share of the true that match; 1 if there is none."""
        return _share(self._sum("matched"), self._sum("true"))

    @property
    def f1(self) -> float:
        """Harmonic mean of both; 1 if there is nothing to find and nothing found."""
        return _share(2 * self._sum("matched"), self._sum("found") + self._sum("true"))

    @property
    def right_number(self) -> float:
        """Share of the videos in which as many are found as there are."""
        return float(np.mean([row.found == row.true for row in self.videos]))

    def f1_bounds(self, *, seed: int = 0, draws: int = 2000) -> Span:
        """95 % bootstrap interval of the F1 over videos."""
        counts = np.array([[row.matched, row.found + row.true] for row in self.videos])
        chosen = np.random.default_rng(seed).integers(0, len(counts), (draws, len(counts)))
        matched, both = counts[chosen].sum(axis=1).T
        f1 = np.where(both > 0, 2 * matched / np.maximum(both, 1), 1.0)
        low, high = np.quantile(f1, (0.025, 0.975))
        return float(low), float(high)

    def _sum(self, name: str) -> int:
        return sum(getattr(row, name) for row in self.videos)


def occurrence_spans(result: Result) -> dict[str, list[Span]]:
    """Of a result whose clips are occurrences (``<video>#<number>``): their spans by video.

    From the start of the first action to the end of the last, in seconds of the video.
    """
    spans: dict[str, list[Span]] = {}
    for clip, span in zip(result.clips, result.actions.span, strict=True):
        video = clip.rpartition("#")[0]
        spans.setdefault(video, []).append((float(np.nanmin(span)), float(np.nanmax(span))))
    return spans


def count_matches(found: Sequence[Span], true: Sequence[Span], iou: float = IOU) -> int:
    """The greatest number of pairs with this overlap, each span in one pair at most.

    >>> count_matches([(0, 10), (20, 30)], [(2, 12), (50, 60)])
    1
    """
    if not found or not true:
        return 0
    matching = _overlaps(np.array(found, float), np.array(true, float)) >= iou
    rows, columns = linear_sum_assignment(matching, maximize=True)
    return int(matching[rows, columns].sum())


def score_occurrences(
    found: Mapping[str, Sequence[Span]],
    truth: Mapping[str, Iterable[Span]],
    iou: float = IOU,
) -> OccurrenceScore:
    """Compare spans by video, for the videos of ``truth``; one that ``found`` lacks has none."""
    rows = []
    for video, spans in truth.items():
        true, mine = list(spans), found.get(video, ())
        rows.append(VideoCount(video, len(mine), len(true), count_matches(mine, true, iou)))
    return OccurrenceScore(tuple(rows))


def _overlaps(a: Array, b: Array) -> Array:
    """(n, m) intersection over union of intervals (n, 2) and (m, 2)."""
    start = np.maximum(a[:, None, 0], b[None, :, 0])
    common = np.maximum(np.minimum(a[:, None, 1], b[None, :, 1]) - start, 0.0)
    lengths = (a[:, 1] - a[:, 0])[:, None] + (b[:, 1] - b[:, 0])[None]
    return np.asarray(common / (lengths - common))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0

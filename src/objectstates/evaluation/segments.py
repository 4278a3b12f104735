"""Metrics of temporal segmentation: segment F1, edit score, and seconds to each action.

A clip is divided without gaps: state 1, action 1, state 2, action 2 and so on, each state from the
action before it to the action after it. Segments are compared as in the literature of temporal
action segmentation (Lea et al., Temporal Convolutional Networks for Action Segmentation and
Detection, CVPR 2017):

* F1 at an IoU: a found segment is right if the true segment of its label that it overlaps most has
  at least this IoU, and no earlier one took it. F1 is of one clip; totals are means over clips.
* edit score: 1 - d / n, where d is the Levenshtein distance of the sequences of labels, and n the
  length of the longer one. It measures the order, whatever the lengths.

Of an action found in a clip that has it, the distances of its time are reported: from the true
interval, 0 within it, and from the moment at which the object truly changes fastest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from objectstates.base.errors import TruthError
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Result
from objectstates.data.truth import ClipTruth, Seconds
from objectstates.data.truth_labels import truth_of

IOUS = (0.1, 0.25, 0.5)


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a clip, in seconds.

    label : as `ClipTruth.phase`: 2 k - 2 for state k, 2 k - 1 for action k.
    """

    label: int
    start: float
    end: float


@dataclass(frozen=True)
class SegmentScore:
    """The scores of one clip.

    f1 : at each of `IOUS`.
    to_action, to_change : seconds from each found action's time to the true interval, and to the
        true moment; NaN for an action that was not found, or that the clip lacks.
    """

    clip: str
    f1: tuple[float, ...]
    edit: float
    to_action: tuple[float, ...]
    to_change: tuple[float, ...]

    @property
    def columns(self) -> dict[str, str | float]:
        """A row of a table."""
        numbers = range(1, len(self.to_action) + 1)
        return {
            "clip": self.clip,
            **{f"f1_{round(100 * iou)}": x for iou, x in zip(IOUS, self.f1, strict=True)},
            "edit": self.edit,
            **{f"to_action_{k}": x for k, x in zip(numbers, self.to_action, strict=True)},
            **{f"to_change_{k}": x for k, x in zip(numbers, self.to_change, strict=True)},
        }


def segments_of(actions: Sequence[Seconds | None], start: float, end: float) -> list[Segment]:
    """The segments of a clip from ``start`` to ``end`` with these actions, None for one it lacks.

    Actions are cut where they overlap the one before them or leave the clip; segments without
    length are left out.

    >>> [(part.label, part.start, part.end) for part in segments_of([(2, 3), None, (6, 9)], 0, 8)]
    [(0, 0, 2), (1, 2, 3), (2, 3, 6), (5, 6, 8)]
    """
    bounds, labels = [start], [0]
    for k, action in enumerate(actions, start=1):
        if action is not None:
            first = min(max(action[0], bounds[-1]), end)
            bounds += [first, min(max(action[1], first), end)]
            labels += [2 * k - 1, 2 * k]
    bounds.append(end)
    parts = zip(labels, bounds[:-1], bounds[1:], strict=True)
    return [Segment(label, first, last) for label, first, last in parts if last > first]


def segment_f1(found: Sequence[Segment], true: Sequence[Segment], iou: float) -> float:
    """F1 of the found segments at an IoU; 1 if there are neither found nor true ones.

    >>> segment_f1([Segment(0, 0, 4), Segment(1, 4, 8)], [Segment(0, 0, 6), Segment(1, 6, 8)], 0.6)
    0.5
    """
    taken: set[int] = set()
    for part in found:
        overlaps = [_iou(part, other) if part.label == other.label else 0.0 for other in true]
        best = int(np.argmax(overlaps)) if overlaps else 0
        if overlaps and overlaps[best] >= iou:
            taken.add(best)
    return 2 * len(taken) / (len(found) + len(true)) if found or true else 1.0


def edit_score(found: Sequence[int], true: Sequence[int]) -> float:
    """1 - Levenshtein distance of two sequences of labels over the length of the longer one.

    >>> edit_score([0, 1, 2], [0, 1, 2, 3, 4]), edit_score([], [])
    (0.6, 1.0)
    """
    row = list(range(len(true) + 1))  # distances of the labels so far to the first n true ones
    for i, label in enumerate(found, start=1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(true, start=1):
            swap = diagonal + (label != other)
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, swap)
    longest = max(len(found), len(true))
    return 1 - row[-1] / longest if longest else 1.0


def segment_scores(
    result: Result, corpus: Corpus, truth: Mapping[str, ClipTruth]
) -> tuple[SegmentScore, ...]:
    """Score the actions of a result by their times, in the order of `evaluate`.

    corpus : holds the clips that were left out too; they have no segments, and score 0.
    """
    number = {clip: n for n, clip in enumerate(corpus.clip_ids)}
    missing = (None,) * result.n_actions
    rows = []
    for i, clip in enumerate(result.clips):
        here, spans = result.actions.chunk[i] >= 0, result.actions.span[i]
        actions = [
            (float(span[0]), float(span[1])) if there else None
            for there, span in zip(here, spans, strict=True)
        ]
        times = np.where(here, result.actions.time[i], np.nan)
        rows.append(_score(corpus, number[clip], truth, actions, times))
    for n in (number[skipped.clip] for skipped in result.skipped if skipped.clip in number):
        row = _score(corpus, n, truth, missing, np.full(len(missing), np.nan))
        rows.append(SegmentScore(row.clip, (0.0,) * len(IOUS), 0.0, row.to_action, row.to_change))
    return tuple(rows)


def _score(
    corpus: Corpus,
    n: int,
    truth: Mapping[str, ClipTruth],
    actions: Sequence[Seconds | None],
    times: Array,
) -> SegmentScore:
    """Score the actions of clip n: their extents, and their times (A,)."""
    known = truth_of(corpus, n, truth)
    if known is None or len(known.actions) != len(actions):
        raise TruthError(
            f"clip {corpus.clip_ids[n]!r} has no ground truth of {len(actions)} actions"
        )
    rows = list(corpus.chunk_rows(n))
    start, end = float(corpus.chunks.start[rows].min()), float(corpus.chunks.end[rows].max())
    found, true = segments_of(actions, start, end), segments_of(known.actions, start, end)
    bounds = np.array([action or (np.nan, np.nan) for action in known.actions])
    late = np.maximum(bounds[:, 0] - times, times - bounds[:, 1])
    return SegmentScore(
        corpus.clip_ids[n],
        tuple(segment_f1(found, true, iou) for iou in IOUS),
        edit_score([part.label for part in found], [part.label for part in true]),
        tuple(float(x) for x in np.where(np.isnan(late), np.nan, np.maximum(late, 0.0))),
        tuple(float(x) for x in np.abs(times - known.change_times)),
    )


def _iou(one: Segment, other: Segment) -> float:
    common = min(one.end, other.end) - max(one.start, other.start)
    return max(common, 0.0) / (max(one.end, other.end) - min(one.start, other.start))

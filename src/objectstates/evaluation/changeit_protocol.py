"""ChangeIt's protocol: a label for every second, one prediction per video.

A method scores every second of a video. Its prediction of the states is the best ordered pair of
seconds i < j, that of the action the best second. The state score of a video is the fraction of
the two states whose second is right, the action score whether its second is; the totals are means
over categories of means over videos (macro). For comparison there are `chance`, a random
prediction, and `ceiling`, the best possible one: not every video shows both states in order, or
the action.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Result
from objectstates.data.truth import VideoSeconds
from objectstates.evaluation.bootstrap import Interval, interval, macro_mean

FIRST_STATE, ACTION, SECOND_STATE = 1, 2, 3


@dataclass(frozen=True, eq=False)
class SecondScores:
    """Scores (S,) of every second of a video for both states and the action.

    The scores of a pair of seconds are added: pass log-probabilities to multiply probabilities.
    """

    first_state: Array
    second_state: Array
    action: Array


@dataclass(frozen=True)
class VideoScore:
    """Scores of the prediction for one video, from 0 to 1."""

    category: str
    video: str
    states: float
    action: float


@dataclass(frozen=True)
class SecondsEvaluation:
    """Per-video scores, and their macro means over categories."""

    rows: tuple[VideoScore, ...]

    @property
    def states(self) -> float:
        return macro_mean(self._by_category("states"))

    @property
    def action(self) -> float:
        return macro_mean(self._by_category("action"))

    def states_interval(self, *, seed: int = 0) -> Interval:
        """Mean and bounds by the bootstrap over the videos of each category."""
        return interval(self._by_category("states"), seed=seed)

    def action_interval(self, *, seed: int = 0) -> Interval:
        """Mean and bounds by the bootstrap over the videos of each category."""
        return interval(self._by_category("action"), seed=seed)

    def _by_category(self, name: str) -> list[Array]:
        found: dict[str, list[float]] = {}
        for row in self.rows:
            found.setdefault(row.category, []).append(getattr(row, name))
        return [np.array(scores) for scores in found.values()]


def evaluate_seconds(
    truth: Sequence[VideoSeconds], scores: Mapping[tuple[str, str], SecondScores]
) -> SecondsEvaluation:
    """Evaluate scores, given by (category, video); a video without scores counts as wrong.

    If scores and labels differ in length, the longer is cut.
    """
    rows = []
    for video in truth:
        states = action = 0.0
        found = scores.get((video.category, video.video))
        length = min(len(video.labels), len(found.action)) if found is not None else 0
        if found is not None and length:
            labels = video.labels[:length]
            action = float(labels[int(np.argmax(found.action[:length]))] == ACTION)
            if length > 1:
                i, j = best_pair(found.first_state[:length], found.second_state[:length])
                right = labels[i] == FIRST_STATE, labels[j] == SECOND_STATE
                states = float(np.mean(right))
        rows.append(VideoScore(video.category, video.video, states, action))
    return SecondsEvaluation(tuple(rows))


def best_pair(first: Array, second: Array) -> tuple[int, int]:
    """The seconds i < j with the highest ``first[i] + second[j]``; ties go to the earliest.

    >>> best_pair(np.array([0.0, 0.2, 0.9]), np.array([0.0, 0.7, 0.3]))
    (0, 1)
    """
    if len(first) < 2 or len(first) != len(second):
        raise ValueError("an ordered pair needs two seconds or more, scored for both states")
    best_before = np.maximum.accumulate(first[:-1])
    j = int(np.argmax(best_before + second[1:])) + 1
    return int(np.argmax(first[:j])), j


def chance(truth: Sequence[VideoSeconds]) -> SecondsEvaluation:
    """The expected scores of a random second and a random ordered pair of seconds."""
    rows = []
    for video in truth:
        labels, n = video.labels, len(video.labels)
        pairs = n * (n - 1) / 2
        later = np.arange(n)[::-1]  # number of seconds after each; reversed, before it
        right = (later * (labels == FIRST_STATE)).sum() + (
            later[::-1] * (labels == SECOND_STATE)
        ).sum()
        states = right / (2 * pairs) if pairs else 0.0
        action = float(np.mean(labels == ACTION)) if n else 0.0
        rows.append(VideoScore(video.category, video.video, float(states), action))
    return SecondsEvaluation(tuple(rows))


def ceiling(truth: Sequence[VideoSeconds]) -> SecondsEvaluation:
    """The best scores that any prediction can have: those of the truth itself."""
    known = {
        (video.category, video.video): SecondScores(
            (video.labels == FIRST_STATE).astype(np.float64),
            (video.labels == SECOND_STATE).astype(np.float64),
            (video.labels == ACTION).astype(np.float64),
        )
        for video in truth
    }
    return evaluate_seconds(truth, known)


def second_scores(result: Result) -> dict[str, SecondScores]:
    """Scores per second of each clip of a result, counted from the clip's start.

    They make the protocol's prediction agree with the result where possible: seconds of a labelled
    tracklet or of the action's chunk score above 1, all others below 1, and both increase with the
    classifier's score. Clips that were left out have no scores.
    """
    corpus, found = result.corpus, {}
    for n, clip in enumerate(result.clips):
        origin, length = _span(corpus, n)
        tracklets, chunks = list(corpus.tracklet_rows(n)), list(corpus.chunk_rows(n))
        times = corpus.tracklets.start[tracklets] - origin, corpus.tracklets.end[tracklets] - origin
        states = [
            _by_second(*times, result.state_scores[tracklets, k - 1], result.state[tracklets] == k,
                       length)
            for k in (1, 2)
        ]  # fmt: skip
        moment = corpus.chunks.time[chunks] - origin
        chosen = np.arange(len(chunks)) == result.action_chunk[n]
        action = _by_second(moment, moment, result.action_scores[chunks], chosen, length)
        found[clip] = SecondScores(states[0], states[1], action)
    return found


def _by_second(start: Array, end: Array, scores: Array, chosen: Array, length: int) -> Array:
    """(length,) the best score of the intervals that cover each second; 0 if none does."""
    best = np.zeros(length)
    squashed = 1 / (1 + np.exp(-np.clip(np.nan_to_num(scores), -30, 30)))
    for first, last, value in zip(start, end, squashed + chosen, strict=True):
        begin = min(max(math.floor(first), 0), length - 1)
        seconds = slice(begin, max(math.ceil(last), begin + 1))
        best[seconds] = np.maximum(best[seconds], value)
    return best


def _span(corpus: Corpus, n: int) -> tuple[float, int]:
    """The start of a clip, and its length in seconds, rounded up."""
    rows, span = list(corpus.chunk_rows(n)), corpus.spans[n]
    start, end = span or (corpus.chunks.start[rows].min(), corpus.chunks.end[rows].max())
    return float(start), max(1, math.ceil(end - start - 1e-6))

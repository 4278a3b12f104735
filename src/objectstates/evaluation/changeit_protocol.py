"""ChangeIt's protocol: a label for every second, one answer for each video.

A method scores every second of a video. Of the states the best ordered pair of seconds i < j is
its answer, of the action the best second. Per video the state score is the mean over the two
states of whether the second is right, the action score whether its second is; the totals are means
over categories of means over videos (macro). Beside them stand chance, an answer drawn at random,
and the ceiling: not every video shows both states in order, or the action.
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
    """How much each second (S,) of a video looks like both states and the action.

    The scores of a pair of seconds are added: give logarithms of probabilities to multiply them.
    """

    first_state: Array
    second_state: Array
    action: Array


@dataclass(frozen=True)
class VideoScore:
    """How right the answer for one video is, from 0 to 1."""

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
        """Bounds by the bootstrap over the videos of each category."""
        return interval(self._by_category("states"), seed=seed)

    def action_interval(self, *, seed: int = 0) -> Interval:
        """Bounds by the bootstrap over the videos of each category."""
        return interval(self._by_category("action"), seed=seed)

    def _by_category(self, name: str) -> list[Array]:
        found: dict[str, list[float]] = {}
        for row in self.rows:
            found.setdefault(row.category, []).append(getattr(row, name))
        return [np.array(scores) for scores in found.values()]


def evaluate_seconds(
    truth: Sequence[VideoSeconds], scores: Mapping[tuple[str, str], SecondScores]
) -> SecondsEvaluation:
    """Judge scores, by category and video; a video without scores is wrong.

    Scores and labels of different lengths are compared as far as both go.
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
                states = _pair_score(labels, i, j)
        rows.append(VideoScore(video.category, video.video, states, action))
    return SecondsEvaluation(tuple(rows))


def best_pair(first: Array, second: Array) -> tuple[int, int]:
    """The seconds i < j with the highest ``first[i] + second[j]``, the earliest of equals.

    >>> best_pair(np.array([0.0, 0.2, 0.9]), np.array([0.0, 0.7, 0.3]))
    (0, 1)
    """
    if len(first) < 2 or len(first) != len(second):
        raise ValueError("an ordered pair needs two seconds or more, scored for both states")
    best_before = np.maximum.accumulate(first[:-1])
    j = int(np.argmax(best_before + second[1:])) + 1
    return int(np.argmax(first[:j])), j


def chance(truth: Sequence[VideoSeconds]) -> SecondsEvaluation:
    """What a second, and an ordered pair of seconds, drawn at random scores; exactly."""
    rows = []
    for video in truth:
        labels, n = video.labels, len(video.labels)
        pairs = n * (n - 1) / 2
        later = np.arange(n)[::-1]  # how many seconds come after each; reversed, before it
        right = (later * (labels == FIRST_STATE)).sum() + (
            later[::-1] * (labels == SECOND_STATE)
        ).sum()
        states = right / (2 * pairs) if pairs else 0.0
        action = float(np.mean(labels == ACTION)) if n else 0.0
        rows.append(VideoScore(video.category, video.video, float(states), action))
    return SecondsEvaluation(tuple(rows))


def ceiling(truth: Sequence[VideoSeconds]) -> SecondsEvaluation:
    """The most that any answer can score: the scores of the truth itself."""
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
    """Scores per second of each clip of a result, whose first second is the clip's first.

    The protocol's answer is then the result's own wherever it can be: a second with a tracklet, or
    the chunk, that was labelled scores above 1 for it, all others below, and both the more the
    better the classifier's score. Clips that were left out have no scores.
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
    """(length,) the best of what each second has a part in; 0 where there is nothing."""
    best = np.zeros(length)
    squashed = 1 / (1 + np.exp(-np.clip(np.nan_to_num(scores), -30, 30)))
    for first, last, value in zip(start, end, squashed + chosen, strict=True):
        begin = min(max(math.floor(first), 0), length - 1)
        seconds = slice(begin, max(math.ceil(last), begin + 1))
        best[seconds] = np.maximum(best[seconds], value)
    return best


def _pair_score(labels: Array, i: int, j: int) -> float:
    return (float(labels[i] == FIRST_STATE) + float(labels[j] == SECOND_STATE)) / 2


def _span(corpus: Corpus, n: int) -> tuple[float, int]:
    """Where a clip starts, and how many seconds it has begun."""
    rows, span = list(corpus.chunk_rows(n)), corpus.spans[n]
    start, end = span or (corpus.chunks.start[rows].min(), corpus.chunks.end[rows].max())
    return float(start), max(1, math.ceil(end - start - 1e-6))

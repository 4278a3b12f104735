"""Sliding windows of words, and their scores by a linear classifier on TF-IDF.

With tf, idf and w per n-gram g, scikit-learn's decision for a window is

    b + sum_g tf_g idf_g w_g / sqrt(sum_g tf_g^2 idf_g^2)

From one window to the next one word leaves and one enters, so both sums change by a few terms:
(tf + 1)^2 - tf^2 = 2 tf + 1. The time is independent of the window's length, and the matrix of all
windows is never built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from objectstates.base.jit import compiled
from objectstates.narration.transcript import Narration

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

WINDOW = 10  # words, as in the paper


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Scored windows of a narration.

    starts : (k,) index of the first word of each, increasing; together they cover all words.
    length : words of each; that of the narration if it is shorter than a window.
    scores : (k,)
    """

    starts: Ints
    length: int
    scores: Floats

    def word_means(self, words: int) -> Floats:
        """(words,) mean score of the windows that contain each word, as in the paper's heat map."""
        total, count = np.zeros(words + 1), np.zeros(words + 1)
        ends = self.starts + self.length
        for values, sums in ((self.scores, total), (np.ones(len(ends)), count)):
            np.add.at(sums, self.starts, values)
            np.add.at(sums, ends, -values)
        return np.asarray(total.cumsum()[:-1] / count.cumsum()[:-1])


class Scorer(Protocol):
    """Scores every window of a narration by how well it names the action."""

    def score(self, narration: Narration) -> Windows: ...


def window_starts(words: int, length: int, stride: int = 1) -> Ints:
    """First words of windows every ``stride`` words; the last window ends with the last word.

    >>> window_starts(12, 10).tolist(), window_starts(23, 10, 5).tolist()
    ([0, 1, 2], [0, 5, 10, 13])
    >>> window_starts(3, 10).tolist()
    [0]
    """
    last = max(0, words - length)
    starts = np.arange(0, last + 1, stride)
    return starts if starts[-1] == last else np.append(starts, last)


def bigram_ids(words: Ints, known: Ints, n_unigrams: int) -> Ints:
    """(n,) index of the bigram of each word and the next, -1 if it is not in the vocabulary.

    words : (n,) index of each word, -1 if it is not in the vocabulary.
    known : sorted keys ``first * n_unigrams + second`` of the bigrams.
    """
    ids = np.full(len(words), -1, np.int64)
    both = np.flatnonzero((words[:-1] >= 0) & (words[1:] >= 0))
    if len(both) and len(known):
        keys = words[both] * n_unigrams + words[both + 1]
        places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        ids[both] = np.where(known[places] == keys, places, -1)
    return ids


@compiled
def slide(
    unigrams: Ints, bigrams: Ints, weights: Floats, squares: Floats, bias: float, length: int
) -> Floats:
    """Score every window of ``length`` words.

    unigrams, bigrams : (n,) feature of each word, and of each word and the next; -1 for none.
    weights, squares : (features,) idf w and idf^2.
    """
    counts = np.zeros(len(weights), np.int64)
    scores = np.empty(len(unigrams) - length + 1)
    dot, norm, inside = 0.0, 0.0, 0
    for end in range(len(unigrams)):
        # The last word of a window has no bigram inside it: bigrams enter one word later.
        for g in (unigrams[end], bigrams[end - 1] if end > 0 and length > 1 else -1):
            if g >= 0:
                dot += weights[g]
                norm += (2 * counts[g] + 1) * squares[g]
                counts[g] += 1
                inside += 1
        start = end - length + 1
        if start < 0:
            continue
        scores[start] = bias + dot / np.sqrt(norm) if inside > 0 else bias
        for g in (unigrams[start], bigrams[start] if length > 1 else -1):
            if g >= 0:
                counts[g] -= 1
                dot -= weights[g]
                norm -= (2 * counts[g] + 1) * squares[g]
                inside -= 1
        if inside == 0:  # only rounding errors remain
            dot, norm = 0.0, 0.0
    return scores

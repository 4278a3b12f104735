"""Find the clips in which a manipulation is talked about (section 5.3 and appendix A of the paper).

A scorer gives every window of ten words a score; the best window of each video says where to look,
and the best videos are kept. People speak first and act then, so a clip reaches from 5 s before to
15 s after what was said.
"""

from __future__ import annotations

import csv
import heapq
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from objectstates.base.errors import NarrationError, SettingError
from objectstates.base.storage import write_atomically
from objectstates.narration.sentences import Sentences
from objectstates.narration.transcript import Narration, normalised, tokens
from objectstates.narration.windows import Floats, Windows, bigram_ids, slide, window_starts

WINDOW = 10
"""Words in a window, as in the paper."""


class Scorer(Protocol):
    """Says of every window of a narration how well it names the action."""

    def score(self, narration: Narration) -> Windows: ...


class SentenceClassifier(Scorer, Protocol):
    """A scorer learned from sentences, which can be judged on sentences too."""

    def fit(self, sentences: Sentences) -> SentenceClassifier: ...

    def decide(self, texts: Sequence[str]) -> Floats:
        """(n,) score of each text as a whole."""


class _Numbers(dict[str, int]):
    """Numbers of words as they are written; a form is looked up once."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, word: str) -> int:
        number = self[word] = self._vocabulary.get(normalised(word), -1)
        return number


class TfidfSvm:
    """The paper's classifier: a linear SVM on TF-IDF of words and pairs of words.

    >>> from objectstates.narration.sentences import load_action
    >>> svm = TfidfSvm().fit(load_action("open-fridge").sentences)
    >>> svm.decide(["first open up your refrigerator", "pour it into the cup"]) > 0
    array([ True, False])
    """

    def __init__(self, *, c: float = 10.0, window: int = WINDOW) -> None:
        _check_window(window)
        if not c > 0:
            raise SettingError(f"c={c} must be positive")
        self.c = c
        self.window = window

    def fit(self, sentences: Sentences) -> TfidfSvm:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.svm import LinearSVC

        self.vectoriser_: Any = TfidfVectorizer(
            tokenizer=tokens, token_pattern=None, lowercase=False, ngram_range=(1, 2)
        )
        features = self.vectoriser_.fit_transform(sentences.texts)
        self.svm_: Any = LinearSVC(C=self.c, random_state=0, max_iter=20_000)
        self.svm_.fit(features, sentences.labels)
        self._compile()
        return self

    def _compile(self) -> None:
        """Lay weights out for sliding: words first, then pairs sorted by their key."""
        vocabulary: dict[str, int] = self.vectoriser_.vocabulary_
        unigrams = sorted(gram for gram in vocabulary if " " not in gram)
        number = {word: i for i, word in enumerate(unigrams)}
        pairs = []
        for gram in vocabulary:
            if " " in gram:
                first, second = gram.split(" ")
                pairs.append((number[first] * len(unigrams) + number[second], gram))
        pairs.sort()
        order = [vocabulary[gram] for gram in (*unigrams, *(gram for _, gram in pairs))]
        idf = self.vectoriser_.idf_[order]
        self._numbers = _Numbers(number)
        self._n_unigrams = len(unigrams)
        self._pairs = np.array([key for key, _ in pairs], np.int64)
        self._weights = np.ascontiguousarray(idf * self.svm_.coef_[0][order])
        self._squares = np.ascontiguousarray(idf**2)
        self._bias = float(self.svm_.intercept_[0])

    def decide(self, texts: Sequence[str]) -> Floats:
        return np.asarray(self.svm_.decision_function(self.vectoriser_.transform(texts)))

    def score(self, narration: Narration) -> Windows:
        length = min(self.window, len(narration))
        numbers = self._numbers
        words = np.fromiter(map(numbers.__getitem__, narration.words), np.int64, len(narration))
        pairs = bigram_ids(words, self._pairs, self._n_unigrams)
        pairs[pairs >= 0] += self._n_unigrams
        scores = slide(words, pairs, self._weights, self._squares, self._bias, length)
        return Windows(window_starts(len(narration), length), length, scores)


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """How well sentences that were not learned from are told apart.

    average_precision : of ranking all sentences by their score; chance is the share of positives.
    precision, recall : of calling scores above zero positive.
    """

    positive: int
    negative: int
    folds: int
    average_precision: float
    precision: float
    recall: float


def cross_validate(
    classifier: SentenceClassifier, sentences: Sentences, *, folds: int = 5, seed: int = 0
) -> CrossValidation:
    """Learn from all folds but one and judge that one, in turn; all scores are judged together."""
    from sklearn.metrics import average_precision_score
    from sklearn.model_selection import StratifiedKFold

    positive, negative = len(sentences.positive), len(sentences.negative)
    folds = min(folds, positive, negative)
    if folds < 2:
        raise NarrationError("cross-validation needs two positive and two negative sentences")
    texts, labels = np.array(sentences.texts, object), sentences.labels
    scores = np.empty(len(labels))
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(texts, labels):
        part = Sentences.of(texts[train].tolist(), labels[train])
        scores[test] = classifier.fit(part).decide(texts[test].tolist())
    classifier.fit(sentences)
    hits = int(np.sum((scores > 0) & labels))
    return CrossValidation(
        positive,
        negative,
        folds,
        average_precision=float(average_precision_score(labels, scores)),
        precision=hits / max(1, int(np.sum(scores > 0))),
        recall=hits / positive,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Retrieved:
    """A clip that was found.

    start, end : seconds of the video.
    time : when the best window is said.
    first, last : its words, ``narration.words[first:last]``.
    """

    narration: Narration = field(repr=False)
    start: float
    end: float
    score: float
    time: float
    first: int
    last: int

    @property
    def said(self) -> str:
        return " ".join(self.narration.words[self.first : self.last])


def retrieve(
    narrations: Iterable[Narration],
    scorer: Scorer,
    *,
    top: int = 20,
    per_video: int = 1,
    before: float = 5.0,
    after: float = 15.0,
) -> list[Retrieved]:
    """The best clips of all narrations, the best first; of equal ones, the earlier found.

    per_video : clips of one video at most, which do not overlap; the paper's is one. Of several
        narrations of the same video, the one with the best window counts.
    """
    search = Search(scorer, top=top, per_video=per_video, before=before, after=after)
    ranking = Ranking(top)
    for narration in narrations:
        ranking.add(search.best(narration))
    return ranking.clips()


@dataclass(frozen=True, eq=False)
class Search:
    """What is sought: the settings of `retrieve`."""

    scorer: Scorer
    top: int = 20
    per_video: int = 1
    before: float = 5.0
    after: float = 15.0

    def __post_init__(self) -> None:
        if self.top < 1 or self.per_video < 1:
            raise SettingError(f"top={self.top} and per_video={self.per_video} must be at least 1")
        before, after = self.before, self.after
        if not (before >= 0 and after >= 0 and before + after > 0):
            raise SettingError(f"before={before} and after={after} must be seconds, not both 0")

    def best(self, narration: Narration) -> list[Retrieved]:
        """The best clips of one narration, the best first."""
        windows = self.scorer.score(narration)
        return _best(narration, windows, self.per_video, self.before, self.after)


class Ranking:
    """The best ``top`` videos so far, each with its clips.

    Rankings of parts, added one after another, give the ranking of the whole.
    """

    def __init__(self, top: int) -> None:
        self._top, self._order = top, count()
        self._heap: list[tuple[float, int, list[Retrieved]]] = []
        self._kept: dict[str, float] = {}

    def add(self, found: list[Retrieved]) -> None:
        """Consider the clips of one narration, the best first."""
        if not found:
            return
        identity, score = found[0].narration.identity, found[0].score
        if score <= self._kept.get(identity, -np.inf):
            return
        if identity in self._kept:
            others = [item for item in self._heap if item[2][0].narration.identity != identity]
            self._heap = others
            heapq.heapify(self._heap)
        self._kept[identity] = score
        heapq.heappush(self._heap, (score, -next(self._order), found))
        if len(self._heap) > self._top:
            heapq.heappop(self._heap)

    def videos(self) -> list[list[Retrieved]]:
        """The clips of each video, in the order in which they were added."""
        return [found for _, _, found in sorted(self._heap, key=lambda item: -item[1])]

    def clips(self) -> list[Retrieved]:
        """The best clips, the best first; of equal ones, those of the better video."""
        ranked = sorted(self._heap, key=lambda item: (-item[0], -item[1]))
        clips = [clip for _, _, found in ranked for clip in found]
        return sorted(clips, key=lambda clip: -clip.score)[: self._top]


def _best(
    narration: Narration, windows: Windows, most: int, before: float, after: float
) -> list[Retrieved]:
    """The best windows whose clips do not overlap, the best first.

    A window may reach over a long silence, so its time is that of one word: the one whose windows
    are the best on average, for that is in the midst of what made the window score; of several,
    the one in the middle.
    """
    middles, heat = narration.times.mean(1), windows.word_means(len(narration))
    scores = windows.scores.copy()
    found: list[Retrieved] = []
    while len(found) < most and scores.size:
        best = int(np.argmax(scores))
        if scores[best] == -np.inf:
            break
        first = int(windows.starts[best])
        last = first + windows.length
        hottest = np.flatnonzero(heat[first:last] >= heat[first:last].max() - 1e-12)
        time = float(middles[first + hottest[len(hottest) // 2]])
        start, end = max(0.0, time - before), time + after
        found.append(Retrieved(narration, start, end, float(scores[best]), time, first, last))
        near = (middles > time - before - after) & (middles < time + before + after)
        near[first:last] = True
        touched = np.concatenate([[0], near.cumsum()])
        scores[touched[windows.starts + windows.length] > touched[windows.starts]] = -np.inf
    return found


def write_clips(path: Path, clips: Sequence[Retrieved]) -> None:
    """Write the list that ``ingest --clips`` reads: videos relative to it, seconds, unique ids."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("video", "start", "end", "id", "score"))
    taken: set[str] = set()
    folder = os.path.abspath(path.parent)
    for clip in clips:
        video = clip.narration.video
        place = os.path.relpath(os.path.abspath(video), folder) if video else clip.narration.name
        name = clip.narration.name
        ids = (name if n == 1 else f"{name}-{n}" for n in count(1))
        unique = next(candidate for candidate in ids if candidate not in taken)
        taken.add(unique)
        row = (place, f"{clip.start:.3f}", f"{clip.end:.3f}", unique, f"{clip.score:.6g}")
        writer.writerow(row)
    write_atomically(path, buffer.getvalue().encode())


def _check_window(window: int) -> None:
    if window < 1:
        raise SettingError(f"window={window} must be at least one word")

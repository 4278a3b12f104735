"""The paper's text classifier, a linear SVM on TF-IDF, and cross-validation of classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from objectstates.base.errors import NarrationError, SettingError
from objectstates.narration.sentences import Sentences
from objectstates.narration.transcript import Narration, normalised, tokens
from objectstates.narration.windows import (
    WINDOW,
    Floats,
    Scorer,
    Windows,
    bigram_ids,
    slide,
    window_starts,
)


class SentenceClassifier(Scorer, Protocol):
    """A scorer learned from labelled sentences."""

    def fit(self, sentences: Sentences) -> SentenceClassifier: ...

    def decide(self, texts: Sequence[str]) -> Floats:
        """(n,) score of each text as a whole."""


class _WordIds(dict[str, int]):
    """Feature indices of words as written, -1 if unknown; each spelling is normalised once."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, word: str) -> int:
        index = self[word] = self._vocabulary.get(normalised(word), -1)
        return index


class TfidfSvm:
    """A linear SVM on TF-IDF of unigrams and bigrams, as in the paper.

    >>> from objectstates.narration.sentences import load_action
    >>> svm = TfidfSvm().fit(load_action("open-fridge").sentences)
    >>> svm.decide(["first open up your refrigerator", "pour it into the cup"]) > 0
    array([ True, False])
    """

    def __init__(self, *, c: float = 10.0, window: int = WINDOW) -> None:
        if window < 1:
            raise SettingError(f"`window`={window} must be at least one word")
        if not c > 0:
            raise SettingError(f"`c`={c} must be positive")
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
        """Order the weights for `slide`: unigrams, then bigrams sorted by their key."""
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
        self._word_ids = _WordIds(number)
        self._n_unigrams = len(unigrams)
        self._pairs = np.array([key for key, _ in pairs], np.int64)
        self._weights = np.ascontiguousarray(idf * self.svm_.coef_[0][order])
        self._squares = np.ascontiguousarray(idf**2)
        self._bias = float(self.svm_.intercept_[0])

    def decide(self, texts: Sequence[str]) -> Floats:
        return np.asarray(self.svm_.decision_function(self.vectoriser_.transform(texts)))

    def score(self, narration: Narration) -> Windows:
        length = min(self.window, len(narration))
        ids = map(self._word_ids.__getitem__, narration.words)
        words = np.fromiter(ids, np.int64, len(narration))
        pairs = bigram_ids(words, self._pairs, self._n_unigrams)
        pairs[pairs >= 0] += self._n_unigrams
        scores = slide(words, pairs, self._weights, self._squares, self._bias, length)
        return Windows(window_starts(len(narration), length), length, scores)


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """Quality on sentences of held-out folds.

    positive, negative : numbers of sentences.
    average_precision : of ranking all sentences by score; chance is the fraction of positives.
    precision, recall : of classifying scores above zero as positive.
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
    """Stratified k-fold cross-validation, on the pooled scores; then fit on all sentences."""
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

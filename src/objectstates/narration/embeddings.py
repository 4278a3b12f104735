"""Scorers on sentence embeddings: an SVM, and the similarity to a phrase."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import SettingError
from objectstates.narration.sentences import Sentences
from objectstates.narration.transcript import Narration, tokens
from objectstates.narration.windows import WINDOW, Floats, Windows, window_starts

STRIDE = 3
"""Words between windows: an embedding takes milliseconds, and those of neighbours are similar."""


class Encoder(Protocol):
    """Embeds texts as unit vectors, (n, size)."""

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]: ...


class _WindowScorer(ABC):
    """Base class: cuts a narration into windows; subclasses score their texts."""

    def __init__(self, encoder: Encoder, *, window: int = WINDOW, stride: int = STRIDE) -> None:
        if window < 1 or not 1 <= stride <= window:
            raise SettingError(f"`stride`={stride} must be between 1 and `window`={window} words")
        self.encoder = encoder
        self.window = window
        self.stride = stride

    def score(self, narration: Narration) -> Windows:
        length = min(self.window, len(narration))
        starts = window_starts(len(narration), length, self.stride)
        words = list(narration.words)
        texts = [" ".join(words[start : start + length]) for start in starts.tolist()]
        return Windows(starts, length, self.decide(texts))

    @abstractmethod
    def decide(self, texts: Sequence[str]) -> Floats: ...


class EmbeddingSvm(_WindowScorer):
    """A linear SVM on sentence embeddings: synonyms score alike, unlike with `TfidfSvm`."""

    def __init__(
        self, encoder: Encoder, *, c: float = 10.0, window: int = WINDOW, stride: int = STRIDE
    ) -> None:
        super().__init__(encoder, window=window, stride=stride)
        self.c = c

    def fit(self, sentences: Sentences) -> EmbeddingSvm:
        from sklearn.svm import LinearSVC

        self.svm_: Any = LinearSVC(C=self.c, random_state=0, max_iter=20_000)
        self.svm_.fit(self.encoder.encode(_plain(sentences.texts)), sentences.labels)
        return self

    def decide(self, texts: Sequence[str]) -> Floats:
        vectors = self.encoder.encode(_plain(texts))
        return np.asarray(self.svm_.decision_function(vectors), np.float64)


class PhraseMatcher(_WindowScorer):
    """Cosine similarity of each window to a phrase, such as "remove the tire"; no training."""

    def __init__(
        self, encoder: Encoder, phrase: str, *, window: int = WINDOW, stride: int = STRIDE
    ) -> None:
        super().__init__(encoder, window=window, stride=stride)
        if not tokens(phrase):
            raise SettingError(f"`phrase` {phrase!r} has no words: name the action and the object")
        self.phrase = phrase
        self._target = encoder.encode(_plain([phrase]))[0].astype(np.float64)

    def decide(self, texts: Sequence[str]) -> Floats:
        return np.asarray(self.encoder.encode(_plain(texts)) @ self._target)


def _plain(texts: Sequence[str]) -> list[str]:
    """Without punctuation and capitals, like transcripts of speech recognition."""
    return [" ".join(tokens(text)) for text in texts]

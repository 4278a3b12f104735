"""Windows scored by meaning: by sentences, or by nothing but a phrase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import SettingError
from objectstates.narration.retrieval import WINDOW
from objectstates.narration.sentences import Sentences
from objectstates.narration.transcript import Narration, tokens
from objectstates.narration.windows import Floats, Windows, window_starts

STRIDE = 3
"""Words between windows: vectors cost milliseconds each, and neighbours mean the same."""


class Encoder(Protocol):
    """Turns texts into unit vectors, (n, size)."""

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]: ...


class _WindowVectors:
    """What both scorers share: the windows of a narration, and their vectors."""

    def __init__(self, encoder: Encoder, *, window: int = WINDOW, stride: int = STRIDE) -> None:
        if window < 1 or not 1 <= stride <= window:
            raise SettingError(f"stride={stride} must be between 1 and window={window} words")
        self.encoder = encoder
        self.window = window
        self.stride = stride

    def score(self, narration: Narration) -> Windows:
        length = min(self.window, len(narration))
        starts = window_starts(len(narration), length, self.stride)
        words = list(narration.words)
        texts = [" ".join(words[start : start + length]) for start in starts.tolist()]
        return Windows(starts, length, self.decide(texts))

    def decide(self, texts: Sequence[str]) -> Floats:
        raise NotImplementedError


class EmbeddingSvm(_WindowVectors):
    """A linear SVM on sentence vectors: `TfidfSvm`, but words that mean the same are the same."""

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


class PhraseMatcher(_WindowVectors):
    """Cosine of each window with a phrase, such as "remove the tire": nothing is learned."""

    def __init__(
        self, encoder: Encoder, phrase: str, *, window: int = WINDOW, stride: int = STRIDE
    ) -> None:
        super().__init__(encoder, window=window, stride=stride)
        if not tokens(phrase):
            raise SettingError(f"phrase {phrase!r} has no words: say what is done to what")
        self.phrase = phrase
        self._target = encoder.encode(_plain([phrase]))[0].astype(np.float64)

    def decide(self, texts: Sequence[str]) -> Floats:
        return np.asarray(self.encoder.encode(_plain(texts)) @ self._target)


def _plain(texts: Sequence[str]) -> list[str]:
    """Without punctuation and capitals, like the windows of recognised speech."""
    return [" ".join(tokens(text)) for text in texts]

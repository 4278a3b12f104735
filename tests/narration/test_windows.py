import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectstates.narration.windows import Windows, window_starts


@given(st.integers(1, 50), st.integers(1, 12), st.integers(1, 12))
def test_windows_cover_all_words_and_heat_is_their_mean(words, length, stride):
    length = min(length, words)
    starts = window_starts(words, length, min(stride, length))
    scores = np.random.default_rng(words).normal(size=len(starts))
    heat = Windows(starts, length, scores).word_means(words)
    for word in range(words):
        inside = (starts <= word) & (word < starts + length)
        assert heat[word] == pytest.approx(scores[inside].mean(), abs=1e-9)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.base.errors import SettingError
from objectstates.narration.sentences import Sentences, action_names, load_action
from objectstates.narration.text_classifier import TfidfSvm, cross_validate
from objectstates.narration.transcript import tokens
from tests.narration.test_retrieval import narration


@pytest.fixture(scope="module")
def svm():
    return TfidfSvm().fit(load_action("put-wheel").sentences)


VOCABULARY = [
    *tokens(" ".join(load_action("put-wheel").sentences.texts[:40])),
    *["xylophone", "Wheel", "WHEEL", "don\u2019t", "\u00fcber"],
]


@given(st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=60), st.integers(1, 12))
@settings(deadline=None)
def test_every_window_has_the_score_that_scikit_learn_gives_it(words, window):
    svm = TfidfSvm(window=window).fit(load_action("put-wheel").sentences)
    ours = svm.score(narration(" ".join(words)))
    length = min(window, len(words))
    texts = [" ".join(words[i : i + length]) for i in range(len(words) - length + 1)]
    assert ours.starts.tolist() == list(range(len(texts)))
    theirs = svm.svm_.decision_function(svm.vectoriser_.transform(texts))
    np.testing.assert_allclose(ours.scores, theirs, atol=1e-9)


def test_rounding_does_not_grow_over_hours(svm):
    rng = np.random.default_rng(0)
    words = rng.choice([*VOCABULARY, *["nothing"] * 200], 100_000).tolist()
    scores = svm.score(narration(" ".join(words))).scores
    some = rng.choice(len(scores), 500, replace=False)
    texts = [" ".join(words[i : i + 10]) for i in some]
    theirs = svm.svm_.decision_function(svm.vectoriser_.transform(texts))
    np.testing.assert_allclose(scores[some], theirs, atol=1e-9)


def test_the_sentences_of_every_action_can_be_classified():
    for action in action_names():
        sentences = load_action(action).sentences
        assert len(sentences.positive) >= 12
        assert len(sentences.negative) >= 50
        assert not {*sentences.positive} & {*sentences.negative}
        judged = cross_validate(TfidfSvm(), sentences)
        chance = len(sentences.positive) / len(sentences.texts)
        assert judged.average_precision > chance + 0.35, action


def test_cross_validation_of_shuffled_labels_is_chance():
    sentences = load_action("open-oyster").sentences
    scores = []
    for seed in range(8):
        labels = np.random.default_rng(seed).permutation(sentences.labels)
        shuffled = Sentences.of(sentences.texts, labels)
        scores.append(cross_validate(TfidfSvm(), shuffled).average_precision)
    assert np.median(scores) < 1.8 * len(sentences.positive) / len(sentences.texts)


def test_settings_out_of_range_are_named():
    with pytest.raises(SettingError, match="`window`=0"):
        TfidfSvm(window=0)
    with pytest.raises(SettingError, match="`c`=0"):
        TfidfSvm(c=0)

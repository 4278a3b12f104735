from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectstates.base.errors import NarrationError, SettingError
from objectstates.narration.retrieval import TfidfSvm, cross_validate, retrieve, write_clips
from objectstates.narration.sentences import Sentences, action_names, load_action, read_sentences
from objectstates.narration.transcript import Narration, tokens
from objectstates.narration.windows import Windows, window_starts
from objectstates.video.clip_list import find_clips


def narration(text, name="v", pace=0.5, video=None):
    words = text.split()
    starts = pace * np.arange(len(words))
    return Narration(name, words, np.stack([starts, starts + pace], 1), video)


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


@given(st.integers(1, 50), st.integers(1, 12), st.integers(1, 12))
def test_windows_cover_all_words_and_heat_is_their_mean(words, length, stride):
    length = min(length, words)
    starts = window_starts(words, length, min(stride, length))
    scores = np.random.default_rng(words).normal(size=len(starts))
    heat = Windows(starts, length, scores).word_means(words)
    for word in range(words):
        inside = (starts <= word) & (word < starts + length)
        assert heat[word] == pytest.approx(scores[inside].mean(), abs=1e-9)


IDLE = "so anyway my neighbour told me all about his holiday in spain and the food there"


def test_clips_are_around_the_words_the_best_video_first(svm, tmp_path):
    names = "put the spare wheel onto the studs and push it on"
    texts = {
        "later": f"{IDLE} {IDLE} {names} {IDLE}",
        "never": f"{IDLE} {IDLE}",
        "weaker": f"{IDLE} lift the tire {IDLE} {IDLE}",
    }
    found = retrieve([narration(text, name) for name, text in texts.items()], svm)
    assert found[0].narration.name == "later"
    assert [clip.score for clip in found] == sorted((c.score for c in found), reverse=True)
    best = found[0]
    begin = 0.5 * len(f"{IDLE} {IDLE}".split())
    assert begin <= best.time <= begin + 0.5 * len(names.split())
    assert (best.start, best.end) == (best.time - 5, best.time + 15)
    assert set(best.said.split()) & {"spare", "wheel", "studs"}
    assert len(retrieve([narration(t, n) for n, t in texts.items()], svm, top=1)) == 1


def test_a_window_around_a_silence_is_where_its_words_are(svm):
    first, then = "put the spare wheel on the studs", "and then wait for lunch it was good"
    words = [*first.split(), *then.split()]
    starts = np.array([*np.arange(7) * 0.5, *(np.arange(8) * 0.5 + 100)])
    spoken = Narration("v", words, np.stack([starts, starts + 0.4], 1))
    (clip,) = retrieve([spoken], svm)
    assert clip.time < 5


def test_several_clips_of_a_video_do_not_overlap(svm):
    text = f"put the wheel on the hub {IDLE} {IDLE} {IDLE} {IDLE} place the tire back on the studs"
    found = retrieve([narration(text)], svm, per_video=5)
    spans = sorted((clip.start, clip.end) for clip in found)
    assert len(spans) >= 2
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_of_two_narrations_of_a_video_the_better_counts(svm):
    texts = [IDLE, "put the spare wheel onto the studs now", f"put {IDLE}"]
    found = retrieve([narration(text, "same") for text in texts], svm)
    assert [clip.said for clip in found] == [texts[1]]


def test_the_list_is_one_that_ingest_takes(svm, tmp_path):
    names = ["a, b", 'quote"', "caf\u00e9"]
    clips = retrieve(
        [narration(f"put the wheel {n}", n, video=tmp_path / f"{n}.mp4") for n in names], svm
    )
    (tmp_path / "lists").mkdir()
    write_clips(tmp_path / "lists" / "clips.csv", clips)
    spans = find_clips(csv=tmp_path / "lists" / "clips.csv")
    assert sorted(span.id for span in spans) == sorted(names)
    assert {span.video.resolve() for span in spans} == {tmp_path / f"{n}.mp4" for n in names}
    assert all(span.start is not None and span.end is not None for span in spans)


def test_sentences_of_an_action_are_told_apart():
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
    labels = np.random.default_rng(3).permutation(sentences.labels)
    shuffled = Sentences.of(sentences.texts, labels)
    judged = cross_validate(TfidfSvm(), shuffled)
    assert judged.average_precision < 2.5 * len(shuffled.positive) / len(labels)


def test_own_sentences_from_files_and_articles(tmp_path):
    (tmp_path / "one.txt").write_text("# mine\nOpen the jar.\n\ntwist the lid off\n")
    assert read_sentences(tmp_path / "one.txt") == ["Open the jar.", "twist the lid off"]
    folder = tmp_path / "articles" / "jars"
    folder.mkdir(parents=True)
    (folder / "how.md").write_text("# How to\n1. Hold the jar. Twist the lid!\n- Enjoy it\n---\n")
    assert read_sentences(folder.parent) == ["Hold the jar.", "Twist the lid!", "Enjoy it"]


def test_mistakes_are_named(tmp_path):
    with pytest.raises(NarrationError, match="open-oyster"):
        load_action("fly a kite")
    with pytest.raises(NarrationError, match=r"nothing\.txt"):
        read_sentences(tmp_path / "nothing.txt")
    (tmp_path / "blank.txt").write_text("\n...\n")
    with pytest.raises(NarrationError, match="no sentences"):
        read_sentences(tmp_path / "blank.txt")
    with pytest.raises(NarrationError, match="positive"):
        Sentences((), ("a",))
    with pytest.raises(SettingError, match="window"):
        TfidfSvm(window=0)
    with pytest.raises(SettingError, match="top"):
        retrieve([], TfidfSvm(), top=0)
    with pytest.raises(NarrationError, match="shape"):
        Narration("v", ["a"], np.zeros((2, 2)))

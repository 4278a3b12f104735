"""Made-up narrations: what the benchmark of retrieval rests on."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.wild.narrated import Manner, expand, make_timeline, make_video, talk
from benchmarks.wild.phrases import ACTIONS, CHATTER, PROMISES, SCENES, SUMMARIES
from benchmarks.wild.retrieval import ceiling, chance, make_videos, precision
from objectstates.narration.text_classifier import TfidfSvm
from objectstates.narration.sentences import action_names, load_action
from objectstates.narration.transcript import tokens


def test_the_same_seed_says_the_same():
    one, two, other = (make_video("v", "robot", seed) for seed in (4, 4, 5))
    assert one.narration.words == two.narration.words
    assert (one.timeline, one.utterances) == (two.timeline, two.utterances)
    assert one.narration.words != other.narration.words


@pytest.mark.parametrize("scene", SCENES)
def test_deeds_and_words_are_in_order_and_apart(scene):
    for seed in range(20):
        video = make_video("v", scene, seed)
        spans = [(e.start, e.end) for e in video.timeline.events]
        spans_said = [(u.start, u.end) for u in video.utterances]
        for row in (spans, spans_said):
            assert all(a[1] <= b[0] for a, b in pairwise(row))
        assert all(end <= video.timeline.duration for _, end in spans)
        starts = video.narration.times[:, 0]
        assert (np.diff(starts) >= 0).all()


def test_a_deed_is_named_within_the_lag():
    rng = np.random.default_rng(0)
    for _ in range(30):
        timeline = make_timeline("kitchen", rng, ["open-fridge", "close-fridge"])
        manner = Manner(announced=1.0, lag=6.0)
        for event in timeline.events:
            said = [u for u in talk(timeline, rng, manner) if u.deed == event.action]
            assert len(said) == 1
            assert event.start - 6 <= said[0].start <= event.start


def test_mistakes_of_recognition_are_as_many_as_asked_for():
    clean = Manner(hesitations=0, dropped=0, misheard=0)
    video = make_video("v", "robot", 1, manner=clean)
    assert tokens(" ".join(video.narration.words)) == tokens(
        " ".join(u.text for u in video.utterances)
    )
    half = make_video("v", "robot", 1, manner=Manner(hesitations=0, dropped=0.5, misheard=0))
    ratio = len(half.narration) / len(video.narration)
    assert 0.4 < ratio < 0.6


def test_what_is_said_was_not_learned():
    """No five words in a row are both in a sentence of ours and in what these videos say."""

    def runs(texts):
        lists = [tokens(text) for text in texts]
        return {tuple(words[i : i + 5]) for words in lists for i in range(len(words) - 4)}

    learned = runs([text for name in action_names() for text in load_action(name).sentences.texts])
    rng = np.random.default_rng(0)
    templates = [t for speech in ACTIONS.values() for kind in speech for t in kind]
    templates += [t for _, steps in SCENES.values() for t in steps]
    templates += CHATTER
    templates += [p.replace("{summary}", s) for p in PROMISES for s in SUMMARIES.values()]
    said = runs([expand(template, rng) for template in templates for _ in range(30)])
    assert not learned & said


def test_the_paper_s_classifier_finds_what_chance_does_not():
    videos = make_videos("coffee", 40, seed=7)
    scorer = TfidfSvm().fit(load_action("pour-coffee").sentences)
    found = precision(videos, "pour-coffee", scorer)
    assert found >= 0.7
    assert found > chance(videos, "pour-coffee") + 0.5
    assert ceiling(videos, "pour-coffee") > 0.8

"""Simulated narrations, the data of the retrieval benchmark."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.wild.narrated import SpeechStyle, expand, make_timeline, make_video, simulate_speech
from benchmarks.wild.phrases import ACTIONS, CHATTER, PROMISES, SCENES, SUMMARIES
from benchmarks.wild.retrieval import ceiling, chance, make_videos, precision
from objectstates.narration.sentences import action_names, load_action
from objectstates.narration.text_classifier import TfidfSvm
from objectstates.narration.transcript import tokens


def test_the_same_seed_gives_the_same_narration():
    one, two, other = (make_video("v", "robot", seed) for seed in (4, 4, 5))
    assert one.narration.words == two.narration.words
    assert (one.timeline, one.utterances) == (two.timeline, two.utterances)
    assert one.narration.words != other.narration.words


@pytest.mark.parametrize("scene", SCENES)
def test_actions_and_utterances_are_in_order_without_overlap(scene):
    for seed in range(20):
        video = make_video("v", scene, seed)
        spans = [(e.start, e.end) for e in video.timeline.events]
        spans_said = [(u.start, u.end) for u in video.utterances]
        for row in (spans, spans_said):
            assert all(a[1] <= b[0] for a, b in pairwise(row))
        assert all(end <= video.timeline.duration for _, end in spans)
        starts = video.narration.times[:, 0]
        assert (np.diff(starts) >= 0).all()


def test_an_action_is_named_within_the_lag():
    rng = np.random.default_rng(0)
    for _ in range(30):
        timeline = make_timeline("kitchen", rng, ["open-fridge", "close-fridge"])
        style = SpeechStyle(announced=1.0, lag=6.0)
        for event in timeline.events:
            said = [u for u in simulate_speech(timeline, rng, style) if u.action == event.action]
            assert len(said) == 1
            assert event.start - 6 <= said[0].start <= event.start


def test_mistakes_of_recognition_are_as_many_as_asked_for():
    clean = SpeechStyle(hesitations=0, dropped=0, misheard=0)
    video = make_video("v", "robot", 1, style=clean)
    assert tokens(" ".join(video.narration.words)) == tokens(
        " ".join(u.text for u in video.utterances)
    )
    half = make_video("v", "robot", 1, style=SpeechStyle(hesitations=0, dropped=0.5, misheard=0))
    ratio = len(half.narration) / len(video.narration)
    assert 0.4 < ratio < 0.6


def test_training_sentences_and_simulated_speech_share_no_phrase():
    """No five consecutive words are both in a training sentence and in the simulated speech."""

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


def test_the_paper_s_classifier_is_far_better_than_chance():
    scorer = TfidfSvm().fit(load_action("pour-coffee").sentences)
    scores = []
    for seed in range(4):
        videos = make_videos("coffee", 40, seed)
        found = precision(videos, "pour-coffee", scorer)
        scores.append((found, chance(videos, "pour-coffee"), ceiling(videos, "pour-coffee")))
    found, by_chance, best = np.mean(scores, axis=0)
    assert found > by_chance + 0.5
    assert best > 0.8

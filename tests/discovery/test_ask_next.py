from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from objectstates.base.errors import CorpusError
from objectstates.data.corrections import Correction
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.ask_next import ask_next, facility_location, similarities
from objectstates.discovery.estimator import JointDiscovery


@pytest.fixture(scope="module")
def fitted():
    corpus = synthetic_corpus(n_clips=8, seed=4)
    return corpus, JointDiscovery().fit(corpus).result_


def test_all_clips_are_asked_for_once(fitted):
    corpus, result = fitted
    assert sorted(ask_next(result, corpus)) == sorted(corpus.clip_ids)
    assert ask_next(result, corpus) == ask_next(result, corpus)
    assert sorted(ask_next(result)) == sorted(corpus.clip_ids)


def test_corrected_clips_are_not_asked_for(fitted):
    corpus, _ = fitted
    rows = [Correction("clip2", "confirm", 8.0, 12.0), Correction("clip5", "exclude")]
    result = JointDiscovery().fit(corpus, corrections=rows).result_
    for asked in (ask_next(result), ask_next(result, corpus)):
        assert set(asked) == set(corpus.clip_ids) - {"clip2", "clip5"}


def test_the_least_likely_comes_first(fitted):
    corpus, result = fitted
    chances = np.linspace(0.9, 0.2, 8)[:, None] * [1.0, 0.5, 0.5]
    judged = replace(result, confidences=chances)
    assert ask_next(judged) == ask_next(judged, corpus) == tuple(reversed(result.clips))
    chances[:, 0] = np.nan  # no action was sought
    chances[3, 2] = 0.01
    assert ask_next(replace(result, confidences=chances))[0] == result.clips[3]


def test_without_a_verdict_and_features_the_least_evidence_comes_first(fitted):
    _, result = fitted
    unjudged = replace(result, confidences=None, verdict=None)
    assert ask_next(unjudged)[0] == result.clips[int(result.evidence.argmin())]


def test_a_typical_clip_comes_first_and_another_kind_next():
    kinds = np.array([[1, 0.1, 0], [1, 0, 0], [1, -0.1, 0], [0, 0, 1], [0, 0, 1]], float)
    kinds /= np.linalg.norm(kinds, axis=1, keepdims=True)
    order = facility_location(kinds @ kinds.T, np.array([], np.int64))
    assert order[0] == 1
    assert order[1] in (3, 4)
    after = facility_location(kinds @ kinds.T, np.array([0]))
    assert after[0] in (3, 4)
    assert sorted(after) == [1, 2, 3, 4]


def test_a_duplicate_is_as_similar_as_can_be(fitted):
    corpus, _ = fitted
    twice = corpus.select([0, 1, 2])
    table = twice.tracklets
    features = table.features.copy()
    first, second = twice.tracklet_rows(0), twice.tracklet_rows(1)
    features[second.start : second.stop] = features[first.start : first.stop][: len(second)]
    same = similarities(replace(twice, tracklets=replace(table, features=features)))
    assert same[0, 1] == pytest.approx(1.0)
    assert (same <= 1 + 1e-9).all()


def test_the_corpus_must_have_the_clips_of_the_result(fitted):
    corpus, result = fitted
    with pytest.raises(CorpusError, match="lacks clip"):
        ask_next(replace(result, confidences=None), corpus.select([0, 1]))

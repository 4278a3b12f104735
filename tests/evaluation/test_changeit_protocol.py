import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectstates.data.formats.changeit import read_changeit
from objectstates.data.truth import VideoSeconds
from objectstates.evaluation.changeit_protocol import (
    SecondScores,
    best_pair,
    ceiling,
    chance,
    evaluate_seconds,
    second_scores,
)
from tests.evaluation.test_precision import corpus_of, result_of

numbers = st.floats(-1, 1, allow_nan=False).map(lambda x: round(x, 3))


def video(*labels, category="apple", name="v"):
    return VideoSeconds(category, name, np.array(labels, np.int8))


@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=7))
def test_the_best_pair_is_the_best_of_all_pairs(scores):
    first, second = np.array(scores).T
    i, j = best_pair(first, second)
    assert i < j
    best = max(first[a] + second[b] for a, b in itertools.combinations(range(len(first)), 2))
    assert first[i] + second[j] == pytest.approx(best)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=7))
def test_chance_and_ceiling_are_those_of_all_answers(labels):
    labels = np.array(labels)
    pairs = [
        (int(labels[i] == 1) + int(labels[j] == 3)) / 2
        for i, j in itertools.combinations(range(len(labels)), 2)
    ]
    truth = [video(*labels)]
    assert chance(truth).states == pytest.approx(np.mean(pairs))
    assert ceiling(truth).states == max(pairs)
    assert chance(truth).action == pytest.approx(np.mean(labels == 2))
    assert ceiling(truth).action == float((labels == 2).any())


def test_answers_are_judged_and_averaged_over_categories():
    truth = [
        video(1, 2, 2, 3, name="a"),
        video(1, 2, 2, 3, name="b"),
        video(1, 1, 2, 3, category="ball", name="c"),
    ]
    right = SecondScores(
        np.array([1.0, 0, 0, 0]), np.array([0, 0, 0, 1.0]), np.array([0, 1.0, 0, 0])
    )
    # The first state's best second is the last, after which nothing can come: 1 it is, then 3.
    half = SecondScores(
        np.array([0, 1.0, 0, 2]), np.array([0, 0, 0, 1.0]), np.array([1.0, 0, 0, 0])
    )
    scores = evaluate_seconds(truth, {("apple", "a"): right, ("apple", "b"): half})
    assert [(row.states, row.action) for row in scores.rows] == [(1, 1), (0.5, 0), (0, 0)]
    assert scores.states == pytest.approx((0.75 + 0) / 2)
    assert scores.action == pytest.approx((0.5 + 0) / 2)
    bounds = scores.states_interval()
    assert (bounds.low, bounds.mean, bounds.high) == (0.25, 0.375, 0.5), "1/2 to 1, and 0 to 0"


def test_a_result_answers_as_it_labelled():
    corpus = corpus_of([1, 0, 2, 1, 0, 2], [1, 0, 1, 0])  # tracklets of a second, at 0, 1, 2
    result = result_of(corpus, [0, 1, 2, 1, 2, 0], [1, 0])
    result.state_scores[:] = [[0.9, 0], [0.2, 0], [0, 0.1], [0.1, 0], [0, 0.1], [0, 0.9]]
    found = second_scores(result)
    # The chunks of a clip end at 2 s: its third tracklet counts to its last second.
    for clip, pair, action in (("clip0", (0, 1), 1), ("clip1", (0, 1), 0)):
        scores = found[clip]
        assert len(scores.action) == 2
        assert best_pair(scores.first_state, scores.second_state) == pair
        assert int(np.argmax(scores.action)) == action
    assert (found["clip1"].first_state > 1).tolist() == [True, False]
    assert (found["clip1"].second_state > 1).tolist() == [False, True]
    truth = [video(1, 3, category="x", name="clip1")]
    judged = evaluate_seconds(truth, {("x", clip): scores for clip, scores in found.items()})
    assert judged.states == 1


@pytest.mark.reference
def test_known_answers_on_changeit(shared):
    truth = read_changeit(shared / "data" / "changeit")
    assert len(truth) == 667
    assert len({seconds.category for seconds in truth}) == 44
    assert chance(truth).action == pytest.approx(0.406, abs=5e-4)
    assert chance(truth).states == pytest.approx(0.145, abs=5e-4)
    assert ceiling(truth).action == pytest.approx(0.965, abs=5e-4)
    assert ceiling(truth).states == pytest.approx(0.893, abs=5e-4)

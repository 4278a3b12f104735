import json
from dataclasses import replace

import numpy as np
import pytest

from objectstates import Corpus, evaluate, read_authors
from objectstates.data.actions import Actions
from objectstates.data.result import Result, SkippedClip
from objectstates.evaluation import ClipScore, Evaluation, compare, method_row
from tests.results import with_action


def corpus_of(tracklet_label, chunk_label):
    """Two clips of three tracklets and two chunks, labelled as given."""
    return Corpus.from_arrays(
        tracklets_per_clip=[3, 3],
        tracklet_start=[0, 1, 2] * 2,
        tracklet_end=[1, 2, 3] * 2,
        tracklet_features=np.ones((6, 1)),
        tracklet_label=tracklet_label,
        chunks_per_clip=[2, 2],
        chunk_start=[0, 1] * 2,
        chunk_end=[1, 2] * 2,
        chunk_features=np.ones((4, 1)),
        chunk_label=chunk_label,
    )


def result_of(corpus, states, chunks, clips=None):
    """States of the tracklets and chunks of the actions, of the first clips."""
    part = corpus.select(range(clips or len(corpus))).without_features()
    return Result(
        corpus=part,
        actions=Actions.single(
            np.array(chunks),
            np.full(len(corpus), np.nan),
            np.full((len(corpus), 2), np.nan),
            np.zeros(len(part.chunks.start)),
        ),
        state=np.array(states, np.int8),
        state_scores=np.zeros((len(part.tracklets.start), 2)),
        classifiers={},
        settings={},
        summary={},
    )


def case(states, chunks, tracklet_label, chunk_label):
    corpus = corpus_of(tracklet_label, chunk_label)
    return evaluate(result_of(corpus, states, chunks), corpus)


def clip_score(clip, precision_1, precision_2, action):
    return ClipScore(clip, (precision_1, precision_2), (np.nan, np.nan), (action,), 2)


def test_precision_is_the_mean_over_clips_and_states():
    # Clip 0: state 1 half right (one is ambiguous), state 2 right. Clip 1: both wrong.
    scores = case([1, 1, 2, 1, 0, 2], [0, 1], [1, -2, 2, 0, 1, 1], [1, 0, 0, 0])
    assert [(r.precision_1, r.precision_2) for r in scores.rows] == [(0.5, 1.0), (0.0, 0.0)]
    assert scores.state_precision == pytest.approx((0.5 + 1 + 0 + 0) / 4)
    assert [r.action for r in scores.rows] == [1.0, 0.0]
    assert scores.action_precision == 0.5
    assert scores.labels_per_clip == 2.5
    # Recall: clip 0 found all; of clip 1's two true state-1 tracklets it found none.
    assert (scores.rows[0].recall_1, scores.rows[0].recall_2) == (1.0, 1.0)
    assert scores.rows[1].recall_1 == 0.0
    assert np.isnan(scores.rows[1].recall_2)


def test_unknown_truth_counts_nothing():
    scores = case([1, 0, 2, 1, 0, 2], [0, 0], [-1] * 6, [-1] * 4)
    assert np.isnan(scores.state_precision)
    assert np.isnan(scores.action_precision)
    assert scores.labels_per_clip == 2


def test_every_clip_demands_an_answer():
    """A clip that was left out is wrong in what was sought, and not scored in what was not."""
    corpus = corpus_of([1, 0, 2, 1, 0, 2], [1, 0, 1, 0])
    found = result_of(corpus, [1, 0, 2], [0], clips=1)
    found = replace(found, skipped=(SkippedClip(corpus.clip_ids[1], "no tracklets"),))
    scores = evaluate(found, corpus)
    assert [row.clip for row in scores.rows] == list(corpus.clip_ids)
    assert scores.state_precision == 0.5
    assert scores.state_recall == 0.5
    assert scores.action_precision == 0.5
    assert scores.labels_per_clip == 1
    states_only = evaluate(with_action(found, chunk=np.array([-1])), corpus)
    assert states_only.state_precision == 0.5
    assert np.isnan(states_only.action_precision)


def test_a_state_without_a_tracklet_is_wrong():
    scores = case([1, 1, 0, 1, 0, 2], [0, 0], [1, 1, 2, 1, 0, 2], [1, 0, 1, 0])
    assert [(r.precision_1, r.precision_2) for r in scores.rows] == [(1, 0), (1, 1)]


def chain_case(states, chunks, tracklet_label=(1, 2, 3, 1, 2, 2), chunk_label=(1, 2, 1, 0)):
    """Two clips of a chain; by default the second lacks action 2 and state 3."""
    corpus = corpus_of(tracklet_label, chunk_label).for_changes(2)
    found = result_of(corpus, states, [0, 0])
    none = np.full((2, 2), np.nan)
    actions = Actions(np.array(chunks), none, np.stack([none] * 2, axis=2), np.zeros((4, 2)))
    return replace(found, actions=actions, state_scores=np.zeros((6, 3))), corpus


def test_every_state_and_action_of_a_chain_is_scored():
    scores = evaluate(*chain_case([1, 2, 3, 1, 1, 2], [[0, 1], [0, -1]]))
    assert scores.precisions.tolist() == [[1, 1, 1], [0.5, 1, 1]]
    assert scores.each_action.tolist() == [[1, 1], [1, 1]]
    assert scores.actions.tolist() == [1, 1]
    assert scores.state_precision == pytest.approx(5.5 / 6)
    assert np.isnan(scores.recalls[1, 2]), "there is nothing to recall"
    assert list(scores.rows[0].columns) == [
        "clip", "precision_1", "precision_2", "precision_3", "recall_1", "recall_2", "recall_3",
        "action_1", "action_2", "n_labels",
    ]  # fmt: skip
    assert ClipScore.from_columns(scores.rows[0].columns) == scores.rows[0]


def test_a_step_that_is_truly_absent_is_right_only_if_it_was_not_found():
    found = evaluate(*chain_case([1, 2, 3, 1, 2, 3], [[0, 1], [0, 1]]))
    assert found.precisions[1].tolist() == [1, 1, 0]
    assert found.each_action[1].tolist() == [1, 0]
    assert found.actions.tolist() == [1, 0.5]
    missed = evaluate(*chain_case([1, 2, 0, 1, 2, 2], [[0, -1], [0, -1]]))
    assert missed.precisions[0].tolist() == [1, 1, 0]
    assert missed.each_action[0].tolist() == [1, 0]


def test_a_clip_of_a_chain_without_an_answer_is_wrong_even_where_it_lacks_a_step():
    found, corpus = chain_case([1, 2, 3, 1, 2, 2], [[0, 1], [0, -1]])
    part = found.select(np.array([0]))
    part = replace(part, skipped=(SkippedClip(corpus.clip_ids[1], "no tracklets"),))
    scores = evaluate(part, corpus)
    assert scores.precisions[1].tolist() == [0, 0, 0]
    assert scores.each_action[1].tolist() == [0, 0]


def test_the_columns_of_one_change_stay():
    scores = case([1, 0, 2, 1, 0, 2], [0, 0], [1, 0, 2, 1, 0, 2], [1, 0, 1, 0])
    names = ["clip", "precision_1", "precision_2", "recall_1", "recall_2", "action", "n_labels"]
    assert list(scores.rows[0].columns) == names


def test_a_line_of_a_table_averages_parts_not_clips():
    """One part of two clips and one of one clip: each counts the same."""
    first = Evaluation((clip_score("a", 1, 1, 1), clip_score("b", 0, 1, 0)))
    second = Evaluation((clip_score("c", 0, 0, 0),))
    row = method_row("joint", [first, second])
    assert row.states == pytest.approx((0.75 + 0) / 2)
    assert row.action == pytest.approx((0.5 + 0) / 2)
    assert row.states_low <= row.states <= row.states_high
    assert (row.states_low, row.states_high) == (0.25, 0.5)  # clips b, b and a, a drawn
    assert row.labels_per_clip == 2


def test_methods_are_compared_on_the_clips_of_both():
    better = Evaluation(tuple(clip_score(f"c{n}", 1, 1, 1) for n in range(12)))
    worse = Evaluation(tuple(clip_score(f"c{n}", n % 2, 1, 1) for n in reversed(range(2, 14))))
    found = compare([better], [worse])
    assert found["states"].n_clips == 10
    assert found["states"].difference == pytest.approx(0.25)
    assert 0 < found["states"].low < 0.25 < found["states"].high
    assert found["states"].p < 0.01
    assert found["action"].difference == 0
    assert found["action"].p == 1
    other_way = compare([worse], [better])["states"]
    assert other_way.difference == pytest.approx(-0.25)
    # A second part in which both are alike halves the difference, however many clips it has.
    many = Evaluation(tuple(clip_score(f"d{n}", 1, 1, 1) for n in range(50)))
    halved = compare([better, many], [worse, many])["states"]
    assert halved.difference == pytest.approx(0.125)
    assert halved.n_clips == 60


@pytest.mark.reference
def test_the_authors_answers_score_what_they_say(shared):
    """Their labels, judged here, have the precision that their own code printed."""
    corpus = read_authors(shared / "reference" / "features_S.mat")
    stored = json.loads((shared / "reference" / "answers_S.json").read_text())
    arrays = np.load(shared / "reference" / "answers_S.npz", allow_pickle=False)
    state = (arrays["Y_jcr"] > 0.5) @ [1, 2]
    chosen = np.flatnonzero(arrays["Z_jcr"].ravel() > 0.5) - corpus.chunks.offsets[:-1]
    scores = evaluate(result_of(corpus, state, chosen), corpus)
    assert scores.state_precision == pytest.approx(stored["precision_state"])
    assert scores.action_precision == pytest.approx(stored["precision_action"])

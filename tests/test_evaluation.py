import numpy as np
import pytest

from objectstates import Corpus, evaluate
from objectstates.result import Result


def case(states, chunks, tracklet_label, chunk_label):
    """Two clips of three tracklets and two chunks, labelled as given."""
    corpus = Corpus.from_arrays(
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
    result = Result(
        corpus=corpus.without_features(),
        action_chunk=np.array(chunks),
        action_scores=np.zeros(4),
        state=np.array(states, np.int8),
        state_scores=np.zeros((6, 2)),
        classifiers={},
        settings={},
        summary={},
    )
    return evaluate(result, corpus)


def test_precision_is_the_mean_over_clips_and_states():
    # Clip 0: state 1 half right (one is ambiguous), state 2 right. Clip 1: both wrong.
    scores = case([1, 1, 2, 1, 0, 2], [0, 1], [1, 3, 2, 0, 1, 1], [1, 0, 0, 0])
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

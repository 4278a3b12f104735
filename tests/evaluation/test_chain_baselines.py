import numpy as np
import pytest

from objectstates import ChangeProfile, Corpus, JointDiscovery, evaluate
from objectstates.data.synthetic import synthetic_corpus
from objectstates.evaluation.chain_baselines import (
    best_bound,
    cut_clips,
    equal_parts,
    independent_fits,
    ordered_chance,
    ordered_kmeans,
    true_labels,
)


def small(features=None, changes=2):
    """One clip of ten tracklets and ten chunks of a second."""
    seconds = np.arange(10)
    return Corpus.from_arrays(
        tracklets_per_clip=[10],
        tracklet_start=seconds,
        tracklet_end=seconds + 1,
        tracklet_features=np.ones((10, 1)) if features is None else features,
        chunks_per_clip=[10],
        chunk_start=seconds,
        chunk_end=seconds + 1,
        chunk_features=np.ones((10, 1)),
        changes=[ChangeProfile(0.0, 0.5, np.arange(20, dtype=np.float32), np.zeros((1, 1), "u1"))],
    ).for_changes(changes)


def test_equal_parts_divide_the_clip():
    """Of ten seconds, two for each of three states and two actions."""
    found = equal_parts(small())
    assert found.state.tolist() == [1, 1, 0, 0, 2, 2, 0, 0, 3, 3]
    np.testing.assert_allclose(found.actions.span[0], [[1.5, 3.5], [5.5, 7.5]])
    assert found.actions.chunk.tolist() == [[2, 6]]


def test_the_truth_is_right_also_where_a_step_is_left_out():
    corpus = synthetic_corpus(n_clips=8, changes=3, leave_out=0.5)
    found = true_labels(corpus)
    scores = evaluate(found, corpus)
    assert scores.state_precision == scores.action_precision == 1
    assert ((found.actions.chunk[:, 2] < 0).sum(), (found.actions.chunk[:, :2] < 0).sum()) == (4, 0)


def test_chance_is_in_order_and_differs_between_seeds():
    corpus = synthetic_corpus(n_clips=10, changes=3)
    found = [ordered_chance(corpus, seed=seed) for seed in (0, 0, 1)]
    assert (np.diff(found[0].actions.chunk, axis=1) > 0).all()
    for n in range(len(corpus)):
        state = found[0].state[list(corpus.tracklet_rows(n))]
        assert state[state > 0].tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(found[0].state, found[1].state)
    assert (found[0].state != found[2].state).any()


def test_kmeans_numbers_clusters_by_time():
    looks = np.repeat([[0.0, 5], [3, 0], [-5, -5]], [3, 4, 3], axis=0)
    found = ordered_kmeans(small(looks))
    assert found.state.tolist() == [1, 1, 1, 2, 2, 2, 2, 3, 3, 3]
    # The bounds are at 3 and 7 s, between two chunks.
    assert found.actions.chunk.tolist() in ([[2, 6]], [[3, 7]])


def test_kmeans_of_looks_that_do_not_differ_finds_fewer_states():
    found = ordered_kmeans(small(np.repeat([[0.0], [1]], 5, axis=0)))
    assert set(found.state) == {1, 2}
    assert found.actions.chunk[0, 1] == -1


@pytest.mark.parametrize(
    ("later", "bound"),
    [([0, 0, 1, 1], 2.5), ([0, 1, 0, 1], 1.5), ([0, 1, 1, 1], 1.5), ([1, 0, 0, 1], 3.5)],
)
def test_the_best_bound_has_the_fewest_on_the_wrong_side(later, bound):
    times = np.array([1.0, 2, 3, 4])
    order = np.array([2, 0, 3, 1])  # times need not be sorted
    assert best_bound(times[order], np.array(later, bool)[order]) == bound


def test_a_part_of_a_clip_has_its_rows_and_its_changes():
    part, clips, chunks, tracklets = cut_clips(small(), np.array([2.2]), np.array([6.0]))
    assert part is not None
    assert clips == [0]
    assert chunks.tolist() == tracklets.tolist() == [2, 3, 4, 5]
    assert part.chunks.start.tolist() == [2, 3, 4, 5]
    change = part.changes[0]
    assert change is not None
    assert (change.start, change.curve.tolist()) == (2.0, [4, 5, 6, 7, 8, 9, 10, 11])
    nothing, clips, *_ = cut_clips(small(), np.array([11.0]), np.array([12.0]))
    assert nothing is None
    assert clips == []


def test_independent_fits_find_one_change_after_the_other():
    """Both actions and the outer states are found where the longer part holds the other change."""
    corpus = synthetic_corpus(n_clips=12, changes=2, noise=0.6, seed=1)
    scores = evaluate(independent_fits(corpus), corpus)
    assert scores.each_action.mean() > 0.9
    assert scores.precisions.mean() > 0.8
    assert (np.diff(independent_fits(corpus).actions.chunk, axis=1) > 0).all()


def test_independent_fits_of_one_change_are_the_discovery():
    corpus = synthetic_corpus(n_clips=6)
    found = independent_fits(corpus, JointDiscovery(seed=2))
    expected = JointDiscovery(seed=2, verdict=False).fit(corpus).result_
    np.testing.assert_array_equal(found.state, expected.state)
    np.testing.assert_array_equal(found.actions.chunk, expected.actions.chunk)


def test_what_cannot_be_divided_further_is_missing():
    """Two tracklets allow one change, and nothing is left for the second."""
    corpus = synthetic_corpus(n_clips=3, tracklets_per_clip=2, chunks_per_clip=20)
    found = independent_fits(corpus.for_changes(2))
    assert (found.actions.chunk >= 0).sum(axis=1).max() == 1

import itertools

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from objectstates.solver.cost import factorise
from objectstates.solver.held_out import (
    action_extent,
    common_scale,
    held_out_scores,
    states_around,
)
from objectstates.solver.oracle import ordered_states
from objectstates.solver.problem import make_side


@pytest.mark.parametrize("size", [5, 60], ids=["few features", "few samples"])
def test_scores_are_those_of_a_classifier_that_never_saw_the_clip(size):
    rng = np.random.default_rng(0)
    offsets = np.array([0, 7, 12, 20, 31])
    features = rng.standard_normal((31, size))
    labels = np.eye(3)[rng.integers(0, 3, 31)][:, 1:]
    ridge = 1e-2
    times = np.arange(31.0)
    constraints = ordered_states(times, times + 1, offsets, linear=np.zeros((31, 2)))
    scores, residual = held_out_scores(make_side(factorise(features, ridge), constraints), labels)
    whole = Ridge(31 * ridge).fit(features, labels)
    np.testing.assert_allclose(residual, labels - whole.predict(features), atol=1e-9)
    for lo, hi in itertools.pairwise(offsets):
        others = np.r_[0:lo, hi:31]
        apart = Ridge(31 * ridge).fit(features[others], labels[others])  # the same |W|^2 term
        np.testing.assert_allclose(scores[lo:hi], apart.predict(features[lo:hi]), atol=1e-8)


def test_scale_is_the_mean_of_the_largest():
    scores = np.array([[0.1, -1.0], [0.3, -2.0], [0.5, -3.0]])
    offsets = np.array([0, 2, 2, 3])  # the middle clip has no rows
    assert common_scale(scores, offsets) == pytest.approx([0.4, 1.0])


def test_extent_is_the_run_that_scores_like_the_action():
    scores = np.array([0.9, 0.1, 0.5, 1.0, 0.4, 0.39, 1.0, 0.7, 0.2])
    extent = action_extent(scores, np.array([3, 6]), np.array([0, 6, 9]))
    assert extent.tolist() == [[2, 5], [6, 8]]  # neither beyond a gap nor into the next clip


def test_states_lie_on_their_sides_of_the_action():
    start = np.arange(6.0)
    constraints = ordered_states(start, start + 1, np.array([0, 6]), linear=np.zeros((6, 2)))
    scores = np.full((6, 2), 0.9)  # all look like both
    scores[0] = 0.2
    labels = states_around(
        constraints, scores, start, start + 1, np.array([3.2]), np.array([[2.6, 3.6]])
    )
    # 0 looks like nothing; 2 lies in the action by 0.4 of it, 3 by 0.6.
    assert labels.tolist() == [0, 1, 0, 0, 2, 2]


def test_states_lie_between_their_actions_where_a_clip_has_them():
    """The second clip lacks its second action, and so the state after it."""
    start = np.tile(np.arange(9.0), 2)
    constraints = ordered_states(
        start, start + 1, np.array([0, 9, 18]), linear=np.zeros((18, 3)),
        absent=np.array([np.inf, np.inf, 0.1]),
    )  # fmt: skip
    time = np.array([[2.5, 6.5], [4.5, np.nan]])
    span = np.stack([time - 0.5, time + 0.5], axis=2)
    scores = np.full((18, 3), 0.9)  # all look like all
    labels = states_around(constraints, scores, start, start + 1, time, span)
    assert labels[:9].tolist() == [1, 1, 0, 2, 2, 2, 0, 3, 3]
    assert labels[9:].tolist() == [1, 1, 1, 1, 0, 2, 2, 2, 2]


def test_a_clip_without_tracklets_on_one_side_is_still_labelled():
    start = np.array([5.0, 6.0])
    constraints = ordered_states(start, start + 1, np.array([0, 2]), linear=np.zeros((2, 2)))
    labels = states_around(
        constraints, np.full((2, 2), 0.5), start, start + 1, np.array([1.0]), np.array([[0.5, 1.5]])
    )
    assert labels.tolist() == [1, 2]

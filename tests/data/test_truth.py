import numpy as np
import pytest

from objectstates.base.errors import TruthError
from objectstates.data.truth import ClipTruth


def chain_of(*actions):
    return ClipTruth("a", actions, np.empty(0), np.empty((0, 4)))


def test_the_actions_of_a_chain_are_in_order():
    with pytest.raises(TruthError, match="from 2 to 3 s begins before"):
        chain_of((5, 7), (2, 3))
    with pytest.raises(TruthError, match="no action"):
        chain_of(None, None)
    with pytest.raises(TruthError, match="use `actions`"):
        _ = chain_of((2, 3), (5, 7)).action


def test_a_moment_is_of_every_action_or_of_none():
    with pytest.raises(TruthError, match="one entry per action"):
        ClipTruth("a", ((1.0, 2.0), (3.0, 4.0)), np.empty(0), np.empty((0, 4)), (1.5,))


def test_a_box_needs_a_time():
    with pytest.raises(TruthError, match="finite time"):
        ClipTruth("a", ((1.0, 2.0),), np.array([np.nan]), np.zeros((1, 4)))


def test_where_the_fastest_change_is_not_known_it_is_in_the_middle():
    actions = ((1.0, 2.0), None, (4.0, 6.0))
    truth = ClipTruth("a", actions, np.empty(0), np.empty((0, 4)), (1.2, None, None))
    assert truth.change_times == pytest.approx([1.2, np.nan, 5.0], nan_ok=True)

import numpy as np

from objectstates import JointDiscovery
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.solver_runs import restart_seed, typical


def labels(action, state):
    return np.array(action, np.int8), np.array(state, np.int8)


def test_the_labels_that_others_share_are_typical():
    odd = labels([0, 1, 0], [0, 2, 1, 2])
    usual = labels([1, 0, 0], [1, 2, 0, 0])
    near = labels([1, 0, 0], [1, 0, 2, 0])
    assert typical([odd, usual, near, usual]) == 1
    assert typical([odd, usual]) == 0  # the first of equal ones
    assert typical([odd]) == 0


def test_one_side_may_be_absent():
    assert typical([labels([], [1, 2, 0]), labels([], [1, 0, 2]), labels([], [1, 0, 2])]) == 1


def test_restarts_of_two_seeds_have_no_start_in_common():
    starts = [restart_seed(seed, restart) for seed in range(20) for restart in range(8)]
    assert len(set(starts)) == len(starts)


def test_more_restarts_agree_better_between_seeds():
    corpus = synthetic_corpus(n_clips=10, noise=1.5, seed=3)

    def spread(restarts):
        found = [
            JointDiscovery(seed=seed, restarts=restarts).fit(corpus).labels_ for seed in range(4)
        ]
        return np.mean([(a != b).mean() for a in found for b in found])

    assert spread(8) <= spread(1)

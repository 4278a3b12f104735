"""Comparisons with the answers of the authors' code (run where ``../shared`` is present)."""

import json

import numpy as np
import pytest

from objectstates import JointDiscovery, evaluate, read_authors
from tests.discovery.checks import assert_constraints_hold, regression_objective

pytestmark = pytest.mark.reference


@pytest.fixture(scope="module")
def answers(shared):
    return json.loads((shared / "reference" / "answers_S.json").read_text())


@pytest.fixture(scope="module")
def corpus(shared):
    return read_authors(shared / "reference" / "features_S.mat")


@pytest.mark.parametrize("seed", range(5))
def test_at_least_as_good_as_the_authors_code(corpus, answers, seed):
    model = JointDiscovery.paper(nu=0.5, seed=seed).fit(corpus)
    assert model.relaxed_objective_ <= answers["objective_relaxed_final"]
    assert model.gap_ <= answers["duality_gap_final"]
    assert model.objective_ == pytest.approx(regression_objective(corpus, model), rel=1e-6)
    assert model.objective_ <= 1.03 * answers["objective_rounded_best"]
    assert_constraints_hold(corpus, model.labels_, model.action_chunk_)


def test_their_labels_have_their_objective(shared, corpus, answers):
    """Their objective, recomputed from their labels, tells that nu = 0.5 means what they did."""
    arrays = np.load(shared / "reference" / "answers_S.npz", allow_pickle=False)
    model = JointDiscovery.paper(nu=0.5)
    model.labels_ = np.where(
        arrays["Y_jcr"][:, 0] > 0.5, 1, np.where(arrays["Y_jcr"][:, 1] > 0.5, 2, 0)
    )
    chosen = np.flatnonzero(arrays["Z_jcr"].ravel() > 0.5)
    model.action_chunk_ = chosen - corpus.chunks.offsets[:-1]
    found = regression_objective(corpus, model)
    assert found == pytest.approx(answers["objective_rounded_best"], rel=1e-5)


def test_rebuilt_intervals_order_tracklets_as_the_true_ones(shared, corpus):
    truth = np.load(shared / "reference" / "problem_S.npz", allow_pickle=False)
    start, end = truth["track_start"], truth["track_end"]  # of the first and the last frame
    for n in range(len(corpus)):
        rows = list(corpus.tracklet_rows(n))
        expected = end[rows][:, None] < start[rows][None] - 1e-6
        rebuilt = corpus.tracklets.end[rows][:, None] <= corpus.tracklets.start[rows][None]
        np.testing.assert_array_equal(rebuilt, expected)


def test_precision_is_computed_as_theirs(shared, corpus, answers):
    truth = np.load(shared / "reference" / "problem_S.npz", allow_pickle=False)
    model = JointDiscovery.paper(nu=0.5).fit(corpus)
    scores = evaluate(model.result_, corpus)
    per_clip = [
        np.mean(truth["label"][rows][model.labels_[rows] == k] == k)
        for rows in (list(corpus.tracklet_rows(n)) for n in range(len(corpus)))
        for k in (1, 2)
    ]
    assert scores.state_precision == pytest.approx(np.mean(per_clip))
    assert scores.state_precision >= answers["precision_state"] - 0.1
    assert scores.action_precision >= answers["precision_action"] - 0.1


@pytest.mark.parametrize("name", ["Eties", "Eoverlap"])
def test_edge_cases_that_stop_their_code(shared, name):
    corpus = read_authors(shared / "reference" / f"features_{name}.mat")
    if name == "Eoverlap":
        with pytest.warns(UserWarning, match="1 of 5 clips"):
            model = JointDiscovery.paper(nu=0.5).fit(corpus)
        assert [skipped.clip for skipped in model.skipped_] == ["clip2"]
    else:
        model = JointDiscovery.paper(nu=0.5).fit(corpus)
        assert_constraints_hold(corpus, model.labels_, model.action_chunk_)
    assert model.converged_

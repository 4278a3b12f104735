"""Fits to parts of the clips that share one factorisation."""

from dataclasses import replace

import numpy as np
import pytest

from objectstates.data.clips import ChangeProfile
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery import fit_steps, parts
from objectstates.discovery.estimator import JointDiscovery
from objectstates.discovery.fit_steps import (
    discover_parts,
    formulation,
    pose_clips,
    with_verdict,
)
from objectstates.discovery.in_memory import KeptFactors, Weights
from objectstates.discovery.parts import costs_of, removed_columns
from objectstates.discovery.replication import without_change
from objectstates.solver.frank_wolfe import WHOLE

WEIGHTS = Weights(3.0, 1e-4, 1e-2)
PARTS = [np.arange(0, 12), np.delete(np.arange(12), np.s_[1::4])]


@pytest.fixture(scope="module", params=[400, 24], ids=["wide", "narrow"])
def corpus(request):
    return synthetic_corpus(n_clips=12, state_size=request.param, action_size=request.param, seed=3)


def with_profiles(corpus):
    """Two more columns of the chunk features, said to be those of change profiles."""
    more = np.random.default_rng(0).random((len(corpus.chunks.start), 2)).astype(np.float32)
    profile = ChangeProfile(0.0, 0.1, np.ones(200, np.float32), np.full((2, 2), 255, np.uint8))
    wide = corpus.with_features(chunks=np.hstack([corpus.chunks.features, more]))
    info = {"ingest": {"change_columns": True}}
    return replace(wide, info=info, changes=(profile,) * len(corpus))


def test_a_part_of_all_clips_is_fitted_as_they_are(corpus):
    """Fewer passes find the same clear answers."""
    model = JointDiscovery(verdict=False)
    (part, _), whole = discover_parts(model, corpus, PARTS), model.fit(corpus).result_
    assert (np.abs(part.action_time - whole.action_time) < 1).mean() > 0.9
    assert (part.state == whole.state).mean() > 0.8


def test_a_part_is_fitted_as_if_it_were_alone(corpus, monkeypatch):
    """With as many passes, and the ridges of all clips, the answers are the same."""
    for name, value in (("PART_SCHEDULE", WHOLE), ("PART_TOLERANCE", 1)):
        monkeypatch.setattr(fit_steps, name, value)
    for name in ("SWEEPS", "ROUND_EVERY"):
        monkeypatch.setattr(parts, name, 1)
    model = JointDiscovery(verdict=False)
    _, part = discover_parts(model, corpus, PARTS)
    clips = corpus.select(PARTS[1])
    larger = len(corpus.chunks.start) / len(clips.chunks.start)  # as of the tracklets
    mu, lam = larger * model.mu, larger * model.lam
    alone = JointDiscovery(verdict=False, mu=mu, lam=lam).fit(clips).result_
    assert part.clips == alone.clips
    np.testing.assert_array_equal(part.action_time, alone.action_time)
    np.testing.assert_array_equal(part.state, alone.state)
    for side, classifier in part.classifiers.items():
        expected = alone.classifiers[side].weights
        np.testing.assert_allclose(classifier.weights, expected, atol=1e-6 * abs(expected).max())


@pytest.mark.parametrize("target", ["state", "action"])
def test_a_side_that_is_not_sought_has_no_classifier(corpus, target):
    results = list(discover_parts(JointDiscovery(target=target), corpus, PARTS))
    assert [set(result.classifiers) for result in results] == [{target}] * 2


def test_reduced_features_are_reduced_for_each_part(corpus):
    results = list(discover_parts(JointDiscovery(reduce=10), corpus, PARTS))
    assert [len(result.clips) for result in results] == [12, 9]


def test_factors_of_the_fit_are_used_without_the_columns_of_the_profile(corpus):
    made = with_profiles(corpus)
    model, kept = JointDiscovery(verdict=False), KeptFactors(most=1)
    bare = without_change(made)
    removed = removed_columns(made, bare)
    assert removed is not None
    assert removed.shape == (len(made.chunks.start), 2)
    pose = pose_clips(model, made, kept=kept)
    sizes = len(made.chunks.start), len(made.tracklets.start)
    with pose(*formulation(model).constraints(made, *sizes), WEIGHTS) as posed:
        posed.problem.start(0)
    shared = costs_of(bare, "joint", WEIGHTS, kept, removed)
    fresh = costs_of(bare, "joint", WEIGHTS)
    for side in ("action", "state"):
        labels = np.random.default_rng(1).random((fresh[side].n_samples, 2))
        np.testing.assert_allclose(
            shared[side].residual(labels), fresh[side].residual(labels), atol=1e-9
        )


def test_the_verdict_does_not_depend_on_whether_factors_are_shared(corpus):
    model = JointDiscovery(seed=1)
    found = model.fit(corpus).result_
    again = with_verdict(model, corpus, found, {})
    assert found.confidences is not None
    assert again.confidences is not None
    np.testing.assert_allclose(found.confidences, again.confidences, atol=1e-6)
    assert removed_columns(corpus, corpus) is None

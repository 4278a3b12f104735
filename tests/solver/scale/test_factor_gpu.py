"""Fits on a device equal those on the CPU, or raise an error that names the parameter."""

import sys

import numpy as np
import pytest

from objectstates import JointDiscovery
from objectstates.base.errors import MissingExtraError, SettingError
from objectstates.data.synthetic import synthetic_corpus
from objectstates.solver import cost


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"objectstates\[torch\]"):
        JointDiscovery(device="cuda").fit(synthetic_corpus(n_clips=3))


def test_a_device_that_is_not_there_is_named():
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    corpus = synthetic_corpus(n_clips=3)
    if not torch.cuda.is_available():
        with pytest.raises(SettingError, match="`device`: 'cuda' is not available: use 'cpu'"):
            JointDiscovery(device="cuda").fit(corpus)
    for name in ("gpu", "cuda:7", "meta"):
        with pytest.raises(SettingError, match=name):
            JointDiscovery(device=name).fit(corpus)


def test_a_device_with_too_little_memory_is_named(device, tmp_path):
    import torch

    corpus = synthetic_corpus(n_clips=3)
    corpus.save(tmp_path / "corpus")

    def too_much(progress):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(
        SettingError, match=r"`device`: .* too little memory for this corpus: use 'cpu'"
    ):
        JointDiscovery(device=device).fit(corpus, too_much)
    with pytest.raises(
        SettingError, match=r"`device`: .* too little memory for this corpus: use 'cpu'"
    ):
        JointDiscovery(device=device).fit_folder(tmp_path / "corpus", too_much)


def test_an_unknown_device_is_named_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SettingError, match="'gpu': a solver runs on 'cpu' or 'cuda'"):
        JointDiscovery(device="gpu").fit(synthetic_corpus(n_clips=3))


def test_a_fit_on_a_cluster_has_no_gpu(tmp_path):
    with pytest.raises(SettingError, match="`device`"):
        JointDiscovery(device="cuda").fit_folder(tmp_path, ray_address="auto")


@pytest.fixture(params=["cpu", "cuda"])
def device(request, monkeypatch):
    """Torch on the CPU in place of a GPU; where there is one, that too."""
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
    there = torch.device(request.param)
    for module in ("objectstates.solver.scale.factor_gpu", "objectstates.discovery.out_of_core"):
        monkeypatch.setattr(f"{module}.solver_device", lambda _: there)
    return "cuda"


@pytest.mark.parametrize("shape", [(30, 80), (80, 30), (0, 5)])
def test_factors_and_classifiers_are_those_of_the_host(device, shape):
    from objectstates.solver.scale.factor_gpu import factored_on

    rng = np.random.default_rng(0)
    features = (5 + rng.standard_normal(shape)).astype(np.float32)
    factored, expected = factored_on(device, features, 1e-4), cost.factorise(features, 1e-4)
    found = factored.cost
    assert found.dense == expected.dense
    assert found.rows == pytest.approx(expected.rows, abs=1e-9)
    if len(features):
        labels = rng.random((len(features), 2))
        residual = expected.residual(labels)
        for one, other in zip(
            factored.classifier(labels, residual),
            cost.linear_classifier(features, labels, residual, 1e-4),
            strict=True,
        ):
            assert one == pytest.approx(other, rel=1e-9, abs=1e-9)


def test_features_too_large_for_the_ridge_are_named(device):
    from objectstates.solver.scale.factor_gpu import factored_on

    features = np.full((4, 9), 1e30, np.float64)
    features[0] = -1e30
    with pytest.raises(SettingError, match="scale them to unit length"):
        factored_on(device, features, 1e-30)


def test_a_fit_in_memory_is_that_of_the_host(device):
    corpus = synthetic_corpus(n_clips=8, seed=1)
    expected = JointDiscovery().fit(corpus)
    found = JointDiscovery(device=device).fit(corpus)
    assert found.relaxed_objective_ == pytest.approx(expected.relaxed_objective_, rel=1e-6)
    assert (found.labels_ == expected.labels_).all()
    assert (found.action_chunk_ == expected.action_chunk_).all()


@pytest.mark.parametrize("settings", [{}, {"target": "state"}, {"labelling": "paper"}])
def test_a_corpus_on_disk_is_solved_on_the_device(device, tmp_path, settings):
    """The same problem with a valid certificate; these clips are easy, so labels agree."""
    corpus = synthetic_corpus(
        n_clips=30, tracklets_per_clip=12, state_size=16, action_size=12, noise=0.3, seed=2
    )
    corpus.save(tmp_path / "corpus")
    model = JointDiscovery(device=device, tol=0.02, **settings).fit_folder(tmp_path / "corpus")
    expected = JointDiscovery(tol=0.02, **settings).fit(corpus)
    assert model.converged_
    assert model.gap_ <= 0.02 * model.relaxed_objective_
    assert model.relaxed_objective_ < 1.1 * expected.relaxed_objective_
    assert (model.labels_ == expected.labels_).mean() > 0.95
    again = model.predict(corpus)
    assert (again.state == model.labels_).mean() > 0.9

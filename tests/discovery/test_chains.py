"""Chains of changes: fits, predictions, corrections."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from objectstates import JointDiscovery, Result
from objectstates.base.errors import CorrectionError, ResultError, SettingError
from objectstates.data.corrections import Correction
from objectstates.data.label_names import LabelNames
from objectstates.data.synthetic import synthetic_corpus


def right_actions(result, corpus):
    """(N, A) whether each action's chunk truly shows it; an action that is absent rightly too."""
    right = np.empty(result.actions.chunk.shape, bool)
    for n in range(len(corpus)):
        truth = corpus.chunks.label[list(corpus.chunk_rows(n))]
        for k, chunk in enumerate(result.actions.chunk[n]):
            right[n, k] = (k + 1 not in truth) if chunk < 0 else truth[chunk] == k + 1
    return right


@pytest.mark.parametrize(
    "chain", [{"changes": 2}, {"changes": 2, "pattern": "ABA"}, {"changes": 3}]
)
@pytest.mark.parametrize("labelling", ["held_out", "paper"])
def test_a_chain_is_found_and_predicted(chain, labelling):
    corpus = synthetic_corpus(10, noise=0.5, **chain)
    model = JointDiscovery(labelling=labelling, verdict=False, **chain).fit(corpus)
    result, n_actions = model.result_, chain["changes"]
    assert right_actions(result, corpus).mean() > 0.9
    labelled = result.state > 0
    truth = corpus.tracklets.label
    assert (result.state[labelled] == truth[labelled]).mean() > 0.8
    assert set(np.unique(result.state)) == set(range(n_actions + 2))
    assert (np.diff(result.actions.time, axis=1) > 0).all(), "in order"
    assert model.action_time_.shape == (10, n_actions)
    assert model.gap_ <= 0.01 * model.relaxed_objective_
    unseen = synthetic_corpus(10, noise=0.5, seed=4, **chain)
    assert right_actions(model.predict(unseen), unseen).mean() > 0.9
    with pytest.raises(ResultError, match="use `actions`"):
        _ = result.action_time


def test_states_of_one_look_share_a_classifier():
    chain: dict[str, Any] = {"changes": 2, "pattern": "ABA"}
    corpus = synthetic_corpus(8, noise=0.5, **chain)
    found = JointDiscovery(verdict=False, **chain).fit(corpus).result_.classifiers["state"]
    np.testing.assert_array_equal(found.weights[:, 0], found.weights[:, 2])
    assert not np.allclose(found.weights[:, 0], found.weights[:, 1])


def test_a_clip_may_lack_a_step():
    corpus = synthetic_corpus(12, noise=0.5, changes=2, leave_out=0.25)
    model = JointDiscovery(changes=2, optional=(2,), restarts=1, verdict=False).fit(corpus)
    result = model.result_
    lacking = result.actions.chunk[:, 1] < 0
    truly = [2 not in corpus.chunks.label[list(corpus.chunk_rows(n))] for n in range(12)]
    assert lacking.tolist() == truly
    assert np.isnan(result.actions.time[lacking, 1]).all()
    assert not (result.state[lacking[result.tracklet_clip]] == 3).any()
    required = JointDiscovery(changes=2, verdict=False).fit(corpus).result_
    assert (required.actions.chunk >= 0).all()


def test_the_verdict_names_the_weakest_change():
    corpus = synthetic_corpus(8, noise=0.5, changes=2, tracklets_per_clip=12, chunks_per_clip=25)
    result = JointDiscovery(changes=2).fit(corpus).result_
    assert result.confidences is not None
    assert result.verdict is not None
    assert result.confidences.shape == (8, 5)
    assert result.verdict.why.startswith(("Change 1 of 2: ", "Change 2 of 2: "))
    assert result.progress is None
    assert result.change(1).action_time.tolist() == result.actions.time[:, 1].tolist()


@pytest.mark.parametrize("optional", [(), (2,)])
def test_a_chain_is_found_out_of_core(tmp_path, optional):
    left_out = 0.25 if optional else 0.0
    corpus = synthetic_corpus(12, noise=0.5, changes=2, leave_out=left_out)
    corpus.save(tmp_path / "corpus")
    model = JointDiscovery(changes=2, optional=optional, verdict=False)
    there = model.fit_folder(tmp_path / "corpus", shards=2).result_
    assert right_actions(there, corpus).mean() > 0.9
    assert there.n_states == Result.load(_saved(there, tmp_path)).n_states == 3


def _saved(result, folder):
    result.save(folder / "r")
    return folder / "r"


def test_corrections_of_a_chain_name_the_action():
    corpus = synthetic_corpus(6, noise=0.5, changes=2)
    model = JointDiscovery(changes=2, verdict=False)
    clip, span = corpus.clip_ids[0], (1.0, 1.8)
    told = Correction(clip, "action", *span, value="1")
    result = model.fit(corpus, corrections=[told]).result_
    assert span[0] <= result.actions.time[0, 0] <= span[1]
    names = LabelNames.of("a,b,c", "going,coming")
    seen = Correction(clip, "state", 12.0, 14.0, value="b")
    late = Correction(clip, "action", 15.0, 17.0, value="coming")
    result = model.fit(corpus, corrections=[seen, late], names=names).result_
    assert result.actions.time[0, 0] <= 12.0
    assert 15.0 <= result.actions.time[0, 1] <= 17.0
    for wrong, says in (
        ([Correction(clip, "action", 1.0, 2.0)], "there is no action ''"),
        ([replace(told, value="3")], "there is no action '3'"),
        ([replace(late, value="1"), replace(told, value="2")], "cannot have its action"),
    ):
        with pytest.raises(CorrectionError, match=says):
            model.fit(corpus, corrections=wrong)
    with pytest.raises(SettingError, match="those of 1 actions"):
        model.fit(corpus, names=LabelNames())

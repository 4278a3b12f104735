import re
from dataclasses import replace

import numpy as np
import pytest

from objectstates import Corpus, JointDiscovery, evaluate, write_report
from objectstates.app.inspection import describe_beside_baselines
from objectstates.base.errors import CorpusError, SettingError, TruthError
from objectstates.data.synthetic import synthetic_corpus
from objectstates.evaluation.baselines import (
    METHODS,
    BaselineRow,
    MethodSettings,
    compare_with_baselines,
    mean_of_runs,
)

SETTINGS = MethodSettings(JointDiscovery(max_passes=100), runs=3)


def run(name, corpus, settings=SETTINGS):
    return METHODS[name].run(corpus, settings)


@pytest.fixture(scope="module")
def corpus():
    return synthetic_corpus(n_clips=10, seed=0)


def small(tracklet_label, chunk_label, tracklet_features=None, chunk_features=None, **columns):
    """Two clips, each of three tracklets and four chunks of a second, one after another."""
    return Corpus.from_arrays(
        tracklets_per_clip=[3, 3],
        tracklet_start=columns.pop("tracklet_start", [0, 1, 2] * 2),
        tracklet_end=columns.pop("tracklet_end", [1, 2, 3] * 2),
        tracklet_features=np.eye(3)[[0, 1, 2] * 2]
        if tracklet_features is None
        else tracklet_features,
        tracklet_label=tracklet_label,
        chunks_per_clip=[4, 4],
        chunk_start=[0, 1, 2, 3] * 2,
        chunk_end=[1, 2, 3, 4] * 2,
        chunk_features=np.eye(4)[[0, 1, 2, 3] * 2] if chunk_features is None else chunk_features,
        chunk_label=chunk_label,
        **columns,
    )


def test_every_row_of_the_table_has_its_method():
    rows = [m.state_row for m in METHODS.values()] + [m.action_row for m in METHODS.values()]
    assert sorted(filter(None, rows)) == sorted(
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "ii", "iii", "iv", "v", "E1", "E2"]
    )
    assert all(name == method.name for name, method in METHODS.items())


# Dense trajectories need videos: tests/evaluation/test_trajectory_bags.py.
@pytest.mark.parametrize("name", [name for name in METHODS if not METHODS[name].on_request])
def test_scores_are_per_clip_and_of_what_was_sought(corpus, name):
    method, scores = METHODS[name], run(name, corpus)
    assert [row.clip for row in scores.rows] == list(corpus.clip_ids)
    finds_states = method.state_row is not None or name in ("joint_paper", "state_scores")
    finds_action = method.action_row is not None or name in (
        "middle",
        "joint_paper",
        "joint_scores",
    )
    assert np.isfinite(scores.precisions).all() == finds_states
    assert np.isfinite(scores.recalls).all() == finds_states
    assert np.isfinite(scores.actions).all() == finds_action
    if finds_states:
        assert scores.labels_per_clip >= 2
    again = run(name, corpus)
    np.testing.assert_array_equal(again.precisions, scores.precisions)
    np.testing.assert_array_equal(again.actions, scores.actions)


def test_chance_is_the_share_of_each_label(corpus):
    scores = run("chance", corpus)
    rng = np.random.default_rng(0)
    draws = []
    for n in range(len(corpus)):
        labels = corpus.tracklets.label[list(corpus.tracklet_rows(n))]
        draws.append([np.mean(rng.choice(labels, 4000) == k) for k in (1, 2)])
    np.testing.assert_allclose(scores.precisions, draws, atol=0.04)
    exact = run("chance", small([1, 0, 2, 1, 1, 3], [0, 1, 1, 0, 1, 0, 0, 0]))
    assert exact.precisions.tolist() == [[1 / 3, 1 / 3], [2 / 3, 0]]
    assert exact.actions.tolist() == [0.5, 0.25]


def test_constraints_alone_beat_chance(corpus):
    scores = run("constraints", corpus)
    assert scores.state_precision > run("chance", corpus).state_precision + 0.05
    assert scores.state_precision < 0.7
    assert 0 < scores.state_error < 0.2
    assert np.isnan(scores.action_precision)


def test_the_mean_of_runs_is_taken_clip_by_clip(corpus):
    runs = [run("at_least_one", corpus, MethodSettings(JointDiscovery(max_passes=60, seed=seed)))
            for seed in (0, 1)]  # fmt: skip
    mean = mean_of_runs(runs)
    np.testing.assert_allclose(mean.precisions, (runs[0].precisions + runs[1].precisions) / 2)
    totals = [scores.state_precision for scores in runs]
    assert mean.state_error == pytest.approx(abs(totals[0] - totals[1]) / 2)


def test_kmeans_assigns_clusters_to_states_by_the_truth():
    """Features tell the labels apart, in the wrong order: 2, 0, 1."""
    labels = [2, 0, 1, 2, 2, 1]
    features = np.eye(3)[[0, 1, 2, 0, 0, 2]] + 1e-3 * np.arange(18).reshape(6, 3)
    scores = run("kmeans", small(labels, [0, 1, 0, 0] * 2, tracklet_features=features))
    assert scores.state_precision == 1
    assert scores.state_recall == 1
    # Without state 2 in the second clip, whatever is said of it there is wrong.
    lacking = run("kmeans", small([2, 0, 1, 0, 0, 1], [0, 1, 0, 0] * 2, tracklet_features=features))
    assert lacking.rows[1].precision_2 == 0
    with pytest.raises(CorpusError, match="3 tracklets"):
        run("kmeans", synthetic_corpus(n_clips=1, tracklets_per_clip=2))


def test_exactly_one_tracklet_of_each_state_is_salient(corpus):
    scores = run("salient", corpus)
    assert {row.n_labels for row in scores.rows} == {2}


def test_the_joint_method_is_the_estimator(corpus):
    model = JointDiscovery(max_passes=100).fit(corpus)
    assert run("joint", corpus).rows == evaluate(model.result_, corpus).rows
    assert run("joint", corpus).state_precision > run("constraints", corpus).state_precision


def test_truth_as_feature_replaces_what_was_observed():
    corpus, rng = synthetic_corpus(n_clips=10, seed=1), np.random.default_rng(0)
    blind = corpus.with_features(tracklets=rng.standard_normal((len(corpus.tracklets.start), 20)))
    states = run("joint_gt_states", blind)
    assert states.rows == run("joint_gt_states", corpus).rows
    assert states.action_precision > run("chance", corpus).action_precision + 0.5
    deaf = corpus.with_features(chunks=rng.standard_normal((len(corpus.chunks.start), 20)))
    action = run("joint_gt_action", deaf)
    assert action.rows == run("joint_gt_action", corpus).rows
    assert action.state_precision > run("constraints", corpus).state_precision
    assert np.isnan(action.action_precision), "what was given is not scored"
    unlabelled = replace(
        corpus, chunks=replace(corpus.chunks, label=np.full_like(corpus.chunks.label, -1))
    )
    with pytest.raises(TruthError, match="true action of some clips"):
        run("joint_gt_action", unlabelled)


def test_detection_scores_are_needed_where_they_are_used(corpus):
    plain = replace(
        corpus, tracklets=replace(corpus.tracklets, score=np.ones_like(corpus.tracklets.score))
    )
    with pytest.raises(CorpusError, match="no detection scores"):
        run("joint_scores", plain)
    # Only tracklets of the object are sure: with a heavy weight no other is labelled.
    sure = np.where(np.isin(corpus.tracklets.label, (1, 2)), 1.0, 0.1)
    told = replace(corpus, tracklets=replace(corpus.tracklets, score=sure))
    heavy = MethodSettings(JointDiscovery(max_passes=100), detection_weight=100.0)
    assert run("joint_scores", told, heavy).state_precision > 0.95


def test_object_cues_keep_the_action_where_the_object_is():
    """The most common motion happens before the object is first seen."""
    rng = np.random.default_rng(0)
    features = np.tile(np.eye(4), (2, 1)) + 0.01 * rng.standard_normal((8, 4))
    features[[0, 4]] *= 10
    clips = small(
        [1, 1, 2] * 2,
        [0, 0, 1, 1] * 2,
        chunk_features=features,
        tracklet_start=[2.0, 2.5, 3.0] * 2,
        tracklet_end=[2.5, 3.0, 4.0] * 2,
    )
    assert run("action_salient", clips).action_precision == 0
    assert run("action_object_cues", clips).action_precision == 1


def test_object_cues_need_an_object():
    """A clip without tracklets, or whose tracklets are where no chunk is, keeps all chunks."""
    clips = list(synthetic_corpus(n_clips=3))
    clips[1] = replace(clips[1], tracklets=())
    scores = run("action_object_cues", Corpus.from_clips(clips))
    assert len(scores.rows) == 3
    assert not scores.skipped


def test_the_middle_is_the_nearest_allowed_chunk():
    scores = run("middle", small([1, 0, 2] * 2, [0, 1, 0, 0, 1, 0, 0, 1]))
    assert scores.actions.tolist() == [1, 0]  # of the chunks 1 and 2 the earlier
    forbidden = small([1, 0, 2] * 2, [0, 1, 0, 0, 1, 0, 0, 1], chunk_allowed=[1, 0, 0, 1] * 2)
    assert run("middle", forbidden).actions.tolist() == [0, 1]


def test_chance_and_fixed_positions_of_a_chain():
    """Two states of two and one of one tracklet in five; equal parts of ten chunks."""
    corpus = Corpus.from_arrays(
        tracklets_per_clip=[5], tracklet_start=range(5), tracklet_end=range(1, 6),
        tracklet_features=np.ones((5, 1)), tracklet_label=[1, 1, 2, 3, 3],
        chunks_per_clip=[10], chunk_start=range(10), chunk_end=range(1, 11),
        chunk_features=np.ones((10, 1)), chunk_label=[0, 0, 1, 1, 0, 0, 0, 0, 2, 0],
    ).for_changes(2)  # fmt: skip
    row = run("chance", corpus).rows[0]
    assert row.precisions == (0.4, 0.2, 0.4)
    assert row.actions == (0.2, 0.1)
    # The actions' parts are from 2 to 4 and from 6 to 8: chunks 2 and 6, the earlier of two.
    assert run("middle", corpus).rows[0].actions == (1, 0)


# A result beside the baselines


@pytest.mark.parametrize("seed", [0, 4])
def test_the_terminal_and_the_page_show_the_same_precision(seed, tmp_path):
    """Seed 4 has clips whose middle lies between two chunks."""
    corpus = synthetic_corpus(n_clips=12, seed=seed)
    result = JointDiscovery(max_passes=60).fit(corpus).result_
    page = write_report(result, tmp_path / "a.html").read_text(encoding="utf-8")
    bars = re.findall(r'bar-name">([^<]*)</span>.*?bar-value">([^<]*)</span>', page)
    shown = describe_beside_baselines(result, corpus)
    assert bars == [
        (name, f"{shown[name][side]:.2f}")
        for side in ("states", "action")
        for name in ("discovered", "chance", "middle of the clip")
        if side in shown[name]
    ]
    for name, method in (("chance", "chance"), ("middle of the clip", "middle")):
        assert shown[name]["action"] == run(method, corpus).action_precision
    assert shown["chance"]["states"] == run("chance", corpus).state_precision


def test_a_chain_stands_beside_equal_parts():
    corpus = synthetic_corpus(n_clips=8, changes=2, noise=0.6)
    result = JointDiscovery(changes=2, verdict=False).fit(corpus).result_
    rows = {row.method: row for row in compare_with_baselines(result, corpus)}
    assert list(rows) == ["chance", "equal parts", "discovered"]
    assert rows["discovered"].action == evaluate(result, corpus).action_precision
    assert rows["chance"].states == run("chance", corpus).state_precision


def test_only_what_was_sought_stands_beside_baselines(corpus):
    states = JointDiscovery(target="state", max_passes=60).fit(corpus).result_
    rows = compare_with_baselines(states, corpus)
    assert [row.method for row in rows] == ["chance", "middle of the clip", "discovered"]
    assert [row.action for row in rows] == [None] * 3
    assert rows[1] == BaselineRow("middle of the clip", None, None)
    unknown = replace(
        corpus,
        chunks=replace(corpus.chunks, label=np.full_like(corpus.chunks.label, -1)),
        tracklets=replace(corpus.tracklets, label=np.full_like(corpus.tracklets.label, -1)),
    )
    assert compare_with_baselines(states, unknown) == []


def test_partial_truth_is_compared_on_the_rows_that_have_it():
    """Chance and the result are judged by the same tracklets and chunks."""
    corpus = small([1, -1, 2, 1, 0, 2], [0, 1, -1, -1, -1, -1, -1, -1])
    scores = run("chance", corpus)
    assert scores.precisions.tolist() == [[1 / 2, 1 / 2], [1 / 3, 1 / 3]]
    assert scores.actions[0] == 1 / 2
    assert np.isnan(scores.actions[1])


def test_supervision_never_sees_the_clip_it_judges():
    """With truths that contradict each other, a clip's own would have given it away."""
    features = np.tile(np.eye(4), (2, 1))
    agree = small([1, 0, 2] * 2, [0, 1, 0, 0] * 2, chunk_features=features)
    assert run("supervised", agree).action_precision == 1
    differ = small([1, 0, 2] * 2, [0, 1, 0, 0, 0, 0, 1, 0], chunk_features=features)
    assert run("supervised", differ).action_precision == 0
    with pytest.raises(TruthError, match="nothing to train on"):
        run("supervised", small([1, 0, 2] * 2, [0, 1, 0, 0, 0, 0, 0, 0]))


def test_clips_that_cannot_be_labelled_are_wrong_and_named():
    clips = list(synthetic_corpus(n_clips=4))
    clips[2] = replace(clips[2], id="lonely", tracklets=())
    scores = run("joint", Corpus.from_clips(clips))
    assert [skipped.clip for skipped in scores.skipped] == ["lonely"]
    (row,) = (row for row in scores.rows if row.clip == "lonely")
    assert (row.precision_1, row.precision_2, row.action) == (0, 0, 0)
    assert run("chance", Corpus.from_clips(clips)).rows[2].precision_1 == 0


def test_a_random_method_needs_a_run():
    with pytest.raises(SettingError, match="`runs` must be"):
        MethodSettings(runs=0)


@pytest.mark.parametrize("name", ["salient", "at_least_one", "constraints"])
def test_states_alone_are_labelled_as_the_paper_does(corpus, name):
    """Whatever the model's own labelling: they are the paper's rows."""
    by_labelling = [
        run(name, corpus, MethodSettings(JointDiscovery(max_passes=50, labelling=how), runs=1))
        for how in ("held_out", "paper")
    ]
    np.testing.assert_array_equal(by_labelling[0].precisions, by_labelling[1].precisions)
    if name == "salient":
        assert {row.n_labels for row in by_labelling[0].rows} == {2}


def test_the_papers_own_model_ignores_other_settings(corpus):
    settings = MethodSettings(JointDiscovery(nu=7.0, mu=1.0, labelling="held_out", seed=3))
    expected = evaluate(JointDiscovery.paper(seed=3).fit(corpus).result_, corpus)
    assert run("joint_paper", corpus, settings).rows == expected.rows

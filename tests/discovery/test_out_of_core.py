"""A fit whose features stay on disk must find what a fit in memory finds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from objectstates import Corpus, JointDiscovery
from objectstates.base.errors import CorpusError, SettingError, StorageError
from objectstates.data.corpus_io import StoredFeatures
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.constraints import InfeasibleClipWarning
from objectstates.evaluation import evaluate
from objectstates.solver.scale.disk_rows import RowFile
from objectstates.solver.scale.disk_shard import Shard


@pytest.fixture(scope="module")
def corpus():
    return synthetic_corpus(
        n_clips=14, tracklets_per_clip=20, chunks_per_clip=25, state_size=40, action_size=30
    )


@pytest.fixture(scope="module")
def folder(corpus, tmp_path_factory):
    path = tmp_path_factory.mktemp("corpora") / "corpus"
    corpus.save(path)
    return path


@pytest.mark.parametrize("labelling", ["held_out", "paper"])
def test_it_finds_what_a_fit_in_memory_finds(corpus, folder, tmp_path, labelling):
    model = {"tol": 1e-4, "labelling": labelling}
    expected = JointDiscovery(**model).fit(corpus)
    found = JointDiscovery(**model).fit_folder(folder, scratch=tmp_path)
    assert found.relaxed_objective_ == pytest.approx(expected.relaxed_objective_, rel=2e-4)
    assert found.gap_ <= 1e-4 * found.relaxed_objective_
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.action_chunk_, expected.action_chunk_)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-4)
    assert found.result_.summary["corpus"] == expected.result_.summary["corpus"]
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_labels_are_rounded_as_often_as_in_memory_if_that_costs_little(tmp_path, monkeypatch):
    """Rounded every fifth pass only, this corpus had other labels of a higher objective."""
    corpus = synthetic_corpus(n_clips=8, seed=0)
    corpus.save(tmp_path / "corpus")
    expected = JointDiscovery(verdict=False).fit(corpus).result_
    found = JointDiscovery(verdict=False).fit_folder(tmp_path / "corpus").result_
    np.testing.assert_array_equal(found.state, expected.state)
    np.testing.assert_array_equal(found.action_chunk, expected.action_chunk)
    same = "rounded_objective"
    assert found.summary[same] == pytest.approx(expected.summary[same], rel=1e-6)
    monkeypatch.setattr("objectstates.discovery.out_of_core.SMALL", 0)
    seldom = JointDiscovery(verdict=False).fit_folder(tmp_path / "corpus").result_
    assert seldom.summary[same] < 1.02 * expected.summary[same]


def test_the_saved_result_predicts_as_one_from_memory_does(corpus, folder, tmp_path):
    unseen = synthetic_corpus(
        n_clips=4, tracklets_per_clip=20, chunks_per_clip=25, state_size=40, action_size=30, seed=1
    )
    JointDiscovery().fit_folder(folder).save(tmp_path / "result")
    there = JointDiscovery.load(tmp_path / "result").predict(unseen)
    here = JointDiscovery().fit(corpus).predict(unseen)
    np.testing.assert_array_equal(there.action_chunk, here.action_chunk)
    np.testing.assert_allclose(there.state_scores, here.state_scores, atol=0.05)


@pytest.mark.parametrize(
    ("settings", "shards"), [({}, 3), ({"solver": "full", "max_passes": 100}, 2)]
)
def test_several_shards_are_as_good(corpus, folder, settings, shards):
    """Not convex, and another order of visits: other local solutions, equally good ones."""
    expected = JointDiscovery(**settings).fit(corpus)
    found = JointDiscovery(**settings).fit_folder(folder, shards=shards)
    assert found.relaxed_objective_ == pytest.approx(expected.relaxed_objective_, rel=0.1)
    assert found.gap_ <= 1.5 * max(expected.gap_, 0.01 * found.relaxed_objective_)
    here, there = (evaluate(model.result_, corpus) for model in (found, expected))
    assert here.action_precision >= there.action_precision - 0.1
    assert here.state_precision >= there.state_precision - 0.15


CHAINS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"changes": 2}, {}),
    ({"changes": 2, "pattern": "ABA"}, {}),
    ({"changes": 2, "optional": (2,)}, {"leave_out": 0.25}),
    ({"changes": 3, "pattern": "ABAB", "optional": (2,)}, {"optional": 2, "leave_out": 0.25}),
]
"""Settings of the discovery, and what the clips have beside its changes and its pattern."""


@pytest.fixture(scope="module", params=CHAINS, ids=str)
def chain(request, tmp_path_factory):
    """A corpus, its folder, and the settings of its discovery."""
    settings, shown = request.param
    alike = {key: settings[key] for key in ("changes", "pattern") if key in settings}
    made = synthetic_corpus(12, noise=0.5, state_size=40, action_size=30, **alike, **shown)
    path = tmp_path_factory.mktemp("chains") / "corpus"
    made.save(path)
    return made, path, settings


@pytest.mark.parametrize("labelling", ["held_out", "paper"])
def test_a_chain_is_labelled_as_in_memory(chain, labelling, tmp_path):
    corpus, path, settings = chain
    model = JointDiscovery(labelling=labelling, verdict=False, **settings)
    expected = model.fit(corpus).result_
    assert (expected.actions.chunk < 0).any() == ("optional" in settings)
    for processes in (1, 2):
        found = model.fit_folder(path, shards=1, processes=processes, scratch=tmp_path).result_
        np.testing.assert_array_equal(found.state, expected.state)
        np.testing.assert_array_equal(found.actions.chunk, expected.actions.chunk)
        np.testing.assert_array_equal(found.actions.span, expected.actions.span)
    assert list(tmp_path.iterdir()) == []


def test_a_chain_in_several_shards_is_as_good_and_the_same_in_processes(chain, tmp_path):
    corpus, path, settings = chain
    model = JointDiscovery(verdict=False, **settings)
    expected = model.fit(corpus)
    known, scores = expected.result_, evaluate(expected.result_, corpus)
    here = model.fit_folder(path, shards=3, scratch=tmp_path).result_
    there = model.fit_folder(path, shards=3, processes=2, scratch=tmp_path).result_
    np.testing.assert_array_equal(there.state, here.state)
    np.testing.assert_array_equal(there.actions.chunk, here.actions.chunk)
    for name in ("relaxed_objective", "rounded_objective"):
        assert here.summary[name] == pytest.approx(known.summary[name], rel=0.02)
    found = evaluate(here, corpus)
    assert found.action_precision >= scores.action_precision - 0.1
    assert found.state_precision >= scores.state_precision - 0.15
    assert (here.actions.chunk == known.actions.chunk).mean() > 0.9


@pytest.mark.parametrize("target", ["state", "action"])
def test_one_side_alone(corpus, folder, target):
    model = {"target": target, "tol": 1e-3}
    expected = JointDiscovery(**model).fit(corpus)
    found = JointDiscovery(**model).fit_folder(folder, shards=2)
    start = 14 / (2 * 350)  # about the objective of random labels
    assert found.relaxed_objective_ == pytest.approx(
        expected.relaxed_objective_, rel=2e-3, abs=1e-6 * start
    )
    assert set(found.result_.classifiers) == {target}


def test_clips_that_cannot_be_labelled_are_left_out_with_their_rows(corpus, tmp_path):
    """Rows of features must stay with their clips when some clips are skipped."""
    allowed = corpus.tracklets.allowed.copy()
    allowed[corpus.tracklets.offsets[5] : corpus.tracklets.offsets[6]] = False
    columns = corpus.tracklets.__dict__ | {"allowed": allowed}
    partly = Corpus(
        corpus.clip_ids, type(corpus.tracklets)(**columns), corpus.chunks, corpus.videos,
        corpus.spans, corpus.info,
    )  # fmt: skip
    partly.save(tmp_path / "corpus")
    with pytest.warns(InfeasibleClipWarning):
        found = JointDiscovery(tol=1e-5).fit_folder(tmp_path / "corpus")
    with pytest.warns(InfeasibleClipWarning):
        expected = JointDiscovery(tol=1e-5).fit(partly)
    assert [clip.clip for clip in found.skipped_] == [corpus.clip_ids[5]]
    assert found.relaxed_objective_ == pytest.approx(expected.relaxed_objective_, rel=3e-5)
    assert (found.labels_[corpus.tracklet_rows(5)] == 0).all()


def test_stored_features_are_those_of_the_rows(tmp_path):
    """Rows across groups of 256, and with some left out."""
    corpus = synthetic_corpus(n_clips=30, tracklets_per_clip=20, state_size=6, action_size=3)
    corpus.save(tmp_path / "corpus")
    every = corpus.tracklets.features
    stored = StoredFeatures(tmp_path / "corpus", "tracklets")
    assert stored.shape == every.shape
    np.testing.assert_array_equal(stored.read(250, 515), every[250:515])
    rows = np.flatnonzero(np.arange(len(every)) % 7 != 0)
    some = StoredFeatures(tmp_path / "corpus", "tracklets", rows)
    np.testing.assert_array_equal(some.read(100, 400), every[rows[100:400]])
    assert some.read(3, 3).shape == (0, 6)


def test_mistakes_are_told_in_a_line(corpus, folder, tmp_path):
    with pytest.raises(SettingError, match="`shards` must be a whole number"):
        JointDiscovery().fit_folder(folder, shards=0)
    with pytest.raises(SettingError, match="`processes` must be a whole number"):
        JointDiscovery().fit_folder(folder, processes=True)
    with pytest.raises(SettingError, match="`reject`: clips cannot be rejected out of core"):
        JointDiscovery(reject="auto").fit_folder(folder)
    with pytest.raises(SettingError, match="`scratch`: no files can be written in"):
        JointDiscovery().fit_folder(folder, scratch=tmp_path / "missing")
    with pytest.raises(CorpusError, match=r"has no corpus\.json"):
        JointDiscovery().fit_folder(tmp_path)
    corpus.without_features().save(tmp_path / "bare")
    with pytest.raises(CorpusError, match="feature"):
        JointDiscovery().fit_folder(tmp_path / "bare")


def test_a_disk_that_fills_up_is_named(tmp_path):
    place = tmp_path / "shard"
    place.mkdir()
    (place / "state.rows").symlink_to("/dev/full")
    rows = RowFile(place / "state.rows", 3, "f4")
    with pytest.raises(StorageError, match=r"`scratch`: no room .* in .*\(No space left"):
        rows.append(np.ones((2, 3)))
    rows.close()


def test_what_a_disk_takes_in_pieces_is_written_whole(tmp_path, monkeypatch):
    rows = RowFile(tmp_path / "state.rows", 3, "f4")

    class Reluctant:
        """A file that takes seven bytes at a time, as one may."""

        def __init__(self, file):
            self.write = lambda content: file.write(content[:7])
            self.seek, self.readinto, self.close = file.seek, file.readinto, file.close

    monkeypatch.setattr(rows, "_file", Reluctant(rows._file))
    every = np.arange(12.0, dtype="f4").reshape(4, 3)
    rows.append(every[:3])
    rows.append(every[3:])
    np.testing.assert_array_equal(rows.read(0, 4, np.empty((4, 3), "f4")), every)
    rows.close()


# --- reduced features ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide(corpus, tmp_path_factory):
    """The same features, of rank 40 and 30, turned into 150 and 90 columns."""
    turned = Corpus(
        corpus.clip_ids, widened(corpus.tracklets, 150), widened(corpus.chunks, 90), corpus.videos,
        corpus.spans, corpus.info,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("corpora") / "wide"
    turned.save(path)
    return turned, path


def widened(table, size):
    rng, features = np.random.default_rng(5), table.features
    turn = np.linalg.qr(rng.standard_normal((size, features.shape[1])))[0].T
    return replace(table, features=(features @ turn + 0.1).astype(np.float32))


def fitted(corpus, path, how, **settings):
    """In memory, on disk, or in three shards."""
    model = JointDiscovery(tol=1e-4, **settings)
    if how == "memory":
        return model.fit(corpus)
    return model.fit_folder(path, shards=3 if how == "shards" else 1)


@pytest.mark.parametrize("how", ["memory", "disk", "shards"])
@pytest.mark.parametrize("labelling", ["held_out", "paper"])
def test_reduced_to_their_rank_features_lose_nothing(wide, how, labelling):
    corpus, path = wide
    expected = fitted(corpus, path, how, labelling=labelling)
    found = fitted(corpus, path, how, labelling=labelling, reduce=40)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.action_chunk_, expected.action_chunk_)
    assert found.objective_ == pytest.approx(expected.objective_, abs=1e-6)
    told = found.result_.summary["reduced"]
    assert {side: (each["from"], each["to"]) for side, each in told.items()} == {
        "action": (90, 40),
        "state": (150, 40),
    }
    assert all(each["cost_error_at_most"] < 1e-8 for each in told.values())
    assert "reduced" not in expected.result_.summary


@pytest.mark.parametrize("how", ["memory", "disk", "shards"])
@pytest.mark.parametrize("keep", [3, 12, 35])
def test_the_objective_is_too_high_by_no_more_than_is_said(wide, how, keep):
    """Against the cost of the same labels by regression on all features."""
    corpus, path = wide
    found = fitted(corpus, path, how, reduce=keep, mu=1e-2, lam=1e-1)
    exact = exact_costs(corpus, found.result_, mu=1e-2, lam=1e-1)
    for side, told in found.result_.summary["reduced"].items():
        value = found.result_.summary["objective"][side]
        assert told["to"] == keep
        assert exact[side] - 1e-8 <= value <= exact[side] + told["cost_error_at_most"] + 1e-8
    assert found.gap_ <= 1e-4 * found.relaxed_objective_


def exact_costs(corpus, result, *, mu, lam):
    action = np.zeros((len(corpus.chunks.start), 1))
    action[corpus.chunks.offsets[:-1] + result.action_chunk] = 1
    state = (result.state[:, None] == [1, 2]).astype(np.float64)
    costs = {}
    for side, features, labels, ridge in (
        ("action", corpus.chunks.features, action, lam),
        ("state", corpus.tracklets.features, state, mu),
    ):
        x, y = features.astype(np.float64), labels - labels.mean(axis=0)
        x -= x.mean(axis=0)
        m, d = x.shape
        weights = np.linalg.solve(x.T @ x + m * ridge * np.eye(d), x.T @ y)
        costs[side] = float(
            np.square(y - x @ weights).sum() / (2 * m) + ridge / 2 * np.square(weights).sum()
        )
    return costs


def test_what_was_learned_of_reduced_features_predicts_from_whole_ones(wide, tmp_path):
    """The classifier scores the corpus's own features as the solver scored its narrow rows."""
    corpus, path = wide
    found = JointDiscovery(reduce=12, labelling="paper").fit_folder(path)
    found.save(tmp_path / "result")
    model = JointDiscovery.load(tmp_path / "result")
    for side, features, scores in (
        ("state", corpus.tracklets.features, found.result_.state_scores),
        ("action", corpus.chunks.features, found.result_.action_scores[:, None]),
    ):
        classifier = model.result_.classifiers[side]
        assert len(classifier.weights) == features.shape[1]
        np.testing.assert_allclose(classifier.scores(features), scores, atol=1e-5)
    predicted = model.predict(corpus)
    np.testing.assert_array_equal(predicted.action_chunk, found.action_chunk_)
    np.testing.assert_array_equal(predicted.state, found.labels_)


def test_reduced_rows_take_less_room_on_disk(wide, tmp_path, monkeypatch):
    """And so do the messages of a pass."""
    seen: dict[str, Any] = {}
    sweep, close = Shard.sweep, Shard.close

    def watched(shard, sums, *given):
        result = sweep(shard, sums, *given)
        seen["messages"] = [own.shape for own in (*sums, *result.sums)]
        return result

    def measured(shard):
        seen["files"] = {file.name: file.stat().st_size for file in shard.folder.glob("*.rows")}
        close(shard)

    monkeypatch.setattr(Shard, "sweep", watched)
    monkeypatch.setattr(Shard, "close", measured)
    JointDiscovery(reduce=10, max_passes=60).fit_folder(wide[1], scratch=tmp_path)
    assert seen["messages"] == [(1, 11), (2, 11)] * 2
    assert seen["files"] == {"action.rows": 350 * 11 * 4, "state.rows": 280 * 11 * 4}


@pytest.mark.parametrize("reduce", [0, -3, 2.5, True, "many"])
def test_a_reduction_that_makes_no_sense_is_told_in_a_line(corpus, folder, reduce):
    for fit, given in (("fit", corpus), ("fit_folder", folder)):
        with pytest.raises(SettingError, match="`reduce` must be a whole number of at least 1"):
            getattr(JointDiscovery(reduce=reduce), fit)(given)


def test_a_device_reduces_out_of_core_only(corpus):
    with pytest.raises(SettingError, match=r"`device`: .*`fit_folder`"):
        JointDiscovery(reduce=5, device="cuda").fit(corpus)


def test_a_scratch_folder_that_cannot_be_made_is_named(run, tmp_path):
    synthetic_corpus(4).save(tmp_path / "corpus")
    (tmp_path / "file").touch()
    words = ("--out-of-core", "--scratch", tmp_path / "file" / "scratch")
    code, _, err = run("fit", tmp_path / "corpus", "--out", tmp_path / "result", *words)
    assert code == 2
    assert "file/scratch cannot be made" in err
    assert "--scratch" in err
    assert not (tmp_path / "result").exists()

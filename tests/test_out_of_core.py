"""A fit whose features stay on disk must find what a fit in memory finds."""

import numpy as np
import pytest

from objectstates import Corpus, JointDiscovery
from objectstates.corpus_io import StoredFeatures
from objectstates.discovery import InfeasibleClipWarning
from objectstates.errors import CorpusError, SettingError, StorageError
from objectstates.evaluation import evaluate
from objectstates.solver.shard_rows import RowFile
from objectstates.synthetic import synthetic_corpus


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
    with pytest.raises(SettingError, match="shards must be a whole number"):
        JointDiscovery().fit_folder(folder, shards=0)
    with pytest.raises(SettingError, match="no files can be written in"):
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
    with pytest.raises(StorageError, match=r"no room .* in .*\(No space left.*--scratch"):
        rows.append(np.ones((2, 3)))
    rows.close()


def test_what_a_disk_takes_in_pieces_is_written_whole(tmp_path):
    rows = RowFile(tmp_path / "state.rows", 3, "f4")

    class Reluctant:
        """A file that takes seven bytes at a time, as one may."""

        def __init__(self, file):
            self.write = lambda content: file.write(content[:7])
            self.seek, self.readinto, self.close = file.seek, file.readinto, file.close

    rows._file = Reluctant(rows._file)
    every = np.arange(12.0, dtype="f4").reshape(4, 3)
    rows.append(every[:3])
    rows.append(every[3:])
    np.testing.assert_array_equal(rows.read(0, 4, np.empty((4, 3), "f4")), every)
    rows.close()

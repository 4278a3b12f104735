import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from objectstates import ChangeProfile, JointDiscovery, Result
from objectstates.base.errors import CorpusError, MissingExtraError, ResultError
from objectstates.data.result import SkippedClip
from objectstates.data.synthetic import synthetic_corpus
from tests.results import remove_checksums


@pytest.fixture(scope="module")
def corpus():
    return synthetic_corpus(n_clips=5)


@pytest.fixture(scope="module", params=["joint", "state", "action"])
def result(request, corpus):
    return JointDiscovery(target=request.param, max_passes=90).fit(corpus).result_


def test_result_survives_the_disk(tmp_path, result):
    result.save(tmp_path / "r")
    again = Result.load(tmp_path / "r")
    for name, value in vars(result).items():
        other = getattr(again, name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, other, err_msg=name)
            assert value.dtype == other.dtype
        elif name == "actions":
            for part, column in vars(value).items():
                np.testing.assert_array_equal(column, getattr(other, part), err_msg=part)
        elif name not in ("classifiers", "corpus", "progress_model"):
            assert value == other, name
    np.testing.assert_array_equal(again.action_time, result.action_time)
    np.testing.assert_array_equal(again.confidence, result.confidence)
    assert again.classifiers.keys() == result.classifiers.keys()
    for side, classifier in result.classifiers.items():
        np.testing.assert_array_equal(classifier.weights, again.classifiers[side].weights)
        np.testing.assert_array_equal(classifier.bias, again.classifiers[side].bias)
        assert classifier.n_rows == again.classifiers[side].n_rows


def test_the_change_profiles_of_the_clips_are_kept(tmp_path, corpus):
    """By a fit in memory, one from disk, their folders, and predictions."""
    profile = ChangeProfile(0.5, 0.1, np.ones(3, np.float32), np.eye(4, dtype=np.uint8))
    known = replace(corpus, changes=(None, profile, None, profile, None))
    known.save(tmp_path / "corpus")
    fitted = JointDiscovery(max_passes=60).fit(known)
    stored = JointDiscovery(max_passes=60).fit_folder(tmp_path / "corpus")
    stored.save(tmp_path / "r")
    predicted = fitted.predict(known.select([1, 2]))
    for result in (fitted.result_, stored.result_, Result.load(tmp_path / "r")):
        assert [change is not None for change in result.corpus.changes] == [0, 1, 0, 1, 0]
        change = result.corpus.changes[3]
        assert change is not None
        assert (change.start, change.step) == (0.5, 0.1)
        np.testing.assert_array_equal(change.curve, profile.curve)
        np.testing.assert_array_equal(change.where, profile.where)
    assert [change is not None for change in predicted.corpus.changes] == [1, 0]


def test_folder_is_what_the_documentation_says(tmp_path, corpus):
    model = JointDiscovery(seed=3).fit(corpus)
    model.save(tmp_path / "r")
    header = json.loads((tmp_path / "r" / "result.json").read_text())
    assert header["format_version"] == 3
    assert header["seed"] == 3
    assert header["settings"]["nu"] == 3.0
    assert header["objective"].keys() == {"total", "state", "action", "joint"}
    assert header["duality_gap"] == model.gap_
    assert header["relaxed_objective"] == model.relaxed_objective_
    assert header["passes"] == model.n_iter_
    assert header["skipped"] == []
    assert {"objectstates", "numpy", "scipy", "numba"} <= header["versions"].keys()
    assert all(seconds >= 0 for seconds in header["seconds"].values())
    clips = pq.read_table(tmp_path / "r" / "clips.parquet").to_pydict()
    assert list(clips) == ["clip", "action_chunk", "action_time", "action_start", "action_end",
                           "action_score", "confidence", "action_confidence",
                           "state_1_confidence", "state_2_confidence",
                           "reached_chance", "reached"]  # fmt: skip
    assert header["verdict"]["action"] in ("found", "doubtful", "not_found")
    assert clips["clip"] == list(corpus.clip_ids)
    for n, (chunk, time) in enumerate(
        zip(clips["action_chunk"], clips["action_time"], strict=True)
    ):
        assert time == corpus[n].chunks[chunk].time
    rows = pq.read_table(tmp_path / "r" / "tracklets.parquet").to_pydict()
    assert list(rows) == ["clip", "tracklet", "start", "end", "state", "score_1", "score_2"]
    assert rows["start"] == corpus.tracklets.start.tolist()
    assert rows["tracklet"] == [i for n in range(5) for i in range(len(corpus.tracklet_rows(n)))]
    assert rows["state"] == model.labels_.tolist()
    chunks = pq.read_table(tmp_path / "r" / "chunks.parquet").to_pydict()
    assert list(chunks) == ["clip", "chunk", "start", "end", "action", "score", "progress"]
    assert sum(chunks["action"]) == len(corpus)
    assert [len(row) for row in header["trace"]] == [4] * len(header["trace"])
    assert header["trace"][-1][1] == model.relaxed_objective_
    with np.load(tmp_path / "r" / "classifiers.npz", allow_pickle=False) as arrays:
        scores = corpus.tracklets.features @ arrays["state_weights"] + arrays["state_bias"]
    predicted = model.predict(corpus).state_scores
    np.testing.assert_allclose(scores, predicted, atol=1e-4)


def test_damaged_results_are_refused(tmp_path, result):
    def fresh(name):
        result.save(tmp_path / name)
        return remove_checksums(tmp_path / name)

    with pytest.raises(ResultError, match=r"no result\.json"):
        Result.load(tmp_path)
    folder = fresh("version")
    (folder / "result.json").write_text('{"format_version": 7}')
    with pytest.raises(ResultError, match="format version 7"):
        Result.load(folder)
    folder = fresh("keys")
    (folder / "result.json").write_text('{"format_version": 2}')
    with pytest.raises(ResultError, match="not a whole result"):
        Result.load(folder)
    folder = fresh("table")
    (folder / "clips.parquet").unlink()
    with pytest.raises(ResultError, match="not a whole result"):
        Result.load(folder)
    folder = fresh("pickle")
    np.savez(folder / "classifiers.npz", state_weights=np.array([{}], dtype=object))
    with pytest.raises(ResultError, match="not a whole result"):
        Result.load(folder)
    folder = fresh("zip")
    path = folder / "classifiers.npz"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ResultError, match="not a whole result"):
        Result.load(folder)
    folder = fresh("nan")
    with np.load(folder / "classifiers.npz") as arrays:
        spoilt = {k: v * np.nan if k.endswith("weights") else v for k, v in arrays.items()}
    np.savez(folder / "classifiers.npz", **spoilt)
    with pytest.raises(ResultError, match="classifier is damaged"):
        Result.load(folder)
    folder = fresh("shape")
    with np.load(folder / "classifiers.npz") as arrays:
        spoilt = {k: np.tile(v, (3, 1)) if k.endswith("bias") else v for k, v in arrays.items()}
    np.savez(folder / "classifiers.npz", **spoilt)
    with pytest.raises(ResultError, match="classifier is damaged"):
        Result.load(folder)


def test_only_results_are_replaced(tmp_path, result):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "result.json").write_text('{"accuracy": 0.9}')
    (tmp_path / "mine" / "notes.txt").write_text("dear")
    with pytest.raises(ResultError, match="holds something else"):
        result.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "dear"


def test_a_result_tells_of_its_clips_without_the_corpus(tmp_path, result, corpus):
    result.save(tmp_path / "r")
    seen = Result.load(tmp_path / "r").corpus
    assert seen.clip_ids == corpus.clip_ids
    np.testing.assert_array_equal(seen.tracklets.label, corpus.tracklets.label)
    np.testing.assert_array_equal(seen.chunks.start, corpus.chunks.start)
    assert seen.tracklets.features.shape == (len(corpus.tracklets.start), 0)
    with pytest.raises(CorpusError, match="no features"):
        JointDiscovery().fit(seen)


def test_tables_that_do_not_fit_their_corpus_are_refused(tmp_path, result):
    result.save(tmp_path / "r")
    remove_checksums(tmp_path / "r")
    for name in ("clips", "tracklets", "chunks"):
        path = tmp_path / "r" / f"{name}.parquet"
        whole = pq.read_table(path)
        pq.write_table(whole.slice(1), path)
        with pytest.raises(ResultError, match=f"{name}.parquet has"):
            Result.load(tmp_path / "r")
        pq.write_table(whole, path)


def test_confidence_is_high_where_the_labels_look_alike(corpus):
    plain, noisy = (
        JointDiscovery().fit(synthetic_corpus(n_clips=10, noise=noise)).result_
        for noise in (0.3, 4.0)
    )
    assert (plain.confidence >= 0).all()
    assert (plain.confidence <= 1).all()
    assert plain.confidence.mean() > noisy.confidence.mean()


def test_results_from_before_there_were_scales_are_read(tmp_path):
    JointDiscovery().fit(synthetic_corpus(4)).save(tmp_path / "result")
    remove_checksums(tmp_path / "result")
    path = tmp_path / "result" / "classifiers.npz"
    with np.load(path) as arrays:
        older = {name: arrays[name] for name in arrays if not name.endswith("_scale")}
        assert len(older) < len(arrays)
    np.savez(path, **older)
    again = Result.load(tmp_path / "result")
    np.testing.assert_array_equal(again.classifiers["state"].scale, [1.0, 1.0])


def test_frames_have_a_row_per_clip_and_per_tracklet(result, corpus):
    pytest.importorskip("pandas", reason="needs the extra pandas")
    clips, tracklets = result.to_frame(), result.tracklets_frame()
    assert list(clips["clip"]) == list(result.clips)
    np.testing.assert_array_equal(clips["action_time"], result.action_time)
    np.testing.assert_array_equal(clips[["action_start", "action_end"]], result.action_span)
    np.testing.assert_array_equal(clips["confidence"], result.confidence)
    assert len(tracklets) == len(result.state) == len(corpus.tracklets.start)
    np.testing.assert_array_equal(tracklets["state"], result.state)
    np.testing.assert_array_equal(tracklets["start"], corpus.tracklets.start)
    np.testing.assert_array_equal(tracklets[["score_1", "score_2"]], result.state_scores)
    first = tracklets.groupby("clip", sort=False).first()
    assert list(first.index) == list(result.clips)
    assert (first["tracklet"] == 0).all()


def test_without_pandas_the_extra_is_named(result, monkeypatch):
    monkeypatch.setattr("objectstates.data.result.find_spec", lambda name: None)
    for frame in (result.to_frame, result.tracklets_frame):
        with pytest.raises(MissingExtraError, match=r"objectstates\[pandas\]"):
            frame()


def test_repr_is_a_summary_of_a_few_lines(result, corpus):
    text = repr(result)
    assert text.startswith("Result of 5 clips, ")
    assert f"{len(result.state)} tracklets" in text
    assert f"action in {(result.action_chunk >= 0).sum()} clips" in text
    assert "duality gap" in text
    assert len(text.splitlines()) == 3
    skipped = replace(result, skipped=(SkippedClip("x", "no tracklets"),))
    assert "Result of 5 clips, 1 skipped, " in repr(skipped)

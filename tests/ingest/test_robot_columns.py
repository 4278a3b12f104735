"""Corpora of robot datasets: versions, cameras, signals."""

import shutil

import numpy as np
import pytest

from objectstates import Corpus
from objectstates.base.cache import cache_folder
from objectstates.base.errors import SettingError
from objectstates.features.change_columns import WIDTHS
from objectstates.ingest import schedule
from objectstates.ingest.pipeline import IngestSettings, ingest
from objectstates.robots.dataset_clips import find_dataset_clips
from tests.robots.datasets import CAMERA, WRIST, convert_to_v3, write_dataset

LENGTHS = (2.0, 2.3, 1.8)


@pytest.fixture(scope="module")
def v2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("v2")
    return write_dataset(folder / "set", episodes=LENGTHS, cameras=(CAMERA, WRIST))


@pytest.fixture(scope="module")
def v3(v2, tmp_path_factory):
    return convert_to_v3(v2, tmp_path_factory.mktemp("v3") / "set", per_file=2)


def corpus_of(root, camera="front", like=None, signals="auto", **settings):
    settings["signals"] = signals
    clips = find_dataset_clips([root], camera=camera)
    return ingest(clips, IngestSettings(**settings), cache=cache_folder() / "ingest", like=like)


def relative(corpus: Corpus, column: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Times of rows in seconds of their episodes."""
    starts = [episode.start for episode in corpus.episodes if episode is not None]
    return np.asarray(column - np.repeat(starts, np.diff(offsets)))


@pytest.mark.parametrize("segment", [60.0, 0.8])
def test_both_versions_give_the_same_corpus(v2, v3, monkeypatch, segment):
    """Episodes of one file each, and of several in a file; whole, and in segments."""
    monkeypatch.setattr(schedule, "SEGMENT_SECONDS", segment)
    a, b = (corpus_of(root, "front,wrist")[0] for root in (v2, v3))
    assert a.clip_ids == b.clip_ids
    assert [e.start for e in a.episodes] == [0, 0, 0]
    assert [e.start for e in b.episodes] == pytest.approx([0, LENGTHS[0], 0])
    for name in ("tracklets", "chunks"):
        one, other = getattr(a, name), getattr(b, name)
        assert np.array_equal(one.offsets, other.offsets)
        for column in ("start", "end", "time"):
            first = relative(a, getattr(one, column), one.offsets)
            second = relative(b, getattr(other, column), other.offsets)
            assert np.allclose(first, second, atol=1e-9)
        assert np.allclose(one.features, other.features, atol=1e-6)
    assert np.allclose(a.tracklets.boxes[:, 1:], b.tracklets.boxes[:, 1:], atol=1e-6)
    for one, other in zip(a.changes, b.changes, strict=True):
        assert np.allclose(one.curve, other.curve)
        assert np.array_equal(one.where, other.where)
    assert [c.info["dataset"]["version"] for c in (a, b)] == ["v2.1", "v3.0"]
    assert a.info["dataset"]["cameras"] == [CAMERA, WRIST]


def test_cameras_are_side_by_side_and_boxes_of_the_first(v2):
    both, front, wrist = (
        corpus_of(v2, camera, signals="none")[0] for camera in ("front,wrist", "front", "wrist")
    )
    size = front.chunks.features.shape[1]
    assert both.chunks.features.shape[1] == 2 * size - len(WIDTHS)  # one change profile
    dense = size - len(WIDTHS)
    features = both.chunks.features
    assert np.array_equal(features[:, :dense], front.chunks.features[:, :dense])
    assert np.array_equal(features[:, dense:-2], wrist.chunks.features[:, :dense])
    assert np.array_equal(features[:, -2:], front.chunks.features[:, -2:])
    assert np.array_equal(both.tracklets.boxes, front.tracklets.boxes)
    assert both.videos == front.videos


def test_signals_are_columns_of_chunks(v2):
    plain, with_signals = (corpus_of(v2, signals=s)[0] for s in ("none", "auto"))
    assert with_signals.chunks.features.shape[1] == plain.chunks.features.shape[1] + 8
    assert np.array_equal(with_signals.chunks.features[:, -2:], plain.chunks.features[:, -2:])
    assert not plain.arrays
    fewer = corpus_of(v2, signals="action")[0]
    assert fewer.chunks.features.shape[1] == plain.chunks.features.shape[1] + 4
    with pytest.raises(SettingError, match="`signals` are for dense chunks"):
        corpus_of(v2, signals="action", chunks="paper")
    with pytest.raises(SettingError, match="bags of words are of one camera"):
        corpus_of(v2, "front,wrist", chunks="paper")


def test_new_episodes_are_scaled_as_those_of_a_model(v2, v3):
    model = corpus_of(v2)[0]
    clips = find_dataset_clips([v3], camera="front", episodes="1")
    new, _ = ingest(
        clips, IngestSettings(signals="auto"), cache=cache_folder() / "ingest", like=model
    )
    assert np.allclose(new.chunks.features, model.select([1]).chunks.features, atol=1e-6)


def test_an_episode_without_rows_is_reported_and_takes_part(v2, tmp_path):
    root = shutil.copytree(v2, tmp_path / "set")
    (root / "data" / "chunk-000" / "episode_000001.parquet").unlink()
    corpus, report = corpus_of(root)
    assert len(corpus) == len(LENGTHS)
    [problem] = report.problems
    assert problem.startswith("episode_000001: no signals:")
    rows = corpus.chunk_rows(1)
    assert not corpus.chunks.features[rows.start : rows.stop, -10:-2].any()


def test_an_episode_of_which_one_camera_is_missing_is_left_out(v2, tmp_path):
    root = shutil.copytree(v2, tmp_path / "set")
    (root / "videos" / "chunk-000" / WRIST / "episode_000002.mp4").unlink()
    corpus, report = corpus_of(root, "front,wrist")
    assert corpus.clip_ids == ("episode_000000", "episode_000001")
    [(clip, reason)] = report.failed
    assert clip == "episode_000002"
    assert "does not exist" in reason


def test_a_corpus_keeps_its_episodes(v3, tmp_path):
    corpus = corpus_of(v3)[0]
    corpus.save(tmp_path / "corpus")
    again = Corpus.load(tmp_path / "corpus")
    assert again.episodes == corpus.episodes
    assert again.select([1]).episodes == corpus.episodes[1:2]
    assert Corpus.from_clips(list(again)).episodes == corpus.episodes

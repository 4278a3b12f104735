"""Features, metadata and images of the release, as one corpus."""

import shutil

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from objectstates import Corpus, read_authors
from objectstates.base.errors import CorpusError
from objectstates.data.formats.authors_release import find_release, read_release
from objectstates.video.reader import probe
from tests.release import features_of, make_release, metadata_of, times_of

ACTION = "open_fridge"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("release")
    return root, make_release(root, ACTION, clips=3)


@pytest.fixture
def release(made, tmp_path):
    """A copy without the images, which a test may change."""
    for folder in ("features", "metadata"):
        shutil.copytree(made[0] / folder, tmp_path / folder)
    return tmp_path


def features(root):
    return root / "features" / f"features_{ACTION}.mat"


def test_false_positives_and_ambiguous_tracklets_are_told_apart(made):
    root, clips = made
    corpus = read_release(features(root))
    expected = [piece.label for clip in clips for piece in clip.tracklets]
    assert {0, 1, 2, 3} == set(expected)
    assert corpus.tracklets.label.tolist() == [-2 if x == 3 else x for x in expected]
    alone = read_authors(features(root))
    assert set(alone.tracklets.label.tolist()) == {0, 1, 2}, "without metadata both are 0"
    np.testing.assert_array_equal(corpus.chunks.label, alone.chunks.label)
    np.testing.assert_array_equal(corpus.tracklets.features, alone.tracklets.features)


def test_times_are_seconds_of_the_images_whatever_their_rate_and_number(made, tmp_path):
    root, clips = made
    corpus = read_release(features(root))
    assert corpus.clip_ids == tuple(clip.name for clip in clips)
    for n, clip in enumerate(clips):
        first = clip.tracklets[0].frames[0]
        rows = list(corpus.tracklet_rows(n))
        expected = np.array(times_of(clip, clip.tracklets)) - first / clip.rate
        np.testing.assert_allclose(corpus.tracklets.time[rows], expected, atol=1e-5)
        assert corpus.tracklets.start[rows[0]] == pytest.approx(0, abs=1e-6)
        rate = corpus.info["image_fps"][clip.name]
        assert rate == pytest.approx(clip.rate, abs=1e-5)
        video = probe(corpus.videos[n] or "", image_fps=rate)
        assert corpus.tracklets.end[rows].max() <= video.duration + 1e-6
        tracklet = corpus[n].tracklets[0]
        assert [b.x1 for b in tracklet.boxes] == [box[0] for box in clip.tracklets[0].boxes]
        assert [b.y1 for b in tracklet.boxes] == [box[1] for box in clip.tracklets[0].boxes]
        assert tracklet.boxes[3].time == pytest.approx(3 / clip.rate, abs=1e-5)
    corpus.save(tmp_path / "corpus")
    assert Corpus.load(tmp_path / "corpus").info["object"] == "fridge"


def test_without_images_times_are_those_of_the_files(made, release):
    corpus = read_release(features(release))
    assert corpus.videos == (None,) * 3
    np.testing.assert_allclose(
        corpus.tracklets.time, read_authors(features(release)).tracklets.time
    )
    with_images = read_release(features(made[0]))
    for rows in (corpus.tracklet_rows(2), corpus.chunk_rows(2)):
        table = "tracklets" if len(rows) == len(corpus.tracklet_rows(2)) else "chunks"
        a, b = (getattr(c, table).time[list(rows)] for c in (corpus, with_images))
        np.testing.assert_allclose(np.diff(a), np.diff(b), atol=1e-9)


def test_the_order_of_the_release_stays_where_intervals_contradict_it(made, release):
    """The constraint of the authors' problem is the order of ``ptrs_tracks``."""
    mat, row = metadata_of(made[1]), len(made[1][0].tracklets)  # the first of the second clip
    frames, boxes = mat["FRAMES_state"][0, row], mat["BOXES_state"][0, row]
    mat["FRAMES_state"][0, row] = np.concatenate([frames, [[frames[0, -1] + 1]]], axis=1)
    mat["BOXES_state"][0, row] = np.concatenate([boxes, boxes[-1:]])
    savemat(release / "metadata" / f"{ACTION}.mat", mat)  # it now overlaps the one after it
    corpus, alone = read_release(features(release)), read_authors(features(release))
    assert corpus.info["intervals_rebuilt"] == [made[1][1].name]
    rows = list(corpus.tracklet_rows(1))
    np.testing.assert_array_equal(corpus.tracklets.end[rows], alone.tracklets.end[rows])


def test_files_are_found_by_their_names(made, release, tmp_path):
    root, _ = made
    (found,) = find_release(root).values()
    assert (found.action, found.features) == (ACTION, features(root))
    assert found.images == root / "raw_images" / ACTION
    (apart,) = find_release(release, root / "raw_images" / ACTION).values()
    assert apart.images == root / "raw_images" / ACTION
    metadata = release / "metadata" / f"{ACTION}.mat"
    for name in (f"metadata_{ACTION}.mat", f"{ACTION}_meta_data.mat", f"meta_{ACTION}.mat"):
        metadata = metadata.rename(metadata.with_name(name))
        assert find_release(release)[ACTION].metadata == metadata
    features(release).unlink()
    assert find_release(release)[ACTION].features is None
    with pytest.raises(CorpusError, match=f"features_{ACTION}.mat is missing"):
        read_release(find_release(release)[ACTION])
    with pytest.raises(CorpusError, match=r"`videos`: .* is not a folder"):
        find_release(root, root / "nowhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(state_GT=np.where(m["state_GT"] == 1, 2, m["state_GT"])),
         "state_GT and Y_GT disagree about"),
        (lambda m: m.update(T_action=m["T_action"] + 0.4), "times of chunks differ by up to 0.40"),
    ],
)  # fmt: skip
def test_metadata_of_something_else_are_refused(release, change, message):
    path = release / "metadata" / f"{ACTION}.mat"
    mat = {k: v for k, v in loadmat(path).items() if k[0] != "_"}
    change(mat)
    savemat(path, mat)
    with pytest.raises(CorpusError, match=message):
        read_release(features(release))


def test_metadata_of_other_clips_are_refused(made, release):
    savemat(features(release), features_of(made[1][:2]))
    with pytest.raises(CorpusError, match=r"the metadata has 3 clips with .* features have 2"):
        read_release(features(release))

"""A release in the authors' layout, from its files to tables, report, exports and cut clips."""

import csv
import json
import re

import cv2
import numpy as np
import pytest

from objectstates.data.result import Result
from tests.release import make_release

ACTION = "open_fridge"


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    root = tmp_path_factory.mktemp("release")
    make_release(root, ACTION, clips=4)
    return root


@pytest.fixture(scope="module")
def fitted(release, tmp_path_factory):
    """A fit of the release's features, with all that lies beside them."""
    from objectstates import JointDiscovery
    from objectstates.data.formats.authors_release import read_release

    corpus = read_release(release / "features" / f"features_{ACTION}.mat")
    path = tmp_path_factory.mktemp("fitted") / "result"
    JointDiscovery(max_passes=100, verdict=False).fit(corpus).result_.save(path)
    return path


def image_at(release, clip, time, rate):
    """The image of a clip that is shown at a time, in seconds from its first."""
    images = sorted((release / "raw_images" / ACTION / clip).glob("*.jpg"))
    return np.asarray(cv2.imread(str(images[round(time * rate)])), np.uint8)


def test_the_table_of_a_release(run, release, tmp_path):
    words = ("reproduce", release, "--out", tmp_path, "--rows", "a,f,iv,g", "--max-passes", 100)
    code, shown, err = run(*words)
    assert code == 0
    assert "(f) Joint model" in shown
    assert "there are no detection scores" in err, "the release has none"
    rows = list(csv.DictReader((tmp_path / "scores.csv").read_text().splitlines()))
    assert {row["action"] for row in rows} == {ACTION}
    assert {row["clips"] for row in rows} == {"4"}


def test_the_table_from_images(run, release, tmp_path, monkeypatch):
    """Tracklets and features are made anew; a detector's scores make row g possible."""
    monkeypatch.setattr("objectstates.ingest.bag_of_words.WORDS", {"hof": 60, "conv": 30})
    words = ("reproduce", release, "--out", tmp_path, "--videos", release / "raw_images",
             "--appearance", "lite0", "--rows", "a,f,g,iv", "--max-passes", 50, "--processes", 1,
             "--around", 2)  # fmt: skip
    code, _, err = run(*words)
    assert code == 0
    assert "Joint + detection scores: there are no detection scores" in err, "boxes have none"
    assert (tmp_path / "corpora" / ACTION / "corpus.json").is_file()
    code, _, err = run(*words, "--detector", "motion")
    assert code == 0
    assert "no detection scores" not in err
    rows = list(csv.DictReader((tmp_path / "scores.csv").read_text().splitlines()))
    assert {row["row"] for row in rows} == {"a", "f", "g", "iv"}
    assert all(row["precision"] for row in rows)
    code, _, err = run("reproduce", release, "--out", tmp_path, "--around", 5)
    assert code == 2
    assert "give --videos" in err


def test_a_fit_by_the_command_line_has_boxes_and_videos(run, release, tmp_path):
    out = tmp_path / "result"
    features = release / "features" / f"features_{ACTION}.mat"
    code, *_ = run("fit", features, "--out", out, "--no-verdict", "--max-passes", 20)
    assert code == 0
    corpus = Result.load(out).corpus
    assert all(corpus.videos)
    assert len(corpus.tracklets.boxes)


def test_the_report_shows_the_images(run, fitted, tmp_path):
    code, _, err = run("report", fitted, "--out", tmp_path / "report.html")
    assert code == 0
    assert not err
    page = (tmp_path / "report.html").read_text()
    assert page.count("UklGR") > 8  # WebP in base64
    assert f"{ACTION}_0004" in page


def test_crops_are_of_the_images_that_tracklets_name(run, release, fitted, tmp_path):
    """Also where the images have another rate and do not begin with number 1."""
    code, _, err = run("export", fitted, "--to", "crops", "--out", tmp_path / "crops",
                       "--context", 1)  # fmt: skip
    assert (code, err) == (0, "")
    corpus = Result.load(fitted).corpus
    files = sorted((tmp_path / "crops").glob("state*/*.jpg"))
    assert len({path.name[:16] for path in files}) == 4, "every clip has some"
    for path in files:
        clip, index = re.findall(rf"({ACTION}_\d+)_(\d+)_\d+", path.stem)[0]
        n = corpus.clip_ids.index(clip)
        tracklet = corpus[n].tracklets[int(index)]
        apart = [abs(box.time - (tracklet.time or 0.0)) for box in tracklet.boxes]
        box = tracklet.boxes[int(np.argmin(apart))]
        source = image_at(release, clip, box.time, corpus.info["image_fps"][clip])
        there = source[int(box.y1) : int(box.y2), int(box.x1) : int(box.x2)].astype(int)
        assert np.abs(np.asarray(cv2.imread(str(path)), int) - there).mean() < 8


def test_coco_has_the_boxes_of_the_release(run, fitted, tmp_path):
    code, _, err = run("export", fitted, "--to", "coco", "--out", tmp_path / "coco")
    assert (code, err) == (0, "")
    data = json.loads((tmp_path / "coco" / "annotations.json").read_text())
    assert data["categories"][0]["name"] == "fridge"
    corpus = Result.load(fitted).corpus
    known = {tuple(np.round(box[1:], 1)) for box in corpus.tracklets.boxes}
    for annotation in data["annotations"]:
        x, y, width, height = annotation["bbox"]
        assert tuple(np.round([x, y, x + width, y + height], 1)) in known
    assert len(list((tmp_path / "coco" / "images").rglob("*.jpg"))) == len(data["images"])


def test_clips_are_cut_into_their_images(run, release, fitted, tmp_path):
    code, _, err = run("cut", fitted, "--out", tmp_path / "cut")
    assert (code, err) == (0, "")
    for clip in (release / "raw_images" / ACTION).iterdir():
        parts = sorted((tmp_path / "cut").glob(f"{clip.name}_*"))
        copied = [image.read_bytes() for part in parts for image in sorted(part.glob("*.jpg"))]
        whole = {image.read_bytes() for image in clip.glob("*.jpg")}
        assert len(parts) == 3, "before, action, after"
        assert set(copied) == whole, "without gap or overlap"
        assert len(copied) == len(whole)

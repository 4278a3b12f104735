from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from objectstates.detect.box_file_formats import read_boxes
from objectstates.export import export
from tests.export.conftest import FPS, HEIGHT, WIDTH, box_at

pycocotools = pytest.importorskip("pycocotools.coco")


def test_a_reader_gets_what_was_found(result, tmp_path):
    done = export(result, "coco", tmp_path / "x", fps=FPS)
    coco = pycocotools.COCO(str(tmp_path / "x" / "annotations.json"))
    assert [c["name"] for c in coco.loadCats(coco.getCatIds())] == ["cup <big> & co"]
    seen = {}
    for annotation in coco.loadAnns(coco.getAnnIds()):
        (image,) = coco.loadImgs(annotation["image_id"])
        x, y, width, height = annotation["bbox"]
        fields = annotation["attributes"]
        assert annotation["area"] == width * height
        assert (image["width"], image["height"]) == (WIDTH, HEIGHT)
        key = (fields["clip"], fields["tracklet"], image["time"])
        seen[key] = (image["video"], fields["state"], x, y, x + width, y + height)
    expected = {
        (clip.id, i, b.time): (clip.video, state, b.x1, b.y1, b.x2, b.y2)
        for clip in result.corpus
        for i, state in ((0, 1), (1, 1), (3, 2))
        for b in clip.tracklets[i].boxes
    }
    assert seen == expected
    assert len(coco.getImgIds()) == len(done.files) - 1


def test_images_show_the_object_in_the_box(result, tmp_path):
    export(result, "coco", tmp_path / "x")
    data = json.loads((tmp_path / "x" / "annotations.json").read_text())
    assert len(data["images"]) < 3 * 12
    images = {image["id"]: image for image in data["images"]}
    for annotation in data["annotations"]:
        image = images[annotation["image_id"]]
        picture = np.asarray(cv2.imread(str(tmp_path / "x" / "images" / image["file_name"])))
        x, y, width, height = map(int, annotation["bbox"])
        inside = picture[y + 2 : y + height - 2, x + 2 : x + width - 2]
        assert inside[..., 0].mean() > 230  # blue
        assert inside[..., 1:].mean() < 30
        brightness = picture[:12].mean()
        assert brightness == pytest.approx(5 * (round(image["time"] * FPS) % 50), abs=4)


def test_images_can_be_left_out(result, tmp_path):
    files = export(result, "coco", tmp_path / "x", images=False).files
    assert files == ("annotations.json",)


def test_all_tracklets_have_state_0_without_one(result, tmp_path):
    export(result, "coco", tmp_path / "x", images=False, all_tracklets=True, fps=1000)
    data = json.loads((tmp_path / "x" / "annotations.json").read_text())
    assert len(data["annotations"]) == len(result.corpus.tracklets.boxes)
    assert {a["attributes"]["state"] for a in data["annotations"]} == {0, 1, 2}
    unsure = [a for a in data["annotations"] if a["attributes"]["state"] == 0]
    assert all(a["attributes"]["score"] is None for a in unsure)


def test_boxes_can_be_ingested_again(result, tmp_path):
    export(result, "coco", tmp_path / "x", images=False, fps=FPS)
    rows = read_boxes(tmp_path / "x" / "annotations.json").rows
    assert len(rows) == 3 * 3 * 12
    for row in rows:
        box = box_at(row.position)
        assert (row.rate, row.score, row.label) == (1.0, 0.75, "cup <big> & co")
        assert row.box == (box.x1, box.y1, box.x2, box.y2)


def test_boxes_of_a_chain_have_the_numbers_of_its_states(chain, tmp_path):
    export(chain, "coco", tmp_path / "out", images=False)
    found = json.loads((tmp_path / "out" / "annotations.json").read_text())["annotations"]
    assert {a["attributes"]["state"] for a in found} == {1, 2, 3}

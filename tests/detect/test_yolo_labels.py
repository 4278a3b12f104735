from __future__ import annotations

from pathlib import Path

import pytest

from objectstates.base.errors import LabelError
from objectstates.detect.labels import read_labels
from objectstates.detect.yolo_labels import _yaml_names
from tests.detect.pictures import labelled_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three images, one of them without the object, in the layout of Ultralytics."""
    labelled_folder(tmp_path / "images" / "train", 3, seed=0)
    (tmp_path / "images" / "train" / "labels.json").unlink()
    (tmp_path / "labels" / "train").mkdir(parents=True)
    for name, text in {
        "0": "1 .5 .5 .25 .5\n",
        "1": "1 0.1 0.1 0.3 0.1 0.3 0.4\n",
        "2": "",
    }.items():
        (tmp_path / "labels" / "train" / f"{name}.txt").write_text(text)
    (tmp_path / "data.yaml").write_text("train: images/train\nnc: 2\nnames: [plate, 'cup']\n")
    return tmp_path


def test_boxes_are_in_pixels_once_the_image_is_loaded(folder: Path):
    found = read_labels(folder, "cup")
    boxes = [image.boxes.round(3).tolist() for image, _ in found.load()]
    assert boxes == [[[60, 30, 100, 90]], [[16, 12, 48, 48]], []]
    assert found.counts == {"boxes": 2, "images": 3, "videos": 0, "image_files": 3}


def test_images_beside_the_text_files(folder: Path):
    flat = folder / "flat"
    labelled_folder(flat, 1, seed=0)
    (flat / "labels.json").unlink()
    (flat / "0.txt").write_text("0 .5 .5 .25 .5 0.9\n")
    (flat / "classes.txt").write_text("cup\n")
    assert len(read_labels(flat).images) == 1


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("names: [a, b]\nnc: 2", {0: "a", 1: "b"}),
        ("nc: 2\nnames:\n  - a # first\n  - 'b c'\nother: 1", {0: "a", 1: "b c"}),
        ("names:\n- a\n- b\n", {0: "a", 1: "b"}),
        ("names:\n  0: a\n  7: b\npath: x", {0: "a", 7: "b"}),
        ('names: {0: a, 1: "b"}', {0: "a", 1: "b"}),
        ("nc: 1", {}),
    ],
)
def test_names_of_classes_in_the_forms_that_tools_write(text: str, names: dict[int, str]):
    assert _yaml_names(text) == names


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 60 30 100 90", "shares of the image"),
        ("5 .5 .5 .2 .2", "class 5 is not among the 2"),
        ("1 .5 .5", "is not class x y width height"),
        ("cup .5 .5 .2 .2", "is not class x y width height"),
        ("1 .5 .5 0 .2", "covers nothing"),
        ("1 nan .5 .2 .2", "shares of the image"),
    ],
)
def test_a_wrong_line_is_named(folder: Path, line: str, message: str):
    path = folder / "labels" / "train" / "0.txt"
    path.write_text(f"\n{line}\n")
    with pytest.raises(LabelError, match=message) as caught:
        read_labels(folder, "cup")
    assert f"{path}, line 2" in str(caught.value)


def test_what_is_missing_is_named(folder: Path):
    (folder / "images" / "train" / "1.png").unlink()
    with pytest.raises(LabelError, match=r"1\.txt has no image.*`media`"):
        read_labels(folder, "cup")
    (folder / "data.yaml").unlink()
    with pytest.raises(LabelError, match=r"need classes\.txt or data\.yaml"):
        read_labels(folder, "cup")

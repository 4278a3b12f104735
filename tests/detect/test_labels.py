from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from objectstates.base.errors import LabelError
from objectstates.detect.labels import read_labels
from objectstates.video.reader import Frame
from tests.detect.pictures import labelled_folder
from tests.video.videos import gray, number, write_video


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return labelled_folder(tmp_path / "labels", 4, seed=0)


def edited(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


def video_labels(folder: Path, images: list[dict[str, Any]]) -> Path:
    entries = [{"id": k, "video": "v.mp4"} | image for k, image in enumerate(images)]
    boxes = [
        {"id": k, "image_id": k, "category_id": 1, "bbox": [4, 4, 20, 20]}
        for k in range(len(images))
    ]
    path = folder / "labels.json"
    categories = [{"id": 1, "name": "cup"}]
    path.write_text(json.dumps({"images": entries, "annotations": boxes, "categories": categories}))
    return path


def test_boxes_come_as_corners_with_their_pixels(labels: Path):
    found = read_labels(labels)
    assert found.object == "board"
    for (image, pixels), raw in zip(
        found.load(), json.loads(labels.read_text())["annotations"], strict=True
    ):
        x, y, width, height = raw["bbox"]
        np.testing.assert_array_equal(image.boxes, [[x, y, x + width, y + height]])
        # The thing has a dark frame: the pixels are those of the box.
        assert pixels[y, x : x + width].mean() < 60


def test_moments_of_videos_need_no_export(tmp_path: Path):
    write_video(tmp_path / "v.mp4", gray(40))
    asked: list[dict[str, Any]] = [{"frame": 30, "fps": 25}, {"time": 0.2}, {"frame": 7}]
    asked += [{"time": 0.21}, {"time": 1.56}]
    found = read_labels(video_labels(tmp_path, asked)).load()
    shown = [round(float(pixels.mean()) / 5) for _, pixels in found]
    assert shown == [30, 5, 7, 5, 39]


def test_far_moments_of_a_long_video_are_found(tmp_path: Path):
    write_video(tmp_path / "v.mp4", gray(100), times=[k * 0.5 for k in range(100)])
    asked: list[dict[str, Any]] = [{"time": time} for time in (49.0, 3.1, 30.0, 3.0, 0.0)]
    found = read_labels(video_labels(tmp_path, asked)).load()
    shown = [number(Frame(0.0, pixels)) for _, pixels in found]
    assert shown == [98 % 50, 6, 60 % 50, 6, 0]


def test_a_moment_past_the_end_is_refused(tmp_path: Path):
    write_video(tmp_path / "v.mp4", gray(10))
    for times in ([3.0], [0.1, 0.9], [0.5]):
        labels = read_labels(video_labels(tmp_path, [{"time": time} for time in times]))
        with pytest.raises(LabelError, match=rf"v\.mp4 has no frame at {times[-1]:g} s: it lasts"):
            list(labels.load())


def test_several_objects_must_be_told_apart(labels: Path):
    two = edited(labels, categories=[{"id": 3, "name": "board"}, {"id": 4, "name": "cup"}])
    with pytest.raises(LabelError, match=r"several objects.*`object`: board, cup"):
        read_labels(two)
    with pytest.raises(LabelError, match=r"no object 'plate'.*board, cup"):
        read_labels(two, "plate")
    with pytest.raises(LabelError, match="no box of 'cup'"):
        read_labels(two, "cup")
    assert sum(len(image.boxes) for image in read_labels(two, "board").images) == 4


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ({"bbox": [5, 5, 0, 10]}, "covers nothing"),
        ({"bbox": [5, 5, 10, -3]}, "covers nothing"),
        ({"bbox": [5, 5, float("nan"), 3]}, "covers nothing"),
        ({"bbox": [5, 5, 10]}, "four numbers"),
        ({"bbox": [5, 5, 10, 10**400]}, "four numbers"),
        ({"bbox": [5, 5, 10, 10], "image_id": [1]}, "not among the images"),
        ({}, "four numbers"),
        ({"bbox": [5, 5, 10, 10], "image_id": 99}, "not among the images"),
        ({"bbox": [150, 5, 30, 10]}, r"reaches out of the 160 x 120 pixels of image 0\.png"),
        ({"bbox": [-30, 5, 40, 10]}, "reaches out"),
    ],
)
def test_bad_boxes_are_named(labels: Path, annotation: dict[str, Any], message: str):
    bad = {"id": 7, "image_id": 0, "category_id": 3} | annotation
    with pytest.raises(LabelError, match=message) as caught:
        list(read_labels(edited(labels, annotations=[bad])).load())
    assert str(labels) in str(caught.value)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ({"id": [0]}, "every image needs an id"),
        ({"width": "wide"}, "the width 'wide'.* no numbers of pixels"),
        ({"height": float("inf")}, "no numbers of pixels"),
    ],
)
def test_bad_images_are_named(labels: Path, image: dict[str, Any], message: str):
    first = json.loads(labels.read_text())["images"][0]
    with pytest.raises(LabelError, match=message):
        read_labels(edited(labels, images=[first | image], annotations=[]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "no list 'images'"),
        ('{"images": []}', "no list 'annotations'"),
        ('{"images": [1], "annotations": [], "categories": []}', "no list 'images'"),
        ('{"images": [], "annotations": [], "categories": []}', "several objects|choose one"),
    ],
)
def test_files_that_are_no_labels_are_named(tmp_path: Path, content: str, message: str):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(LabelError, match=message) as caught:
        read_labels(path)
    assert str(path) in str(caught.value)


def test_missing_and_damaged_pictures_are_named(labels: Path):
    (labels.parent / "2.png").write_bytes(b"not a picture")
    with pytest.raises(LabelError, match=r"2\.png, which is not a picture"):
        list(read_labels(labels).load())
    (labels.parent / "2.png").unlink()
    with pytest.raises(LabelError, match=r"2\.png, which cannot be read"):
        list(read_labels(labels).load())
    with pytest.raises(LabelError, match="does not exist"):
        read_labels(labels.parent / "none.json")


def test_labels_of_another_version_of_the_picture_are_refused(labels: Path):
    images = json.loads(labels.read_text())["images"]
    images[1] |= {"width": 1920, "height": 1080}
    with pytest.raises(LabelError, match=r"1\.png is 160 x 120.*\(1920, 1080\)"):
        list(read_labels(edited(labels, images=images)).load())


def test_a_pixel_beyond_the_border_is_forgiven(labels: Path):
    box = [{"id": 0, "image_id": 0, "category_id": 3, "bbox": [120, 80, 40.6, 40.9]}]
    image, _ = next(read_labels(edited(labels, annotations=box)).load())
    np.testing.assert_array_equal(image.boxes, [[120, 80, 160, 120]])

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from objectstates.base.errors import LabelError
from objectstates.detect.labels import read_labels
from tests.detect.pictures import labelled_folder


def shape(label: str, kind: str, *points: tuple[float, float]) -> dict[str, Any]:
    return {"label": label, "shape_type": kind, "points": points}


def write(folder: Path, number: int, *shapes: dict[str, Any], **changes: Any) -> Path:
    path = folder / f"{number}.json"
    content = {"version": "5", "imagePath": f"..\\{folder.name}\\{number}.png", "shapes": shapes}
    size = {"imageWidth": 160, "imageHeight": 120}
    path.write_text(json.dumps({**content, **size, **changes}))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    labelled_folder(tmp_path / "set", 3, seed=0)
    (tmp_path / "set" / "labels.json").unlink()
    return tmp_path / "set"


def test_a_folder_of_files_is_read(folder: Path):
    write(
        folder,
        0,
        shape("cup", "rectangle", (30, 40), (10, 20)),
        shape("x", "circle", (9, 9), (9, 4)),
    )
    write(folder, 1, shape("cup", "polygon", (30, 40), (10, 20), (50, 30)))
    write(folder, 2)
    found = read_labels(folder, "cup")
    assert [image.boxes.tolist() for image, _ in found.load()] == [
        [[10, 20, 30, 40]],
        [[10, 20, 50, 40]],
        [],
    ]
    assert read_labels(folder, "x").images[0].boxes.tolist() == [[4, 4, 14, 14]]
    assert len(read_labels(folder / "1.json").images) == 1


def test_what_cannot_be_used_is_refused_with_its_file(folder: Path):
    for shapes, changes, message in (
        ([shape("cup", "point", (1, 2))], {}, "0.json, shape 1.*encloses nothing"),
        ([{"label": "cup"}], {}, "shape 1 is not a label with points"),
        ([shape("cup", "rectangle", (0, 0), (9, 10**400))], {}, "shape 1 is not a label"),
        ([], {"imagePath": "a" * 5000}, "which is in none of"),
        ([5], {}, "shape 1 is not a label with points"),
        ([], {"imagePath": None}, "no imagePath"),
        ([], {"imagePath": "/etc/hostname"}, "hostname, which is in none of"),
        ([], {"imagePath": "a\0b"}, "is no name"),
        ([shape("cup", "rectangle", (0, 0), (9, 9))], {"imageWidth": 80}, "another version"),
    ):
        path = write(folder, 0, *shapes, **changes)
        with pytest.raises(LabelError, match=message):
            list(read_labels(path, "cup").load())
    (folder / "0.json").unlink()
    with pytest.raises(LabelError, match="no labels in this folder"):
        read_labels(folder, "cup")

"""Exports that were edited as Label Studio would write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from objectstates import Result
from objectstates.base.errors import CorrectionError
from objectstates.data.corrections import Correction, read_corrections
from objectstates.export import export
from tests.export.conftest import FPS, NAMES, result, videos

__all__ = ["result", "videos"]


@pytest.fixture
def tasks(result: Result, tmp_path: Path) -> list[dict[str, Any]]:
    export(result, "labelstudio", tmp_path / "x")
    read: list[dict[str, Any]] = json.loads((tmp_path / "x" / "tasks.json").read_text())
    return read


def submit(task: dict[str, Any]) -> list[dict[str, Any]]:
    """The regions of a task after *Submit*, which copies the prediction."""
    regions = task["predictions"][0]["result"]
    task["annotations"] = [{"id": 1, "was_cancelled": False, "result": regions}]
    return list(regions)


def read(tasks: Any, folder: Path) -> tuple[Correction, ...]:
    path = folder / "export.json"
    path.write_text(json.dumps(tasks))
    return read_corrections(path)


def of(regions: list[dict[str, Any]], clip: str, label: str) -> dict[str, Any]:
    """The range of a label in a clip."""
    for region in regions:
        if region["meta"]["text"][0] == clip and label in region["value"].get("timelinelabels", ()):
            found: dict[str, Any] = region
            return found
    raise AssertionError


def test_only_submitted_tasks_count_and_confirm_what_was_left(tasks, tmp_path):
    assert read(tasks, tmp_path) == ()
    submit(tasks[1])
    assert read(tasks, tmp_path) == (Correction(NAMES[2], "confirm", 1.8, 2.2),)
    tasks[1]["annotations"][0]["was_cancelled"] = True
    assert read(tasks, tmp_path) == ()


def test_edits_become_corrections(result, tasks, tmp_path):
    regions = submit(tasks[0])
    of(regions, NAMES[0], "action")["value"]["ranges"] = [{"start": 16, "end": 32}]
    of(regions, NAMES[1], "state 1")["value"]["ranges"] = [{"start": 52, "end": 60}]
    boxes = [r for r in regions if r["meta"]["text"][0] == NAMES[0] and "labels" in r["value"]]
    boxes[1]["value"]["labels"] = ["state 2"]
    regions.remove(boxes[2])
    tasks[0]["annotations"][0]["result"] = regions
    changed = result.corpus[0].tracklets[1]
    assert set(read(tasks[:1], tmp_path)) == {
        Correction(NAMES[0], "action", 15 / FPS, 32 / FPS),
        Correction(NAMES[0], "state", changed.start, changed.end, "2"),
        Correction(NAMES[0], "not_object", value="3"),
        Correction(NAMES[1], "state", 51 / FPS, 60 / FPS, "1"),
        Correction(NAMES[1], "confirm", 2.8, 3.2),
    }


def test_a_deleted_action_means_no_change_and_one_drawn_anew_is_taken(tasks, tmp_path):
    regions = submit(tasks[0])
    action = of(regions, NAMES[1], "action")
    regions.remove(action)
    tasks[0]["annotations"][0]["result"] = regions
    assert Correction(NAMES[1], "no_change") in read(tasks, tmp_path)
    value = {"ranges": [{"start": 76, "end": 80}], "timelinelabels": ["action"]}
    regions.append({"type": "timelinelabels", "value": value})
    assert Correction(NAMES[1], "action", 3.0, 3.2) in read(tasks, tmp_path)


@pytest.mark.parametrize("frame", [10**400, float("inf")])
def test_frames_beyond_all_numbers_are_refused(tasks, tmp_path, frame):
    regions = submit(tasks[0])
    of(regions, NAMES[0], "action")["value"]["ranges"] = [{"start": frame, "end": frame}]
    tasks[0]["annotations"][0]["result"] = regions
    with pytest.raises(CorrectionError, match="own export for Label Studio"):
        read(tasks, tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"annotations": [{"result": []}]}], "'data' is missing"),
        ([{"video": "a.mp4", "annotations": [{"result": []}], "data": {}}], "'names' is missing"),
        ({"annotations": 5}, "not iterable"),
        ([5], "no attribute"),
    ],
)
def test_what_is_not_such_an_export_is_refused(tmp_path, content, message):
    with pytest.raises(CorrectionError, match=message) as caught:
        read(content, tmp_path)
    assert "JSON-MIN" in str(caught.value)
    (tmp_path / "export.json").write_text("[" * 100_000)
    with pytest.raises(CorrectionError):
        read_corrections(tmp_path / "export.json")

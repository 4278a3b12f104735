from __future__ import annotations

import json
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from objectstates.export import export
from tests.export.conftest import COUNT, FPS, HEIGHT, WIDTH, clip, make_result


@pytest.fixture
def tasks(result, tmp_path):
    export(result, "labelstudio", tmp_path / "x")
    return json.loads((tmp_path / "x" / "tasks.json").read_text())


def test_label_studio_takes_it(tasks, tmp_path):
    sdk = pytest.importorskip(
        "label_studio_sdk.label_interface", reason="heavy: pip install '.[readers]'"
    )
    interface = sdk.LabelInterface((tmp_path / "x" / "config.xml").read_text())
    interface.validate()
    assert len(tasks) == 2
    for task in tasks:
        (prediction,) = task["predictions"]
        assert interface.validate_prediction(prediction, return_errors=True) == []
    tasks[0]["predictions"][0]["result"][0]["value"]["sequence"][0]["x"] = 101
    assert interface.validate_prediction(tasks[0]["predictions"][0], return_errors=True)


def test_boxes_are_those_of_the_result(result, tasks):
    regions = tasks[0]["predictions"][0]["result"]
    boxes = [region for region in regions if region["type"] == "videorectangle"]
    seen, expected = set(), set()
    for region in boxes:
        value = region["value"]
        assert value["framesCount"] == COUNT
        assert value["duration"] == COUNT / FPS
        assert [key["enabled"] for key in value["sequence"]][-1] is False
        for key in value["sequence"]:
            assert key["frame"] == round(key["time"] * FPS) + 1
            x, y = key["x"] * WIDTH / 100, key["y"] * HEIGHT / 100
            size = key["width"] * WIDTH / 100, key["height"] * HEIGHT / 100
            numbers = tuple(round(v, 6) for v in (x, y, x + size[0], y + size[1]))
            seen.add((value["labels"][0], key["frame"], *numbers))
    for n in (0, 1):
        for i, state in ((0, "state 1"), (1, "state 1"), (3, "state 2")):
            for b in result.corpus[n].tracklets[i].boxes:
                frame = round(b.time * FPS) + 1
                expected.add((state, frame, b.x1, b.y1, b.x2, b.y2))
    assert seen == expected


def test_the_timeline_is_that_of_the_result(tasks):
    regions = tasks[0]["predictions"][0]["result"]
    ranges = [
        (value["timelinelabels"], value["ranges"])
        for region in regions
        if region["type"] == "timelinelabels"
        for value in [region["value"]]
    ]
    assert ranges[:3] == [
        (["state 1"], [{"start": 1, "end": 20}]),
        (["action"], [{"start": 21, "end": 30}]),
        (["state 2"], [{"start": 37, "end": 48}]),
    ]


def test_labels_and_controls_are_those_of_the_interface(tasks, tmp_path):
    root = ElementTree.parse(tmp_path / "x" / "config.xml").getroot()
    names = {element.get("name") for element in root.iter()}
    labels = {element.get("value") for element in root.iter("Label")}
    for task in tasks:
        for region in task["predictions"][0]["result"]:
            assert {region["from_name"], region["to_name"]} <= names
            value = region["value"]
            assert set(value.get("labels") or value["timelinelabels"]) <= labels


def test_videos_are_found_where_they_are_served(result, videos, tasks, tmp_path):
    prefix, _, path = tasks[0]["data"]["video"].partition("?d=")
    assert prefix == "/data/local-files/"
    assert f"/{unquote(path)}" == str(videos / "a.mp4")
    assert tasks[0]["data"]["fps"] == FPS
    export(result, "labelstudio", tmp_path / "y", url="https://example.org/v/")
    again = json.loads((tmp_path / "y" / "tasks.json").read_text())
    assert again[0]["data"]["video"] == "https://example.org/v/a.mp4"


def test_the_last_frame_is_the_last(videos, tmp_path):
    late = make_result([clip("late", str(videos / "a.mp4"), 2.2)])
    export(late, "labelstudio", tmp_path / "x")
    (task,) = json.loads((tmp_path / "x" / "tasks.json").read_text())
    for region in task["predictions"][0]["result"]:
        for key in region["value"].get("sequence", []):
            assert 1 <= key["frame"] <= COUNT
        for part in region["value"].get("ranges", []):
            assert 1 <= part["start"] <= part["end"] <= COUNT


def test_a_chain_has_regions_per_action(chain, tmp_path):
    export(chain.select([0]), "labelstudio", tmp_path / "out")
    (task,) = json.loads((tmp_path / "out" / "tasks.json").read_text())
    assert "found" not in task["data"], "edits of chains cannot be told from this file"
    ranges = [
        region["value"]["timelinelabels"][0]
        for region in task["predictions"][0]["result"]
        if region["type"] == "timelinelabels"
    ]
    assert ranges == ["closed", "opening", "open", "closing", "closed"]
    config = ElementTree.parse(tmp_path / "out" / "config.xml").getroot()
    of_timeline = [label.get("value") for label in config.findall("TimelineLabels/Label")]
    assert of_timeline == ["closed", "opening", "open", "closing"], "a name that returns, once"

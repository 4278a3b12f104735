from __future__ import annotations

import json
from importlib import import_module
from xml.etree import ElementTree

import pytest

from objectstates.base.errors import CorrectionError
from objectstates.data.corrections import read_corrections
from objectstates.detect.box_file_formats import read_boxes
from objectstates.export import export
from tests.export.conftest import COUNT, FPS, HEIGHT, WIDTH, box_at, clip, images, make_result
from tests.video.videos import write_video


def test_our_own_reader_gets_the_boxes_back(result, tmp_path):
    export(result, "cvat", tmp_path / "x")
    rows = read_boxes(tmp_path / "x" / "annotations" / "a.xml").rows
    boxes = [row for row in rows if row.label == "cup <big> & co"]
    expected = sorted(
        round(box.time * FPS)
        for n in (0, 1)
        for i in (0, 1, 3)
        for box in result.corpus[n].tracklets[i].boxes
    )
    assert sorted(row.position for row in boxes) == expected
    for row in boxes:
        box = box_at(row.position / FPS)
        assert row.box == (box.x1, box.y1, box.x2, box.y2)
        assert row.size == (WIDTH, HEIGHT)
    action = sorted(row.position for row in rows if row.label == "action")
    assert action == [*range(20, 30), *range(70, 80)]  # 0.8 to 1.2 s and 2.8 to 3.2 s


def test_datumaro_reads_it(result, tmp_path):
    datumaro = pytest.importorskip("datumaro", reason="heavy: pip install '.[readers]'")
    export(result, "cvat", tmp_path / "x")
    reader = import_module("datumaro.plugins.data_formats.cvat.base")
    read = reader.CvatBase(str(tmp_path / "x" / "annotations" / "a.xml"))
    items = list(read)
    labels = [category.name for category in next(iter(read.categories().values()))]
    assert labels == ["cup <big> & co", "action"]
    seen = set()
    for item in items:
        for box in item.annotations:
            assert isinstance(box, datumaro.Bbox)
            if box.label == 0 and not box.attributes["outside"]:
                frame = item.attributes["frame"]
                seen.add((frame, int(box.attributes["state"]), tuple(box.points)))
    expected = set()
    for n in (0, 1):
        for i, state in ((0, 1), (1, 1), (3, 2)):
            for b in result.corpus[n].tracklets[i].boxes:
                expected.add((round(b.time * FPS), state, (b.x1, b.y1, b.x2, b.y2)))
    assert seen == expected


def test_the_boxes_of_all_videos_can_be_ingested_again(result, tmp_path):
    export(result, "cvat", tmp_path / "x")
    found = read_boxes(tmp_path / "x" / "annotations")
    assert found.videos == {("a",), ("b",)}
    assert found.labels == {"cup <big> & co", "action"}
    assert sum(row.label != "action" for row in found.rows) == 3 * 3 * 12


def test_tracks_end(result, tmp_path):
    export(result, "cvat", tmp_path / "x")
    root = ElementTree.parse(tmp_path / "x" / "annotations" / "a.xml").getroot()
    assert root.findtext("meta/task/size") == str(COUNT)
    assert root.findtext("meta/task/stop_frame") == str(COUNT - 1)
    assert root.findtext("meta/task/source") == "a.mp4"
    for track in root.iterfind("track"):
        boxes = track.findall("box")
        last = boxes[-1]
        assert last.get("outside") == "1" or int(last.attrib["frame"]) == COUNT - 1
        assert all(box.get("outside") == "0" for box in boxes[:-1])


def test_labels_match_the_tracks(result, tmp_path):
    export(result, "cvat", tmp_path / "x", all_tracklets=True)
    labels = json.loads((tmp_path / "x" / "labels.json").read_text())
    known = {
        label["name"]: {a["name"]: a["values"] for a in label["attributes"]} for label in labels
    }
    root = ElementTree.parse(tmp_path / "x" / "annotations" / "a.xml").getroot()
    assert len(root.findall("track")) == 2 * (4 + 1)
    for track in root.iterfind("track"):
        attributes = known[track.attrib["label"]]
        for attribute in track.iterfind("box/attribute"):
            values = attributes[attribute.attrib["name"]]
            assert values == [""] or attribute.text in values


def test_frames_are_counted_where_the_rate_varies(tmp_path):
    times = [i / FPS if i < 50 else 2 + (i - 50) / 10 for i in range(COUNT)]
    path = write_video(tmp_path / "v.mkv", list(images()), times=times, fps=FPS)
    export(make_result([clip("c", str(path), 2.0)]), "cvat", tmp_path / "x")
    root = ElementTree.parse(tmp_path / "x" / "annotations" / "v.xml").getroot()
    first, *_ = root.findall("track")
    frames = [int(box.attrib["frame"]) for box in first.iterfind("box")]
    assert frames == [50, 51, 52, 53, 54, 55]  # 2.0 to 2.48 s, ten frames a second


@pytest.mark.parametrize("name", ["\x00\x1b]0;x", "]]>", "<!DOCTYPE x>", "\ufffe", "action", ""])
def test_no_name_breaks_the_file(videos, tmp_path, name):
    one = make_result([clip(name or "c", str(videos / "a.mp4"), 0.0)], name)
    export(one, "cvat", tmp_path / "x")
    root = ElementTree.parse(tmp_path / "x" / "annotations" / "a.xml").getroot()
    assert len({track.get("label") for track in root.iterfind("track")}) == 2


def test_boxes_are_cut_to_the_frame(videos, tmp_path):
    from dataclasses import replace

    whole = clip("c", str(videos / "a.mp4"), 0.0)
    tracklets = list(whole.tracklets)
    boxes = tracklets[0].boxes
    beyond = (replace(boxes[0], x1=-5.0), replace(boxes[1], x1=200.0, x2=220.0), *boxes[2:])
    tracklets[0] = replace(tracklets[0], boxes=beyond)
    moved = make_result([replace(whole, tracklets=tuple(tracklets))])
    problems = export(moved, "cvat", tmp_path / "x").problems
    assert problems == ("clip 'c', tracklet 0: 1 boxes lie outside the frame",)
    first = ElementTree.parse(tmp_path / "x" / "annotations" / "a.xml").getroot().find("track/box")
    assert first is not None
    assert first.get("xtl") == "0.00"


def test_what_lies_after_the_end_is_told(tmp_path):
    half = write_video(tmp_path / "half.mp4", list(images())[:50], fps=FPS)
    late = make_result([clip("early", str(half), 0.0), clip("late", str(half), 2.8)])
    (problem,) = export(late, "cvat", tmp_path / "x").problems
    assert "half.mp4: left out what lies after its last frame at 1.96 s" in problem
    root = ElementTree.parse(tmp_path / "x" / "annotations" / "half.xml").getroot()
    assert len(root.findall("track")) == 4


def test_a_chain_has_a_label_and_tracks_per_action(chain, tmp_path):
    export(chain, "cvat", tmp_path / "out")
    labels = json.loads((tmp_path / "out" / "labels.json").read_text())
    assert [label["name"] for label in labels] == ["thing", "opening", "closing"]
    assert labels[0]["attributes"][0]["values"] == ["1", "2", "3"]
    (path,) = (tmp_path / "out" / "annotations").iterdir()
    tracks = ElementTree.parse(path).getroot().findall("track")
    counts = {name: sum(t.get("label") == name for t in tracks) for name in ("opening", "closing")}
    assert counts == {"opening": 3, "closing": 2}
    with pytest.raises(CorrectionError):  # edits of chains cannot be told from this file
        read_corrections(path)

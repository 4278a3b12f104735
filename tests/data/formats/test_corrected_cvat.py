"""Exports that were edited as CVAT would write them; `videos` and `result` are of the exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from objectstates import Result
from objectstates.base.errors import CorrectionError
from objectstates.data.corrections import Correction, read_corrections
from objectstates.export import export
from tests.export.conftest import FPS, NAMES, result, videos

__all__ = ["result", "videos"]


@pytest.fixture
def exported(result: Result, tmp_path: Path) -> Path:
    export(result, "cvat", tmp_path / "x")
    return tmp_path / "x" / "annotations" / "a.xml"


def tracks(path: Path) -> tuple[Any, dict[tuple[str, str], ElementTree.Element]]:
    """The tree, and its tracks by clip and index of the tracklet, which is empty for the action."""
    tree: Any = ElementTree.parse(path)
    found = {}
    for track in tree.getroot().iterfind("track"):
        values = {a.get("name"): a.text or "" for a in track.iterfind("box[1]/attribute")}
        found[values["clip"], values.get("tracklet", "")] = track
    return tree, found


def densified(path: Path) -> None:
    """As CVAT exports again: a box for every visible frame."""
    tree: Any = ElementTree.parse(path)
    for track in tree.getroot().iterfind("track"):
        first, *rest = track.findall("box")
        start = int(first.attrib["frame"])
        for frame in range(start + 1, int(rest[0].attrib["frame"]) if rest else start + 1):
            copy = ElementTree.fromstring(ElementTree.tostring(first))
            copy.attrib |= {"frame": str(frame), "keyframe": "0"}
            track.insert(frame - start, copy)
    tree.write(path)


def test_an_export_that_was_not_edited_has_no_corrections(exported: Path):
    assert read_corrections(exported) == ()
    densified(exported)
    assert read_corrections(exported) == ()


def test_edits_become_corrections(result: Result, exported: Path):
    tree, found = tracks(exported)
    begins, ends = found[NAMES[0], ""].findall("box")  # the action, frames 20 to 30
    begins.set("frame", "15")
    ends.set("frame", "32")
    for state in found[NAMES[0], "1"].iterfind("box/attribute[@name='state']"):
        state.text = "2"
    tree.getroot().remove(found[NAMES[0], "3"])
    tree.write(exported)
    changed = result.corpus[0].tracklets[1]
    assert read_corrections(exported) == (
        Correction(NAMES[0], "action", 0.6, 1.2 + 2 / FPS),
        Correction(NAMES[0], "state", changed.start, changed.end, "2"),
        Correction(NAMES[0], "not_object", value="3"),
    )


def test_a_clip_whose_action_was_deleted_has_no_change(exported: Path):
    tree, found = tracks(exported)
    name = next(clip for clip, index in found if clip != NAMES[0] and not index)
    tree.getroot().remove(found[name, ""])
    tree.write(exported)
    assert read_corrections(exported) == (Correction(name, "no_change"),)


def test_corrections_can_be_applied(result: Result, exported: Path):
    from objectstates.discovery.corrections import apply_corrections

    tree, found = tracks(exported)
    found[NAMES[0], ""].findall("box")[0].set("frame", "10")
    tree.write(exported)
    rows = read_corrections(exported)
    bounds = apply_corrections(result.corpus, rows).bounds
    assert bounds[NAMES[0]].actions == ((0.4, 1.2),)


def test_without_actions_there_is_nothing_to_compare(result: Result, exported: Path):
    tree, found = tracks(exported)
    for (_, index), track in found.items():
        if not index:
            tree.getroot().remove(track)
        for text in track.iterfind("box/attribute[@name='tracklet']"):
            text.text = ""
    tree.write(exported)
    with pytest.raises(CorrectionError, match="neither tracklets nor an action"):
        read_corrections(exported)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<annotations>", '<!DOCTYPE a [<!ENTITY b "c">]><annotations>', "document type"),
        ("</annotations>", "", "not XML"),
        ("annotations>", "svg>", "CVAT for video"),
        ('"fps": 25.0', '"fps": 0.0', "frame rate"),
        ('"fps": 25.0', f'"fps": {10**400}', "too large"),
        ('"action": [', '"action": [], "was": [', "out of range"),
        ('"tracklets"', '"others"', "'tracklets' is missing"),
        ('name="found"', 'name="lost"', "drawn anew"),
        ('frame="20"', 'frame="twenty"', "twenty"),
    ],
)
def test_what_is_not_such_an_export_is_refused(exported: Path, old: str, new: str, message: str):
    text = exported.read_text(encoding="utf-8")
    text = text.replace("&quot;", '"') if '"' in old[:1] else text
    assert old in text
    exported.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(CorrectionError, match=message) as caught:
        read_corrections(exported)
    assert str(caught.value).startswith(str(exported))

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectstates.export.names import Names, one_line, safe_name, video_stem, xml_text


@given(st.text())
def test_a_safe_name_is_one_plain_file_name(text):
    name = safe_name(text)
    assert Path(name).name == name
    assert not name.startswith(".")
    assert 0 < len(name.encode()) <= 101
    assert not set(name) & set('/\\:*?"<>|\0\n ')


@pytest.mark.parametrize("text", ["CON", "nul.txt", "Com1"])
def test_devices_of_windows_are_no_files(text):
    assert safe_name(text) == f"_{text}"


@given(st.lists(st.sampled_from(["a", "A", "a/b", "a_b", "a-2", "é", "e\u0301", ".."])))
def test_names_are_given_once(texts):
    names = Names()
    given_names = [names.unique(text).casefold() for text in texts]
    assert len(set(given_names)) == len(texts)


def test_folders_of_images_keep_their_name():
    assert video_stem("videos/a.b.MP4") == "a.b"
    assert video_stem("videos/frames.2024") == "frames.2024"


@given(st.text())
def test_any_text_can_be_put_into_xml(text):
    element = ElementTree.Element("a")
    element.text = xml_text(text)
    ElementTree.fromstring(ElementTree.tostring(element, encoding="utf-8"))


def test_xml_keeps_what_it_can_hold():
    assert xml_text("tab\té\U0001f600\x00\x1b\ufffe") == "tab\té\U0001f600\ufffd\ufffd\ufffd"


@given(st.text())
def test_one_line_is_one_line(text):
    assert len(one_line(text).splitlines()) <= 1

import json
import os

from objectstates.base.file_names import existing_path, printable_json, printable_name


def test_a_name_that_is_no_text_is_shown_and_found_again(tmp_path):
    name = os.fsdecode(b"caf\xe9.mp4")
    (tmp_path / name).touch()
    shown = printable_name(tmp_path / name)
    assert shown == str(tmp_path / "caf%E9.mp4")
    assert shown.encode()  # it can be written as UTF-8
    assert existing_path(shown) == tmp_path / name


def test_a_file_that_has_the_printable_name_goes_first(tmp_path):
    (tmp_path / os.fsdecode(b"caf\xe9.mp4")).touch()
    (tmp_path / "caf%E9.mp4").touch()
    assert existing_path(tmp_path / "caf%E9.mp4") == tmp_path / "caf%E9.mp4"


def test_other_paths_stay_as_they_are(tmp_path):
    for name in ("missing%E9.mp4", "100%.mp4", "é.mp4"):
        assert existing_path(tmp_path / name) == tmp_path / name
        assert printable_name(name) == name


def test_json_with_such_names_can_be_encoded_and_is_the_same_otherwise():
    value = {"path": "d\udce9/caf\udce9", "half": "\ud800", "text": 'é "\u2028"\n', "n": [1.5]}
    text = printable_json(value)
    assert json.loads(text.encode()) == {**value, "path": "d%E9/caf%E9", "half": "?"}
    assert "\n" not in text

"""What may be written over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from objectstates.base.errors import BenchmarkError, DetectorError
from objectstates.base.targets import OwnFolder, check_file, check_no_input, starts_with

is_ours = starts_with(b"ours:")


def test_a_file_of_our_kind_is_replaced_and_no_other(tmp_path: Path) -> None:
    out = tmp_path / "out"
    check_file(out, [], is_ours, DetectorError)
    out.write_bytes(b"ours: 1")
    check_file(out, [], is_ours, DetectorError)
    out.write_bytes(b"a thesis")
    with pytest.raises(DetectorError, match="exists and is something else"):
        check_file(out, [], is_ours, DetectorError)
    with pytest.raises(DetectorError, match="exists and is something else"):
        check_file(tmp_path, [], is_ours, DetectorError)


def test_an_input_is_never_written_over_by_whatever_name(tmp_path: Path) -> None:
    given = tmp_path / "labels"
    given.write_bytes(b"ours: but an input")
    os.link(given, tmp_path / "hard")
    (tmp_path / "soft").symlink_to(given)
    for name in ("labels", "hard", "soft", "folder/../labels"):
        with pytest.raises(DetectorError, match="is an input"):
            check_file(tmp_path / name, [None, given], is_ours, DetectorError)
    with pytest.raises(DetectorError, match="holds the input"):
        check_no_input(tmp_path, [given], DetectorError)
    check_no_input(tmp_path / "label", [given], DetectorError)


def test_a_folder_of_results_holds_nothing_else(tmp_path: Path) -> None:
    kind = OwnFolder("header.json", frozenset({"runs", "clips.csv"}), "runs", BenchmarkError)
    folder = kind.open(tmp_path / "new" / "folder")
    (folder / "clips.csv").touch()
    kind.open(folder)
    (folder / "notes.txt").touch()
    with pytest.raises(BenchmarkError, match=r"something else \(notes\.txt\)"):
        kind.open(folder)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "clips.csv").write_text("the user's own list")
    with pytest.raises(BenchmarkError, match=r"something else \(clips\.csv\)"):
        kind.open(tmp_path / "mine")
    assert os.listdir(tmp_path / "mine") == ["clips.csv"]
    (tmp_path / "earlier" / "runs").mkdir(parents=True)
    kind.open(tmp_path / "earlier")

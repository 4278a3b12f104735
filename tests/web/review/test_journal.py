"""The files of a review."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from objectstates.base.errors import WorkspaceError
from objectstates.data.corrections import Correction, read_corrections
from objectstates.data.label_names import LabelNames
from objectstates.web.review.journal import Journal

HOSTILE = "=cmd|' /C calc'!A0"


def opened(folder: Path, **given) -> Journal:
    values = {"rows": (), "names": LabelNames(), **given}
    return Journal.open(folder / "corrections.csv", folder / "review.json", **values)


def test_each_change_is_on_disk_and_can_be_undone_after_a_restart(tmp_path):
    journal = opened(tmp_path)
    rows = (Correction(HOSTILE, "action", 0.1, 1 / 3),)
    journal.change(HOSTILE, rows)
    journal.note(HOSTILE, "<b>odd</b>\n…")
    journal.rename(LabelNames.of("closed,open"))
    assert read_corrections(tmp_path / "corrections.csv") == rows
    again = opened(tmp_path)
    assert again.of(HOSTILE) == rows
    assert again.notes == {HOSTILE: "<b>odd</b>\n…"}
    assert again.names == LabelNames.of("closed,open")
    assert again.undo() is not None
    assert opened(tmp_path).of(HOSTILE) == ()
    assert opened(tmp_path).redo() is not None
    assert opened(tmp_path).of(HOSTILE) == rows


def test_the_corrections_of_the_result_hold_until_there_are_others(tmp_path):
    told = Correction("a", "state", 1.0, 2.0, "closed")
    journal = opened(tmp_path, rows=[told], names=LabelNames.of("closed,open"))
    assert journal.of("a") == (Correction("a", "state", 1.0, 2.0, "1"),)  # names may change
    assert not any(tmp_path.iterdir())
    journal.change("a", ())
    assert opened(tmp_path, rows=[told]).all_rows == ()


def test_a_history_that_does_not_fit_the_corrections_is_dropped(tmp_path):
    journal = opened(tmp_path)
    journal.change("a", (Correction("a", "exclude"),))
    before = (tmp_path / "review.json").read_bytes()
    journal.change("a", (Correction("a", "no_change"),))
    (tmp_path / "review.json").write_bytes(before)  # killed between the two files
    again = opened(tmp_path)
    assert again.of("a") == (Correction("a", "no_change"),)
    assert again.undo() is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"format_version": 2}',
        '{"format_version": 1, "names": {"x": 1}}',
        "[" * 9999,
    ],
)
def test_a_damaged_file_is_named_and_left_alone(tmp_path, content):
    (tmp_path / "review.json").write_text(content)
    with pytest.raises(WorkspaceError, match=r"review\.json cannot be read"):
        opened(tmp_path)
    assert (tmp_path / "review.json").read_text() == content


def test_the_history_is_bounded(tmp_path):
    journal = opened(tmp_path)
    for k in range(520):
        journal.undoable.append(journal.undoable[-1]) if k > 2 else journal.change("a", ())
    journal.change("a", (Correction("a", "exclude"),))
    assert len(json.loads((tmp_path / "review.json").read_text())["undoable"]) == 500

from __future__ import annotations

from pathlib import Path

import pytest

from objectstates.web.label.training_record import RECALL_POINTS, TrainingRecord


def test_what_was_reached_is_there_after_a_restart(tmp_path: Path):
    record = TrainingRecord(tmp_path / "training.json")
    for boxes in range(RECALL_POINTS + 3):
        record.add({"boxes": boxes}, final=boxes == 5)
    again = TrainingRecord(tmp_path / "training.json")
    assert again.final == {"boxes": 5}
    assert again.recalls == record.recalls
    assert (len(again.recalls), again.recalls[-1]) == (RECALL_POINTS, {"boxes": RECALL_POINTS + 2})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"recalls": 3}'])
def test_a_damaged_file_costs_the_curve_and_nothing_else(tmp_path: Path, text: str):
    (tmp_path / "training.json").write_text(text)
    record = TrainingRecord(tmp_path / "training.json")
    assert (record.recalls, record.final) == ([], None)

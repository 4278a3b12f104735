from __future__ import annotations

import pytest

from benchmarks.needs import require
from benchmarks.rcnn import demo_task, tasks_in
from tests.conftest import SHARED


def test_what_is_missing_is_listed(capsys):
    require("json", "numpy")
    with pytest.raises(SystemExit) as end:
        require("numpy", "no_such_package", "no_other_package")
    assert end.value.code == 3
    said = capsys.readouterr().out
    assert "no_such_package" in said
    assert "no_other_package" in said


def test_no_clip_is_trained_on_and_judged():
    task = demo_task()
    train, judge = ({clip.id for clip, _ in clips} for clips in (task.train, task.judge))
    assert len(train) == 8
    assert judge
    assert not train & judge


@pytest.mark.skipif(not (SHARED / "data" / "sim").is_dir(), reason="needs ../shared")
def test_only_train_clips_are_read():
    for task in tasks_in(SHARED / "data" / "sim", None):
        names = sorted(clip.id for clip, _ in (*task.train, *task.judge))
        assert [name[-3:] for name in names] == [f"{n:03d}" for n in range(6)]


def test_a_folder_without_clips_is_said(tmp_path):
    with pytest.raises(SystemExit, match="has no folder with clips"):
        tasks_in(tmp_path, None)

"""What the process of a discovery writes."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from objectstates.base.errors import SettingError
from objectstates.ingest.pipeline import Progress, Report
from objectstates.web.studio import worker
from objectstates.web.studio.worker import LineMonitor, run


def test_progress_is_thinned_but_the_end_of_a_stage_is_always_told() -> None:
    lines: list[Any] = []
    monitor = LineMonitor(lines.append)
    with monitor.stage("ingest") as progress:
        for done in range(101):
            progress(Progress(clips=100, clips_done=done, frames=10 * done))
    assert lines[0] == {"stage": "ingest"}
    assert lines[-1] == {"stage": "ingest", "done": 100, "total": 100, "frames": 1000}
    assert len(lines) < 50
    with monitor.stage("fit") as progress:
        progress(SimpleNamespace(stage="joint", restart=0, passes=3))
    assert lines[-1] == {"stage": "fit", "text": "attempt 1, step 3"}
    with monitor.stage("report") as progress:
        progress(2, 2)
    assert lines[-1] == {"stage": "report", "done": 2, "total": 2}


def test_clips_that_cannot_be_read_are_told() -> None:
    lines: list[Any] = []
    failed = (("a", "no video"), ("c", "/videos/c.mp4: no video: copy it again"))
    report = Report(failed=failed, problems=("b: damaged",))
    LineMonitor(lines.append).ingested([1, 2], report)  # type: ignore[arg-type]
    told = ["a: no video", "c: no video: copy it again", "b: damaged"]
    assert lines == [{"clips": 2, "problems": told}]


def test_mistakes_of_the_user_are_a_line_and_exit_code_2(monkeypatch) -> None:
    lines: list[Any] = []

    def fail(**_: Any) -> None:
        raise SettingError("`nu` must be positive")

    monkeypatch.setattr(worker, "discover", fail)
    assert run({}, lines.append) == 2
    assert lines == [{"error": "`nu` must be positive"}]


def test_warnings_are_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[Any] = []
    monkeypatch.setattr(worker, "discover", lambda **_: warnings.warn("few clips", stacklevel=1))
    assert run({}, lines.append) == 0
    assert lines == [{"problems": ["few clips"]}]

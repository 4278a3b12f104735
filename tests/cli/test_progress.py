import io
import sys

import pytest

from objectstates.cli import progress, verbosity
from objectstates.ingest.pipeline import Progress


@pytest.fixture(autouse=True)
def level():
    """No option of a command is left behind."""
    verbosity.reset()
    yield verbosity._level
    verbosity.reset()


def report_three(capsys):
    with progress.report_bar() as show:
        for done in (1, 2, 3):
            show(done, 3)
    return capsys.readouterr().err


def test_without_a_terminal_there_are_plain_lines_now_and_then(capsys, monkeypatch):
    assert report_three(capsys) == "", "a short run is silent"
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.0)
    lines = report_three(capsys).splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        f"reading videos: {done} of 3 videos" for done in (1, 2, 3)
    ]
    with progress.ingest_bar() as show:
        show(Progress(clips=8, clips_done=2, frames=500))
    assert capsys.readouterr().err.startswith("ingesting: 2 of 8 clips, ")


def test_verbose_prints_every_step_and_quiet_none(capsys, level):
    level.set(1)
    assert report_three(capsys).count("\n") == 3
    with progress.status_line("first") as update:
        update("second")
    assert capsys.readouterr().err == "first\nsecond\n"
    level.set(-1)
    assert report_three(capsys) == ""
    with progress.stage_lines() as show:
        show("a", "b", "")
    assert capsys.readouterr().err == ""


def test_on_a_terminal_there_is_a_bar_that_goes_away(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress.report_bar() as show:
        show(2, 3)
    assert "2/3" in screen.getvalue()
    with progress.status_line("reading") as update:
        update("more")
    assert "reading" in screen.getvalue()

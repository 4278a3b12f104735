"""The command that opens the studio's page."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from objectstates.web.folder_lock import FolderLock
from objectstates.web.studio.project import Project


@pytest.fixture
def started(tmp_path):
    """Start the command in a folder of its own; it is killed in the end."""
    root, running = Path(__file__).parents[2], []
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}

    def start(*words: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "objectstates", "studio", *words, "--no-open"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env=environment,
        )  # fmt: skip
        running.append(process)
        assert process.stdout is not None
        text = ""
        for line in process.stdout:
            text += line
            if line.startswith("(Ctrl-C"):
                return process, text
        raise AssertionError(process.communicate())

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_no_arguments_are_needed_and_it_ends_cleanly(started, tmp_path: Path) -> None:
    process, text = started()
    folder = tmp_path / "objectstates-studio"
    assert f"project: {folder}" in text
    address = re.findall(r"open (http://127\.0\.0\.1:\d+/\?token=\S+)", text)
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(address[0]) as page:
        assert b"studio.js" in page.read()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert Project(folder).choices.object == ""


def test_the_demo_and_a_second_server(started, run, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    started(str(folder), "--demo")
    project = Project(folder)
    assert project.choices.object == "drawer"
    assert len(project.clips()[0]) == 14
    code, _, err = run("studio", folder, "--no-open")
    assert code == 2
    assert "another objectstates server" in err


def test_mistakes_are_one_line(run, tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    for words, sentence in (
        ((tmp_path / "p", "--videos", tmp_path / "videos"), "no videos"),
        ((tmp_path / "p", "--config", tmp_path / "none.toml"), "does not exist"),
        ((tmp_path, ), "no project of studio"),
    ):  # fmt: skip
        code, _, err = run("studio", *words, "--no-open")
        assert (code, err.count("\n")) == (2, 1)
        assert sentence in err
    with FolderLock(tmp_path / "p"):
        pass

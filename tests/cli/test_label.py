"""The command that opens the labelling page."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from objectstates.cli.label import next_command

ROOT = Path(__file__).parents[2]
CLIPS = ROOT / "src" / "objectstates" / "demo" / "drawer"


class Page:
    """The command, running, and the requests of its page."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "objectstates", "label", str(CLIPS / "drawer_06.mp4"),
             "--object", "drawer", "--no-open"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )  # fmt: skip
        assert self.process.stdout is not None
        self.text = ""
        for line in self.process.stdout:
            self.text += line
            if line.startswith("(Ctrl-C"):
                break
        else:
            raise AssertionError(self.process.communicate())
        address = re.findall(r"http://127\.0\.0\.1:\d+/label/\?token=\S+", self.text)[0]
        self.root = address.partition("?")[0]
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(jar)
        with self._opener.open(address) as page:
            assert b"label.js" in page.read()

    def __call__(self, path: str, body: dict[str, Any] | None = None) -> Any:
        origin = self.root.removesuffix("/label/")
        headers = {"Content-Type": "application/json", "Origin": origin}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, headers if data else {})
        with self._opener.open(request) as answer:
            return json.loads(answer.read())


@pytest.fixture
def open_page(tmp_path):
    opened = []

    def start() -> Page:
        opened.append(Page(tmp_path))
        return opened[-1]

    yield start
    for page in opened:
        page.process.kill()
        page.process.communicate()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_killed_server_loses_nothing_and_a_second_one_says_so(open_page, run, tmp_path):
    page = open_page()
    folder = tmp_path / "labels-drawer"
    assert "1 clips; labels are saved in labels-drawer" in page.text
    at = {"clip": "drawer_06", "time": 1.0}
    saved = page("api/label", {**at, "boxes": [{"box": [161, 70, 225, 132]}]})
    code, _, err = run("label", CLIPS / "drawer_06.mp4", "--object", "drawer", "--out", folder)
    assert code == 2
    assert "another objectstates server" in err
    page.process.send_signal(signal.SIGKILL)
    page.process.communicate()

    page = open_page()
    (frame,) = page("api/state")["frames"]
    assert (frame["time"], frame["boxes"]) == (saved["time"], saved["boxes"])
    page.process.send_signal(signal.SIGINT)
    _, err = page.process.communicate(timeout=60)
    assert (page.process.returncode, err) == (0, "")


def test_the_command_to_go_on_with_has_all_words():
    found = next_command([Path("my videos")], "drawer", Path("labels-drawer/drawer.npz"))
    assert shlex.split(found) == [
        "objectstates", "discover", "my videos", "--object", "drawer",
        "--detector", "fewshot:labels-drawer/drawer.npz", "--out", "found-drawer",
    ]  # fmt: skip


def test_mistakes_are_one_line(run, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "labels.json").write_text("{}")
    video = CLIPS / "drawer_06.mp4"
    for words, says in (
        ((tmp_path / "no.mp4", "--object", "drawer"), "no.mp4"),
        ((video, "--object", "drawer", "--out", other), "choose another folder with --out"),
        ((video, "--object", "", "--out", tmp_path / "a"), "--object must be a name"),
        ((video, "--object", "drawer", "--out", video), "choose another folder with --out"),
    ):
        code, _, err = run("label", *words, "--no-open")
        assert (code, err.count("\n")) == (2, 1)
        assert says in err


def test_a_folder_with_files_of_no_labelling_is_left_alone(run, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "drawer.npz").write_text("years of work")
    words = ["label", CLIPS / "drawer_06.mp4", "--object", "drawer", "--no-open"]
    code, _, err = run(*words, "--out", tmp_path / "mine")
    assert code == 2
    assert "drawer.npz exists and is of no labelling" in err
    assert (tmp_path / "mine" / "drawer.npz").read_text() == "years of work"

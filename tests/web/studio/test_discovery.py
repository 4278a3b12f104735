"""A discovery in a process of its own: its progress, its end, and that it never stays behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from objectstates.base.errors import WorkspaceError
from objectstates.data.result import Result
from objectstates.web.studio.discovery import Discovery, DiscoveryProgress
from tests.web.studio.demo_clips import QUICK, VIDEOS


class Followed:
    """A discovery with all that it reported."""

    def __init__(self, log: Path) -> None:
        self.seen: list[DiscoveryProgress] = []
        self.ends: list[tuple[str, str]] = []
        self.ended, self.reading = threading.Event(), threading.Event()
        self.discovery = Discovery(log, self._progress, self._end)

    def _progress(self, progress: DiscoveryProgress) -> None:
        self.seen.append(progress)
        if progress.stage == "ingest":
            self.reading.set()

    def _end(self, state: str, error: str) -> None:
        self.ends.append((state, error))
        self.ended.set()


def task(out: Path, cache: Path, **more: Any) -> dict[str, Any]:
    videos = [str(video) for video in VIDEOS]
    return {**QUICK, "videos": videos, "out": str(out), "cache": str(cache), **more}


def test_it_reports_its_stages_continues_after_a_cancel_and_ends(tmp_path: Path) -> None:
    followed = Followed(tmp_path / "log")
    arguments = task(tmp_path / "found", tmp_path / "cache")
    followed.discovery.start(arguments)
    with pytest.raises(WorkspaceError, match="is running"):
        followed.discovery.start(arguments)
    assert followed.reading.wait(60)
    followed.discovery.cancel()
    assert followed.ends == [("cancelled", "")]
    assert not followed.discovery.running

    followed.ended.clear()
    followed.discovery.start(arguments)
    assert followed.ended.wait(120)
    assert followed.ends[1] == ("done", "")
    stages = list(dict.fromkeys(progress.stage for progress in followed.seen))
    assert stages == ["ingest", "fit", "report"]
    read = [progress for progress in followed.seen if progress.stage == "ingest"][-1]
    assert (read.done, read.total) == (len(VIDEOS), len(VIDEOS))
    assert len(Result.load(tmp_path / "found" / "result").clips) == len(VIDEOS)
    followed.discovery.cancel()  # has ended: nothing happens
    assert len(followed.ends) == 2


def test_mistakes_and_crashes_are_told(tmp_path: Path) -> None:
    followed = Followed(tmp_path / "log")
    followed.discovery.start(task(tmp_path / "found", tmp_path / "cache", detector="magic"))
    assert followed.ended.wait(60)
    assert followed.ends[0][0] == "failed"
    assert "magic" in followed.ends[0][1]
    followed.ended.clear()
    followed.discovery.start({"no": "such argument"})
    assert followed.ended.wait(60)
    assert "without a result" in followed.ends[1][1]
    assert "TypeError" in followed.ends[1][1]


SERVER = """
import json, sys, time
from pathlib import Path
from objectstates.web.studio.discovery import Discovery
started = Discovery(Path(sys.argv[1]), print, print)
started.start(json.loads(sys.argv[2]))
while not started.progress.stage == "ingest":
    time.sleep(0.05)
print("pid", started._process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_it_ends_when_its_server_is_killed(tmp_path: Path) -> None:
    import json

    arguments = json.dumps(task(tmp_path / "found", tmp_path / "cache"))
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path / "log"), arguments],
        stdout=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        pid = next(int(line.split()[1]) for line in server.stdout if line.startswith("pid"))
        os.kill(pid, 0)
        server.kill()
    for _ in range(200):
        if not _runs(pid):
            return
        time.sleep(0.05)
    pytest.fail("the discovery outlived its server")


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_files_beside_the_user_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "random.py").write_text("raise RuntimeError('a script of the user')")
    followed = Followed(tmp_path / "log")
    followed.discovery.start(task(tmp_path / "found", tmp_path / "cache", videos=["gone.mp4"]))
    assert followed.ended.wait(60)
    ((state, error),) = followed.ends
    assert state == "failed"
    assert "gone.mp4" in error

"""The command review; its page is tested in tests/web/review."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from objectstates.app.workspace import Workspace
from objectstates.data.synthetic import synthetic_corpus
from objectstates.discovery.estimator import JointDiscovery


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "objectstates", "review", *arguments]


def test_a_folder_that_discover_did_not_write_is_an_error_in_one_line(tmp_path: Path) -> None:
    ended = subprocess.run(command(str(tmp_path)), capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "has no corpus/" in ended.stderr


def test_it_serves_the_page_until_it_is_ended(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "found")
    corpus = synthetic_corpus(n_clips=4, tracklets_per_clip=6, chunks_per_clip=10)
    corpus.save(workspace.corpus)
    workspace.fit(JointDiscovery(verdict=False))
    with subprocess.Popen(
        command(str(workspace.folder), "--no-open"), stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+/review/\S+", server.stdout.readline())
        assert address
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(address[0], timeout=30) as page:
            assert b"<title>Review</title>" in page.read()
        server.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
        assert server.wait(60) == 0

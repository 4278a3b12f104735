"""The process that runs a discovery: ``python -m objectstates.web.studio.worker``.

The first line of its input is a JSON object with the arguments of `objectstates.discover`. It
writes a JSON object per line about its progress, and ends when its input ends, so that it never
outlives the server, however that ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePath
from typing import IO, Any

from objectstates.app.discover import Monitor, discover
from objectstates.base.errors import ObjectStatesError
from objectstates.data.corpus import Corpus
from objectstates.data.result import Result
from objectstates.ingest.pipeline import Report

_INTERVAL = 0.2  # seconds between two reports of a stage


class LineMonitor(Monitor):
    """Writes the progress as lines of JSON."""

    def __init__(self, write: Callable[[Mapping[str, Any]], None]) -> None:
        self._write = write

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[..., None]]:
        self._write({"stage": name})
        last = 0.0

        def progress(*values: Any) -> None:
            nonlocal last
            facts = _facts(name, values)
            if time.monotonic() - last > _INTERVAL or facts.get("done") == facts.get("total", -1):
                last = time.monotonic()
                self._write({"stage": name, **facts})

        yield progress

    def ingested(self, corpus: Corpus, report: Report) -> None:
        problems = [_problem(clip, reason) for clip, reason in report.failed]
        self._write({"clips": len(corpus), "problems": [*problems, *report.problems][:50]})

    def finished(self, result: Result, reused: Mapping[str, bool]) -> None:  # noqa: ARG002
        self._write({"finished": True})


def _facts(stage: str, values: tuple[Any, ...]) -> dict[str, Any]:
    if stage == "ingest":
        (found,) = values
        return {"done": found.clips_done, "total": found.clips, "frames": found.frames}
    if stage == "fit":
        (found,) = values
        return {"text": f"attempt {found.restart + 1}, step {found.passes}"}
    done, total = values
    return {"done": done, "total": total}


def _problem(clip: str, reason: str) -> str:
    """A reason often begins with the path of the video, which the clip's name tells already."""
    path, _, rest = reason.partition(": ")
    return f"{clip}: {rest if rest and PurePath(path).stem == clip else reason}"


def run(task: Mapping[str, Any], write: Callable[[Mapping[str, Any]], None]) -> int:
    """Run the discovery; an error that the user can correct is a line, and exit code 2."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            discover(**task, monitor=LineMonitor(write))
        if caught:
            write({"problems": [str(each.message) for each in caught][:50]})
    except (ObjectStatesError, OSError) as problem:
        write({"error": str(problem)})
        return 2
    return 0


def _end_with(stream: IO[str]) -> None:
    while stream.read(1 << 16):
        pass
    os._exit(1)  # worker processes of the pool follow


def main() -> int:
    """Read the task from stdin and run it; returns the exit code."""
    # Whatever else is printed goes to the log.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    task = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with, args=(sys.stdin,), daemon=True).start()

    def write(facts: Mapping[str, Any]) -> None:
        out.write(json.dumps(facts) + "\n")
        out.flush()

    return run(task, write)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the thread that waits for the end of the input cannot be joined

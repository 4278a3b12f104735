"""One discovery at a time, in a process of its own that can be cancelled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from objectstates.base.errors import WorkspaceError
from objectstates.web.child_process import start_child
from objectstates.web.studio.project import JobState

_CRASHED = "the discovery ended without a result"


@dataclass(frozen=True)
class DiscoveryProgress:
    """What the page shows of a running discovery.

    stage : "start", "ingest", "fit" or "report". ``done`` of ``total``: clips or videos.
    problems : clips that cannot be read, and warnings.
    """

    stage: str = "start"
    done: int = 0
    total: int = 0
    frames: int = 0
    text: str = ""
    problems: tuple[str, ...] = ()


@dataclass
class _Ending:
    error: str = ""
    finished: bool = False
    cancelled: bool = False


class Discovery:
    """Starts and follows the process.

    log : file for the messages of the process.
    on_progress, on_end : called from a thread; the end with its state and the error's sentence.
    """

    def __init__(
        self,
        log: Path,
        on_progress: Callable[[DiscoveryProgress], None],
        on_end: Callable[[JobState, str], None],
    ) -> None:
        self._log, self._on_progress, self._on_end = log, on_progress, on_end
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._ending = _Ending()
        self.progress = DiscoveryProgress()

    @property
    def running(self) -> bool:
        return self._process is not None

    def start(self, task: Mapping[str, Any]) -> None:
        """Run `objectstates.discover` with the arguments ``task``, which are plain JSON."""
        with self._lock:
            if self._process is not None:
                raise WorkspaceError("a discovery is running: wait for it, or cancel it")
            self.progress, self._ending = DiscoveryProgress(), _Ending()
            try:
                self._process = self._started()
            except OSError as problem:
                raise WorkspaceError(f"the discovery cannot be started: {problem}") from problem
            arguments = (self._process, json.dumps(task))
            self._thread = threading.Thread(target=self._follow, args=arguments, daemon=True)
            self._thread.start()

    def _started(self) -> subprocess.Popen[str]:
        with self._log.open("wb") as log:
            return start_child("objectstates.web.studio.worker", stderr=log)

    def cancel(self) -> None:
        """End the process and all of its workers; returns when they have ended."""
        with self._lock:
            process, thread = self._process, self._thread
            self._ending.cancelled = True
        if process is not None:
            _kill(process)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _follow(self, process: subprocess.Popen[str], task: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        with process:
            with suppress(BrokenPipeError):
                process.stdin.write(task + "\n")
                process.stdin.flush()
            for line in process.stdout:
                with suppress(ValueError, TypeError):
                    self._take(json.loads(line))
            process.wait()
            with suppress(BrokenPipeError):
                process.stdin.close()
        ending = self._ending
        with self._lock:
            self._process = None
        if ending.finished:
            self._on_end("done", "")
        elif ending.cancelled:
            self._on_end("cancelled", "")
        else:
            self._on_end("failed", ending.error or self._crash())

    def _take(self, facts: dict[str, Any]) -> None:
        if "error" in facts:
            self._ending.error = facts["error"]
        elif "finished" in facts:
            self._ending.finished = True
        elif "problems" in facts:
            found = (*self.progress.problems, *facts["problems"])
            self.progress = replace(self.progress, problems=tuple(dict.fromkeys(found)))
        else:
            self.progress = DiscoveryProgress(problems=self.progress.problems, **facts)
        self._on_progress(self.progress)

    def _crash(self) -> str:
        """The last line of the log, which names the exception."""
        try:
            lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            return _CRASHED
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"{_CRASHED} ({last[:300]}); see {self._log}" if last else _CRASHED


def _kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:  # pragma: no cover
            process.kill()

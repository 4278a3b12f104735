"""Train in a child process, always on the newest labels, without anybody waiting."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from objectstates.base.cache import content_digest
from objectstates.web.child_process import start_child

OnAnswer = Callable[["Request", dict[str, Any]], None]


@dataclass(frozen=True)
class Request:
    """Train on ``labels``, write ``out``; ``final`` for the detector that the user keeps."""

    labels: Path
    out: Path
    final: bool = False


class Trainer:
    """Runs one training at a time. While one runs, only the newest request waits.

    on_answer : called, from a thread, with a request and each answer (``train_worker.py``); at the
        end one of kind "done".
    """

    def __init__(self, on_answer: OnAnswer) -> None:
        self._on_answer = on_answer
        self._lock = threading.Condition()
        self._waiting: Request | None = None
        self._running: Request | None = None
        self._closed = False
        self._number = 0
        self._digest = ""  # of the labels that the last training used
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._run, name="trainer", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        with self._lock:
            return self._running is not None or self._waiting is not None

    @property
    def final(self) -> Literal["", "waiting", "running"]:
        """Whether the detector that the user keeps waits for another training, or is trained."""
        with self._lock:
            if self._running is not None and self._running.final:
                return "running"
            return "waiting" if self._waiting is not None and self._waiting.final else ""

    def request(self, request: Request) -> None:
        """Train as soon as possible; a final training is not displaced by another."""
        with self._lock:
            if self._waiting is None or not self._waiting.final or request.final:
                self._waiting = request
            self._lock.notify()

    def close(self) -> None:
        """End the child process, whatever it does."""
        with self._lock:
            self._closed = True
            self._lock.notify()
            process = self._process
        if process is not None:
            process.kill()  # the thread, which waits for its answer, then ends too
        self._thread.join(10)
        self._end_process()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._closed or self._waiting is not None)
                if self._closed or self._waiting is None:
                    return
                request, self._waiting = self._waiting, None
                self._running = request
                self._number += 1
            try:
                self._serve(request)
            except (OSError, ValueError) as problem:
                if not self._closed:
                    self._on_answer(
                        request, {"kind": "failed", "error": f"training ended: {problem}"}
                    )
                self._end_process()
            with self._lock:
                self._running = None
            if not self._closed:
                self._on_answer(request, {"kind": "done"})

    def _serve(self, request: Request) -> None:
        """Send the request, and pass answers on until the last."""
        if not request.final and content_digest(request.labels) == self._digest:
            return  # they were read after this request came
        process = self._started()
        if process.stdin is None or process.stdout is None:
            raise ValueError("it has no pipes")
        order = {"labels": str(request.labels), "out": str(request.out), "final": request.final}
        process.stdin.write(json.dumps({**order, "id": self._number}) + "\n")
        process.stdin.flush()
        while True:
            line = process.stdout.readline()
            if not line:
                raise ValueError(f"its process ended with code {process.wait(10)}")
            answer = json.loads(line)
            self._on_answer(request, answer)
            self._digest = answer.get("digest", self._digest)
            if answer["kind"] in ("recall", "failed"):
                return

    def _started(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._closed:
                raise ValueError("the page is closed")
            if self._process is None or self._process.poll() is not None:
                self._process = start_child("objectstates.web.label.train_worker")
            return self._process

    def _end_process(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(10)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what was not sent yet is lost with the process
                        pipe.close()

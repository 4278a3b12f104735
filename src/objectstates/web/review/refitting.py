"""Refits in the background: an answer at once, the exact one next, the verdict when it is quiet.

After each change of the corrections, `BackgroundRefits` fits again. If a whole fit takes longer
than `PATIENCE`, a faster one from the last solution is shown meanwhile (``discovery/refit.py``). A
fit whose corrections are no longer the latest is given up. The verdict takes twelve more fits; it
follows after `QUIET` without a change.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from objectstates.base.errors import ObjectStatesError
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.discovery.refit import Cancelled, Refitter
from objectstates.web.review.edits import Rows

PATIENCE = 0.6  # seconds of a whole fit, below which nothing needs to be shown before
QUIET = 2.0  # seconds

Phase = Literal["refitting", "preliminary", "exact", "judging", "judged"]


@dataclass(frozen=True)
class Request:
    """Corrections and names to fit with; ``number`` counts the requests."""

    number: int
    rows: Rows
    names: LabelNames


class BackgroundRefits:
    """A thread that keeps the result up to date with the corrections.

    report : called in the thread with the phase that was reached, the request, and the result of
        the phases that have one.
    fail : called with what is wrong with a request.
    """

    def __init__(
        self,
        refitter: Refitter,
        report: Callable[[Phase, Request, Result | None], None],
        fail: Callable[[Request, str], None],
    ) -> None:
        self._refitter, self._report, self._fail = refitter, report, fail
        self._changed = threading.Condition()
        self._wanted: Request | None = None
        self._done = 0
        self._closed = False
        self._paused = False
        self._idle = threading.Event()
        self._idle.set()
        self._thread = threading.Thread(target=self._run, name="refit", daemon=True)
        self._thread.start()

    def want(self, rows: Rows, names: LabelNames) -> int:
        """Fit with these corrections as soon as possible; the number of the request."""
        with self._changed:
            number = 1 if self._wanted is None else self._wanted.number + 1
            self._wanted = Request(number, rows, names)
            self._idle.clear()
            self._changed.notify_all()
        return number

    def wait(self, seconds: float) -> bool:
        """Wait until all is done, the verdict included; whether it is."""
        return self._idle.wait(seconds)

    def pause(self, paused: bool) -> None:
        """Give up what is running, and fit no more until this is called with False."""
        with self._changed:
            self._paused = paused
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(30)

    def _run(self) -> None:
        while (request := self._next()) is not None:
            try:
                self._serve(request)
            except Cancelled:
                continue
            except ObjectStatesError as problem:
                self._fail(request, str(problem))
            except Exception as problem:  # corrections that follow must still be fitted
                traceback.print_exception(problem)
                name = type(problem).__name__
                self._fail(request, f"the fit failed ({name}); the server's terminal shows where")
            self._finish(request)

    def _next(self) -> Request | None:
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._closed
                    or (
                        not self._paused
                        and self._wanted is not None
                        and self._wanted.number > self._done
                    )
                )
            )
            return None if self._closed else self._wanted

    def _finish(self, request: Request) -> None:
        with self._changed:
            self._done = max(self._done, request.number)
            if self._wanted is not None and self._wanted.number == self._done:
                self._idle.set()

    def _outdated(self, request: Request) -> bool:
        return self._closed or self._paused or self._wanted is not request

    def _serve(self, request: Request) -> None:
        def cancelled() -> bool:
            return self._outdated(request)

        refitter = self._refitter
        self._report("refitting", request, None)
        if refitter.seconds is not None and refitter.seconds > PATIENCE:
            quick = refitter.update(request.rows, request.names)
            if cancelled():
                raise Cancelled
            self._report("preliminary", request, quick)
        found = refitter.fit(request.rows, request.names, cancelled=cancelled)
        self._report("exact", request, found)
        if not refitter.model.verdict:
            return
        with self._changed:
            if self._changed.wait_for(cancelled, QUIET):
                raise Cancelled
        self._report("judging", request, None)
        self._report("judged", request, refitter.judge(found, cancelled=cancelled))

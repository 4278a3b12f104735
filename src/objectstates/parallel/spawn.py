"""Worker processes that do not run the user's script again, and leave Ctrl-C to their parent.

A process that is started anew imports the main module of its parent, so that it can unpickle what
is defined there. A script that calls `discover` without the ``__main__`` guard would run as a whole
in each worker. Nothing that we send to workers is defined in a main module, so ours import none.

A terminal sends Ctrl-C to all processes. Workers have it blocked from their first instruction, so
that none prints a traceback while it starts.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any


class _Process(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - called by multiprocessing
        with _no_main_module(), _blocked_interrupts():
            return SpawnProcess._Popen(process_obj)  # noqa: SLF001


class WorkerContext(SpawnContext):
    """As ``multiprocessing.get_context("spawn")``, without the main module."""

    Process = _Process


@contextmanager
def _no_main_module() -> Iterator[None]:
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """Block SIGINT in this thread; processes that it starts meanwhile never see one."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

"""Worker processes that do not run the user's script again, and leave Ctrl-C to their parent.

On Linux, workers are forked from a server: a process that only imports what they need, once for all
workers of this process. It is not the server that multiprocessing may start for the user's own
processes. Elsewhere each worker is a new interpreter, which imports it again.

Both import the main module of their parent, so that they can unpickle what is defined there. A
script that calls `discover` without the ``__main__`` guard would run as a whole in each worker.
Nothing that we send to workers is defined in a main module, so ours import none. Nor do they look
for modules in the working folder, where anything may lie, unless the user's program does.

A terminal sends Ctrl-C to all processes. Workers have it blocked from their first instruction, so
that none prints a traceback while it starts.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from threading import Lock
from types import ModuleType
from typing import Any

if sys.platform == "linux":
    from multiprocessing import forkserver
    from multiprocessing.context import ForkServerContext as _Context
    from multiprocessing.context import ForkServerProcess as _BaseProcess

    _server, _starting = forkserver.ForkServer(), Lock()
else:
    from multiprocessing.context import SpawnContext as _Context
    from multiprocessing.context import SpawnProcess as _BaseProcess


class _Process(_BaseProcess):
    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._environment = dict(os.environ)  # the server's is older

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self._environment)
        super().run()

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - called by multiprocessing
        with _own_server(), _no_main_module(), _blocked_interrupts(), _without_working_folder():
            return _BaseProcess._Popen(process_obj)  # noqa: SLF001


class WorkerContext(_Context):
    """As multiprocessing's contexts, for our workers.

    preload : name of a module that the server imports before it forks the first worker. There is
        one server, which is started when it is first needed.
    """

    Process = _Process

    def __init__(self, preload: str | None = None) -> None:
        super().__init__()
        if sys.platform == "linux":
            _server.set_forkserver_preload([] if preload is None else [preload])
        if sys.platform != "win32":
            with _without_working_folder():  # a process that the first semaphore would start
                resource_tracker.ensure_running()


@contextmanager
def _own_server() -> Iterator[None]:
    """New processes are forked from our server."""
    if sys.platform != "linux":
        yield
        return
    with _starting:
        before = forkserver.connect_to_new_process
        forkserver.connect_to_new_process = _server.connect_to_new_process
        try:
            yield
        finally:
            forkserver.connect_to_new_process = before


@contextmanager
def _no_main_module() -> Iterator[None]:
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _without_working_folder() -> Iterator[None]:
    """New interpreters do not look for modules in the working folder."""
    name = "PYTHONSAFEPATH"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


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

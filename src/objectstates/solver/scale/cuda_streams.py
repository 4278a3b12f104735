"""How work is handed to a device: some of it beside other work, and what recurs, as one.

On a GPU these are streams with events between them, and a CUDA graph. Elsewhere all work is done
where the program asks for it; so the program's own order must be one that works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Mark = Any
"""A point in the work asked for so far; None where nothing is ever pending."""


class Queues:
    """Queues of work on a device: the one that everybody uses, and any number beside it."""

    def __init__(self, device: Any) -> None:
        self._device, self._streams = device, dict[tuple[int, bool], Any]()
        self._on_gpu = device.type == "cuda"

    def mark(self) -> Mark:
        """All that was asked for up to here, in this queue."""
        if not self._on_gpu:
            return None
        import torch

        return torch.cuda.current_stream(self._device).record_event()

    def wait(self, *marks: Mark) -> None:
        """Let what is asked for next, in this queue, wait for work in others."""
        if not self._on_gpu:
            return
        import torch

        for mark in marks:
            torch.cuda.current_stream(self._device).wait_event(mark)

    @contextmanager
    def beside(self, number: int, *marks: Mark, urgent: bool = False) -> Iterator[None]:
        """Ask for work in a queue of this number, which waits for nothing but marks.

        There must be one, and nobody may free what the work uses before somebody waits for it.
        urgent : where there is a choice, the device does this first.
        """
        if not self._on_gpu:
            yield
            return
        import torch

        if (number, urgent) not in self._streams:
            priority = -1 if urgent else 0
            self._streams[number, urgent] = torch.cuda.Stream(self._device, priority=priority)
        with torch.cuda.stream(self._streams[number, urgent]):
            self.wait(*marks)
            yield


class Recorder:
    """Makes work that recurs cheap to ask for, where the device can record it.

    Recorded work runs on the same tensors each time: what changes is what they hold. It tells by
    writing into tensors that were there before; those that it makes are for its own use.

    recording : the work is that of a GPU alone, and no other thread uses it meanwhile. Otherwise
        work is just done.
    """

    def __init__(self, recording: bool) -> None:
        self._recording, self._graphs, self._pool = recording, dict[Any, Any](), None

    def run(self, name: Any, work: Callable[[], None]) -> None:
        """Do the work of this name.

        The first time as it is, which compiles its kernels; then it is recorded, and replayed.
        """
        if not self._recording:
            work()
        elif name not in self._graphs:
            work()
            self._graphs[name] = None
        else:
            if self._graphs[name] is None:
                self._graphs[name] = self._recorded(work)
            self._graphs[name].replay()

    def _recorded(self, work: Callable[[], None]) -> Any:
        import torch

        if self._pool is None:  # one for all: no two are ever replayed at once
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            work()
        return graph

    def forget(self) -> None:
        """Let go of all that was recorded."""
        self._graphs.clear()

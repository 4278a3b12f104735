"""CUDA streams and graph capture. Without a GPU, work runs in program order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

Event = Any
"""A CUDA event; None without a GPU."""


class Streams:
    """The current CUDA stream of a device and numbered side streams, ordered by events."""

    def __init__(self, device: Any) -> None:
        self._device, self._streams = device, dict[tuple[int, bool], Any]()
        self._on_gpu = device.type == "cuda"

    def record_event(self) -> Event:
        """An event after all work enqueued so far in the current stream."""
        if not self._on_gpu:
            return None
        import torch

        return torch.cuda.current_stream(self._device).record_event()

    def wait(self, *events: Event) -> None:
        """Let work enqueued from here on in the current stream wait for events of others."""
        if self._on_gpu:
            import torch

            for event in events:
                torch.cuda.current_stream(self._device).wait_event(event)

    @contextmanager
    def side_stream(self, number: int, *events: Event, urgent: bool = False) -> Iterator[None]:
        """Enqueue into the side stream of this number, which waits for the events alone.

        At least one event is needed, and tensors that the work uses must not be freed before
        another stream has waited for it. urgent : a stream of high priority.
        """
        if not self._on_gpu:
            yield
            return
        import torch

        if (number, urgent) not in self._streams:
            priority = -1 if urgent else 0
            self._streams[number, urgent] = torch.cuda.Stream(self._device, priority=priority)
        with torch.cuda.stream(self._streams[number, urgent]):
            self.wait(*events)
            yield


class GraphCache:
    """CUDA graphs of recurring work, which replay with one launch.

    A graph replays on the same tensors: inputs change by writing into them, and results must be
    written into tensors that existed before; those it allocates are private to it.

    enabled : whether to capture, which needs work of the GPU alone and no other thread that uses
        it meanwhile. Otherwise the work just runs.
    """

    def __init__(self, enabled: bool) -> None:
        self._enabled, self._graphs, self._pool = enabled, dict[Hashable, Any](), None

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Run the work of this key: directly at first, to compile its kernels, then captured."""
        if not self._enabled or key not in self._graphs:
            work()
            self._graphs[key] = None
            return
        if self._graphs[key] is None:
            self._graphs[key] = self._capture(work)
        self._graphs[key].replay()

    def _capture(self, work: Callable[[], None]) -> Any:
        import torch

        if self._pool is None:  # shared: no two graphs ever replay at once
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            work()
        return graph

    def clear(self) -> None:
        """Free all graphs."""
        self._graphs.clear()

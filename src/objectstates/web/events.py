"""Server-sent events: what happens in the server, shown in all open tabs.

`EventStream.publish` may be called from any thread. A tab that does not read loses its stream
rather than memory; the browser then connects again, gets ``hello``, and reads the whole state.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from objectstates.base.file_names import printable_json

_WAITING = 1000  # events that a tab may be behind
_ALIVE_SECONDS = 15.0  # between comments that keep the connection open


class EventStream:
    """A stream of events to any number of tabs."""

    def __init__(self) -> None:
        self._tabs: set[_Tab] = set()
        self._lock = threading.Lock()
        self._closed = False

    def publish(self, kind: str, data: Mapping[str, Any]) -> None:
        """Send an event to all tabs: a word with dots, and values for JSON."""
        if not re.fullmatch(r"[a-z][a-z0-9_.-]*", kind):
            raise ValueError(f"{kind!r} is not a kind of event")
        text = f"event: {kind}\ndata: {printable_json(data)}\n\n"
        with self._lock:
            for tab in self._tabs:
                tab.put(text)

    def close(self) -> None:
        """End the streams of all tabs, as the server stops."""
        with self._lock:
            self._closed = True
            for tab in self._tabs:
                tab.put(None)

    def route(self, path: str = "/events") -> Route:
        return Route(path, self._respond, methods=["GET"])

    async def _respond(self, _: Request) -> StreamingResponse:
        return StreamingResponse(self._lines(), media_type="text/event-stream")

    async def _lines(self) -> AsyncIterator[str]:
        tab = _Tab(asyncio.get_running_loop())
        with self._lock:
            if self._closed:
                return
            self._tabs.add(tab)
        try:
            yield "retry: 1000\nevent: hello\ndata: {}\n\n"
            while True:
                try:
                    text = await asyncio.wait_for(tab.queue.get(), _ALIVE_SECONDS)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if text is None:
                    return
                yield text
        finally:
            with self._lock:
                self._tabs.discard(tab)


class _Tab:
    """One connection, on the loop of the server's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.queue: asyncio.Queue[str | None] = asyncio.Queue()

    def put(self, text: str | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._put, text)
        except RuntimeError:  # the loop has ended
            return

    def _put(self, text: str | None) -> None:
        behind = self.queue.qsize()
        if behind <= _WAITING:  # the last one ends the stream
            self.queue.put_nowait(text if behind < _WAITING else None)

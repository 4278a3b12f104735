"""Every open tab sees what happens."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from objectstates.web import events
from objectstates.web.events import EventStream
from objectstates.web.protection import cookie_name
from tests.web.serving import TOKEN, Client, serving_routes


class Tab:
    def __init__(self, client: Client) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
        cookie = f"{cookie_name(client.port)}={TOKEN}"
        self._connection.request("GET", "/events", headers={"Cookie": cookie})
        self._answer = self._connection.getresponse()
        assert self._answer.headers["content-type"].startswith("text/event-stream")

    def read(self) -> tuple[str, Any] | None:
        """The next event; None at the end of the stream."""
        kind = None
        while line := self._answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data" and kind:
                return kind, json.loads(value)
        return None

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


@pytest.fixture
def stream():
    return EventStream()


@pytest.fixture
def open_tab(stream):
    """Open tabs of a server with the stream; they are closed in the end."""
    with serving_routes([], events=stream) as client, ExitStack() as tabs:

        def open_one() -> Tab:
            tab = Tab(client)
            tabs.callback(tab.close)
            return tab

        yield open_one


def test_all_tabs_get_events_of_any_thread_in_order(stream, open_tab) -> None:
    tabs = [open_tab(), open_tab()]
    assert [tab.read() for tab in tabs] == [("hello", {})] * 2
    for n in range(3):
        thread = threading.Thread(target=stream.publish, args=("job.progress", {"n": n}))
        thread.start()
        thread.join()
    stream.publish("text", {"of": "two\nlines\n\nevent: x"})
    for tab in tabs:
        assert [tab.read() for _ in range(3)] == [("job.progress", {"n": n}) for n in range(3)]
        assert tab.read() == ("text", {"of": "two\nlines\n\nevent: x"})
    tabs[0].close()
    stream.publish("after", {})
    assert tabs[1].read() == ("after", {})
    stream.close()
    assert tabs[1].read() is None
    assert open_tab().read() is None


def test_a_tab_that_does_not_read_loses_its_stream_not_memory(
    stream, open_tab, monkeypatch
) -> None:
    monkeypatch.setattr(events, "_WAITING", 5)
    tab = open_tab()
    assert tab.read() == ("hello", {})
    text = "x" * 2_000_000  # more than the system buffers
    for n in range(30):
        stream.publish("n", {"n": n, "text": text})
    found = []
    while event := tab.read():
        found.append(event[1]["n"])
    assert found == list(range(len(found)))
    assert len(found) < 30


def test_streams_stay_open_while_nothing_happens(stream, open_tab, monkeypatch) -> None:
    monkeypatch.setattr(events, "_ALIVE_SECONDS", 0.05)
    tab = open_tab()
    tab.read()
    threading.Timer(0.3, stream.publish, ("late", {})).start()
    assert tab.read() == ("late", {})


@pytest.mark.parametrize("kind", ["", "a b", "a\nb", "A"])
def test_a_kind_is_a_word(kind: str) -> None:
    with pytest.raises(ValueError, match="kind of event"):
        EventStream().publish(kind, {})

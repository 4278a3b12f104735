"""A real server in a thread, and a client that can send what a browser would not."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from objectstates.web.protection import cookie_name
from objectstates.web.server import LocalServer, create_app

TOKEN = "a-token-for-tests"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])


@dataclass
class Client:
    """Sends requests as one of the user's pages.

    Headers can be replaced or, with None, left out. A body that is a list is sent in chunks,
    without the last one, of length 0, if ``complete`` is false: a server that refuses closes the
    connection, and the system may drop the answer if data are still on the way.
    """

    port: int
    host: str = field(init=False)

    def __post_init__(self) -> None:
        self.host = f"127.0.0.1:{self.port}"

    def __call__(
        self,
        method: str,
        path: str,
        body: bytes | list[bytes] | None = None,
        json: Any = None,
        complete: bool = True,
        **headers: str | None,
    ) -> Answer:
        if json is not None:
            body = dumps(json)
            headers.setdefault("Content_Type", "application/json")
        sent: dict[str, str | None] = {
            "Host": self.host,
            "Cookie": f"{cookie_name(self.port)}={TOKEN}",
            **({} if method in ("GET", "HEAD") else {"Origin": f"http://{self.host}"}),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        if isinstance(body, list):
            sent["Transfer-Encoding"] = "chunked"
            body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in body)
            body += b"0\r\n\r\n" if complete else b""
        elif body is not None:
            sent.setdefault("Content-Length", str(len(body)))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()


def dumps(value: Any) -> bytes:
    return json.dumps(value).encode()


@contextmanager
def serving(app: Starlette) -> Iterator[Client]:
    server = LocalServer(app)
    thread = threading.Thread(target=server.serve_until_stopped)
    thread.start()
    try:
        yield Client(server.port)
    finally:
        server.stop()
        thread.join(20)
        assert not thread.is_alive()


@contextmanager
def serving_routes(routes: Sequence[BaseRoute], **options: Any) -> Iterator[Client]:
    with serving(create_app(routes, token=TOKEN, **options)) as client:
        yield client

"""The application around the routes of a page, and the server that runs it.

The server listens on 127.0.0.1 only, on a free port. `create_app` adds the protection
(``protection.py``), the events (``events.py``) and the files that all pages share.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import sys
import threading
import traceback
import webbrowser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from objectstates.base.errors import ObjectStatesError, SettingError
from objectstates.base.file_names import printable_json
from objectstates.web.events import EventStream
from objectstates.web.protection import Protection

ASSETS = Path(__file__).parent / "assets"
REPORT_ASSETS = Path(__file__).parents[1] / "report" / "assets"
_SHUTDOWN_SECONDS = 2  # for answers that are being sent; event streams end at once
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class JSONAnswer(JSONResponse):
    """Also of paths that are not UTF-8, which no JSON can hold as they are."""

    def render(self, content: Any) -> bytes:
        return printable_json(content).encode()


def new_token() -> str:
    """A secret for one run of a server."""
    return secrets.token_urlsafe(24)


def create_app(
    routes: Sequence[BaseRoute],
    *,
    token: str,
    events: EventStream | None = None,
    large_bodies: Mapping[str, int] | None = None,
    on_shutdown: Callable[[], None] | None = None,
) -> Starlette:
    """The application that serves ``routes``, ``/events`` and ``/assets/NAME``.

    events : published to all open tabs; a stream without events unless given.
    large_bodies : paths whose bodies may have more bytes than `protection.MAX_BODY`.
    on_shutdown : called once when the server stops.
    """
    events = events or EventStream()
    shared = asset_route(ASSETS, also=[REPORT_ASSETS / name for name in ("theme.css", "style.css")])
    app = Starlette(
        routes=[*routes, events.route(), shared],
        middleware=[Middleware(Protection, token=token, large_bodies=large_bodies)],
        exception_handlers={
            HTTPException: _http_error,
            ObjectStatesError: _user_error,
            Exception: _server_error,
        },
    )
    app.state.events = events
    app.state.on_shutdown = on_shutdown
    return app


def asset_route(folder: Path, path: str = "/assets", *, also: Sequence[Path] = ()) -> Route:
    """Serve the files of a folder of this package as ``path/NAME``, without its subfolders."""
    known = {file.name: file for file in [*folder.iterdir(), *also] if file.suffix in _TYPES}

    def serve(request: Request) -> Response:
        file = known.get(request.path_params["name"])
        if file is None:
            raise HTTPException(404, "there is no such file")
        # Ask again at each load, so that a page is never older than the server.
        return FileResponse(
            file, media_type=_TYPES[file.suffix], headers={"Cache-Control": "no-cache"}
        )

    return Route(f"{path}/{{name}}", serve, methods=["GET"])


def page(file: Path) -> Callable[[Request], Response]:
    """An endpoint that answers with an HTML file."""

    def serve(_: Request) -> Response:
        return FileResponse(file, media_type=_TYPES[".html"])

    return serve


async def json_object(request: Request) -> dict[str, Any]:
    """The body of a request, a JSON object; anything else is answered with 400."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "the request must be JSON (application/json)")
    try:
        body = json.loads(await request.body(), parse_constant=_refuse_constant)
        json.dumps(body, ensure_ascii=False).encode()  # half a letter cannot be written to a file
    except (ValueError, RecursionError):
        raise HTTPException(400, "the request is not valid JSON") from None
    if not isinstance(body, dict):
        raise HTTPException(400, "the request must be a JSON object")
    return body


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _http_error(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    return JSONAnswer({"error": problem.detail}, problem.status_code, problem.headers)


def _user_error(_: Request, problem: Exception) -> Response:
    return JSONAnswer({"error": plain(str(problem))}, 400)


def _server_error(_: Request, problem: Exception) -> Response:
    traceback.print_exception(problem)
    message = f"the server failed ({type(problem).__name__}); its terminal shows where"
    return JSONAnswer({"error": message}, 500)


def plain(message: str) -> str:
    """A library's message for the screen: parameters lose their backquotes."""
    return message.replace("`", "")


class LocalServer(uvicorn.Server):
    """A server on a free port of 127.0.0.1, listening from its creation on."""

    def __init__(self, app: Starlette, *, port: int = 0) -> None:
        # asyncio and h11 everywhere, whatever else is installed: the same limits for all users.
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http="h11",
                ws="none",
                log_level="critical",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            )
        )
        self._app = app
        if not 0 <= port <= 65_535:
            raise SettingError(f"`port`={port} is no port: choose one from 1024 to 65535, or none")
        try:
            self._socket = socket.create_server(("127.0.0.1", port), backlog=128)
        except OSError as problem:
            raise SettingError(
                f"`port`={port} cannot be used ({problem.strerror}): choose another, or none"
            ) from problem
        self.port: int = self._socket.getsockname()[1]

    def url(self, path: str = "/", token: str = "") -> str:
        return f"http://127.0.0.1:{self.port}{path}" + (f"?token={token}" if token else "")

    def serve_until_stopped(self) -> None:
        """Serve until `stop`, Ctrl-C or SIGTERM."""
        try:
            self.run(sockets=[self._socket])
        finally:
            self._socket.close()
            if self._app.state.on_shutdown is not None:
                self._app.state.on_shutdown()

    def stop(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.events.close()  # an open stream would delay the end
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the server; unlike uvicorn's own, they are not raised again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        earlier = {
            number: signal.signal(number, self._exit) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)

    def _exit(self, number: int, frame: FrameType | None) -> None:
        self.handle_exit(number, frame)


def run(
    app: Starlette,
    *,
    token: str,
    open_browser: bool = True,
    path: str = "/",
    port: int = 0,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until Ctrl-C or SIGTERM.

    path : the page to open.
    ready : called with the page's address, token included; prints it unless given.
    """
    server = LocalServer(app, port=port)
    address = server.url(path, token)
    if ready is None:
        print(f"open {address}\n(Ctrl-C ends it)", flush=True)
    else:
        ready(address)
    if open_browser and has_desktop():
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    server.serve_until_stopped()


def has_desktop() -> bool:
    """Whether a browser could be shown."""
    return not sys.platform.startswith("linux") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )

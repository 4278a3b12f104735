"""The server listens on this machine only, serves its own files, and ends cleanly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
import webbrowser
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from objectstates.base.errors import SettingError, WorkspaceError
from objectstates.web import server
from objectstates.web.server import LocalServer, asset_route, create_app, plain
from tests.web.serving import TOKEN, Client, serving_routes


def user_mistake(_: Request) -> Response:
    raise WorkspaceError("`out`=x cannot be used: choose another")


def our_mistake(_: Request) -> Response:
    raise KeyError("secret of the server")


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "page.js").write_text("1;")
    (folder / "key.pem").write_text("secret")
    routes = [
        Route("/mistake", user_mistake),
        Route("/failure", our_mistake),
        asset_route(folder, "/own"),
    ]
    with serving_routes(routes) as client:
        yield client


def test_shared_and_own_assets_are_served_with_their_types(ask: Client) -> None:
    for path, kind in (
        ("/assets/theme.css", "text/css"),
        ("/assets/web.css", "text/css"),
        ("/assets/common.js", "text/javascript"),
        ("/own/page.js", "text/javascript"),
    ):
        answer = ask("GET", path)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith(kind)


@pytest.mark.parametrize(
    "path",
    ["/assets/../server.py", "/assets/..%2fserver.py", "/assets/%2e%2e/server.py",
     "/assets/..%5cserver.py", "/assets//etc/passwd", "/assets/%2fetc%2fpasswd", "/assets/",
     "/assets/.", "/assets/theme.css%00.js", "/own/key.pem", "/own/..", "/own/page.js/.."],
)  # fmt: skip
def test_no_other_file_is_served(ask: Client, path: str) -> None:
    answer = ask("GET", path)
    assert answer.status == 404
    assert b"secret" not in answer.body


def test_mistakes_of_the_user_are_a_sentence(ask: Client) -> None:
    answer = ask("GET", "/mistake")
    assert (answer.status, answer.error) == (400, "out=x cannot be used: choose another")
    assert plain("`a` b") == "a b"


def test_failures_of_the_server_tell_the_page_nothing(ask: Client, capfd) -> None:
    answer = ask("GET", "/failure")
    assert answer.status == 500
    assert "KeyError" in answer.error
    assert b"secret" not in answer.body
    assert "our_mistake" in capfd.readouterr().err


def test_it_listens_on_this_machine_only() -> None:
    made = LocalServer(create_app([], token=TOKEN))
    try:
        assert made._socket.getsockname()[0] == "127.0.0.1"
        assert made.url("/review/", "t") == f"http://127.0.0.1:{made.port}/review/?token=t"
    finally:
        made._socket.close()


def test_a_port_that_cannot_be_used_is_named() -> None:
    app = create_app([], token=TOKEN)
    made = LocalServer(app)
    try:
        for port in (made.port, 99_999):
            with pytest.raises(SettingError, match=f"`port`={port}"):
                LocalServer(app, port=port)
    finally:
        made._socket.close()


def test_run_opens_the_page_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    addresses: list[str] = []
    stopped: list[bool] = []

    class Opened(LocalServer):
        def __init__(self, app: Starlette, *, port: int = 0) -> None:
            super().__init__(app, port=port)
            monkeypatch.setattr(webbrowser, "open", self.browse)

        def browse(self, address: str) -> None:
            opened.append(address)
            self.stop()

    monkeypatch.setattr(server, "LocalServer", Opened)
    monkeypatch.setattr(server, "has_desktop", lambda: True)
    app = create_app([], token=TOKEN, on_shutdown=lambda: stopped.append(True))
    server.run(app, token=TOKEN, ready=addresses.append)
    assert opened == addresses
    assert opened[0].endswith(f"/?token={TOKEN}")
    assert stopped == [True]


PROGRAM = """
from objectstates.web.server import create_app, run
run(create_app([], token="t", on_shutdown=lambda: print("stopped", flush=True)), token="t",
    open_browser=False)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_with_exit_code_0_even_with_open_streams(number: signal.Signals) -> None:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, cwd=root, env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        address = process.stdout.readline().split()[1]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        stream = opener.open(address.replace("/?", "/events?"), timeout=20)
        assert stream.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "stopped" in out
    assert err == ""

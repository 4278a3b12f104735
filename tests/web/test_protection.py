"""Requests that another page, another user or another machine could send are refused."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from objectstates.web.protection import MAX_BODY, Protection, cookie_name
from objectstates.web.server import json_object
from tests.web.serving import TOKEN, Client, serving_routes

changes: list[str] = []


async def change(request: Request) -> JSONResponse:
    body = await json_object(request)
    changes.append(str(body.get("value")))
    return JSONResponse({"done": True})


async def count(request: Request) -> JSONResponse:
    return JSONResponse({"bytes": sum([len(part) async for part in request.stream()])})


def home(request: Request) -> PlainTextResponse:
    return PlainTextResponse("home " + request.query_params.get("clip", ""))


@pytest.fixture(scope="module")
def ask():
    routes = [
        Route("/", home),
        Route("/api/change", change, methods=["POST"]),
        Route("/upload", count, methods=["PUT"]),
    ]
    with serving_routes(routes, large_bodies={"/upload": 3 * MAX_BODY}) as client:
        yield client


def test_the_users_own_page_may_read_and_change(ask: Client) -> None:
    assert ask("GET", "/").body == b"home "
    assert ask("POST", "/api/change", json={"value": 1}).json == {"done": True}
    localhost = f"localhost:{ask.port}"
    answer = ask("POST", "/api/change", json={}, Host=localhost, Origin=f"http://{localhost}")
    assert answer.status == 200
    fetched = ask("POST", "/api/change", json={}, Origin=None, Sec_Fetch_Site="same-origin")
    assert fetched.status == 200


def test_the_token_becomes_a_cookie_and_leaves_the_address(ask: Client) -> None:
    answer = ask("GET", f"/?clip=a%26b&token={TOKEN}", Cookie=None)
    assert (answer.status, answer.headers["location"]) == (303, "/?clip=a%26b")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{cookie_name(ask.port)}={TOKEN};")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert str(ask.port) in cookie_name(ask.port)


def test_a_link_from_another_page_works_by_a_page_of_ours(ask: Client) -> None:
    """A strict cookie is not sent after a redirect from another site."""
    answer = ask("GET", f"/?token={TOKEN}", Cookie=None, Sec_Fetch_Site="cross-site")
    assert answer.status == 200
    assert b'content="0;url=/"' in answer.body
    assert "set-cookie" in answer.headers


@pytest.mark.parametrize(
    "path",
    [f"//evil.example/?token={TOKEN}", f"/\\evil?token={TOKEN}", f"/\\/evil.example?token={TOKEN}"],
)
def test_the_token_never_leads_to_another_server(ask: Client, path: str) -> None:
    target = ask("GET", path, Cookie=None).headers["location"]
    assert target.startswith("/")
    assert not target.startswith(("//", "/\\"))


def test_a_token_in_the_address_of_a_link_cannot_inject_markup(ask: Client) -> None:
    answer = ask("GET", f"/%22%3E%3Cscript%3E?token={TOKEN}", Sec_Fetch_Site="cross-site")
    assert b"<script" not in answer.body
    assert answer.body.count(b'"') == 4


@pytest.mark.parametrize("cookie", [None, "", "objectstates=x", "objectstates-1={TOKEN}", "é"])
def test_no_token_no_answer(ask: Client, cookie: str | None) -> None:
    for method, path in (("GET", "/"), ("GET", "/assets/theme.css"), ("POST", "/api/change")):
        answer = ask(method, path, Cookie=cookie and cookie.replace("{TOKEN}", TOKEN))
        assert answer.status == 403
        assert "terminal" in answer.error


def test_a_wrong_token_is_refused(ask: Client) -> None:
    for token in ("", "x", TOKEN + "x", TOKEN[:-1], "%C3%A9", "%00"):
        answer = ask("GET", f"/?token={token}")
        assert answer.status == 403
        assert "set-cookie" not in answer.headers
    assert ask("GET", "/", Cookie=f"{cookie_name(ask.port)}={TOKEN}x").status == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil:{port}",
     "0.0.0.0:{port}", "[::1]:{port}", "", None],
)  # fmt: skip
def test_another_host_is_refused(ask: Client, host: str | None) -> None:
    for path in ("/", f"/?token={TOKEN}"):
        answer = ask("GET", path, Host=host and host.format(port=ask.port))
        assert answer.status in (400, 403)
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", "",
     "http://localhost:{port}", "http://127.0.0.1:{port}/", "file://"],
)  # fmt: skip
def test_another_origin_is_refused(ask: Client, origin: str) -> None:
    before = list(changes)
    for method, path in (("GET", "/"), ("POST", "/api/change")):
        answer = ask(method, path, json={"value": 1}, Origin=origin.format(port=ask.port))
        assert answer.status == 403
    assert changes == before


def test_changes_must_say_where_they_are_from(ask: Client) -> None:
    before = list(changes)
    for site in (None, "none", "same-site", "cross-site"):
        answer = ask("POST", "/api/change", json={}, Origin=None, Sec_Fetch_Site=site)
        assert answer.status == 403
    assert changes == before


def test_pages_on_other_ports_cannot_embed_what_is_served(ask: Client) -> None:
    """They are the same site, so the browser would send the cookie."""
    assert ask("GET", "/", Sec_Fetch_Site="same-site", Sec_Fetch_Mode="no-cors").status == 403
    assert ask("GET", "/", Sec_Fetch_Site="same-site", Sec_Fetch_Mode="navigate").status == 200


def test_large_bodies_are_refused_declared_or_not(ask: Client) -> None:
    for length in (MAX_BODY + 1, 10**18):
        assert ask("POST", "/api/change", Content_Length=str(length)).status == 413
    assert ask("POST", "/api/change", Content_Length=str(10**30)).status in (400, 413)
    chunks = [b" " * MAX_BODY, b" "]
    chunked = ask("POST", "/api/change", chunks, complete=False, Content_Type="application/json")
    assert chunked.status == 413
    assert str(MAX_BODY) in chunked.error


def test_paths_for_uploads_have_a_limit_of_their_own(ask: Client) -> None:
    megabyte = b"x" * MAX_BODY
    assert ask("PUT", "/upload", megabyte * 2).json == {"bytes": 2 * MAX_BODY}
    assert ask("PUT", "/upload", [megabyte] * 3).json == {"bytes": 3 * MAX_BODY}
    assert ask("PUT", "/upload", [*[megabyte] * 3, b"x"], complete=False).status == 413


@pytest.mark.parametrize("length", ["-1", "1e3", "x"])
def test_a_length_that_is_no_number_is_refused(ask: Client, length: str) -> None:
    assert ask("POST", "/api/change", Content_Length=length).status == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b'{"value": NaN}',
        b'{"value": "\\ud800"}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_malformed_json_is_one_clear_sentence(ask: Client, body: bytes) -> None:
    answer = ask("POST", "/api/change", body, Content_Type="application/json")
    assert answer.status == 400
    assert "JSON" in answer.error


def test_a_form_of_another_page_is_no_json(ask: Client) -> None:
    for kind in (None, "text/plain", "application/x-www-form-urlencoded"):
        assert ask("POST", "/api/change", b"{}", Content_Type=kind).status == 415


def test_every_answer_has_the_protective_headers(ask: Client) -> None:
    for answer in (ask("GET", "/"), ask("GET", "/missing"), ask("GET", "/", Cookie=None)):
        headers = answer.headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in headers


def test_a_websocket_is_refused(ask: Client) -> None:
    answer = ask(
        "GET", "/", Connection="Upgrade", Upgrade="websocket", Sec_WebSocket_Version="13",
        Sec_WebSocket_Key="AAAAAAAAAAAAAAAAAAAAAA==", Origin="http://evil.example",
    )  # fmt: skip
    assert answer.status == 403


def test_what_servers_refuse_themselves_is_refused_here_too() -> None:
    """Another server may pass on WebSockets and lengths that uvicorn does not."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("this was passed on")

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    protection = Protection(app, token=TOKEN)
    asyncio.run(protection({"type": "websocket"}, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]
    sent.clear()
    headers = {
        "host": "127.0.0.1:80", "origin": "http://127.0.0.1:80", "content-length": "²",
        "cookie": f"{cookie_name(80)}={TOKEN}",
    }  # fmt: skip
    scope = {
        "type": "http", "method": "POST", "path": "/", "query_string": b"",
        "server": ("127.0.0.1", 80),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
    }  # fmt: skip
    asyncio.run(protection(scope, receive, send))
    assert sent[0]["status"] == 400

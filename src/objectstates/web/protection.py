"""Refuse requests that the user's own pages did not make.

A server on 127.0.0.1 can be reached by every program of every user of the machine, and by every web
page that the user has open. So each request needs a random token, which only the address printed by
the command has. The first request exchanges it for a cookie and leaves an address without it.

* ``Host`` must be this server: another name that resolves to 127.0.0.1 (DNS rebinding) is refused.
* ``Origin``, if sent, must be this server. Requests that change something must say where they are
  from (``Origin`` or ``Sec-Fetch-Site``), because pages on other ports of this machine count as the
  same site and get the cookie too.
* A body is at most `MAX_BODY` bytes, whether its length is declared or not; ``large_bodies`` lists
  paths that stream more.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 1 << 20
"""Bytes of a request; the largest of ours, the corrections of thousands of clips, are smaller."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
        "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
"""Of every response that does not set its own."""

_SAFE_METHODS = ("GET", "HEAD")
_NO_TOKEN = (
    "This page needs the address that the command printed in the terminal, with its token. "
    "Copy it from there; if the command was started again, the address is a new one."
)


class Protection:
    """ASGI middleware around all routes.

    token : the secret; URL-safe.
    large_bodies : greatest number of bytes of a body, by path.
    """

    def __init__(
        self, app: ASGIApp, *, token: str, large_bodies: Mapping[str, int] | None = None
    ) -> None:
        self._app = app
        self._token = token
        self._large_bodies = dict(large_bodies or {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no page of ours opens a WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return
        send = _with_headers(send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        limit = self._large_bodies.get(scope["path"], MAX_BODY)
        await self._app(scope, _limited(receive, limit), send)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that may not pass; None if it may."""
        headers = Headers(scope=scope)
        port = scope["server"][1]
        host = headers.get("host", "").lower()
        if host not in (f"127.0.0.1:{port}", f"localhost:{port}"):
            return _error(403, f"this server is http://127.0.0.1:{port}, not {host!r}")
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and origin != f"http://{host}":
            return _error(403, "requests of other pages are refused")
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["method"] in _SAFE_METHODS and "token" in dict(query):
            return self._exchange(scope["path"], query, port, site)
        if not self._has_cookie(headers, port):
            return _error(403, _NO_TOKEN)
        navigation = headers.get("sec-fetch-mode") == "navigate"
        if scope["method"] in _SAFE_METHODS:
            if site not in (None, "none", "same-origin") and not navigation:
                return _error(403, "requests of other pages are refused")
        elif origin is None and site != "same-origin":
            return _error(403, "a request that changes something must name its origin")
        return self._refusal_of_length(scope["path"], headers)

    def _refusal_of_length(self, path: str, headers: Headers) -> Response | None:
        length = headers.get("content-length", "0")
        limit = self._large_bodies.get(path, MAX_BODY)
        if not length.isascii() or not length.isdigit():
            return _error(400, "Content-Length is not a number")
        return _error(413, _too_large(limit)) if int(length[:20]) > limit else None

    def _exchange(
        self, path: str, query: list[tuple[str, str]], port: int, site: str | None
    ) -> Response:
        """Set the cookie and lead to the same address without the token."""
        if not secrets.compare_digest(dict(query)["token"].encode(), self._token.encode()):
            return _error(403, _NO_TOKEN)
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # One slash: "//host" would be an address of another server.
        target = "/" + path.lstrip("/\\") + (f"?{rest}" if rest else "")
        response: Response = RedirectResponse(target, 303)
        if site == "cross-site":
            # After a link from another page (a terminal in a browser), the cookie of a redirect
            # would not be sent; that of a page of ours is.
            address = response.headers["location"].replace("&", "&amp;").replace('"', "&quot;")
            response = HTMLResponse(
                f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">'
            )
        response.set_cookie(
            cookie_name(port), self._token, httponly=True, samesite="strict", path="/"
        )
        return response

    def _has_cookie(self, headers: Headers, port: int) -> bool:
        cookies = cookie_parser(headers.get("cookie", ""))
        found = cookies.get(cookie_name(port), "")
        return secrets.compare_digest(found.encode(), self._token.encode())


def cookie_name(port: int) -> str:
    """Browsers send cookies to all ports of a host, so each server has a name of its own."""
    return f"objectstates-{port}"


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status, headers={"Connection": "close"})


def _too_large(limit: int) -> str:
    return f"the request is larger than {limit} bytes"


def _limited(receive: Receive, limit: int) -> Receive:
    """Count the bytes of the body; chunked requests declare no length."""
    total = 0

    async def counted() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > limit:
            raise HTTPException(413, _too_large(limit), {"Connection": "close"})
        return message

    return counted


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending

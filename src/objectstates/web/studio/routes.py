"""HTTP for the studio's session, and the pages of label and review below it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from objectstates.web.media import video_routes
from objectstates.web.server import JSONAnswer, asset_route, json_object, page
from objectstates.web.studio.session import StudioSession
from objectstates.web.studio.uploads import LARGEST, receive

ASSETS = Path(__file__).parent / "assets"
UPLOAD = "/api/upload"
LARGE_BODIES = {UPLOAD: LARGEST}

_REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
)
"""The report has its own scripts, which its own policy names; here it may not ask the server."""


def studio_routes(session: StudioSession) -> list[BaseRoute]:
    """The page, what it asks for, and the project's videos."""

    def state(_: Request) -> Response:
        return JSONAnswer(session.state())

    async def upload(request: Request) -> Response:
        length = request.headers.get("content-length")
        size = None if length is None else int(length)
        name = request.query_params.get("name", "")
        try:
            place = await receive(session.project.videos, name, size, request.stream())
        except ClientDisconnect:
            raise HTTPException(400, "the upload was cancelled") from None
        session.added()
        return JSONAnswer({"name": place.name})

    def report(_: Request) -> Response:
        file = session.project.found / "report.html"
        if not file.is_file():
            raise HTTPException(404, "there is no report yet: discover first")
        policy = {"Content-Security-Policy": _REPORT_POLICY}
        return FileResponse(file, media_type="text/html; charset=utf-8", headers=policy)

    return [
        Route("/", page(ASSETS / "studio.html"), methods=["GET"]),
        Route("/api/state", state, methods=["GET"]),
        Route(UPLOAD, upload, methods=["PUT"]),
        Route("/report", report, methods=["GET"]),
        *_actions(session),
        *video_routes(session.video),
        asset_route(ASSETS, "/studio"),
    ]


def _actions(session: StudioSession) -> list[BaseRoute]:
    """``POST /api/NAME`` with a JSON object; answered with the new state, unless it says more."""

    def action(name: str, run: Callable[[dict[str, object]], dict[str, Any] | None]) -> Route:
        async def respond(request: Request) -> Response:
            found = await run_in_threadpool(run, await json_object(request))
            return JSONAnswer(await run_in_threadpool(session.state) if found is None else found)

        return Route(f"/api/{name}", respond, methods=["POST"])

    return [
        action("choices", session.choose),
        action("folders", lambda body: {"clips": session.add_folder(_text(body, "path"))}),
        action("folders/remove", lambda body: session.remove_folder(_text(body, "path"))),
        action("videos/remove", lambda body: session.remove_video(_text(body, "clip"))),
        action("discover", lambda _: session.discover()),
        action("cancel", lambda _: session.cancel()),
        action("export", lambda body: session.export(_text(body, "format"))),
    ]


def _text(body: dict[str, object], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or len(value) > 4096:
        raise HTTPException(400, f"{name} must be text")
    return value

"""The routes of the labelling page: thin, every body is checked here.

They are relative: mount them where the page shall be, with a slash at the end of its address.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from objectstates.web.label.labels_file import MAX_BOXES, How
from objectstates.web.label.session import LabelSession
from objectstates.web.media import video_routes
from objectstates.web.server import JSONAnswer, asset_route, json_object, page

ASSETS = Path(__file__).parent / "assets"

_Action = Callable[[LabelSession, dict[str, Any]], Any]


def label_routes(session: LabelSession) -> list[BaseRoute]:
    """All routes of the page: itself, its assets, videos and frames, and the requests below."""

    def post(path: str, action: _Action) -> Route:
        async def respond(request: Request) -> Response:
            body = await json_object(request)
            return JSONAnswer(await run_in_threadpool(action, session, body))

        return Route(path, respond, methods=["POST"])

    async def state(_: Request) -> Response:
        return JSONAnswer(await run_in_threadpool(session.state))

    return [
        Route("/", page(ASSETS / "label.html"), methods=["GET"]),
        asset_route(ASSETS),
        *video_routes(session.video_of),
        Route("/api/state", state, methods=["GET"]),
        post("/api/next", _next),
        post("/api/frame", _frame),
        post("/api/label", _label),
        post("/api/unlabel", lambda s, body: s.unlabel(_clip(body), _time(body))),
        post("/api/follow", lambda s, body: s.follow(_clip(body), _time(body))),
        post("/api/accept", _accept),
        post("/api/finish", _finish),
    ]


def _next(session: LabelSession, body: dict[str, Any]) -> dict[str, Any]:
    skip = (_clip(body), _time(body)) if "clip" in body else None
    return {"frame": session.next_frame(skip)}


def _frame(session: LabelSession, body: dict[str, Any]) -> dict[str, Any]:
    return session.frame(_clip(body), _time(body) if "time" in body else None)


def _label(session: LabelSession, body: dict[str, Any]) -> dict[str, Any]:
    boxes = body.get("boxes")
    if not isinstance(boxes, list) or len(boxes) > MAX_BOXES:
        raise HTTPException(400, f"boxes must be a list of at most {MAX_BOXES}")
    return session.label(_clip(body), _time(body), [_box(box) for box in boxes])


def _accept(session: LabelSession, body: dict[str, Any]) -> dict[str, Any]:
    number = body.get("id")
    if not isinstance(number, int) or isinstance(number, bool):
        raise HTTPException(400, "id must be a whole number")
    first, last = _time(body, "first"), _time(body, "last")
    return {"accepted": session.accept_followed(number, first, last), "state": session.state()}


def _finish(session: LabelSession, _: dict[str, Any]) -> dict[str, Any]:
    session.finish()
    return session.state()


def _clip(body: dict[str, Any]) -> str:
    clip = body.get("clip")
    if not isinstance(clip, str) or not clip:
        raise HTTPException(400, "clip must be the id of a clip")
    return clip


def _time(body: dict[str, Any], name: str = "time") -> float:
    time: Any = body.get(name)
    if not _is_number(time) or not 0 <= time < 1e7:
        raise HTTPException(400, f"{name} must be a number of seconds")
    return float(time)


def _box(value: Any) -> tuple[list[float], How]:
    if not isinstance(value, dict):
        raise HTTPException(400, "a box must be an object with box and how")
    box, how = value.get("box"), value.get("how", "drawn")
    if not isinstance(box, list) or len(box) != 4 or not all(map(_is_number, box)):
        raise HTTPException(400, "a box must be the four numbers x1, y1, x2, y2")
    if how not in ("drawn", "proposed", "followed"):
        raise HTTPException(400, "how must be drawn, proposed or followed")
    return [float(v) for v in box], how


def _is_number(value: Any) -> bool:
    whole = isinstance(value, int | float) and not isinstance(value, bool)
    return whole and abs(value) < 1e12 and math.isfinite(value)

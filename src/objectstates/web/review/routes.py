"""The requests of the review page: checked, and handed to the session.

Paths are relative to where the routes are mounted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from objectstates.data.clips import MAX_STATES
from objectstates.data.label_names import LabelNames
from objectstates.web.media import video_routes
from objectstates.web.review.edits import NOT_OBJECT
from objectstates.web.review.session import ReviewSession
from objectstates.web.server import JSONAnswer, asset_route, json_object, page

ASSETS = Path(__file__).parent / "assets"
Body = dict[str, Any]
_MOST_SECONDS = 1e7
_LONGEST = 1000  # characters of a clip's name or a format


def review_routes(session: ReviewSession) -> list[BaseRoute]:
    """``/``, ``/api/...``, ``/video``, ``/frame`` and ``/assets/NAME``."""

    def changing(path: str, change: Callable[[Body], object]) -> Route:
        async def respond(request: Request) -> Response:
            body = await json_object(request)
            answer = await run_in_threadpool(change, body)
            return JSONAnswer({"clip": answer if isinstance(answer, str) else None})

        return Route(f"/api/{path}", respond, methods=["POST"])

    def state(_: Request) -> Response:
        return JSONAnswer(session.state())

    def clip(request: Request) -> Response:
        return JSONAnswer(session.clip(_clip(dict(request.query_params))))

    def frames(request: Request) -> Response:
        return JSONAnswer(session.frames(_clip(dict(request.query_params))))

    return [
        Route("/", page(ASSETS / "page.html"), methods=["GET"]),
        Route("/api/state", state, methods=["GET"]),
        Route("/api/clip", clip, methods=["GET"]),
        Route("/api/frames", frames, methods=["GET"]),
        changing("action", lambda b: session.set_action(_clip(b), *_interval(b), _action(b))),
        changing("confirm", lambda b: session.confirm(_clip(b))),
        changing("exclude", lambda b: session.leave_out(_clip(b), "exclude")),
        changing("no_change", lambda b: session.leave_out(_clip(b), "no_change")),
        changing(
            "tracklet",
            lambda b: session.set_tracklet(
                _clip(b), _index(b), _choice(b, (*session.states, NOT_OBJECT, ""))
            ),
        ),
        changing(
            "interval",
            lambda b: session.set_state(_clip(b), *_interval(b), _choice(b, session.states)),
        ),
        changing("clear", lambda b: session.clear(_clip(b))),
        changing("undo", lambda _: session.undo()),
        changing("redo", lambda _: session.redo()),
        changing("names", lambda b: session.rename(_names(b, session.labels))),
        changing("note", lambda b: session.note(_clip(b), _text(b, "text", 10_000))),
        changing("finish", lambda b: session.finish(_formats(b))),
        *video_routes(session.video_of, image_fps=session.image_fps),
        asset_route(ASSETS),
    ]


def _clip(body: Body) -> str:
    return _text(body, "clip", _LONGEST)


def _text(body: Body, name: str, longest: int) -> str:
    text = body.get(name)
    if not isinstance(text, str) or len(text) > longest:
        raise HTTPException(400, f"{name} must be text of at most {longest} characters")
    return text


def _interval(body: Body) -> tuple[float, float]:
    return _seconds(body, "start"), _seconds(body, "end")


def _seconds(body: Body, name: str) -> float:
    value = body.get(name)
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not 0 <= value <= _MOST_SECONDS  # nor NaN
    ):
        raise HTTPException(400, f"{name} must be a number of seconds")
    return float(value)


def _index(body: Body) -> int:
    value = body.get("tracklet")
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 10**6:
        raise HTTPException(400, "tracklet must be the index of a tracklet: 0, 1, ...")
    return value


def _choice(body: Body, allowed: tuple[Any, ...]) -> Any:
    value = body.get("value")
    if not isinstance(value, str) or value not in allowed:
        known = ", ".join(repr(each) for each in allowed)
        raise HTTPException(400, f"value must be one of {known}")
    return value


def _action(body: Body) -> int:
    value = body.get("action", 1)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < MAX_STATES:
        raise HTTPException(400, "action must be the number of an action: 1, 2, ...")
    return value


def _names(body: Body, labels: tuple[str, ...]) -> LabelNames:
    names = {label: _text(body, label, _LONGEST).strip() for label in labels}
    return LabelNames(
        tuple(name for label, name in names.items() if label.startswith("state")),
        tuple(name for label, name in names.items() if label.startswith("action")),
    )


def _formats(body: Body) -> tuple[str, ...]:
    formats = body.get("formats")
    if not isinstance(formats, list) or len(formats) > 20:
        raise HTTPException(400, "formats must be a list of names of formats")
    if not all(isinstance(name, str) for name in formats):
        raise HTTPException(400, "formats must be a list of names of formats")
    return tuple(dict.fromkeys(formats))

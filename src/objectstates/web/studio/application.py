"""The studio's application: its own page, and those of label and review for the same project.

Sessions of label and review are made when their pages are first opened, and made anew when what
they depend on has changed: the videos and the object for label, the result for review.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Mount, Router
from starlette.types import Receive, Scope, Send

from objectstates.base.errors import ObjectStatesError
from objectstates.web.label.routes import label_routes
from objectstates.web.label.session import LabelSession
from objectstates.web.review.routes import review_routes
from objectstates.web.review.session import ReviewSession
from objectstates.web.server import JSONAnswer, create_app, plain
from objectstates.web.studio.routes import LARGE_BODIES, studio_routes
from objectstates.web.studio.session import StudioSession


class Closable(Protocol):
    """A session that ends its threads."""

    def close(self) -> None: ...


class SubPage:
    """ASGI application of a page whose session is made on the first visit.

    key : what the session depends on; None if there is nothing to show yet.
    make : the session and its routes.
    """

    def __init__(
        self,
        key: Callable[[], Hashable | None],
        make: Callable[[], tuple[Closable, Sequence[BaseRoute]]],
    ) -> None:
        self._key, self._make = key, make
        self._lock = threading.Lock()
        self._open: tuple[Hashable, Closable, Router] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = "this page cannot be used now: go back to the studio's page"
        try:
            router = await run_in_threadpool(self._router)
        except ObjectStatesError as error:
            router, problem = None, plain(str(error))
        if router is not None:
            await router(scope, receive, send)
        elif scope["method"] == "GET" and "/api/" not in scope["path"]:
            await RedirectResponse(f"/#problem={quote(problem)}", 303)(scope, receive, send)
        else:
            await JSONAnswer({"error": problem}, 409)(scope, receive, send)

    def _router(self) -> Router | None:
        with self._lock:
            key = self._key()
            if self._open is not None and self._open[0] != key:
                self._open[1].close()
                self._open = None
            if key is None:
                return None
            if self._open is None:
                session, routes = self._make()
                self._open = key, session, Router(routes)
            return self._open[2]

    def close(self) -> None:
        """End the session; the next visit makes another."""
        with self._lock:
            if self._open is not None:
                self._open[1].close()
                self._open = None


def create_studio(session: StudioSession, *, token: str) -> Starlette:
    """The application of a project, with the pages of label and review."""
    pages = {
        "label": SubPage(session.labelable, lambda: _label(session)),
        "review": SubPage(session.reviewable, lambda: _review(session)),
    }

    def close() -> None:
        for page in pages.values():
            page.close()
        session.close()

    return create_app(
        [
            *studio_routes(session),
            *(Mount(f"/{name}", app=page) for name, page in pages.items()),
        ],
        token=token,
        events=session.events,
        large_bodies=LARGE_BODIES,
        on_shutdown=close,
    )


def _label(studio: StudioSession) -> tuple[Closable, Sequence[BaseRoute]]:
    project = studio.project
    clips, name = studio.clips(), project.choices.object
    session = LabelSession(clips, name, project.labels, publish=studio.events.publish)
    session.start()
    return session, label_routes(session)


def _review(studio: StudioSession) -> tuple[Closable, Sequence[BaseRoute]]:
    studio.hold_found()
    session = ReviewSession(studio.project.found, events=studio.events)
    studio.finishing = session.finisher.running
    return session, review_routes(session)

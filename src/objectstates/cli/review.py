"""The command that opens the page on which a discovery is reviewed and corrected."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from objectstates.cli.options import flag


def review(
    found: Annotated[Path, typer.Argument(help="The folder that discover wrote.")],
    videos: Annotated[Path | None, flag("Folder of the videos, if they were moved.")] = None,
    port: Annotated[int, flag("Port of the page; a free one unless given.")] = 0,
    open_page: Annotated[bool, flag("Open the page in the browser.", "--open/--no-open")] = True,
) -> None:
    """Look at what was found, correct it, and see all answers change: a local page.

    Everything you do is saved at once in FOUND; Ctrl-C ends the page.
    """
    import warnings

    from starlette.requests import Request
    from starlette.responses import RedirectResponse
    from starlette.routing import Mount, Route

    from objectstates.discovery.constraints import InfeasibleClipWarning
    from objectstates.web.events import EventStream
    from objectstates.web.folder_lock import FolderLock
    from objectstates.web.review.routes import review_routes
    from objectstates.web.review.session import ReviewSession, check_found
    from objectstates.web.server import create_app, new_token, run

    def to_page(_: Request) -> RedirectResponse:
        return RedirectResponse("/review/")

    check_found(found)
    with FolderLock(found), warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleClipWarning)  # the page says it
        events, token = EventStream(), new_token()
        session = ReviewSession(found, events=events, videos=videos)
        try:
            routes = [Mount("/review", routes=review_routes(session)), Route("/", to_page)]
            app = create_app(routes, token=token, events=events)
            run(app, token=token, path="/review/", open_browser=open_page, port=port)
        finally:
            session.close()

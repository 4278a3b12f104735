"""The command that opens the labelling page."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from objectstates.cli.options import flag
from objectstates.cli.output import printable

if TYPE_CHECKING:
    from objectstates.video.clip_list import ClipSpan


def label(
    videos: Annotated[
        list[Path], typer.Argument(help="Video files, folders, or CSV lists of clips.")
    ],
    object_name: Annotated[str, flag("What to draw boxes around, such as drawer.", "--object")],
    out: Annotated[
        Path | None, flag("Folder for labels and detector; labels-OBJECT unless given.")
    ] = None,
    port: Annotated[int, flag("Port of the page; a free one unless given.")] = 0,
    open_page: Annotated[bool, flag("Open the page in the browser.", "--open/--no-open")] = True,
) -> None:
    """Draw a few boxes around an object in a local page, and get a detector for it.

    Every box is saved as it is drawn. The same command goes on where you stopped.
    """
    from objectstates.base.storage import make_folder
    from objectstates.export.names import safe_name
    from objectstates.video.clip_list import find_clips
    from objectstates.web.folder_lock import FolderLock

    clips = find_clips(videos)
    named = Path(f"labels-{safe_name(object_name)}") if out is None else out
    folder = make_folder(named, "out")
    with FolderLock(folder):
        print(f"{len(clips)} clips; labels are saved in {printable(str(folder))}")
        go_on = partial(next_command, [str(path) for path in videos], object_name)
        command = _serve(clips, object_name, folder, go_on, port, open_page)
    if command is not None:
        print(f"go on with\n  {printable(command)}")


def next_command(videos: Sequence[str], object_name: str, detector: Path) -> str:
    """The command that uses the detector."""
    from objectstates.export.names import safe_name

    words = ["objectstates", "discover", *videos, "--object", object_name]
    words += ["--detector", f"fewshot:{detector}"]
    return shlex.join([*words, "--out", f"found-{safe_name(object_name)}"])


def _serve(
    clips: list[ClipSpan],
    object_name: str,
    folder: Path,
    go_on: Callable[[Path], str],
    port: int,
    shown: bool,
) -> str | None:
    """Serve the page until Ctrl-C; the command to go on with, if a detector was trained."""
    from starlette.routing import Mount

    from objectstates.web import server
    from objectstates.web.events import EventStream
    from objectstates.web.label.routes import label_routes
    from objectstates.web.label.session import LabelSession

    events, token = EventStream(), server.new_token()
    session = LabelSession(clips, object_name, folder, next_command=go_on, publish=events.publish)
    session.start()
    try:
        routes = [Mount("/label", routes=label_routes(session))]
        app = server.create_app(routes, token=token, events=events)
        server.run(app, token=token, open_browser=shown, path="/label/", port=port)
    finally:
        session.close()
    finished = session.state()["finished"]
    return None if finished is None else str(finished["command"])

"""The command that opens the labelling page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from objectstates.cli.options import flag
from objectstates.cli.output import printable

if TYPE_CHECKING:
    from objectstates.web.events import EventStream
    from objectstates.web.label.session import LabelSession


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
    from objectstates.web.events import EventStream
    from objectstates.web.folder_lock import FolderLock
    from objectstates.web.label.session import LabelSession

    clips, events = find_clips(videos), EventStream()
    named = Path(f"labels-{safe_name(object_name)}") if out is None else out
    folder = make_folder(named, "out")
    _check_folder(folder, f"{safe_name(object_name)}.npz")
    with FolderLock(folder):
        print(f"{len(clips)} clips; labels are saved in {printable(str(folder))}")
        session = LabelSession(
            clips,
            object_name,
            folder,
            next_command=partial(next_command, videos, object_name.strip()),
            publish=events.publish,
        )
        _serve(session, events, port, open_page)
    finished = session.state()["finished"]
    if finished is not None:
        print(f"go on with\n  {printable(finished['command'])}")


def _check_folder(folder: Path, detector: str) -> None:
    """Raise if files would be written over that are of no earlier labelling."""
    from objectstates.base.errors import LabelError

    if (folder / "labels.json").exists():
        return
    for name in ("training.json", "proposals.npz", detector):
        if (folder / name).exists():
            raise LabelError(
                f"{folder / name} exists and is of no labelling: move it away, or choose another "
                "folder with `out`"
            )


def next_command(videos: Sequence[Path], object_name: str, detector: Path) -> str:
    """The command that uses a detector."""
    from objectstates.export.names import safe_name

    words = ["objectstates", "discover", *map(str, videos), "--object", object_name]
    words += ["--detector", f"fewshot:{detector}"]
    return shlex.join([*words, "--out", f"found-{safe_name(object_name)}"])


def _serve(session: LabelSession, events: EventStream, port: int, open_page: bool) -> None:
    """Serve the page until Ctrl-C."""
    from starlette.routing import Mount

    from objectstates.web import server
    from objectstates.web.label.routes import label_routes

    session.start()
    try:
        token = server.new_token()
        routes = [Mount("/label", routes=label_routes(session))]
        app = server.create_app(routes, token=token, events=events)
        server.run(app, token=token, open_browser=open_page, path="/label/", port=port)
    finally:
        session.close()

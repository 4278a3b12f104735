"""The command that leads a new user through all steps, on a local page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from objectstates.cli.options import flag
from objectstates.cli.output import printable
from objectstates.cli.settings_file import read_configuration

FOLDER = "objectstates-studio"


def studio(
    folder: Annotated[
        Path, typer.Argument(help="Folder of the project; made if it does not exist.")
    ] = Path(FOLDER),
    videos: Annotated[
        Path | None, flag("Folder of videos to use in the project, without copying them.")
    ] = None,
    demo: Annotated[bool, flag("Use the shipped clips of the demo.", "--demo")] = False,
    config: Annotated[
        Path | None, flag("Settings of discover, from a TOML file (config init writes one).")
    ] = None,
    port: Annotated[int, flag("Port of the page; a free one unless given.")] = 0,
    open_page: Annotated[bool, flag("Open the page in the browser.", "--open/--no-open")] = True,
) -> None:
    """Open a local page: videos, a few boxes, discovery, review and export, step by step.

    Everything stays on this machine. Ctrl-C ends it; the same command opens the project again.
    """
    from importlib.resources import as_file, files

    from objectstates.web.events import EventStream
    from objectstates.web.folder_lock import FolderLock
    from objectstates.web.server import new_token, run
    from objectstates.web.studio.application import create_studio
    from objectstates.web.studio.project import Project
    from objectstates.web.studio.session import StudioSession

    project = Project(folder)
    token = new_token()
    with FolderLock(project.folder), as_file(files("objectstates") / "demo" / "drawer") as clips:
        settings = {} if config is None else read_configuration(config, "discover")
        of_page = {"object_name", "detector", "states", "action", "open_page"}
        kept = {name: value for name, value in settings.items() if name not in of_page}
        session = StudioSession(project, EventStream(), kept)
        if videos is not None:
            project.add_folder(str(videos.resolve()))
        if demo:
            project.add_folder(str(clips))
            if not project.choices.object:
                names = {"state_1": "closed", "action": "opening", "state_2": "open"}
                project.change({"object": "drawer", **names})
        print(f"project: {printable(str(project.folder))}")

        def ready(address: str) -> None:
            print(f"open {address}\n(Ctrl-C ends it; nothing is lost)", flush=True)

        app = create_studio(session, token=token)
        run(app, token=token, open_browser=open_page, port=port, ready=ready)

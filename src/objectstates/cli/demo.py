"""The demo: the whole job, from video files, on clips that are shipped and whose truth is known."""

from __future__ import annotations

import time
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from objectstates.cli.discover import run
from objectstates.cli.output import show_page

CLIPS = "demo"  # a folder of this package, made by tools/demo_clips.py


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for the corpus, the result and the report.")
    ] = Path("objectstates-demo"),
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Do not show the report, only write it.")
    ] = False,
) -> None:
    """Find when a drawer is opened in shipped clips of a simulated robot, beside baselines."""
    from objectstates.cli.configuration import options_of
    from objectstates.cli.discover import discover

    begun = time.perf_counter()
    with as_file(files("objectstates") / CLIPS) as folder:
        defaults = {name: option.default for name, option in options_of(discover).items()}
        detector = {"detector": f"fewshot:{folder / 'drawer.npz'}", "object_name": "drawer"}
        videos = sorted(folder.glob("*.mp4"))
        seconds = "a minute or so the first time"
        print(f"{len(videos)} clips in which a robot opens a drawer; {seconds}.")
        print("The truth serves to evaluate, not to learn; the detector saw other clips.")
        found = run(out, videos, {**defaults, **detector, "truth": folder})
    found.show(json=False)
    print(f"all of it took {time.perf_counter() - begun:.0f} s")
    if not no_open:
        show_page(found.workspace.report)

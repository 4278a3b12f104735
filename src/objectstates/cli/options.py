"""Arguments and options that several commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from objectstates.base.choices import Engine

Videos = Annotated[
    list[Path] | None, typer.Argument(help="Video files, folders, or CSV lists of clips.")
]
Source = Annotated[
    Path, typer.Argument(help="A corpus folder, or a features_*.mat of the authors' release.")
]
ResultOut = Annotated[
    Path, typer.Option(help="Folder to write; an earlier result there is replaced.")
]
ObjectName = Annotated[
    str | None, typer.Option("--object", help="Name of the object, such as drawer.")
]
Seed = Annotated[int, typer.Option(help="Seed of all random choices.")]
Processes = Annotated[
    int | None, typer.Option(help="Number of worker processes; one per core unless given.")
]
EngineOption = Annotated[
    Engine,
    typer.Option(
        help="Where work runs: on this machine, or on a Ray cluster. The shards of a fit are "
        "threads with local, worker processes with processes."
    ),
]
RayAddress = Annotated[
    str, typer.Option(help="Address of the Ray cluster; local starts one on this machine.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


def cluster_address(engine: Engine, ray_address: str) -> str | None:
    """The address of the Ray cluster, if the engine is one."""
    return ray_address if engine == "ray" else None

"""Arguments and options that several commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from objectstates.base.choices import Engine


def flag(text: str, *names: str) -> Any:
    """An option with this help text, and with these flags instead of the parameter's name."""
    return typer.Option(*names, help=text)


def seconds_or_auto(value: str | float) -> str | float:
    """The value of an option that is a number of seconds or the word auto."""
    if value == "auto":
        return "auto"
    try:
        return float(value)
    except ValueError:
        raise typer.BadParameter(f"{value!r} is neither a number of seconds nor auto") from None


def seconds(text: str) -> Any:
    """An option with this help text: a number of seconds, or auto."""
    return typer.Option(parser=seconds_or_auto, metavar="SECONDS|auto", help=text)


Videos = Annotated[
    list[Path] | None,
    typer.Argument(help="Video files, folders, CSV lists of clips, or a LeRobot dataset."),
]
Source = Annotated[
    Path, typer.Argument(help="A corpus folder, or a features_*.mat of the authors' release.")
]


def result_folder(path: Path) -> Path:
    """The result itself, where the folder is one that discover wrote."""
    inner = path / "result"
    return inner if (inner / "result.json").is_file() else path


ResultFolder = Annotated[
    Path,
    typer.Argument(
        callback=result_folder,
        help="The result that fit or predict wrote, or the folder of discover.",
    ),
]
ResultOut = Annotated[Path, flag("Folder to write; an earlier result there is replaced.")]
ObjectName = Annotated[str | None, flag("Name of the object, such as drawer.", "--object")]
Truth = Annotated[
    Path | None,
    flag("Annotations: a CSV clip,action_start,action_end, or a folder of JSON files per clip."),
]
Seed = Annotated[int, flag("Seed of all random choices.")]
Changes = Annotated[
    str | None,
    flag("How many actions a clip has, or auto; unless given, as many as are named, or 1."),
]
Processes = Annotated[int | None, flag("Number of worker processes; one per core unless given.")]
EngineOption = Annotated[
    Engine,
    flag(
        "Where work runs: on this machine, or on a Ray cluster. The shards of a fit are "
        "threads with local, worker processes with processes."
    ),
]
RayAddress = Annotated[str, flag("Address of the Ray cluster; local starts one on this machine.")]
Cache = Annotated[
    Path | None, flag("Folder for observations of clips; the user's cache unless given.")
]
AsJson = Annotated[bool, flag("Print the summary as JSON.", "--json")]


def cluster_address(engine: Engine, ray_address: str) -> str | None:
    """The address of the Ray cluster, if the engine is one."""
    return ray_address if engine == "ray" else None

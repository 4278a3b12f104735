"""The command that converts a result to other formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from objectstates.cli.options import AsJson
from objectstates.cli.output import complain, show
from objectstates.export.registry import FORMATS

if TYPE_CHECKING:
    ExportFormat = str
else:
    ExportFormat = Literal[tuple(FORMATS)]  # the help lists all formats


def export(
    result: Annotated[Path, typer.Argument(help="The result folder that fit or predict wrote.")],
    to: Annotated[ExportFormat, typer.Option(help="Format to write.")],
    out: Annotated[Path, typer.Option(help="Folder to write; an earlier export is replaced.")],
    videos: Annotated[
        Path | None, typer.Option(help="Folder of the videos, if they were moved.")
    ] = None,
    fps: Annotated[
        float | None, typer.Option(help="coco, crops, rerun: frames per second of video.")
    ] = None,
    context: Annotated[
        float | None, typer.Option(help="crops: enlarge boxes by this factor; default 1.25.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="labelstudio: URL under which the videos are served.")
    ] = None,
    images: Annotated[
        bool | None, typer.Option("--images/--no-images", help="coco: write the frames too.")
    ] = None,
    all_tracklets: Annotated[
        bool | None, typer.Option("--all", help="Include tracklets without a state, as state 0.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Convert a result for spreadsheets, video players, labelling tools, viewers or training."""
    from objectstates.data.result import Result
    from objectstates.export import export

    options = {
        "videos": videos,
        "fps": fps,
        "context": context,
        "url": url,
        "images": images,
        "all_tracklets": all_tracklets,
    }
    given = {name: value for name, value in options.items() if value is not None}
    done = export(Result.load(result), to, out, **given)
    for problem in done.problems:
        complain(f"warning: {problem}")
    show({"format": to, "files": len(done.files), "problems": len(done.problems),
          "written_to": str(out)}, json)  # fmt: skip

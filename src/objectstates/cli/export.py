"""The command that converts a result to other formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from objectstates.base.choices import BOX_CONTEXT
from objectstates.cli.options import AsJson, ResultFolder, flag
from objectstates.cli.output import complain, show
from objectstates.export.registry import FORMATS

if TYPE_CHECKING:
    ExportFormat = str
else:
    ExportFormat = Literal[tuple(FORMATS)]  # the help lists all formats


def export(
    call: typer.Context,
    result: ResultFolder,
    to: Annotated[ExportFormat, flag("Format to write.")],
    out: Annotated[Path | None, flag("Folder to write; an earlier export is replaced.")] = None,
    in_place: Annotated[
        bool, flag("lerobot*, sarm: change the dataset itself, instead of writing a copy.")
    ] = False,
    dataset: Annotated[Path | None, flag("lerobot*, sarm: the dataset, if it was moved.")] = None,
    videos: Annotated[Path | None, flag("Folder of the videos, if they were moved.")] = None,
    fps: Annotated[float | None, flag("coco, crops, rerun: frames per second of video.")] = None,
    context: Annotated[
        float | None, flag(f"crops: enlarge boxes by this factor; default {BOX_CONTEXT}.")
    ] = None,
    url: Annotated[str | None, flag("labelstudio: URL under which the videos are served.")] = None,
    images: Annotated[
        bool | None, flag("coco: write the frames too.", "--images/--no-images")
    ] = None,
    all_tracklets: Annotated[
        bool | None, flag("Include tracklets without a state, as state 0.", "--all")
    ] = None,
    json: AsJson = False,
) -> None:
    """Convert a result for spreadsheets, video players, labelling tools, viewers or training."""
    from objectstates.data.result import Result
    from objectstates.export import export

    names = ("videos", "fps", "context", "url", "images", "all_tracklets", "dataset")
    given = {name: call.params[name] for name in names if call.params[name] is not None}
    done = export(Result.load(result), to, out, in_place=in_place, **given)
    for problem in done.problems:
        complain(f"warning: {problem}")
    show({"format": to, "files": len(done.files), "problems": len(done.problems),
          "written_to": "the dataset itself" if out is None else str(out)}, json)  # fmt: skip

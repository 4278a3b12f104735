"""The command that cuts clips into before, action and after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from objectstates.base.errors import SettingError
from objectstates.cli.options import AsJson, ResultFolder, flag
from objectstates.cli.output import complain, show

if TYPE_CHECKING:
    from objectstates.cut import Cut, DatasetCut

OF_FORMAT = {"videos": ("fast", "lists_only", "videos"), "lerobot": ("dataset",)}
"""Options that only one format has."""


def cut(
    call: typer.Context,
    found: ResultFolder,
    out: Annotated[Path, flag("Folder to write; what is there with the same inputs is kept.")],
    format: Annotated[
        Literal["videos", "lerobot"],
        flag("videos, or lerobot: a LeRobot dataset whose episodes are the segments."),
    ] = "videos",
    fast: Annotated[bool, flag("Copy packets, with bounds moved to key frames.", "--fast")] = False,
    crf: Annotated[
        int | None, flag("Quality of H.264 in place of exact frames: 0 to 51, 18 looks exact.")
    ] = None,
    trim_idle: Annotated[
        bool, flag("Leave out the ends in which nothing moves.", "--trim-idle")
    ] = False,
    lists_only: Annotated[
        bool, flag("Write the lists of segments, and no videos.", "--lists-only")
    ] = False,
    videos: Annotated[Path | None, flag("Folder of the videos, if they were moved.")] = None,
    dataset: Annotated[
        Path | None, flag("lerobot: folder of the dataset that was discovered, if it was moved.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Cut every clip into before, action and after: new video files without gap or overlap."""
    from objectstates.cli.progress import cut_bar
    from objectstates.cut import cut, cut_dataset
    from objectstates.data.result import Result

    given = _options(format, call.params) | {"crf": crf, "trim_idle": trim_idle}
    done: Cut | DatasetCut
    with cut_bar() as progress:
        write = cut if format == "videos" else cut_dataset
        done = write(Result.load(found), out, progress=progress, **given)
    for problem in done.problems:
        complain(f"warning: {problem}")
    facts, dropped = _facts(done)
    show({**facts, "dropped": dropped} if json else facts, json)


def _options(format: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options of a format; those of the other must not be given."""
    for other, names in OF_FORMAT.items():
        for name in names:
            if other != format and given[name]:
                raise SettingError(f"`{name}` is for `format` {other}, not for {format}")
    return {name: given[name] for name in OF_FORMAT[format]}


def _facts(done: Cut | DatasetCut) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What was done, and what was dropped."""
    from objectstates.cut import Cut

    if isinstance(done, Cut):
        first = {"clips": len(done.clips), "up_to_date": done.kept, "files": len(done.files)}
        left = [(clip.clip, *span) for clip in done.clips for span in clip.dropped]
    else:
        first = {"clips": done.clips, "episodes": len(done.episodes)}
        left = list(done.dropped)
    facts = {
        **first,
        "dropped_seconds": round(done.dropped_seconds, 3),
        "problems": len(done.problems),
        "written_to": str(done.folder),
    }
    return facts, [{"clip": clip, "start": start, "end": end} for clip, start, end in left]

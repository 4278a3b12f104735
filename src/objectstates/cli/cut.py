"""The command that cuts clips into before, action and after."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from objectstates.cli.options import AsJson, flag
from objectstates.cli.output import complain, show


def cut(
    found: Annotated[
        Path, typer.Argument(help="The folder that discover wrote, or a result folder.")
    ],
    out: Annotated[Path, flag("Folder to write; what is there with the same inputs is kept.")],
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
    json: AsJson = False,
) -> None:
    """Cut every clip into before, action and after: new video files without gap or overlap."""
    from objectstates.cli.progress import cut_bar
    from objectstates.cut import cut
    from objectstates.data.result import Result

    folder = found / "result" if (found / "discover.json").is_file() else found
    with cut_bar() as progress:
        done = cut(
            Result.load(folder),
            out,
            fast=fast,
            crf=crf,
            trim_idle=trim_idle,
            lists_only=lists_only,
            videos=videos,
            progress=progress,
        )
    for problem in done.problems:
        complain(f"warning: {problem}")
    dropped = [
        {"clip": clip.clip, "start": start, "end": end}
        for clip in done.clips
        for start, end in clip.dropped
    ]
    facts = {
        "clips": len(done.clips),
        "up_to_date": done.kept,
        "files": len(done.files),
        "dropped_seconds": round(done.dropped_seconds, 3),
        "problems": len(done.problems),
        "written_to": str(out),
    }
    show({**facts, "dropped": dropped} if json else facts, json)

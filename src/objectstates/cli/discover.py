"""The command that does it all: from videos to a report."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from objectstates.base.errors import VideoError
from objectstates.base.storage import made_folder
from objectstates.cli.configuration import Config, Paper, also_takes, effective
from objectstates.cli.engine import ray_from
from objectstates.cli.fit import (
    AsJson,
    certificate,
    fit,
    model_of,
    progress_line,
    reduction,
)
from objectstates.cli.ingest import Videos, ingest, means_from, observing, settings_from, tell
from objectstates.cli.output import (
    complain,
    make_table,
    number,
    print_table,
    printable,
    show_page,
    warnings_in_a_line,
)
from objectstates.cli.report import reading_videos, report

if TYPE_CHECKING:
    from objectstates.app.workspace import Workspace
    from objectstates.data.corpus import Corpus
    from objectstates.data.result import Result
    from objectstates.ingest.pipeline import Report

STAGES: dict[str, Callable[..., None]] = {"ingest": ingest, "fit": fit, "report": report}
"""The commands that this one runs; their options are its options."""


@also_takes(STAGES)
def discover(
    call: typer.Context,
    videos: Videos = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the corpus, the result and the report.")
    ] = ...,  # type: ignore[assignment]
    truth: Annotated[
        Path | None,
        typer.Option(
            help="What is true, to compare with: a CSV clip,action_start,action_end or a folder "
            "with a JSON file per clip."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    device: Annotated[
        str, typer.Option(help="Where torch models and the fit run: cpu or cuda (a GPU).")
    ] = "cpu",
    strict: Annotated[
        bool, typer.Option(help="Stop if a video cannot be read or a clip cannot be labelled.")
    ] = False,
    paper: Paper = False,
    config: Config = None,
    json: AsJson = False,
    **options: Any,
) -> None:
    """Find the action and the object's states in videos: ingest, fit and report in one.

    If it is interrupted, the same command goes on where it was.
    """
    try:
        found = run(out, videos or [], call.params)
    except KeyboardInterrupt:
        complain("interrupted: the same command goes on from here")
        sys.exit(130)
    found.show(json)
    if options["open_page"] and not show_page(found.workspace.report):
        complain(f"there is no desktop to show {found.workspace.report} on")


class Found:
    """What a discovery found and what it cost, for people and for scripts."""

    def __init__(
        self,
        workspace: Workspace,
        corpus: Corpus,
        result: Result,
        observed: Report,
        kept: dict[str, bool],
    ) -> None:
        from objectstates.app.inspection import describe_clips

        self.workspace, self.corpus, self.result = workspace, corpus, result
        self.observed, self.kept = observed, kept
        self.clips = describe_clips(result)

    @property
    def precision(self) -> dict[str, dict[str, float]]:
        """By method, where the truth is known."""
        from objectstates.app.inspection import describe_beside_baselines

        return describe_beside_baselines(self.result, self.corpus)

    def show(self, json: bool) -> None:
        if json:
            from json import dumps

            print(dumps(self.facts(), indent=1))
            return
        print_table(_clip_table(self.clips))
        if aside := [printable(clip.clip) for clip in self.result.set_aside]:
            print(f"like none of the others, and not learned from: {', '.join(aside)}")
        if precision := self.precision:
            print_table(_precision_table(precision))
        if "duality_gap" in self.result.summary:
            print(certificate(self.result.summary))
        if "reduced" in self.result.summary:
            print(reduction(self.result.summary))
        print(f"report: {printable(str(self.workspace.report))}")

    def facts(self) -> dict[str, Any]:
        return {
            "clips": self.clips,
            "precision": self.precision,
            "skipped": [{"clip": s.clip, "reason": s.reason} for s in self.result.skipped],
            "set_aside": [{"clip": s.clip, "reason": s.reason} for s in self.result.set_aside],
            "failed": [f"{clip}: {reason}" for clip, reason in self.observed.failed],
            "observed": self.observed.observed,
            "from_cache": self.observed.kept,
            "kept": sorted(stage for stage, kept in self.kept.items() if kept),
            "corpus": str(self.workspace.corpus),
            "result": str(self.workspace.result),
            "report": str(self.workspace.report),
        }


def run(out: Path, videos: list[Path], options: dict[str, Any]) -> Found:
    """All stages, each with its own line of progress."""
    from objectstates.app.workspace import Workspace
    from objectstates.data.truth import read_truth
    from objectstates.video.clip_list import find_clips

    settings, model = settings_from(options), model_of(options)
    shards, ray_address = options["shards"] if options["out_of_core"] else None, ray_from(options)
    model.check(shards=shards, ray_address=ray_address)  # before hours are spent on the videos
    spans = find_clips(videos, options["clips"])
    if not spans:
        raise VideoError("there is no clip to read: name videos, folders or a list of clips")
    known = None if options["truth"] is None else read_truth(options["truth"])
    scratch = options["scratch"]
    if scratch is not None:
        made_folder(scratch, "--scratch")
    workspace = Workspace(out)
    means = means_from(options)
    with warnings_in_a_line(), observing() as watch:
        corpus, observed = workspace.ingest(spans, settings, truth=known, **means, progress=watch)
    tell(observed)
    configuration = effective("discover", options)
    with warnings_in_a_line(), progress_line() as told:
        result, fit_kept = workspace.fit(
            model,
            shards=shards,
            scratch=scratch,
            processes=options["shards"] if options["engine"] == "processes" else 1,
            ray_address=ray_address,
            configuration=configuration,
            callback=told,
        )
    with reading_videos() as seen:
        report_kept = workspace.write_report(result, processes=options["processes"], progress=seen)
    kept = {"ingest": observed.observed == 0, "fit": fit_kept, "report": report_kept}
    return Found(workspace, corpus, result, observed, kept)


def _clip_table(clips: list[dict[str, Any]]) -> Any:
    table = make_table("clip", "state 1", "action", "state 2", "confidence")
    for clip in clips:
        action = [] if clip["action"] is None else [clip["action"]]
        table.add_row(
            printable(clip["clip"]),
            *(_intervals(found) for found in (clip["state_1"], action, clip["state_2"])),
            f"{clip['confidence']:.2f}",
        )
    return table


def _intervals(found: list[tuple[float, float]]) -> str:
    return ", ".join(f"{start:.1f}-{end:.1f} s" for start, end in found) or "-"


def _precision_table(rows: dict[str, dict[str, float]]) -> Any:
    table = make_table("precision", "states", "action")
    for name, row in rows.items():
        table.add_row(name, *(number(row.get(side, nan)) for side in ("states", "action")))
    return table

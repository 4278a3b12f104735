"""The command that runs all stages: from videos to a report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from objectstates.cli.clip_tables import clip_table, precision_table
from objectstates.cli.fit import certificate, fit, reduction
from objectstates.cli.ingest import ingest, warn_of_problems
from objectstates.cli.options import AsJson, Changes, Seed, Truth, Videos, flag
from objectstates.cli.output import (
    complain,
    print_table,
    printable,
    show,
    show_page,
    warnings_in_a_line,
)
from objectstates.cli.paper import follow_paper
from objectstates.cli.progress import fit_line, ingest_bar, report_bar
from objectstates.cli.report import report
from objectstates.cli.settings_file import OF_ONE_RUN, Config, Paper, effective, runs_stages
from objectstates.cli.signals import exit_code
from objectstates.cli.verdict import Require, check_required, print_verdict

if TYPE_CHECKING:
    from objectstates.data.corpus import Corpus
    from objectstates.data.result import Result
    from objectstates.ingest.pipeline import Report


@runs_stages({"ingest": ingest, "fit": fit, "report": report})
def discover(
    call: typer.Context,
    videos: Videos = None,
    out: Annotated[Path, flag("Folder for the corpus, the result and the report.")] = ...,  # type: ignore[assignment]
    truth: Truth = None,
    changes: Changes = None,
    seed: Seed = 0,
    device: Annotated[str, flag("Device of torch models and the fit: cpu or cuda.")] = "cpu",
    strict: Annotated[bool, flag("Stop if a clip cannot be read or labelled.")] = False,
    paper: Paper = False,
    config: Config = None,
    require: Require = None,
    json: AsJson = False,
    **options: Any,
) -> None:
    """Find the action and the object's states in videos: ingest, fit and report in one.

    An interrupted run continues when the same command is repeated.
    """
    follow_paper(call)
    try:
        found = run(out, videos or [], call.params)
    except KeyboardInterrupt:
        complain("interrupted: the same command goes on from here")
        sys.exit(exit_code())
    found.show(json)
    if options["open_page"] and not show_page(found.page):
        complain(f"there is no desktop to show {found.page} on")
    check_required(found.result, require)


class Terminal:
    """Shows the progress and the outcome of a discovery (an ``app.discover.Monitor``)."""

    def __init__(self, out: Path) -> None:
        self.out, self.page = out, out / "report.html"

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[..., None]]:
        display: Any = {"ingest": ingest_bar, "fit": fit_line, "report": report_bar}[name]
        with warnings_in_a_line(), display() as progress:
            yield progress

    def using_corrections(self, corrections: Path, count: int) -> None:
        complain(f"using the {count} corrections in {printable(str(corrections))}")

    def ingested(self, corpus: Corpus, report: Report) -> None:
        self.corpus, self.ingest = corpus, report
        warn_of_problems(report)

    def finished(self, result: Result, reused: Mapping[str, bool]) -> None:
        from objectstates.app.inspection import (
            describe_beside_baselines,
            describe_clips,
            lengths_used,
        )
        from objectstates.data.truth_labels import truth_count

        reused = {"ingest": self.ingest.observed == 0, **reused}
        self.reused = sorted(name for name, is_reused in reused.items() if is_reused)
        self.result, self.clips = result, describe_clips(result)
        marked = zip(result.clips, result.corrected, strict=True)
        self.corrected = [clip for clip, is_corrected in marked if is_corrected]
        self.precision = describe_beside_baselines(result, self.corpus)
        self.truth_note = truth_count(self.corpus).note
        self.lengths = lengths_used(self.corpus)

    def show(self, json: bool) -> None:
        """Print the outcome as JSON or as tables."""
        summary = self.result.summary
        if json:
            show(self.facts(), True)
            return
        print_verdict(self.result)
        print_table(clip_table(self.clips, self.result.names))
        if self.result.confidences is not None:
            print("confidence, and in brackets: the chance that the answer is right")
        if self.corrected:
            print(f"corrected clips: {', '.join(map(printable, self.corrected))}")
        if outliers := [printable(clip.clip) for clip in self.result.set_aside]:
            print(f"outlier clips, not learned from: {', '.join(outliers)}")
        if self.precision:
            print_table(precision_table(self.precision))
            if self.truth_note:
                print(self.truth_note)
        if self.lengths:
            of = (f"{name.split('_')[0]}s of {n:g} s" for name, n in self.lengths.items())
            print(f"median lengths: {', '.join(of)}")
        if "duality_gap" in summary:
            print(certificate(summary))
        if "reduced" in summary:
            print(reduction(summary))
        print(f"report: {printable(str(self.page))}")

    def facts(self) -> dict[str, Any]:
        from objectstates.app.inspection import describe_verdict

        return {
            **describe_verdict(self.result),
            "clips": self.clips,
            "precision": self.precision,
            **({"truth": self.truth_note} if self.truth_note else {}),
            **self.lengths,
            "names": self.result.names.to_json(),
            "corrected": self.corrected,
            "skipped": [{"clip": s.clip, "reason": s.reason} for s in self.result.skipped],
            "set_aside": [{"clip": s.clip, "reason": s.reason} for s in self.result.set_aside],
            "failed": [f"{clip}: {reason}" for clip, reason in self.ingest.failed],
            "observed": self.ingest.observed,
            "from_cache": self.ingest.kept,
            "kept": self.reused,
            "corpus": str(self.out / "corpus"),
            "result": str(self.out / "result"),
            "report": str(self.page),
        }


def run(out: Path, videos: list[Path], options: dict[str, Any]) -> Terminal:
    """Call the facade with the options of the command."""
    from objectstates.app.discover import discover as run_stages

    terminal = Terminal(out)
    unused = OF_ONE_RUN | {"videos", "object_name", "open_page"}
    run_stages(
        videos,
        out=out,
        object=options["object_name"],
        monitor=terminal,
        configuration=effective("discover", options),
        **{name: value for name, value in options.items() if name not in unused},
    )
    return terminal

"""The command that writes the report about a result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from objectstates.base.errors import ReportError
from objectstates.cli.options import AsJson, Processes, ResultFolder, flag
from objectstates.cli.output import complain, show
from objectstates.cli.progress import report_bar
from objectstates.cli.verdict import print_verdict


def report(
    result: ResultFolder,
    out: Annotated[
        Path | None,
        flag(
            "The HTML file to write; an earlier report there is replaced. Unless given: "
            "report.html, if it is not the report about another result."
        ),
    ] = None,
    open_page: Annotated[bool, flag("Open it in the browser.", "--open")] = False,
    processes: Processes = None,
    json: AsJson = False,
) -> None:
    """Write a self-contained HTML page about a result, with frames of the videos."""
    from objectstates.app.inspection import describe_verdict
    from objectstates.data.result import Result
    from objectstates.report.page import check_target, is_report_of, write_report
    from objectstates.video.fingerprint import INFO, about_replaced, replaced_videos

    named, out = out is not None, out or Path("report.html")
    check_target(out)
    found = Result.load(result)
    if out.exists() and not named and not is_report_of(out, result):
        raise ReportError(f"{out} is about another result: name the file to write with `out`")
    with report_bar() as progress:
        page = write_report(found, out, processes=processes, progress=progress, folder=result)
    recorded = found.corpus.info.get(INFO)
    for line in about_replaced(replaced_videos(recorded, found.corpus.videos)):
        complain(f"warning: {line}")
    facts = {
        **(describe_verdict(found) if json else {}),
        "clips": len(found.clips),
        "megabytes": round(page.stat().st_size / 1e6, 1),
        "written_to": str(out),
    }
    if not json:
        print_verdict(found)
    show(facts, json)
    if open_page:
        import webbrowser

        webbrowser.open(page.as_uri())

"""The command that writes the page about a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from objectstates.cli.output import show


def report(
    result: Annotated[Path, typer.Argument(help="The folder that fit or predict wrote.")],
    out: Annotated[Path, typer.Option(help="The page to write; an earlier report is replaced.")] = (
        Path("report.html")
    ),
    open_page: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    processes: Annotated[int | None, typer.Option(help="Default: one per core.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Write one HTML page that shows what was found, with pictures from the videos."""
    from objectstates.data.result import Result
    from objectstates.report.page import check_target, write_report

    check_target(out)
    found = Result.load(result)
    with reading_videos() as watch:
        page = write_report(found, out, processes=processes, progress=watch)
    facts = {
        "clips": len(found.clips),
        "megabytes": round(page.stat().st_size / 1e6, 1),
        "written_to": str(out),
    }
    show(facts, json)
    if open_page:
        import webbrowser

        webbrowser.open(page.as_uri())


@contextmanager
def reading_videos() -> Iterator[Callable[[int, int], None]]:
    """Videos read so far, on stderr; nothing without a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    with Progress(
        TextColumn("reading videos"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

"""Progress displays on stderr; they print nothing where stderr is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from objectstates.cli.output import printable

if TYPE_CHECKING:
    from objectstates.discovery.solver_runs import FitProgress
    from objectstates.ingest.pipeline import Progress


@contextmanager
def status_line(text: str) -> Iterator[Callable[[str], None]]:
    """A line that begins with ``text``; call the value to change it."""
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(printable(text))) as status:
        yield lambda text: status.update(Text(printable(text)))


@contextmanager
def fit_line() -> Iterator[Callable[[FitProgress], None]]:
    """Run, pass, objective and duality gap of a fit."""
    with status_line("factorising") as update:

        def show(progress: FitProgress) -> None:
            gap = progress.gap / progress.objective if progress.objective > 0 else 0.0
            update(
                f"{progress.stage}, run {progress.restart + 1}, pass {progress.passes}: "
                f"objective {progress.objective:.4e}, gap {gap:.1%}, "
                f"rounded {progress.rounded:.4e}"
            )

        yield show


@contextmanager
def ingest_bar() -> Iterator[Callable[[Progress], None]]:
    """Clips done, frames per second and time left."""
    from rich.progress import TextColumn, TimeRemainingColumn

    rate_column = TextColumn("{task.fields[rate]:.0f} frames/s")
    with _bar("ingesting", rate_column, TimeRemainingColumn()) as bar:
        task = bar.add_task("", total=None, rate=0.0)

        def show(progress: Progress) -> None:
            elapsed = bar.tasks[task].elapsed or 0.0
            rate = progress.frames / elapsed if elapsed > 0 else 0.0
            bar.update(task, total=progress.clips, completed=progress.clips_done, rate=rate)

        yield show


@contextmanager
def report_bar() -> Iterator[Callable[[int, int], None]]:
    """Videos read so far, of all."""
    with _bar("reading videos") as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def cut_bar() -> Iterator[Callable[[int, int], None]]:
    """Clips cut so far, of all."""
    with _bar("cutting") as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _bar(label: str, *columns: Any) -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    with Progress(
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        yield bar


@contextmanager
def stage_lines() -> Iterator[Callable[[str, str, str], None]]:
    """Task, stage and progress of a benchmark; a line per stage where there is no terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)
    shown: list[tuple[str, str]] = []
    with console.status("reading") as status:

        def show(name: str, stage: str, detail: str) -> None:
            text = printable(f"{name}: {stage}")
            status.update(Text(f"{text} ({detail})" if detail else text))
            if not console.is_terminal and shown[-1:] != [(name, stage)]:
                shown.append((name, stage))
                console.print(text)

        yield show

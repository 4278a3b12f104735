"""Progress on stderr: a moving line or bar on a terminal, plain lines elsewhere.

Plain lines come every `PLAIN_SECONDS` at most, so that short runs print none; with ``--verbose``
every step is one. With ``--quiet`` there is no progress.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from objectstates.cli.output import printable
from objectstates.cli.verbosity import quiet, verbose

if TYPE_CHECKING:
    from objectstates.discovery.solver_runs import FitProgress
    from objectstates.ingest.pipeline import Progress

PLAIN_SECONDS = 30.0


class PlainLines:
    """Lines on stderr where it is no terminal; those that come too soon after another are lost."""

    def __init__(self) -> None:
        self.wanted = not quiet() and (verbose() or not sys.stderr.isatty())
        self._every = 0.0 if verbose() else PLAIN_SECONDS
        self._begun = self._last = time.monotonic()
        self._shown = ""

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begun

    def show(self, text: str) -> None:
        now = time.monotonic()
        if self.wanted and text != self._shown and now - self._last >= self._every:
            self._last, self._shown = now, text
            print(printable(text), file=sys.stderr, flush=True)


@contextmanager
def status_line(text: str) -> Iterator[Callable[[str], None]]:
    """A line that begins with ``text``; call the value to change it."""
    plain = PlainLines()
    if plain.wanted or quiet():
        plain.show(text)
        yield plain.show
        return
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
    with _bar("ingesting", "clips", rate_column, TimeRemainingColumn(), rate=0.0) as show:
        begun = time.monotonic()

        def update(progress: Progress) -> None:
            elapsed = time.monotonic() - begun
            rate = progress.frames / elapsed if elapsed > 0 else 0.0
            show(progress.clips_done, progress.clips, rate=rate)

        yield update


@contextmanager
def report_bar() -> Iterator[Callable[[int, int], None]]:
    """Videos read so far, of all."""
    with _bar("reading videos", "videos") as show:
        yield show


@contextmanager
def cut_bar() -> Iterator[Callable[[int, int], None]]:
    """Clips cut so far, of all."""
    with _bar("cutting", "clips") as show:
        yield show


@contextmanager
def _bar(label: str, unit: str, *columns: Any, **fields: Any) -> Iterator[Callable[..., None]]:
    """A bar; call the value with what is done, the total, and the columns' fields."""
    plain = PlainLines()
    if plain.wanted or quiet():

        def show_line(done: int, total: int, **values: float) -> None:
            rate = f", {values['rate']:.0f} frames/s" if "rate" in values else ""
            plain.show(f"{label}: {done} of {total} {unit}{rate}, {plain.elapsed:.0f} s")

        yield show_line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    with Progress(
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        *columns,
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("", total=None, **fields)
        yield lambda done, total, **values: bar.update(task, completed=done, total=total, **values)


@contextmanager
def stage_lines() -> Iterator[Callable[[str, str, str], None]]:
    """Task, stage and progress of a benchmark; a line per stage where there is no terminal."""
    from rich.console import Console
    from rich.text import Text

    if quiet():
        yield lambda *_: None
        return
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

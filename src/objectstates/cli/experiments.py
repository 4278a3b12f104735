"""Commands that repeat experiments: reproduce, benchmark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from objectstates.cli.output import complain, make_table, print_table, printable, warnings_in_a_line

if TYPE_CHECKING:
    from objectstates.evaluation.tables import Table


def reproduce(
    data: Annotated[
        Path, typer.Argument(help="The authors' release: a folder with features_<action>.mat.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the tables; runs are kept in it too.")],
    rows: Annotated[
        str, typer.Option(help="Rows of the table, such as f,iv; all unless given.")
    ] = "",
    actions: Annotated[
        str, typer.Option(help="Actions, such as put_wheel; all that are found unless given.")
    ] = "",
    nu: Annotated[
        float, typer.Option(help="Coupling of states and action; the authors' code computes 0.5.")
    ] = 1.0,
    runs: Annotated[int, typer.Option(help="Runs of random methods that are averaged.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Use no runs that were kept.")] = False,
) -> None:
    """Compute the paper's Table 1 from the authors' features, beside the paper's numbers."""
    from objectstates.discovery.estimator import JointDiscovery
    from objectstates.evaluation import table1 as experiments
    from objectstates.evaluation.baselines import MethodSettings
    from objectstates.evaluation.tables import write_table

    settings = MethodSettings(JointDiscovery.paper(nu=nu, seed=seed), runs=runs)
    with warnings_in_a_line(), _watching() as watch:
        done = experiments.reproduce(
            data,
            out=out,
            rows=_words(rows),
            actions=_words(actions),
            settings=settings,
            fresh=fresh,
            progress=watch,
        )
    table = experiments.paper_table(done)
    written = [*write_table(table, out, "table1")]
    written += write_table(experiments.long_table(done), out, "scores")
    written += write_table(experiments.compared(done), out, "differences")
    _print_sides(table)
    print(table.notes[0])
    for note in table.notes[1:]:
        complain(f"warning: {note}")
    names = ", ".join(sorted(path.name for path in written))
    print(printable(f"wrote {names} to {out}"))


def benchmark(
    data: Annotated[
        Path,
        typer.Argument(
            help="A folder per manipulation, with <clip>.json beside <clip>.mp4; one such folder; "
            "or folders of videos and annotations.json."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the tables; stages are kept in it too.")],
    tasks: Annotated[
        str, typer.Option(help="Manipulations, by their folders' names; all unless given.")
    ] = "",
    methods: Annotated[
        str, typer.Option(help="Methods, such as chance,joint; all unless given.")
    ] = "",
    detector: Annotated[
        str,
        typer.Option(
            help="As of ingest. Unless given: learned from the train clips; motion without any."
        ),
    ] = "",
    no_crops: Annotated[
        bool, typer.Option("--no-crops", help="Judge whole clips, whatever crops.json says.")
    ] = False,
    runs: Annotated[int, typer.Option(help="Runs of random methods that are averaged.")] = 10,
    processes: Annotated[int | None, typer.Option(help="Default: one per core.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Where observations are kept; default: user's cache.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Use nothing that was kept.")] = False,
) -> None:
    """Compare all methods from end to end on videos whose truth is known."""
    from objectstates.base.cache import cache_folder
    from objectstates.evaluation.benchmark import BenchmarkSettings, run_benchmark
    from objectstates.evaluation.benchmark.tables import write_tables
    from objectstates.parallel.pool import default_processes

    settings = BenchmarkSettings(
        detector=detector,
        seed=seed,
        runs=runs,
        processes=processes or default_processes(),
        cache=cache or cache_folder() / "ingest",
        fresh=fresh,
    )
    with warnings_in_a_line(), _following() as watch:
        done = run_benchmark(
            data,
            out,
            settings,
            tasks=_words(tasks),
            methods=_words(methods),
            crops=not no_crops,
            progress=watch,
        )
    written = write_tables(done, out)
    for table in written.shown:
        _print_whole(table)
    print(printable("\n".join(written.remarks)))
    for note in written.missing:
        complain(f"warning: {note}")
    print(printable(f"wrote {', '.join(written.files)} to {out}"))


def _print_whole(table: Table) -> None:
    from objectstates.evaluation.tables import text

    # Names of several words are broken between them: there may be many columns.
    names = [re.sub(r"[-_ ]", lambda m: f"{m[0].strip()}\n", name) for name in table.columns[1:]]
    shown = make_table(table.title, *map(printable, names))
    shown.columns[0].no_wrap = True
    for row in table.rows:
        shown.add_row(*(printable(text(cell)) for cell in row))
    print_table(shown)


def _print_sides(table: Table) -> None:
    """The states' rows, then the action's; the paper's numbers stand below ours."""
    from objectstates.evaluation.tables import text

    for side, heading in (("states", "State discovery"), ("action", "Action localisation")):
        rows = [row for row in table.rows if row[1] == side]
        if rows:
            shown = make_table(heading, *map(printable, table.columns[2:]))
            shown.columns[0].no_wrap = True
            for name, _, *cells in rows:
                shown.add_row(printable(text(name)), *(text(c).replace(" ", "\n") for c in cells))
            print_table(shown)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


@contextmanager
def _watching() -> Iterator[Callable[[str, str], None]]:
    """What runs now, on stderr; nothing where stderr is not a terminal."""
    from rich.console import Console

    with Console(stderr=True, markup=False).status("reading") as status:
        yield lambda action, method: status.update(f"{printable(action)}: {method}")


@contextmanager
def _following() -> Iterator[Callable[[str, str, str], None]]:
    """What runs now and how far it is, on stderr; without a terminal a line when it changes."""
    from rich.console import Console

    console = Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)
    told: list[tuple[str, str]] = []
    with console.status("reading") as status:

        def watch(name: str, stage: str, how_far: str) -> None:
            what = printable(f"{name}: {stage}")
            status.update(f"{what} ({how_far})" if how_far else what)
            if not console.is_terminal and told[-1:] != [(name, stage)]:
                told.append((name, stage))
                console.print(what)

        yield watch

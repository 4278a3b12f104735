"""The commands that evaluate methods: reproduce, benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from objectstates.base.choices import Solver
from objectstates.cli.options import Cache, Processes, Seed, flag
from objectstates.cli.output import complain, make_table, print_table, printable, warnings_in_a_line
from objectstates.cli.progress import stage_lines, status_line

if TYPE_CHECKING:
    from objectstates.evaluation.table_files import Table


_LONG_NAME = 36  # columns: a longer name is folded
RESTARTS = 1  # as in the estimator, which is not imported to be fast
Seeds = Annotated[int, flag("Number of seeds over which the spread is measured.")]
SolverName = Annotated[Solver, flag("Block-coordinate Frank-Wolfe, or the paper's full steps.")]
MaxPasses = Annotated[int, flag("Stop after this many passes if the gap is still large.")]
Restarts = Annotated[int, flag("Runs from different random labels; the most typical is kept.")]


def reproduce(
    data: Annotated[
        Path, typer.Argument(help="The authors' release: a folder with features_<action>.mat.")
    ],
    out: Annotated[Path, flag("Folder for the tables and the scores of each run.")],
    rows: Annotated[str, flag("Rows of the table, such as f,iv; all unless given.")] = "",
    actions: Annotated[str, flag("Actions, such as put_wheel; all unless given.")] = "",
    nu: Annotated[float, flag("Coupling of states and action; the authors' code has 0.5.")] = 1.0,
    runs: Annotated[int, flag("Number of runs over which random methods are averaged.")] = 10,
    seeds: Seeds = 1,
    solver: SolverName = "block",
    max_passes: MaxPasses = 20_000,
    restarts: Restarts = RESTARTS,
    seed: Seed = 0,
    fresh: Annotated[bool, flag("Repeat runs whose scores exist.", "--fresh")] = False,
) -> None:
    """Compute the paper's Table 1 from the authors' features; compare with the paper's numbers."""
    from objectstates.discovery.estimator import JointDiscovery
    from objectstates.evaluation import paper_table1
    from objectstates.evaluation.baselines import MethodSettings
    from objectstates.evaluation.table_files import write_table

    model = JointDiscovery.paper(
        nu=nu, seed=seed, solver=solver, max_passes=max_passes, restarts=restarts
    )
    model.check()
    settings = MethodSettings(model, runs=runs, seeds=seeds)
    with warnings_in_a_line(), status_line("reading") as update:
        done = paper_table1.reproduce(
            data,
            out=out,
            rows=_words(rows),
            actions=_words(actions),
            settings=settings,
            fresh=fresh,
            progress=lambda action, method: update(f"{action}: {method}"),
        )
    table = paper_table1.paper_table(done)
    written = [*write_table(table, out, "table1")]
    written += write_table(paper_table1.long_table(done), out, "scores")
    written += write_table(paper_table1.compared(done), out, "differences")
    _print_sides(table)
    print(table.notes[0])
    for note in table.notes[1:]:
        complain(f"warning: {note}")
    names = ", ".join(sorted(path.name for path in written))
    print(printable(f"wrote {names} to {out}"))


# long: half of it declares the options
def benchmark(
    data: Annotated[
        Path,
        typer.Argument(
            help="A folder per manipulation, with <clip>.json beside <clip>.mp4; one such folder; "
            "or folders of videos and annotations.json."
        ),
    ],
    out: Annotated[Path, flag("Folder for the tables and the outcome of each stage.")],
    tasks: Annotated[str, flag("Manipulations, by folder name; all unless given.")] = "",
    methods: Annotated[str, flag("Methods, such as chance,joint; all unless given.")] = "",
    detector: Annotated[
        str,
        flag(
            "As for ingest; all clips but those in train.txt are judged. Unless given: trained on "
            "the train clips, or motion without any."
        ),
    ] = "",
    no_crops: Annotated[bool, flag("Use whole clips; ignore crops.json.", "--no-crops")] = False,
    runs: Annotated[int, flag("Number of runs over which random methods are averaged.")] = 10,
    seeds: Seeds = 1,
    solver: SolverName = "block",
    max_passes: MaxPasses = 500,
    restarts: Restarts = RESTARTS,
    processes: Processes = None,
    cache: Cache = None,
    seed: Seed = 0,
    fresh: Annotated[bool, flag("Repeat stages whose outcome exists.", "--fresh")] = False,
) -> None:
    """Compare all methods end to end on videos with annotations."""
    from objectstates.base.cache import cache_folder
    from objectstates.evaluation.benchmark import BenchmarkSettings, run_benchmark
    from objectstates.evaluation.benchmark.tables import write_tables
    from objectstates.parallel.pool import default_processes

    settings = BenchmarkSettings(
        detector=detector,
        seed=seed,
        runs=runs,
        seeds=seeds,
        solver=solver,
        max_passes=max_passes,
        restarts=restarts,
        processes=default_processes() if processes is None else processes,
        cache=cache or cache_folder() / "ingest",
        fresh=fresh,
    )
    with warnings_in_a_line(), stage_lines() as watch:
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
    from objectstates.evaluation.table_files import text

    # Column names are wrapped between words: there may be many columns.
    names = [re.sub(r"[-_ ]", lambda m: f"{m[0].strip()}\n", name) for name in table.columns[1:]]
    shown = make_table(table.title, *map(printable, names))
    _keep_whole(shown, (text(row[0]) for row in table.rows))
    for row in table.rows:
        shown.add_row(*(printable(text(cell)) for cell in row))
    print_table(shown)


def _print_sides(table: Table) -> None:
    """The rows of states, then of the action; the paper's numbers are below ours."""
    from objectstates.evaluation.table_files import text

    for side, heading in (("states", "State discovery"), ("action", "Action localisation")):
        rows = [row for row in table.rows if row[1] == side]
        if rows:
            shown = make_table(heading, *map(printable, table.columns[2:]))
            _keep_whole(shown, (text(row[0]) for row in rows))
            for name, _, *cells in rows:
                shown.add_row(printable(text(name)), *(text(c).replace(" ", "\n") for c in cells))
            print_table(shown)


def _keep_whole(shown: Any, names: Iterable[str]) -> None:
    """Do not fold names in the first column, unless they are very long."""
    shown.columns[0].min_width = min(max(map(len, names), default=0), _LONG_NAME)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]

"""The commands that evaluate methods: reproduce, benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from objectstates.base.choices import Solver
from objectstates.base.errors import SettingError
from objectstates.cli.options import Cache, Processes, Seed, flag
from objectstates.cli.output import complain, make_table, print_table, printable, warnings_in_a_line
from objectstates.cli.progress import stage_lines, status_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from objectstates.evaluation.baselines import MethodSettings
    from objectstates.evaluation.release_images import ImageSettings
    from objectstates.evaluation.table_files import Table


_LONG_NAME = 36  # columns: a longer name is folded
Seeds = Annotated[int, flag("Number of seeds over which the spread is measured.")]
SolverName = Annotated[Solver, flag("Block-coordinate Frank-Wolfe, or the paper's full steps.")]
MaxPasses = Annotated[int, flag("Stop after this many passes if the gap is still large.")]
Restarts = Annotated[int, flag("Runs from different random labels; the most typical is kept.")]


# long: most of it declares the options
def reproduce(
    data: Annotated[
        Path,
        typer.Argument(
            help="The authors' release: a folder with features_<action>.mat, and the metadata. "
            "With --wild: a folder of narrated videos per action."
        ),
    ],
    out: Annotated[Path, flag("Folder for the tables and the scores of each run.")],
    videos: Annotated[
        Path | None, flag("Folder of the release's images: compute features from them.")
    ] = None,
    wild: Annotated[
        bool, flag("Table 2: discovery in clips that narration retrieves.", "--wild")
    ] = False,
    top: Annotated[int, flag("With --wild: number of clips to retrieve.")] = 20,
    detector: Annotated[
        str,
        flag(
            "From pictures: as for ingest, {action} for the action. Unless given: with --videos "
            "the release's boxes, with --wild motion."
        ),
    ] = "",
    appearance: Annotated[str, flag("From pictures: backbone, as for ingest.")] = "resnet50",
    device: Annotated[str, flag("From pictures: device of torch models: cpu or cuda.")] = "cpu",
    around: Annotated[
        float | None,
        flag(
            "From pictures: seconds before and after the action. Unless given: with --videos all "
            "images, with --wild 10 in curated clips."
        ),
    ] = None,
    rows: Annotated[str, flag("Rows of the table, such as f,iv; all unless given.")] = "",
    actions: Annotated[str, flag("Actions, such as put_wheel; all unless given.")] = "",
    nu: Annotated[float, flag("Coupling of states and action; the authors' code has 0.5.")] = 1.0,
    runs: Annotated[int, flag("Number of runs over which random methods are averaged.")] = 10,
    seeds: Seeds = 1,
    solver: SolverName = "block",
    max_passes: MaxPasses = 20_000,
    restarts: Restarts = 1,
    seed: Seed = 0,
    processes: Processes = None,
    cache: Cache = None,
    fresh: Annotated[bool, flag("Repeat runs whose scores exist.", "--fresh")] = False,
) -> None:
    """Compute the paper's tables from the authors' release, or from videos; compare the numbers."""
    from objectstates.base.cache import cache_folder
    from objectstates.discovery.estimator import JointDiscovery
    from objectstates.evaluation import paper_table1
    from objectstates.evaluation.baselines import MethodSettings
    from objectstates.evaluation.release_images import ImageSettings
    from objectstates.evaluation.table_files import write_table
    from objectstates.parallel.pool import default_processes

    if videos is None and not wild and (detector or around is not None):
        raise SettingError("`detector` and `around` are for features from images: give `videos`")
    if wild and (videos is not None or rows):
        raise SettingError("`wild` is another table: give neither `videos` nor `rows` with it")
    images = ImageSettings(
        detector,
        appearance,
        device,
        around,
        default_processes() if processes is None else processes,
        cache or cache_folder() / "ingest",
    )
    model = JointDiscovery.paper(
        nu=nu, seed=seed, solver=solver, max_passes=max_passes, restarts=restarts
    )
    model.check()
    settings = MethodSettings(model, runs=runs, seeds=seeds)
    if wild:
        _print_wild(data, out, _words(actions), settings, images, top, fresh)
        return
    with warnings_in_a_line(), status_line("reading") as update:
        done = paper_table1.reproduce(
            data,
            out=out,
            rows=_words(rows),
            actions=_words(actions),
            settings=settings,
            videos=videos,
            images=images,
            fresh=fresh,
            progress=lambda action, method: update(f"{action}: {method}"),
        )
    table = paper_table1.paper_table(done)
    written = [*write_table(table, out, "table1")]
    written += write_table(paper_table1.long_table(done), out, "scores")
    written += write_table(paper_table1.compared(done), out, "differences")
    _print_paper_table(table, out, written)


def _print_wild(
    data: Path,
    out: Path,
    actions: list[str],
    settings: MethodSettings,
    ingest: ImageSettings,
    top: int,
    fresh: bool,
) -> None:
    from objectstates.evaluation.paper_table2 import wild, wild_table
    from objectstates.evaluation.table_files import write_table

    with warnings_in_a_line(), status_line("reading") as update:
        done = wild(
            data,
            out=out,
            actions=actions,
            settings=settings,
            ingest=ingest,
            top=top,
            fresh=fresh,
            progress=lambda action, stage: update(f"{action}: {stage}"),
        )
    table = wild_table(done)
    _print_paper_table(table, out, write_table(table, out, "table2"))


def _print_paper_table(table: Table, out: Path, written: Sequence[Path]) -> None:
    _print_sides(table)
    print(printable(table.notes[0]))
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
    around: Annotated[
        float | None,
        flag("Cut test clips to this many seconds before and after the action, as in the paper."),
    ] = None,
    runs: Annotated[int, flag("Number of runs over which random methods are averaged.")] = 10,
    seeds: Seeds = 1,
    solver: SolverName = "block",
    max_passes: MaxPasses = 500,
    restarts: Restarts = 1,
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
            around=around,
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

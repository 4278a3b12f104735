"""Commands that repeat experiments: reproduce."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from objectstates.cli.output import complain, make_table, print_table, printable, warnings_in_a_line

if TYPE_CHECKING:
    from objectstates.tables import Table


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
    from objectstates import experiments
    from objectstates.baselines import MethodSettings
    from objectstates.discovery import JointDiscovery
    from objectstates.tables import write_table

    settings = MethodSettings(JointDiscovery.paper(nu=nu, seed=seed), runs=runs)
    with warnings_in_a_line(), _watching() as watch:
        done = experiments.reproduce(
            data,
            out=out,
            rows=_words(rows),
            actions=_words(actions),
            settings=settings,
            fresh=fresh,
            watch=watch,
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


def _print_sides(table: Table) -> None:
    """The states' rows, then the action's; the paper's numbers stand below ours."""
    from objectstates.tables import text

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

"""Commands that repeat experiments: reproduce."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from objectstates.cli.output import complain, make_table, print_table, printable, warnings_in_a_line


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
    from objectstates.tables import text, write_table

    settings = MethodSettings(JointDiscovery(nu=nu, mu=1e-4, lam=1e-2, seed=seed), runs=runs)
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
    shown = make_table(*map(printable, table.columns))
    shown.columns[0].no_wrap = True
    for row in table.rows:
        shown.add_row(*(printable(text(cell)) for cell in row))
    print_table(shown)
    print(table.notes[0])
    for note in table.notes[1:]:
        complain(f"warning: {note}")
    print(printable(f"wrote {', '.join(str(path) for path in written)}"))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


@contextmanager
def _watching() -> Iterator[Callable[[str, str], None]]:
    """What runs now, on stderr; nothing where stderr is not a terminal."""
    from rich.console import Console

    with Console(stderr=True, markup=False).status("reading") as status:
        yield lambda action, method: status.update(f"{printable(action)}: {method}")

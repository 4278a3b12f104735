"""Printing: tables, JSON, and errors and warnings of one line on stderr."""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import isnan
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from typer import Exit, Typer
from typer.core import TyperCommand

from objectstates.base.errors import ObjectStatesError
from objectstates.cli.verbosity import stdout_unless_quiet, verbose, with_verbosity

if TYPE_CHECKING:
    from rich.table import Table


_UNLIMITED = 100_000  # columns: more than any line of a table

_flags: ContextVar[Mapping[str, str]] = ContextVar("flags", default=MappingProxyType({}))
"""Flags of the running command, by parameter."""


class Command(TyperCommand):
    """A command whose library errors are one line on stderr and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        token = _flags.set(_flags_of(self.params))
        try:
            with stdout_unless_quiet(bool(ctx.params.get("json"))):
                return super().invoke(ctx)
        except ObjectStatesError as problem:
            if verbose():
                traceback.print_exc()
            complain(str(problem))
            raise Exit(2) from None
        finally:
            _flags.reset(token)


def add_command(app: Typer, command: Callable[..., Any]) -> None:
    """Add a function as a command, with the options that all commands have."""
    app.command(cls=Command)(with_verbosity(command))


def _flags_of(parameters: Sequence[Any]) -> dict[str, str]:
    """The options' flags by parameter, and by the flag's name with underscores."""
    flags = {}
    for parameter in parameters:
        flag = parameter.opts[0]
        if flag.startswith("--"):
            flags[parameter.name] = flags[flag[2:].replace("-", "_")] = flag
    return flags


def show(facts: dict[str, Any], json: bool) -> None:
    """Print named values as JSON or as a table."""
    if json:
        from json import dumps

        print(dumps(facts, indent=1))
        return
    table = make_table("", "")
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), _text(value))
    print_table(table)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        numbers = all(isinstance(item, int) for item in value)
        return (" x " if numbers else "\n").join(map(_text, value)) or "none"
    return printable(str(value))


def make_table(*columns: str) -> Table:
    """An empty table; no header where the columns have no names."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def print_table(table: Table) -> None:
    """Print a table; user text in it is not interpreted as markup.

    In a file or a pipe its lines are as long as they need be, so that paths and names stay whole.
    """
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        console.print(table)
        return
    if "COLUMNS" not in os.environ:
        console.width = _UNLIMITED
    with console.capture() as printed:
        console.print(table)
    print("\n".join(line.rstrip() for line in printed.get().splitlines()))


def number(value: float) -> str:
    """A score with two digits; a dash for NaN."""
    return "-" if isnan(value) else f"{value:.2f}"


def complain(message: str) -> None:
    """Print an error or a warning in one line on stderr."""
    text = " ".join(parameters_as_flags(message).split())
    print(f"objectstates: {printable(text)}", file=sys.stderr)


def parameters_as_flags(message: str) -> str:
    """Replace parameters in backquotes by the flags of the running command.

    Library messages name parameters, such as `scratch`. Those that are no option of the command
    lose their backquotes only.
    """
    flags = _flags.get()
    return re.sub(r"`([A-Za-z_]\w*)`", lambda match: flags.get(match[1], match[1]), message)


def printable(text: str) -> str:
    """Escape control characters, which could change the state of the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def cell(text: str) -> str:
    """A name as one line of a table's cell."""
    return printable(text).replace("\n", "\\n")


@contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """Print the warnings of the block, one line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        complain(f"warning: {warning.message}")


def show_page(path: Path) -> bool:
    """Open a file in the user's browser; false if there is no desktop."""
    import webbrowser

    headless = sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    return not headless and webbrowser.open(path.resolve().as_uri())

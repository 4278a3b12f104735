"""What all commands print with: facts as a table or as JSON, and complaints in a line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from math import isnan
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def show(facts: dict[str, Any], json: bool) -> None:
    """Print named facts, for scripts or for people."""
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
    """Print a table as it is: what users named is no markup."""
    from rich.console import Console

    Console(highlight=False, markup=False, emoji=False).print(table)


def number(value: float) -> str:
    """A score with two digits; a dash where there is none."""
    return "-" if isnan(value) else f"{value:.2f}"


def complain(message: str) -> None:
    """Say what is wrong, in one line on stderr."""
    print(f"objectstates: {printable(' '.join(message.split()))}", file=sys.stderr)


def printable(text: str) -> str:
    """What users named must not steer the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


@contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """Turn warnings of the block into complaints."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        complain(f"warning: {warning.message}")

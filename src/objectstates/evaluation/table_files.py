"""Tables of results as CSV with all digits, and as Markdown and HTML with rounded numbers."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from html import escape
from pathlib import Path

from objectstates.base.storage import write_atomically
from objectstates.evaluation import Comparison, MethodRow

Cell = str | float | int | None

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}"
    ".wide{overflow-x:auto}table{border-collapse:collapse}"
    "td,th{padding:.25rem .7rem;text-align:right;border-bottom:1px solid #8884}"
    "td:first-child,th:first-child,td.text{text-align:left}"
    "@media(prefers-color-scheme:dark){body{background:#16181d;color:#e6e6e6}}"
)


@dataclass(frozen=True)
class Table:
    """Named columns and rows of cells; None and NaN are empty cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


def method_table(title: str, rows: Sequence[MethodRow], notes: Sequence[str] = ()) -> Table:
    """One row per method, one column per field of :class:`MethodRow`."""
    columns = tuple(column.name for column in fields(MethodRow))
    return Table(title, columns, tuple(astuple(row) for row in rows), tuple(notes))


def comparison_table(
    title: str, comparisons: Sequence[tuple[str, str, str, Comparison]], notes: Sequence[str] = ()
) -> Table:
    """One row per pair of methods: what they find, the first, the second, their difference."""
    rows = [
        (finds, first, second, c.difference, c.low, c.high, c.p, c.n_clips)
        for finds, first, second, c in comparisons
    ]
    columns = ("finds", "method", "over", "difference", "low", "high", "p", "clips")
    return Table(title, columns, tuple(rows), tuple(notes))


def to_csv(table: Table) -> str:
    """Comma-separated, with all digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([["" if _is_empty(cell) else cell for cell in row] for row in table.rows])
    return out.getvalue()


def to_markdown(table: Table) -> str:
    r"""A heading, the table and its notes.

    >>> print(to_markdown(Table("Scores", ("method", "states"), (("joint", 0.5), ("a|b", None)))))
    ## Scores
    <BLANKLINE>
    | method | states |
    |---|---|
    | joint | 0.50 |
    | a\|b | - |
    <BLANKLINE>
    """
    lines = [f"## {_markdown(table.title)}"]
    if table.columns:
        lines += ["", _line(table.columns), "|" + "---|" * len(table.columns)]
        lines += [_line(row) for row in table.rows]
    lines += [line for note in table.notes for line in ("", _markdown(note))]
    return "\n".join(lines) + "\n"


def to_html(table: Table) -> str:
    """A self-contained page; user-given names are escaped."""
    return html_page(table.title, [replace(table, title="", notes=())], table.notes)


def html_page(title: str, tables: Sequence[Table], notes: Sequence[str] = ()) -> str:
    """A self-contained page of several tables with their titles, and notes."""
    body = "\n".join(_html_table(table) for table in tables)
    paragraphs = "\n".join(f"<p>{escape(note)}</p>" for note in notes)
    title = escape(title)
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n<h1>{title}</h1>\n"
        f"{body}\n{paragraphs}\n</html>\n"
    )


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in table.columns)
    body = "\n".join(
        "<tr>" + "".join(_html_cell(cell) for cell in row) + "</tr>" for row in table.rows
    )
    title = f"<h2>{escape(table.title)}</h2>\n" if table.title else ""
    notes = "".join(f"\n<p>{escape(note)}</p>" for note in table.notes)
    return (
        f'{title}<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>{notes}"
    )


def write_table(table: Table, folder: str | Path, name: str) -> tuple[Path, ...]:
    """Write ``name.csv``, ``name.md`` and ``name.html``, each atomically."""
    forms = {"csv": to_csv, "md": to_markdown, "html": to_html}
    paths = []
    for suffix, form in forms.items():
        paths.append(Path(folder) / f"{name}.{suffix}")
        write_atomically(paths[-1], form(table))
    return tuple(paths)


def text(cell: Cell) -> str:
    """A cell rounded for readers: two decimals, a dash if empty.

    >>> text(0.666), text(0.0002), text(float("nan")), text(7)
    ('0.67', '0.0002', '-', '7')
    """
    if _is_empty(cell):
        return "-"
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:.1g}" if 0 < abs(cell) < 0.005 else f"{cell:.2f}"


def _is_empty(cell: Cell) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def _line(cells: Sequence[Cell]) -> str:
    return "| " + " | ".join(_markdown(text(cell)) for cell in cells) + " |"


def _markdown(words: str) -> str:
    """Escaped, so that names cannot break the table or become markup."""
    return escape(" ".join(words.split()), quote=False).replace("|", "\\|")


def _html_cell(cell: Cell) -> str:
    kind = ' class="text"' if isinstance(cell, str) else ""
    return f"<td{kind}>{escape(text(cell))}</td>"

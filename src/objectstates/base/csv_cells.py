"""Text in cells of CSV files, which spreadsheets may run as a formula.

Text that begins like a formula, or with an apostrophe, gets an apostrophe in front, by which
spreadsheets mark text. Removing one leading apostrophe restores it.
"""

from __future__ import annotations

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")  # beginnings that a spreadsheet interprets


def escaped(text: str) -> str:
    """A cell for the text.

    >>> escaped("=1+1"), escaped("drawer")
    ("'=1+1", 'drawer')
    """
    return f"'{text}" if text.startswith(FORMULA) else text


def restored(cell: str) -> str:
    """As `unescaped`, but of a file that people write too: an apostrophe of theirs is kept.

    >>> restored("'=1+1"), restored("'t Hooft")
    ('=1+1', "'t Hooft")
    """
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell


def unescaped(cell: str) -> str:
    """The text of a cell that :func:`escaped` made."""
    return cell.removeprefix("'")

"""Corrections by a person: what is known about some clips, as rows of a CSV file.

    clip,kind,start,end,value
    kitchen_03,action,4.2,5.0,
    kitchen_07,exclude,,,

Columns and kinds are those of `Correction` (``correction_rows.py``). An export for CVAT or Label
Studio that was edited there is read too (``formats/corrected_cvat.py``,
``formats/corrected_labelstudio.py``).

The file may come from anyone: its size is bounded, every cell is checked, and text that a
spreadsheet would run as a formula is written with an apostrophe in front.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from objectstates.base.csv_cells import escaped, unescaped
from objectstates.base.errors import CorrectionError
from objectstates.base.storage import write_atomically
from objectstates.data.correction_rows import (
    KINDS,
    LEAVES_OUT,
    MAX_TEXT,
    Correction,
    Kind,
    corrections_from_json,
    short,
)
from objectstates.data.formats.corrected_cvat import corrections_from_cvat
from objectstates.data.formats.corrected_labelstudio import corrections_from_labelstudio

__all__ = [
    "COLUMNS",
    "KINDS",
    "LEAVES_OUT",
    "MAX_BYTES",
    "MAX_ROWS",
    "MAX_TEXT",
    "Correction",
    "Kind",
    "UnusedCorrectionWarning",
    "by_clip",
    "check_clips",
    "corrections_from_json",
    "read_corrections",
    "rows_of",
    "write_corrections",
]

COLUMNS = ("clip", "kind", "start", "end", "value")
MAX_BYTES = 16 * 2**20
MAX_ROWS = 100_000


class UnusedCorrectionWarning(UserWarning):
    """Some corrections are of clips that are gone; they are not used."""


# --- files --------------------------------------------------------------------------------------


def read_corrections(path: str | Path) -> tuple[Correction, ...]:
    """The rows of a file, in its order. Clip ids are checked where the clips are known.

    It may also be an export for CVAT or Label Studio that a person has edited: see
    ``formats/corrected_cvat.py`` and ``formats/corrected_labelstudio.py``.
    """
    path = Path(path)
    text = _read_text(path)
    edited = _from_tool(path, text)
    if edited is not None:
        return edited
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    found: list[Correction] = []
    try:
        header = [cell.strip() for cell in next(reader, [])]
        _check_header(path, header)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(found) == MAX_ROWS:
                raise CorrectionError(f"{path} has more than {MAX_ROWS} rows")
            found.append(_row(path, reader.line_num, header, cells))
    except csv.Error as problem:
        raise CorrectionError(f"{path}, line {reader.line_num}: {problem}") from problem
    return tuple(found)


def _from_tool(path: Path, text: str) -> tuple[Correction, ...] | None:
    """The corrections in an edited export; None if the text is none."""
    match text.lstrip()[:1]:
        case "<":
            rows = corrections_from_cvat(text, str(path))
        case "[" | "{":
            rows = corrections_from_labelstudio(text, str(path))
        case _:
            return None
    if len(rows) > MAX_ROWS:
        raise CorrectionError(f"{path} has more than {MAX_ROWS} rows")
    return rows


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise CorrectionError(f"{path} is larger than {MAX_BYTES // 2**20} MB")
        return content.decode("utf-8-sig")
    except OSError as problem:
        raise CorrectionError(f"{path} cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise CorrectionError(f"{path} is not UTF-8 text: {problem}") from problem


def _check_header(path: Path, header: list[str]) -> None:
    unknown = [name for name in header if name not in COLUMNS]
    wanted = f"the header must be {','.join(COLUMNS)}"
    if unknown:
        raise CorrectionError(f"{path}, line 1: unknown column {short(unknown[0])}; {wanted}")
    if len(set(header)) < len(header) or not {"clip", "kind"} <= set(header):
        raise CorrectionError(f"{path}, line 1: a column is missing or a duplicate; {wanted}")


def _row(path: Path, line: int, header: list[str], cells: list[str]) -> Correction:
    if len(cells) != len(header):
        raise CorrectionError(
            f"{path}, line {line}: it has {len(cells)} cells, the header {len(header)}"
        )
    row = {name: unescaped(cell.strip()) for name, cell in zip(header, cells, strict=True)}
    try:
        start, end = _seconds(row.get("start", "")), _seconds(row.get("end", ""))
    except ValueError as problem:
        raise CorrectionError(f"{path}, line {line}: {problem}") from None
    kind: Any = row["kind"]
    return Correction(row["clip"], kind, start, end, row.get("value", ""), line, str(path))


def _seconds(cell: str) -> float | None:
    if not cell:
        return None
    try:
        return float(cell)
    except ValueError:
        raise ValueError(f"{short(cell)} is not a number of seconds") from None


def write_corrections(path: str | Path, corrections: Iterable[Correction]) -> None:
    """Write a file that `read_corrections` reads back; an earlier one is replaced as a whole."""
    content = io.StringIO(newline="")
    plain = csv.writer(content, lineterminator="\n")
    quoted = csv.writer(content, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(COLUMNS)
    for row in corrections:
        times = ["" if time is None else repr(float(time)) for time in (row.start, row.end)]
        cells = [escaped(row.clip), row.kind, *times, escaped(row.value)]
        # The csv module leaves a lone carriage return unquoted, and reads it as the end of a row.
        (quoted if any("\r" in cell for cell in cells) else plain).writerow(cells)
    try:
        write_atomically(Path(path), content.getvalue())
    except OSError as problem:
        raise CorrectionError(f"cannot write {path}: {problem.strerror}") from problem


# --- rows by clip ---------------------------------------------------------------------------------


def by_clip(corrections: Iterable[Correction]) -> dict[str, list[Correction]]:
    """The rows of each clip, in their order."""
    found: dict[str, list[Correction]] = {}
    for row in corrections:
        found.setdefault(row.clip, []).append(row)
    return found


def rows_of(corrections: Iterable[Correction], clips: Iterable[str]) -> tuple[Correction, ...]:
    """The rows of these clips."""
    among = set(clips)
    return tuple(row for row in corrections if row.clip in among)


def check_clips(corrections: Iterable[Correction], clips: Iterable[str]) -> None:
    """Raise for the first row of a clip that is none of ``clips``."""
    known = list(clips)
    among = set(known)
    for row in corrections:
        if row.clip not in among:
            near = get_close_matches(row.clip[:100], known[:10_000], n=1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise CorrectionError(f"{row.place}: there is no clip {short(row.clip)}{hint}")

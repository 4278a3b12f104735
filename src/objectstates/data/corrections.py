"""Corrections by a person: what is known about some clips, as rows of a CSV file.

    clip,kind,start,end,value
    kitchen_03,action,4.2,5.0,
    kitchen_07,exclude,,,

Kinds, with times in seconds of the video (an empty start or end is that of the clip):

* ``action``: it happens within start to end; if both are given, they are its interval. ``value``
  is its number in a chain of actions: 1, or empty.
* ``confirm``: all is as found. With times it constrains like ``action``; without, the times are
  those of the result that the corrections are applied to (``discovery/corrections.py``).
* ``state``: from start to end the object is in the state ``value``: 1, 2, or the state's name.
* ``not_object``: tracklets within start to end do not show the object; with ``value``, the index of
  a tracklet within its clip, that tracklet alone.
* ``no_change``: nothing happens in the clip. ``exclude``: the clip takes no part, for any reason.

The file may come from anyone: its size is bounded, every cell is checked, and text that a
spreadsheet would run as a formula is written with an apostrophe in front.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args

from objectstates.base.errors import CorrectionError
from objectstates.base.storage import write_atomically

Kind = Literal["action", "confirm", "state", "not_object", "no_change", "exclude"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LEAVES_OUT: frozenset[Kind] = frozenset({"no_change", "exclude"})
"""Kinds with which a clip takes no part."""
COLUMNS = ("clip", "kind", "start", "end", "value")

MAX_BYTES = 16 * 2**20
MAX_ROWS = 100_000
MAX_TEXT = 1000  # characters of a clip id or a value
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")  # beginnings that a spreadsheet interprets


@dataclass(frozen=True, slots=True)
class Correction:
    """One row. Invalid values raise `CorrectionError`.

    start, end : seconds of the video; None is the start or the end of the clip.
    line : its line in the file, counted from 1, and ``file`` its name; 0 and "" without a file.
    """

    clip: str
    kind: Kind
    start: float | None = None
    end: float | None = None
    value: str = ""
    line: int = field(default=0, compare=False)
    file: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem is not None:
            raise CorrectionError(f"{self.place}: {problem}")

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        if self.line:
            return f"{self.file or 'corrections'}, line {self.line}"
        return f"correction {self.kind!r} of clip {self.clip!r}"

    def within(self, first: float, last: float) -> tuple[float, float]:
        """Start and end, given those of the clip."""
        return (
            first if self.start is None else self.start,
            last if self.end is None else self.end,
        )

    def to_json(self) -> dict[str, Any]:
        """For the header of a result."""
        return {name: value for name, value in asdict(self).items() if name != "file"}


def corrections_from_json(values: Any) -> tuple[Correction, ...]:
    """Raise TypeError or ValueError unless ``values`` are rows as `Correction.to_json` has them."""
    if not isinstance(values, list):
        raise TypeError("corrections are not a list")
    return tuple(Correction(**row) for row in values)


def _problem(row: Correction) -> str | None:
    """What is wrong with a row by itself; None if nothing is."""
    if row.kind not in KINDS:
        near = get_close_matches(str(row.kind), KINDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it must be one of {', '.join(KINDS)}"
        return f"there is no kind {_short(row.kind)}: {hint}"
    for name, text in (("clip", row.clip), ("value", row.value)):
        if not isinstance(text, str) or len(text) > MAX_TEXT:
            return f"the {name} must be text of at most {MAX_TEXT} characters"
    if not row.clip:
        return "the clip is missing"
    for name, time in (("start", row.start), ("end", row.end)):
        if time is not None and not (isinstance(time, int | float) and 0 <= time < math.inf):
            return f"{name} must be a number of seconds of at least 0, not {_short(time)}"
    if row.start is not None and row.end is not None and not row.start < row.end:
        return f"it starts at {row.start:g} s and ends at {row.end:g} s: the end must be later"
    return _value_problem(row)


def _value_problem(row: Correction) -> str | None:
    timed = row.start is not None or row.end is not None
    match row.kind:
        case "action" if not timed:
            return "an action needs a start or an end"
        case "action" if row.value not in ("", "1"):
            return f"value {_short(row.value)}: clips have one action, so it must be 1 or empty"
        case "state" if not row.value:
            return "a state needs a value: 1, 2 or the state's name"
        case "not_object" if row.value and not (row.value.isascii() and row.value.isdigit()):
            return f"value {_short(row.value)} is not the index of a tracklet: 0, 1, ..."
        case "confirm" | "no_change" | "exclude" if row.value:
            return f"{row.kind} takes no value, but {_short(row.value)} is given"
        case "no_change" | "exclude" if timed:
            return f"{row.kind} concerns the whole clip: leave start and end empty"
    return None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- files --------------------------------------------------------------------------------------


def read_corrections(path: str | Path) -> tuple[Correction, ...]:
    """The rows of a file, in its order. Clip ids are checked where the clips are known."""
    path = Path(path)
    text = _read_text(path)
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
        raise CorrectionError(f"{path}, line 1: unknown column {_short(unknown[0])}; {wanted}")
    if len(set(header)) < len(header) or not {"clip", "kind"} <= set(header):
        raise CorrectionError(f"{path}, line 1: a column is missing or a duplicate; {wanted}")


def _row(path: Path, line: int, header: list[str], cells: list[str]) -> Correction:
    if len(cells) != len(header):
        raise CorrectionError(
            f"{path}, line {line}: it has {len(cells)} cells, the header {len(header)}"
        )
    row = {name: _unescaped(cell.strip()) for name, cell in zip(header, cells, strict=True)}
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
        raise ValueError(f"{_short(cell)} is not a number of seconds") from None


def write_corrections(path: str | Path, corrections: Iterable[Correction]) -> None:
    """Write a file that `read_corrections` reads back; an earlier one is replaced as a whole."""
    content = io.StringIO(newline="")
    plain = csv.writer(content, lineterminator="\n")
    quoted = csv.writer(content, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(COLUMNS)
    for row in corrections:
        times = ["" if time is None else repr(float(time)) for time in (row.start, row.end)]
        cells = [_escaped(row.clip), row.kind, *times, _escaped(row.value)]
        # The csv module leaves a lone carriage return unquoted, and reads it as the end of a row.
        (quoted if any("\r" in cell for cell in cells) else plain).writerow(cells)
    try:
        write_atomically(Path(path), content.getvalue())
    except OSError as problem:
        raise CorrectionError(f"cannot write {path}: {problem.strerror}") from problem


def _escaped(text: str) -> str:
    """As in the CSV export: no spreadsheet runs it as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _unescaped(cell: str) -> str:
    return cell.removeprefix("'")


# --- rows by clip ---------------------------------------------------------------------------------


def by_clip(corrections: Iterable[Correction]) -> dict[str, list[Correction]]:
    """The rows of each clip, in their order."""
    found: dict[str, list[Correction]] = {}
    for row in corrections:
        found.setdefault(row.clip, []).append(row)
    return found


def check_clips(corrections: Iterable[Correction], clips: Iterable[str]) -> None:
    """Raise for the first row of a clip that is none of ``clips``."""
    known = list(clips)
    among = set(known)
    for row in corrections:
        if row.clip not in among:
            near = get_close_matches(row.clip[:100], known[:10_000], n=1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise CorrectionError(f"{row.place}: there is no clip {_short(row.clip)}{hint}")

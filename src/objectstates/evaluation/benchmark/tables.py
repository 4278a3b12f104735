"""The tables of a benchmark, and notes where its order of methods is not the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from itertools import pairwise
from pathlib import Path

import numpy as np

from objectstates.base.storage import write_atomically
from objectstates.evaluation import Comparison, MethodRow, compare, method_row
from objectstates.evaluation.baselines import METHODS
from objectstates.evaluation.benchmark import Benchmark, DetectorRow
from objectstates.evaluation.benchmark.manipulations import AVERAGE
from objectstates.evaluation.precision import Side
from objectstates.evaluation.table_files import (
    Cell,
    Table,
    comparison_table,
    html_page,
    text,
    to_csv,
    to_markdown,
)

COLUMNS = ("manipulation", *(column.name for column in fields(MethodRow)))

ORDER = {
    "states": ("constraints", "salient", "at_least_one", "joint", "joint_scores"),
    "action": ("action_salient", "action_object_cues", "joint"),
}
"""The methods from worse to better by the averages of the paper's Table 1."""

OTHER_PAIRS = (
    ("states", "joint_paper", "at_least_one"),
    ("states", "joint", "joint_paper"),
    ("action", "joint", "middle"),
    ("action", "joint", "joint_paper"),
)
"""Further pairs: the model with the paper's settings, and the middle of the clip."""

PAIRS = (
    *(
        (finds, better, worse)
        for finds, order in ORDER.items()
        for worse, better in pairwise(order)
    ),
    *OTHER_PAIRS,
)

TITLES = {"states": "State discovery", "action": "Action localisation"}

TITLE = "Methods compared, from videos to states"
EXPLANATION = (
    "Precision is the mean over clips and states. Averages are over manipulations; bounds are 95 % "
    "by the bootstrap over clips. Rows c to e and joint_paper label as the paper does, about one "
    "tracklet per state and clip; the other joint rows label all tracklets that look alike. The "
    "gap is the largest duality gap over its objective; the seed spread is the standard deviation "
    "of the precision (states, action) over seeds, if several were run."
)

Rows = dict[tuple[str, str], MethodRow]
Line = tuple[str, str, str, str, Comparison]


@dataclass(frozen=True)
class Written:
    """The names of the files, the short tables, the notes, and what is missing."""

    files: tuple[str, ...]
    shown: tuple[Table, ...]
    remarks: tuple[str, ...]
    missing: tuple[str, ...]


def summary(done: Benchmark) -> Rows:
    """The row of every manipulation and method, then the averages over manipulations."""
    rows: Rows = {}
    for name in (*done.manipulations, AVERAGE):
        for method in done.methods:
            parts = [e for n, (e,) in done.parts(method).items() if name in (n, AVERAGE)]
            if parts:
                rows[name, method] = method_row(method, parts)
    return rows


def result_table(rows: Rows) -> Table:
    """One row per manipulation and method, with all digits."""
    cells = [(name, *astuple(row)) for (name, _), row in rows.items()]
    return Table("All methods", COLUMNS, tuple(cells))


def clip_table(done: Benchmark) -> Table:
    """One row per manipulation, method and clip, with the reason if it was left out."""
    rows: list[tuple[Cell, ...]] = []
    for (name, method), scores in done.scores.items():
        reasons = {skipped.clip: skipped.reason for skipped in scores.skipped}
        rows += [
            (name, method, *row.columns.values(), reasons.get(row.clip)) for row in scores.rows
        ]
    columns = next((tuple(e.rows[0].columns) for e in done.scores.values() if e.rows), ())
    return Table("All clips", ("manipulation", "method", *columns, "left_out"), tuple(rows))


def differences(done: Benchmark) -> list[Line]:
    """Manipulation, side, the better method by the paper, the worse, and their difference."""
    lines: list[Line] = []
    for name in (*done.manipulations, AVERAGE):
        for finds, better, worse in PAIRS:
            both = done.parts(better, worse)
            chosen = [both[n] for n in both if name in (n, AVERAGE)]
            if chosen:
                found = compare([a for a, _ in chosen], [b for _, b in chosen])
                lines.append((name, finds, better, worse, found[finds]))
    return lines


def difference_table(lines: Sequence[Line]) -> Table:
    """One row per pair of methods and manipulation."""
    table = comparison_table("Differences, clip by clip", [line[1:] for line in lines])
    rows = tuple((line[0], *row) for line, row in zip(lines, table.rows, strict=True))
    return Table(table.title, ("manipulation", *table.columns), rows)


def detector_table(done: Benchmark) -> Table:
    """One row per manipulation: how good its detections are."""
    columns = tuple(column.name for column in fields(DetectorRow))
    rows = [(name, *astuple(row)) for name, row in done.detectors.items()]
    return Table("Detections in the test clips", ("manipulation", *columns), tuple(rows))


def side_table(done: Benchmark, rows: Rows, finds: Side) -> Table:
    """The paper's layout: methods by manipulations, precision of ``states`` or ``action``."""
    names = (*done.manipulations, AVERAGE)
    lines: list[tuple[Cell, ...]] = []
    for method in done.methods:
        known = [rows.get((name, method)) for name in names]
        cells = [np.nan if row is None else float(getattr(row, finds)) for row in known]
        if not np.isnan(cells).all():
            lines.append((_titled(method, finds), *cells))
    return Table(TITLES[finds], ("method", *names), tuple(lines))


def average_table(rows: Rows) -> Table:
    """The averages over manipulations with bounds, recall and labels per clip; the largest
    relative gap, and the spread over seeds of both precisions."""

    def bounds(low: float, high: float) -> Cell:
        return None if np.isnan(low) else f"{text(low)} to {text(high)}"

    def spread(states: float, action: float) -> Cell:
        known = [text(value) for value in (states, action) if not np.isnan(value)]
        return ", ".join(known) or None

    lines = [
        (
            method,
            row.states,
            bounds(row.states_low, row.states_high),
            row.states_recall,
            row.labels_per_clip,
            row.action,
            bounds(row.action_low, row.action_high),
            row.gap,
            spread(row.states_spread, row.action_spread),
        )
        for (name, method), row in rows.items()
        if name == AVERAGE
    ]
    columns = ("method", "states", "95 %", "recall", "labels per clip", "action", "95 %", "gap",
               "seed spread")  # fmt: skip
    return Table("Averages", columns, tuple(lines))


def order_notes(lines: Sequence[Line]) -> list[str]:
    """Where the averages are not in the paper's order, and whether significantly."""
    notes = []
    for finds, order in ORDER.items():
        expected = set(pairwise(order))
        found = {
            (worse, better): c
            for name, side, better, worse, c in lines
            if name == AVERAGE and side == finds and (worse, better) in expected
        }
        if not found:
            continue
        against = {pair: c for pair, c in found.items() if not c.difference > 0}
        what = TITLES[finds]
        if not against:
            notes.append(f"{what}: the averages are in the paper's order ({' < '.join(order)}).")
        for (worse, better), c in against.items():
            bounds = f"(95 % from {text(c.low)} to {text(c.high)})"
            sure = "beyond chance" if c.high < 0 else "which may be chance"
            notes.append(
                f"{what}: the paper has {better} above {worse}; here they are level {bounds}."
                if c.difference == 0
                else f"{what}: the paper has {better} above {worse}; here it is below it by "
                f"{text(-c.difference)} {bounds}, {sure}."
            )
    return notes


def missing(done: Benchmark) -> list[str]:
    """What the tables lack, and why."""
    notes = [
        f"{name if method is None else f'{name}, {method}'} is missing: {reason}"
        for (name, method), reason in done.failures.items()
    ]
    infeasible = {
        f"{name}: {clip.clip} counts as wrong where it cannot be labelled: {clip.reason}"
        for (name, _), scores in done.scores.items()
        for clip in scores.skipped
    }
    return [*notes, *sorted(infeasible), *done.notes]


def write_tables(done: Benchmark, out: str | Path) -> Written:
    """Write all tables as CSV, and the report ``table.md`` and ``table.html``."""
    out = Path(out)
    rows, lines = summary(done), differences(done)
    sides = side_table(done, rows, "states"), side_table(done, rows, "action")
    short = [*(table for table in sides if table.rows), average_table(rows)]
    averages = difference_table([line for line in lines if line[0] == AVERAGE])
    shown = [*short, averages, detector_table(done), result_table(rows)]
    remarks, lacking = [EXPLANATION, *order_notes(lines)], missing(done)
    head = Table(TITLE, (), (), (*remarks, *lacking))
    files = {
        "table.csv": to_csv(result_table(rows)),
        "clips.csv": to_csv(clip_table(done)),
        "differences.csv": to_csv(difference_table(lines)),
        "detectors.csv": to_csv(detector_table(done)),
        "table.md": "\n".join(to_markdown(table) for table in (head, *shown)),
        "table.html": html_page(TITLE, shown, head.notes),
    }
    for name, content in files.items():
        write_atomically(out / name, content)
    return Written(tuple(files), tuple(short), tuple(remarks), tuple(lacking))


def _titled(method: str, finds: str) -> str:
    known = METHODS[method]
    row = known.state_row if finds == "states" else known.action_row
    return f"({row}) {method}" if row else method

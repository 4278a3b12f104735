"""Tables of a result on the terminal: a row per clip, and precision beside the baselines'."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any

from objectstates.cli.output import cell, make_table, number

if TYPE_CHECKING:
    from rich.table import Table

    from objectstates.data.label_names import LabelNames


def clip_table(clips: list[dict[str, Any]], names: LabelNames) -> Table:
    """When each clip has its states and actions; ``clips`` are `inspection.describe_clips`."""
    judged = any("reached" in clip for clip in clips)
    episodes = any("episode" in clip for clip in clips)
    columns = ["clip"]
    for label, name in names.labels.items():
        columns += [name, "in its episode"] if episodes and label.startswith("action") else [name]
    last = [f"{names.states[-1]} reached"] if judged else []
    table = make_table(*map(cell, columns), "confidence", *map(cell, last))
    for clip in clips:
        cells = []
        for label in names.labels:
            found = clip[label] or []
            if label.startswith("action"):
                found = [found] if found else []
            cells.append(_intervals(found, clip.get(f"{label}_confidence")))
            if episodes and label.startswith("action"):
                when = clip.get(f"{label}_time_in_episode")
                cells.append("-" if when is None else f"at {when:.1f} s")
        reached = [clip.get("reached", "-")] if judged else []
        table.add_row(cell(clip["clip"]), *cells, f"{clip['confidence']:.2f}", *reached)
    return table


def _intervals(found: list[tuple[float, float]], chance: float | None) -> str:
    """The intervals and, where it is known, the chance that they are right."""
    times = ", ".join(f"{start:.1f}-{end:.1f} s" for start, end in found)
    return f"{times}{'' if chance is None else f' ({chance:.2f})'}" if times else "-"


def precision_table(rows: dict[str, dict[str, float]]) -> Table:
    """The precision of each method; ``rows`` are `inspection.describe_beside_baselines`."""
    table = make_table("precision", "states", "action")
    for name, row in rows.items():
        table.add_row(name, *(number(row.get(side, nan)) for side in ("states", "action")))
    return table

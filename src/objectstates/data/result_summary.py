"""Types of the entries of ``result.json``, checked when a result is read.

Results of earlier versions lack some keys, and unknown ones are kept: only the types of those that
are read elsewhere are checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

MOST = 2**53  # of counts
_MOST_ROWS = 10**7  # tracklets of a clip that was left out


def check_summary(summary: Mapping[str, Any], settings: Any, n_clips: int) -> None:
    """Raise ValueError for a value that is not of its key's type.

    n_clips : how many took part.
    """
    if not isinstance(settings, dict):
        raise ValueError("the settings are no object with names")
    for key, (is_right, what) in _TYPES.items():
        if summary.get(key) is not None and not is_right(summary[key]):
            raise ValueError(f"{key} is not {what}")
    if "duality_gap" in summary:
        for key in ("duality_gap", "relaxed_objective"):
            if not _is_number(summary.get(key)):
                raise ValueError(f"{key} is not a number")
        objective = summary.get("objective", {"total": 0.0})
        if not isinstance(objective, dict) or not _is_number(objective.get("total")):
            raise ValueError("objective has no total")
    rows = summary.get("skipped_at") or []
    if any(row[0] >= n_clips + len(rows) for row in rows) or len({r[0] for r in rows}) < len(rows):
        raise ValueError("skipped_at is not where clips were left out")


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < MOST if isinstance(value, int) else math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _is_trace(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    rows = [row if isinstance(row, list) else [row] for row in value]
    return len({len(row) for row in rows}) <= 1 and all(_is_number(x) for row in rows for x in row)


def _is_reduction(value: Any) -> bool:
    keys = {"from", "to", "variance_lost", "cost_error_at_most"}
    return isinstance(value, dict) and all(
        _are_numbers(side) and keys <= side.keys() for side in value.values()
    )


def _are_places(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(row, list) and len(row) == 2 and all(map(_is_count, row)) and row[1] < _MOST_ROWS
        for row in value
    )


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


_TYPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "kind": (_is_text, "text"),
    "labelled": (_is_text, "text"),
    "fingerprint": (_is_text, "text"),
    "objective": (_are_numbers, "numbers by name"),
    "relaxed_objective": (_is_number, "a number"),
    "duality_gap": (_is_number, "a number"),
    "coupling_per_second": (_is_number, "a number"),
    "detection_scale": (_is_number, "a number"),
    "passes": (_is_count, "a whole number"),
    "converged": (_is_flag, "true or false"),
    "trace": (_is_trace, "rows of numbers"),
    "reduced": (_is_reduction, "what was lost on each side"),
    "skipped_at": (_are_places, "rows of clips that were left out"),
    "configuration": (_is_object, "settings by name"),
    "corpus": (_is_object, "an object with names"),
    "seconds": (_are_numbers, "numbers by name"),
}

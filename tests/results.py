"""Results that tests change."""

from __future__ import annotations

from dataclasses import replace

from objectstates.data.corpus import Array
from objectstates.data.result import Result


def with_action(result: Result, **columns: Array) -> Result:
    """The result of one change with another ``chunk`` (N,), ``time`` (N,) or ``span`` (N, 2)."""
    changed = {name: column[:, None] for name, column in columns.items()}
    return replace(result, actions=replace(result.actions, **changed))

"""A task of a pool and its outcome, wherever the task runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from objectstates.base.errors import ObjectStatesError
from objectstates.base.resources import Lack, lack_behind

Item = TypeVar("Item")
Value = TypeVar("Value")

Tick = Callable[[int], None]
"""Called with an amount of work done (for example, frames), for progress displays."""

Worker = Callable[[Item, Tick], Value]
"""Created once per process, then called with one item after another."""


@dataclass(frozen=True)
class Outcome(Generic[Value]):
    """The value of a task, or the reason why it has none.

    lack : what this machine lacked, if that is the reason, and not the item.
    """

    value: Value | None
    failure: str | None = None
    lack: Lack = ""


def attempt(worker: Worker[Item, Value], item: Item, tick: Tick) -> Outcome[Value]:
    """Run one task; an exception becomes its outcome."""
    try:
        return Outcome(worker(item, tick))
    except ObjectStatesError as problem:
        return Outcome(None, str(problem), lack_behind(problem))
    except Exception as problem:  # a bug in one task must not discard hours of the others
        lack = lack_behind(problem)
        kind = "" if lack else f"unexpected {type(problem).__name__}: "
        return Outcome(None, f"{kind}{problem}", lack)

"""A task of a pool and its outcome, wherever the task runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from objectstates.base.errors import ObjectStatesError

Item = TypeVar("Item")
Value = TypeVar("Value")

Tick = Callable[[int], None]
"""Called with an amount of work done (for example, frames), for progress displays."""

Worker = Callable[[Item, Tick], Value]
"""Created once per process, then called with one item after another."""


@dataclass(frozen=True)
class Outcome(Generic[Value]):
    """The value of a task, or the reason why it has none."""

    value: Value | None
    failure: str | None = None


def attempt(worker: Worker[Item, Value], item: Item, tick: Tick) -> Outcome[Value]:
    """Run one task; an exception becomes its outcome."""
    try:
        return Outcome(worker(item, tick))
    except ObjectStatesError as problem:
        return Outcome(None, str(problem))
    except Exception as problem:  # a bug in one task must not discard hours of the others
        return Outcome(None, f"unexpected {type(problem).__name__}: {problem}")

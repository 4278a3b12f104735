"""The outcome of a task."""

from __future__ import annotations

from objectstates.base.errors import VideoError
from objectstates.parallel.tasks import Outcome, Tick, attempt


def divide(item: int, tick: Tick) -> int:
    tick(1)
    if item == 0:
        raise VideoError("zero cannot be read")
    return 10 // (item - 1)


def test_a_value_or_a_reason_and_never_an_exception() -> None:
    ticks: list[int] = []
    assert attempt(divide, 3, ticks.append) == Outcome(5)
    assert attempt(divide, 0, ticks.append) == Outcome(None, "zero cannot be read")
    bug = attempt(divide, 1, ticks.append)
    assert bug.value is None
    assert str(bug.failure).startswith("unexpected ZeroDivisionError")
    assert ticks == [1, 1, 1]

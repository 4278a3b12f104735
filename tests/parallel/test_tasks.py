"""The outcome of a task."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from objectstates.base.errors import StorageError, VideoError
from objectstates.parallel.tasks import Outcome, Tick, attempt


def divide(item: int, tick: Tick) -> int:
    tick(1)
    if item == 0:
        raise VideoError("zero cannot be read")
    return 10 // (item - 1)


def lack(item: BaseException, _: Tick) -> None:
    try:
        raise item
    except OSError as problem:
        raise VideoError("cannot be read") from problem


@pytest.mark.parametrize(
    ("problem", "lacking"),
    [
        (MemoryError(), "memory"),
        (np._core._exceptions._ArrayMemoryError((10**6,), np.dtype(float)), "memory"),  # type: ignore[attr-defined]
        (OSError(errno.EMFILE, "Too many open files"), "memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "memory"),
        (OSError(errno.ENOSPC, "No space left on device"), "disk"),
        (StorageError("no room"), "disk"),
        (OSError(errno.ENOENT, "No such file"), ""),
        (ValueError("a bug"), ""),
    ],
)
def test_lack_on_our_side_is_told_from_a_bad_item(problem: BaseException, lacking: str) -> None:
    assert attempt(lack, problem, lambda _: None).lack == lacking


def test_a_value_or_a_reason_and_never_an_exception() -> None:
    ticks: list[int] = []
    assert attempt(divide, 3, ticks.append) == Outcome(5)
    assert attempt(divide, 0, ticks.append) == Outcome(None, "zero cannot be read")
    bug = attempt(divide, 1, ticks.append)
    assert bug.value is None
    assert str(bug.failure).startswith("unexpected ZeroDivisionError")
    assert ticks == [1, 1, 1]

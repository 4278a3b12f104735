"""Where work runs: in this process, over local processes, or on a Ray cluster.

There are two kinds of work. Items (`run_all`: clips to observe, narrations to search, pictures to
cut) are independent, and their outcomes come back in the order given. A crew (`crew_of`: the shards
of a fit) is a few objects that stay, and are asked again and again.

Results do not depend on where. A worker that dies (killed, out of memory) takes no other item with
it: those in work are tried once more, and what fails again is reported. Of a crew, who dies is made
anew (``crews.py``).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from objectstates.base.errors import ObjectStatesError
from objectstates.parallel.actors import (
    Crew,
    LocalCrew,
    Member,
    Memory,
    ProcessCrew,
    end_with_parent,
)

Item = TypeVar("Item")
Value = TypeVar("Value")

_POLL_SECONDS = 0.2
_DIED = "its process died twice: too little memory?"


Tick = Callable[[int], None]
"""Told how much was done (say, frames), for whoever watches."""

Worker = Callable[[Item, Tick], Value]
"""What each process holds: made once, then called with one item after another."""


@dataclass(frozen=True)
class Outcome(Generic[Value]):
    """What became of an item: its value, or why there is none."""

    value: Value | None
    failure: str | None = None


def default_processes() -> int:
    """One per core that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def run_all(
    make: Callable[[], Worker[Item, Value]],
    items: Sequence[Item],
    *,
    processes: int = 1,
    ray_address: str | None = None,
    gpu: bool = False,
    on_done: Callable[[int, Outcome[Value]], None] | None = None,
    on_ticks: Callable[[int], None] | None = None,
) -> list[Outcome[Value]]:
    """Work on all items; their failures are outcomes, a worker that cannot be made raises.

    make : builds the worker; must be picklable when there are several processes.
    ray_address : of a Ray cluster, on all of which to run instead of in ``processes`` here.
    gpu : workers use one; a Ray cluster runs them where there are some, several to each.
    on_done : called in this process with an item's index as soon as its outcome is known.
    on_ticks : called in this process, now and then, with all ticks so far.
    """
    outcomes: list[Outcome[Value] | None] = [None] * len(items)

    def done(index: int, outcome: Outcome[Value]) -> None:
        outcomes[index] = outcome
        if on_done is not None:
            on_done(index, outcome)

    if ray_address is not None:
        from objectstates.parallel.ray_pool import run_items

        for index in run_items(make, items, ray_address, done, on_ticks, gpu=gpu):
            done(index, Outcome(None, _DIED))
    elif processes <= 1 or len(items) <= 1:
        _run_here(make, items, done, on_ticks)
    else:
        lost = _run_pool(make, items, range(len(items)), processes, done, on_ticks)
        for index in lost:  # alone, so that the culprit is known
            if _run_pool(make, items, [index], 1, done, on_ticks):
                done(index, Outcome(None, _DIED))
    return [outcome for outcome in outcomes if outcome is not None]


@contextmanager
def crew_of(
    makers: Sequence[Callable[[], Member]],
    memory: Memory,
    *,
    processes: bool = False,
    ray_address: str | None = None,
) -> Iterator[Crew]:
    """Objects that stay until the end of the context, each made by its maker where it will be.

    They are in this process, each with a thread; or in ``processes`` of their own; or on the Ray
    cluster at ``ray_address``, on all of its machines.
    """
    if ray_address is not None:
        from objectstates.parallel.ray_actors import RayCrew
        from objectstates.parallel.ray_pool import cluster

        with cluster(ray_address) as ray, RayCrew(ray, makers, memory) as remote:
            yield remote
    elif processes:
        with ProcessCrew(makers, memory) as crew:
            yield crew
    else:
        with LocalCrew([make() for make in makers]) as local:
            yield local


def _run_here(
    make: Callable[[], Worker[Item, Value]],
    items: Sequence[Item],
    done: Callable[[int, Outcome[Value]], None],
    on_ticks: Callable[[int], None] | None,
) -> None:
    worker, ticks = make(), 0

    def tick(count: int) -> None:
        nonlocal ticks
        ticks += count
        if on_ticks is not None:
            on_ticks(ticks)

    for index, item in enumerate(items):
        done(index, attempt(worker, item, tick))


def _run_pool(
    make: Callable[[], Worker[Item, Value]],
    items: Sequence[Item],
    indices: Sequence[int],
    processes: int,
    done: Callable[[int, Outcome[Value]], None],
    on_ticks: Callable[[int], None] | None,
) -> list[int]:
    """Run in a pool; returns the indices that were lost with a process."""
    context = multiprocessing.get_context("spawn")
    counter = context.Value("q", 0)
    pool = ProcessPoolExecutor(
        min(processes, len(indices)), context, initializer=_start, initargs=(make, counter)
    )
    lost: list[int] = []
    try:
        waiting: dict[Future[Outcome[Value]], int] = {
            pool.submit(_work, items[index]): index for index in indices
        }
        while waiting:
            ready, _ = wait(waiting, _POLL_SECONDS, FIRST_COMPLETED)
            for future in ready:
                index = waiting.pop(future)
                try:
                    done(index, future.result())
                except BrokenProcessPool:
                    lost.append(index)
            if on_ticks is not None:
                on_ticks(counter.value)
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return sorted(lost)


_worker: Any = None
_counter: Any = None


def _start(make: Callable[[], Any], counter: Any) -> None:
    global _worker, _counter
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends us
    threading.Thread(target=end_with_parent, daemon=True).start()
    _counter = counter
    try:
        _worker = make()
    except ObjectStatesError as problem:  # the user's to mend, and the same in every process
        _worker = problem


def _tick(count: int) -> None:
    with _counter.get_lock():
        _counter.value += count


def _work(item: Any) -> Outcome[Any]:
    if isinstance(_worker, ObjectStatesError):
        raise _worker
    return attempt(_worker, item, _tick)


def attempt(worker: Worker[Item, Value], item: Item, tick: Callable[[int], None]) -> Outcome[Value]:
    """Work on one item; what goes wrong is an outcome."""
    try:
        return Outcome(worker(item, tick))
    except ObjectStatesError as problem:
        return Outcome(None, str(problem))
    except Exception as problem:  # a fault of ours must not cost the other items' hours
        return Outcome(None, f"unexpected {type(problem).__name__}: {problem}")

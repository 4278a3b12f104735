"""Where work runs: in this process, in local worker processes, or on a Ray cluster.

There are two kinds of work. Tasks (`run_all`: clips to ingest, narrations to search, frames to
crop) are independent; their outcomes come back in the order given. Actors (`start_actors`: the
shards of a fit) keep their state from call to call.

Results do not depend on where the work runs. A worker process that dies (killed, out of memory)
costs no other task: the tasks that were running are tried once more, and a second failure is
reported. Lack of disk or memory is the failure of the whole, and never that of one item: a full
disk ends the work at once, lack of memory when the other tasks are done.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import Any

from objectstates.base.errors import MemoryLackError, StorageError
from objectstates.base.resources import is_limited
from objectstates.parallel.actors import Actor, Actors, LocalActors, ProcessActors, follow_parent
from objectstates.parallel.ray_actors import RayActors, Replay
from objectstates.parallel.ray_pool import cluster, run_on_cluster
from objectstates.parallel.spawn import WorkerContext
from objectstates.parallel.tasks import Item, Outcome, Value, Worker, attempt

_POLL_SECONDS = 0.2  # between progress reports
_DIED = "its process died twice"


def default_processes() -> int:
    """The number of cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def run_all(
    make: Callable[[], Worker[Item, Value]],
    items: Sequence[Item],
    *,
    processes: int = 1,
    ray_address: str | None = None,
    gpu: bool = False,
    preload: str | None = None,
    effort: Callable[[Item], float] | None = None,
    on_done: Callable[[int, Outcome[Value]], None] | None = None,
    on_ticks: Callable[[int], None] | None = None,
) -> list[Outcome[Value]]:
    """Run a task per item; failures are outcomes, an error of ``make`` is raised.

    make : creates the worker; must be picklable if there are several processes.
    processes : number of local worker processes; 1 runs in this process.
    ray_address : of a Ray cluster, all of which is used instead of local processes.
    gpu : workers use a GPU; on a Ray cluster several share one.
    preload : module that imports what the worker needs, see `WorkerContext`.
    effort : about how much work an item is; local processes begin with the largest, so that they
        end at about the same time.
    on_done : called in this process with an item's index as soon as its outcome is known.
    on_ticks : called in this process, now and then, with the sum of all ticks so far.
    """
    outcomes: list[Outcome[Value] | None] = [None] * len(items)

    def done(index: int, outcome: Outcome[Value]) -> None:
        if outcome.lack == "disk":
            raise StorageError(str(outcome.failure))
        outcomes[index] = outcome
        if on_done is not None:
            on_done(index, outcome)

    if ray_address is not None:
        for index in run_on_cluster(make, items, ray_address, done, on_ticks, gpu=gpu):
            done(index, Outcome(None, _DIED))
    elif processes <= 1 or len(items) <= 1:
        _run_here(make, items, done, on_ticks)
    else:
        order = sorted(range(len(items)), key=lambda i: 0 if effort is None else -effort(items[i]))
        run = partial(_run_in_processes, WorkerContext(preload), make, items, done, on_ticks)
        lost, _ = run(order, processes)
        for index in lost:  # one at a time, to find the task that ends its process
            again, codes = run([index], 1)
            if again:
                done(index, Outcome(None, _DIED, "memory" if _was_killed(codes) else ""))
    found = [outcome for outcome in outcomes if outcome is not None]
    _check_memory_sufficed(found, processes)
    return found


def _was_killed(codes: Sequence[int | None]) -> bool:
    """Whether a process was ended by the system, and not by a crash over its own task.

    Under a limit of memory, libraries crash when they get none.
    """
    return -signal.SIGKILL in codes or is_limited()


def _check_memory_sufficed(outcomes: Sequence[Outcome[Any]], processes: int) -> None:
    lacking = [outcome for outcome in outcomes if outcome.lack == "memory"]
    if lacking:
        fewer = ", or fewer `processes`" if processes > 1 else ""
        raise MemoryLackError(
            f"too little memory for {len(lacking)} of {len(outcomes)} tasks "
            f"({lacking[0].failure}): run again with more memory{fewer}"
        )


@contextmanager
def start_actors(
    makers: Sequence[Callable[[], Actor]],
    replay: Replay,
    *,
    processes: int = 1,
    ray_address: str | None = None,
) -> Iterator[Actors]:
    """A group of actors for the duration of the context, each created where it runs.

    replay : how actors on a Ray cluster are restored after the loss of a machine.
    processes : number of local worker processes; 1 means threads of this process.
    ray_address : of a Ray cluster, over all machines of which the actors are spread instead.
    """
    actors: Any
    if ray_address is not None:
        with cluster(ray_address) as ray, RayActors(ray, makers, replay) as actors:
            yield actors
        return
    if processes > 1 and len(makers) > 1:
        actors = ProcessActors(makers, min(processes, len(makers)))
    else:
        actors = LocalActors([make() for make in makers])
    with actors:
        yield actors


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


def _run_in_processes(
    context: WorkerContext,
    make: Callable[[], Worker[Item, Value]],
    items: Sequence[Item],
    done: Callable[[int, Outcome[Value]], None],
    on_ticks: Callable[[int], None] | None,
    indices: Sequence[int],
    processes: int,
) -> tuple[list[int], list[int | None]]:
    """Run tasks in a process pool; returns the indices lost with a process, and exit codes."""
    counter = context.Value("q", 0)
    pool = ProcessPoolExecutor(
        min(processes, len(indices)), context, initializer=_start, initargs=(make, counter)
    )
    lost: list[int] = []
    started: dict[int, Any] = {}
    waiting: dict[Future[Outcome[Value]], int] = {}
    try:
        waiting |= {pool.submit(_work, items[index]): index for index in indices}
        while waiting:
            started.update(pool._processes or {})  # noqa: SLF001  for their exit codes
            ready, _ = wait(waiting, _POLL_SECONDS, FIRST_COMPLETED)
            for future in ready:
                index = waiting.pop(future)
                try:
                    done(index, future.result())
                except BrokenProcessPool:
                    lost.append(index)
            if on_ticks is not None:
                on_ticks(counter.value)
    finally:
        # Also where all is done: ending in order takes an interpreter a quarter of a second.
        if waiting or not lost:
            for process in list((pool._processes or {}).values()):  # noqa: SLF001  public in 3.14
                process.kill()
        pool.shutdown(wait=True, cancel_futures=True)
    return sorted(lost), [process.exitcode for process in started.values()]


_worker: Any = None
_counter: Any = None


def _start(make: Callable[[], Any], counter: Any) -> None:
    """Create the worker of a pool process."""
    global _worker, _counter  # noqa: PLW0603  the only way to pass state from an initializer
    follow_parent()
    _counter = counter
    try:
        _worker = make()
        gc.freeze()  # what is loaded stays
    except Exception as problem:  # raised by the first task, in the parent
        _worker = problem


def _tick(count: int) -> None:
    with _counter.get_lock():
        _counter.value += count


def _work(item: Any) -> Outcome[Any]:
    if isinstance(_worker, Exception):
        raise _worker
    return attempt(_worker, item, _tick)

"""Work on a Ray cluster: many items, as ``engine.run_all`` does.

Ray is imported where used: it is an extra. Every machine of the cluster needs this package, and the
files that workers read (videos, the cache, corpora) under the same paths.

What is lost with a machine is done again elsewhere, so that the outcome is the same. There are
never more items in work than workers, nor more workers than the machines that are left have room
for: an item is handed only to a worker that stands, so none waits for a machine that never comes.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from objectstates.base.errors import MissingExtraError, SettingError

PLACING_SECONDS = 600.0  # a cluster may have to start machines first; then waiting is in vain
_POLL_SECONDS = 0.2
_ASK_SECONDS = 0.5  # between questions how far workers are
_PROCESS_DEATHS, _LOSSES = 2, 5  # of one item: by itself it seems, or with its machine
_FAILED_STARTS = 5  # in a row; twice as many as there is room for, for machines die at starts too
_WORKERS_PER_GPU = 8  # each holds a model of its own in the GPU's memory


@contextmanager
def cluster(address: str) -> Iterator[Any]:
    """A connection to the cluster at ``address`` ("auto" finds one, "local" starts one here).

    One that stands already is used, and left standing.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            f"Ray needs an extra: pip install 'objectstates[ray]' ({error})"
        ) from error
    if ray.is_initialized():
        yield ray
        return
    own = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **own)
    except (ConnectionError, ValueError, RuntimeError) as problem:
        raise SettingError(
            f"there is no Ray cluster at {address!r} ({first_line(problem)}): start one with "
            "ray start, or give local"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def losses(ray: Any) -> tuple[type[Exception], ...]:
    """What Ray raises where a process, a machine or an answer on it is gone."""
    kinds = ray.exceptions
    return kinds.RayActorError, kinds.ObjectLostError, kinds.WorkerCrashedError, kinds.NodeDiedError


def first_line(problem: BaseException) -> str:
    """The first line of a message that may be long."""
    lines = str(problem).strip().splitlines()
    return lines[0] if lines else type(problem).__name__


def last_line(problem: BaseException) -> str:
    """The last line of a message: of one with a remote traceback, the error itself."""
    lines = str(problem).strip().splitlines()
    return lines[-1].strip() if lines else type(problem).__name__


@dataclass(frozen=True)
class Claim:
    """What each worker asks of the cluster, and how many of them have room there now."""

    cpus: float
    gpus: float
    room: int

    @property
    def options(self) -> dict[str, float]:
        return {"num_cpus": self.cpus, "num_gpus": self.gpus}


def worker_claim(ray: Any, gpu: bool) -> Claim:
    """A core each; with ``gpu`` a share of one, such that all cores beside it can feed it.

    Frames are decoded and looked at in one process: they are too large to be sent around. So a GPU
    is shared by as many workers as there are cores beside it, at most eight.
    """
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not gpu:
        return Claim(1.0, 0.0, sum(int(m.get("CPU", 0)) for m in machines))
    machines = [m for m in machines if m.get("GPU", 0) >= 1]
    gpus = sum(int(m["GPU"]) for m in machines)
    if not gpus:
        raise SettingError(
            "no machine of the Ray cluster has a GPU: leave out --device cuda, or add one "
            "(ray start --num-gpus)"
        )
    cores = sum(int(m.get("CPU", 0)) for m in machines)
    sharing = min(max(cores // gpus, 1), _WORKERS_PER_GPU)
    room = sum(min(int(m.get("CPU", 0)), int(m["GPU"]) * sharing) for m in machines)
    return Claim(1.0, part(sharing), room)


def part(count: int) -> float:
    """One of ``count`` equal parts of a core or a GPU, in the ten-thousandths that Ray counts."""
    return 10_000 // count / 10_000


def run_items(
    make: Callable[[], Any],
    items: Sequence[Any],
    address: str,
    done: Callable[[int, Any], None],
    on_ticks: Callable[[int], None] | None,
    *,
    gpu: bool = False,
) -> list[int]:
    """Work on all items, one worker per core of the cluster; returns those that were lost.

    An item is given up when its process died twice while its machine lived, or when it was lost
    five times in all. ``done`` is told an item's index and its ``engine.Outcome``.
    """
    waiting, given_up = deque(range(len(items))), list[int]()
    deaths, lost = Counter[int](), Counter[int]()
    with cluster(address) as ray:
        team = _Team(ray, make, gpu)
        try:
            while waiting or team.busy:
                team.hire(len(waiting) + len(team.busy))
                while waiting and team.free:
                    index = waiting.popleft()
                    team.hand(index, items[index])
                for index, outcome, machine_lives in team.wait():
                    if outcome is not None:
                        done(index, outcome)
                        continue
                    lost[index] += 1
                    deaths[index] += machine_lives
                    if deaths[index] >= _PROCESS_DEATHS or lost[index] >= _LOSSES:
                        given_up.append(index)
                    else:
                        waiting.appendleft(index)
                if on_ticks is not None:
                    on_ticks(team.ticks())
        finally:
            team.dismiss()
    return sorted(given_up)


class _Team:
    """The workers on the cluster: those that are starting, free and busy."""

    def __init__(self, ray: Any, make: Callable[[], Any], gpu: bool) -> None:
        self._ray, self._gpu, self._losses = ray, gpu, losses(ray)
        self._claim = worker_claim(ray, gpu)
        # Sent once to each machine, not to each worker: it may name all clips.
        self._make = ray.put(make)
        self._kind = ray.remote(max_concurrency=2, **self._claim.options)(_ItemWorker)
        self._starting: dict[Any, Any] = {}  # by the call that says that it stands
        self.free: list[Any] = []
        self.busy: dict[Any, tuple[Any, int]] = {}  # by the call that works, with its item
        self._machine: dict[Any, str] = {}
        self._ticks: dict[Any, int] = {}
        self._asked: dict[Any, Any] = {}  # how far workers are: by call
        self._last_asked = self._last_counted = -_ASK_SECONDS
        self._last_stood, self._failed_starts = time.monotonic(), 0

    def hire(self, wanted: int) -> None:
        """Start workers, as many as are wanted and have room on the machines there are now."""
        now = time.monotonic()
        if now - self._last_counted >= _ASK_SECONDS:  # machines come and go
            self._claim, self._last_counted = worker_claim(self._ray, self._gpu), now
        for _ in range(min(wanted, max(self._claim.room, 1)) - len(self._all())):
            worker = self._kind.remote(self._make)
            self._starting[worker.stand.remote()] = worker

    def hand(self, index: int, item: Any) -> None:
        """Have a free worker work on an item."""
        worker = self.free.pop()
        self.busy[worker.work.remote(item)] = worker, index

    def wait(self) -> list[tuple[int, Any, bool]]:
        """A moment, or until something happened: items that ended, with their outcome.

        The outcome is None where the worker was lost; then, whether its machine still lives.
        """
        calls = [*self.busy, *self._starting]
        ended = []
        self._ray.wait(calls, num_returns=1, timeout=_POLL_SECONDS)
        for call in self._ray.wait(calls, num_returns=len(calls), timeout=0)[0]:
            if call in self._starting:
                self._stands(call)
                continue
            worker, index = self.busy.pop(call)
            try:
                outcome, self._ticks[worker] = self._ray.get(call)
                self.free.append(worker)
                ended.append((index, outcome, True))
            except self._losses:
                ended.append((index, None, self._machine[worker] in self._living()))
        self._check_that_any_stands()
        return ended

    def _stands(self, call: Any) -> None:
        worker = self._starting.pop(call)
        try:
            self._machine[worker], problem = self._ray.get(call)
        except self._losses as loss:
            self._failed_starts += 1
            if self._failed_starts >= max(_FAILED_STARTS, 2 * self._claim.room):
                raise SettingError(
                    f"workers do not start on the Ray cluster ({last_line(loss)}): is "
                    "objectstates installed on all its machines, in the same version?"
                ) from None
            return
        if problem is not None:
            raise problem
        self._failed_starts = 0
        self.free.append(worker)

    def _check_that_any_stands(self) -> None:
        if self.free or self.busy:
            self._last_stood = time.monotonic()
        elif time.monotonic() - self._last_stood > PLACING_SECONDS:
            raise SettingError(
                f"no worker found room on the Ray cluster within {PLACING_SECONDS:.0f} s: it has "
                f"room for {self._claim.room} in all; do others use it?"
            )

    def ticks(self) -> int:
        """All ticks that are known of; a worker is asked again only when it has answered."""
        now = time.monotonic()
        if now - self._last_asked >= _ASK_SECONDS:
            self._last_asked = now
            asked = set(self._asked.values())
            for worker, _ in self.busy.values():
                if worker not in asked:
                    self._asked[worker.ticks.remote()] = worker
        if self._asked:
            calls = list(self._asked)
            for call in self._ray.wait(calls, num_returns=len(calls), timeout=0)[0]:
                worker = self._asked.pop(call)
                try:
                    self._ticks[worker] = max(self._ticks.get(worker, 0), self._ray.get(call))
                except self._losses:
                    continue
        return sum(self._ticks.values())

    def dismiss(self) -> None:
        """End all workers: whoever comes next needs their cores."""
        for worker in self._all():
            self._ray.kill(worker)

    def _all(self) -> list[Any]:
        return [*self._starting.values(), *self.free, *(worker for worker, _ in self.busy.values())]

    def _living(self) -> set[str]:
        return {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}


class _ItemWorker:
    """One process of the cluster, with a worker in it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._ticks = 0
        self._problem: Exception | None = None
        try:
            self._worker = make()
        except Exception as problem:  # the same in every process, so that the first to say it ends
            self._problem = problem

    def stand(self) -> tuple[str, Exception | None]:
        """The machine it is on, and why it cannot work if it cannot."""
        import ray

        return ray.get_runtime_context().get_node_id(), self._problem

    def work(self, item: Any) -> tuple[Any, int]:
        from objectstates.parallel.pool import attempt

        return attempt(self._worker, item, self._tick), self._ticks

    def ticks(self) -> int:
        return self._ticks

    def _tick(self, count: int) -> None:
        self._ticks += count

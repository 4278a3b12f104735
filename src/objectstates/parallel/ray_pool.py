"""Tasks on a Ray cluster (``pool.run_all`` with an address).

Ray is an extra, imported where used. Every machine of the cluster needs this package, and the files
that workers read (videos, the cache, corpora) under the same paths.

Tasks lost with a machine run again elsewhere, so the outcome is the same. A task is submitted only
to a worker that is up, and there are never more workers than the remaining machines have room for:
no task waits for a machine that never comes.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from objectstates.base.errors import MissingExtraError, SettingError
from objectstates.parallel.tasks import attempt

PLACING_SECONDS = 600.0  # until giving up on a free core: autoscalers start machines in minutes
_POLL_SECONDS = 0.2
_QUERY_SECONDS = 0.5  # between queries of progress and of the machines there are
_PROCESS_DEATHS, _LOSSES = 2, 5  # of one task: while its machine lived, and in all
_FAILED_STARTS = 5  # in a row, or twice the capacity: machines can die during starts too
_WORKERS_PER_GPU = 8  # at most: each holds a model of its own in the GPU's memory


@contextmanager
def cluster(address: str) -> Iterator[Any]:
    """A connection to the cluster at ``address`` ("auto" finds one, "local" starts one here).

    An existing connection is used, and left open.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
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
        with _on_loopback() if address == "local" else nullcontext():
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", **own)
    except (ConnectionError, ValueError, RuntimeError) as problem:
        raise SettingError(
            f"there is no Ray cluster at {address!r} ({message_line(problem)}): start one with "
            "ray start, or set `ray_address` to local"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Let a cluster that the block starts listen on 127.0.0.1 alone.

    Ray listens on all network interfaces, but for Windows and macOS, where one would be asked to
    permit it; this switch gives the same on Linux. Ray reads it when it is imported.
    """
    switch, name = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "ENABLE_RAY_CLUSTER"
    constants = sys.modules["ray._private.ray_constants"]
    before, allowed = os.environ.get(switch), getattr(constants, name)
    os.environ[switch] = "0"
    setattr(constants, name, False)
    try:
        yield
    finally:
        setattr(constants, name, allowed)
        if before is None:
            del os.environ[switch]
        else:
            os.environ[switch] = before


def loss_errors(ray: Any) -> tuple[type[Exception], ...]:
    """What Ray raises when a process, a machine or an answer on it is lost."""
    kinds = ray.exceptions
    return kinds.RayActorError, kinds.ObjectLostError, kinds.WorkerCrashedError, kinds.NodeDiedError


def message_line(problem: BaseException, index: int = 0) -> str:
    """One line of a message; the last (-1) of a remote traceback is the error itself."""
    lines = str(problem).strip().splitlines()
    return lines[index].strip() if lines else type(problem).__name__


@dataclass(frozen=True)
class Reservation:
    """What each worker reserves, and how many workers the cluster has room for now."""

    cpus: float
    gpus: float
    capacity: int

    @property
    def options(self) -> dict[str, float]:
        return {"num_cpus": self.cpus, "num_gpus": self.gpus}


def worker_reservation(ray: Any, gpu: bool) -> Reservation:
    """A core per worker; with ``gpu`` also a fraction of a GPU.

    A process decodes frames and computes their features, since frames are too large to be sent
    around. So as many workers share a GPU as its machine has cores per GPU, at most eight.
    """
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not gpu:
        return Reservation(1.0, 0.0, sum(int(m.get("CPU", 0)) for m in machines))
    machines = [m for m in machines if m.get("GPU", 0) >= 1]
    gpus = sum(int(m["GPU"]) for m in machines)
    if not gpus:
        raise SettingError(
            "no machine of the Ray cluster has a GPU: set `device` to cpu, or add one "
            "(ray start --num-gpus)"
        )
    cores = sum(int(m.get("CPU", 0)) for m in machines)
    sharing = min(max(cores // gpus, 1), _WORKERS_PER_GPU)
    capacity = sum(min(int(m.get("CPU", 0)), int(m["GPU"]) * sharing) for m in machines)
    return Reservation(1.0, fraction(sharing), capacity)


def fraction(count: int) -> float:
    """1 / count of a core or a GPU, rounded down to Ray's resolution of 1/10,000."""
    return 10_000 // count / 10_000


def run_on_cluster(
    make: Callable[[], Any],
    items: Sequence[Any],
    address: str,
    done: Callable[[int, Any], None],
    on_ticks: Callable[[int], None] | None,
    *,
    gpu: bool = False,
) -> list[int]:
    """Run a task per item, with one worker per core of the cluster; returns those given up.

    A task is given up when its process died twice while its machine lived, or when it was lost
    five times in all. ``done`` gets an item's index and its ``Outcome``.
    """
    waiting, given_up = deque(range(len(items))), list[int]()
    deaths, lost = Counter[int](), Counter[int]()
    with cluster(address) as ray:
        workers = _Workers(ray, make, gpu)
        try:
            while waiting or workers.busy:
                workers.start(len(waiting) + len(workers.busy))
                while waiting and workers.free:
                    index = waiting.popleft()
                    workers.submit(index, items[index])
                for index, outcome, machine_lives in workers.wait():
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
                    on_ticks(workers.ticks())
        finally:
            workers.kill()
    return sorted(given_up)


class _Workers:
    """The workers on the cluster: starting, free and busy ones."""

    def __init__(self, ray: Any, make: Callable[[], Any], gpu: bool) -> None:
        self._ray, self._gpu, self._loss_errors = ray, gpu, loss_errors(ray)
        self._reservation = worker_reservation(ray, gpu)
        self._make = ray.put(make)  # sent once to each machine: it may name all clips
        self._class = ray.remote(max_concurrency=2, **self._reservation.options)(_TaskWorker)
        self._starting: dict[Any, Any] = {}  # by the pending call of `is_up`
        self.free: list[Any] = []
        self.busy: dict[Any, tuple[Any, int]] = {}  # by the pending call: worker, item
        self._machine: dict[Any, str] = {}
        self._ticks: dict[Any, int] = {}
        self._queries: dict[Any, Any] = {}  # pending calls of `ticks`: worker
        self._last_query = self._last_count = -_QUERY_SECONDS
        self._last_up, self._failed_starts = time.monotonic(), 0

    def start(self, wanted: int) -> None:
        """Start workers until there are as many as wanted and as the cluster has room for."""
        now = time.monotonic()
        if now - self._last_count >= _QUERY_SECONDS:  # machines come and go
            self._reservation, self._last_count = worker_reservation(self._ray, self._gpu), now
        for _ in range(min(wanted, max(self._reservation.capacity, 1)) - len(self._all())):
            worker = self._class.remote(self._make)
            self._starting[worker.is_up.remote()] = worker

    def submit(self, index: int, item: Any) -> None:
        """Run a task on a free worker."""
        worker = self.free.pop()
        self.busy[worker.work.remote(item)] = worker, index

    def wait(self) -> list[tuple[int, Any, bool]]:
        """Tasks that ended within a short while: index, outcome, whether their machine is alive.

        The outcome is None if the worker was lost.
        """
        calls = [*self.busy, *self._starting]
        ended = []
        self._ray.wait(calls, num_returns=1, timeout=_POLL_SECONDS)
        for call in self._ray.wait(calls, num_returns=len(calls), timeout=0)[0]:
            if call in self._starting:
                self._started(call)
                continue
            worker, index = self.busy.pop(call)
            try:
                outcome, self._ticks[worker] = self._ray.get(call)
                self.free.append(worker)
                ended.append((index, outcome, True))
            except self._loss_errors:
                ended.append((index, None, self._machine[worker] in self._living_machines()))
        self._check_that_any_is_up()
        return ended

    def _started(self, call: Any) -> None:
        worker = self._starting.pop(call)
        try:
            self._machine[worker], problem = self._ray.get(call)
        except self._loss_errors as loss:
            self._failed_starts += 1
            if self._failed_starts >= max(_FAILED_STARTS, 2 * self._reservation.capacity):
                raise SettingError(
                    f"workers do not start on the Ray cluster ({message_line(loss, -1)}): is "
                    "objectstates installed on all its machines, in the same version?"
                ) from None
            return
        if problem is not None:
            raise problem
        self._failed_starts = 0
        self.free.append(worker)

    def _check_that_any_is_up(self) -> None:
        if self.free or self.busy:
            self._last_up = time.monotonic()
        elif time.monotonic() - self._last_up > PLACING_SECONDS:
            raise SettingError(
                f"no worker found room on the Ray cluster within {PLACING_SECONDS:.0f} s: it has "
                f"room for {self._reservation.capacity} in all; do others use it?"
            )

    def ticks(self) -> int:
        """The sum of all known ticks; each worker has at most one pending query."""
        now = time.monotonic()
        if now - self._last_query >= _QUERY_SECONDS:
            self._last_query = now
            queried = set(self._queries.values())
            for worker, _ in self.busy.values():
                if worker not in queried:
                    self._queries[worker.ticks.remote()] = worker
        if self._queries:
            calls = list(self._queries)
            for call in self._ray.wait(calls, num_returns=len(calls), timeout=0)[0]:
                worker = self._queries.pop(call)
                try:
                    self._ticks[worker] = max(self._ticks.get(worker, 0), self._ray.get(call))
                except self._loss_errors:
                    continue
        return sum(self._ticks.values())

    def kill(self) -> None:
        """End all workers, which frees their cores."""
        for worker in self._all():
            self._ray.kill(worker)

    def _all(self) -> list[Any]:
        return [*self._starting.values(), *self.free, *(worker for worker, _ in self.busy.values())]

    def _living_machines(self) -> set[str]:
        return {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}


class _TaskWorker:
    """A process of the cluster with one worker in it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._ticks = 0
        self._problem: Exception | None = None
        try:
            self._worker = make()
        except Exception as problem:  # the same in every process: the first one reported ends it
            self._problem = problem

    def is_up(self) -> tuple[str, Exception | None]:
        """The id of its machine, and the error of the worker's constructor, if any."""
        import ray

        return ray.get_runtime_context().get_node_id(), self._problem

    def work(self, item: Any) -> tuple[Any, int]:
        return attempt(self._worker, item, self._tick), self._ticks

    def ticks(self) -> int:
        return self._ticks

    def _tick(self, count: int) -> None:
        self._ticks += count

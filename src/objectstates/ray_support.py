"""Work on a Ray cluster: many items (as ``engine.run_all`` does), or a few objects that stay.

Ray is imported where used: it is an extra. Every machine of the cluster needs this package, and the
files that workers read (videos, the cache, corpora) under the same paths.

What is lost with a machine is done again elsewhere, so that the outcome is the same: an item is
worked on once more; an object that stays is built anew and told again all it was told, which brings
it where it was, since what it does depends on nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from objectstates.errors import MissingExtraError, ObjectStatesError, SettingError

_POLL_SECONDS = 0.2
_ATTEMPTS = 3  # at one call of an object, each on whatever machines are left


@contextmanager
def cluster(address: str) -> Iterator[Any]:
    """A connection to the cluster at ``address`` ("auto" finds one, "local" starts one here).

    One that stands already is used, and left standing.
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
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as problem:
        raise SettingError(
            f"there is no Ray cluster at {address!r} ({problem}): start one with ray start, "
            "or give local"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


# --- items ---------------------------------------------------------------------------------------


def run_items(
    make: Callable[[], Any],
    items: Sequence[Any],
    address: str,
    done: Callable[[int, Any], None],
    on_ticks: Callable[[int], None] | None,
) -> list[int]:
    """Work on all items, one worker per core of the cluster; returns those that were lost twice.

    ``done`` is told an item's index and its ``engine.Outcome``.
    """
    with cluster(address) as ray:
        cores = int(ray.cluster_resources().get("CPU", 1))
        waiting, lost = list(range(len(items)))[::-1], set[int]()
        twice: list[int] = []
        kind = ray.remote(num_cpus=1, max_concurrency=2)(_ItemWorker)
        free = [kind.remote(make) for _ in range(max(1, min(cores, len(items))))]
        ticks: dict[Any, int] = {}
        busy: dict[Any, tuple[Any, int]] = {}
        while waiting or busy:
            while waiting and free:
                worker, index = free.pop(), waiting.pop()
                busy[worker.work.remote(items[index])] = worker, index
            ready, _ = ray.wait(list(busy), timeout=_POLL_SECONDS)
            for call in ready:
                worker, index = busy.pop(call)
                try:
                    outcome, ticks[worker] = ray.get(call)
                    free.append(worker)
                except ray.exceptions.RayActorError:
                    free.append(kind.remote(make))  # wherever there is room
                    if index in lost:
                        twice.append(index)
                    else:
                        lost.add(index)
                        waiting.append(index)
                    continue
                if isinstance(outcome, ObjectStatesError):
                    raise outcome
                done(index, outcome)
            if on_ticks is not None:
                _poll(ray, busy, ticks)
                on_ticks(sum(ticks.values()))
        for worker in free:
            ray.kill(worker)
    return sorted(twice)


def _poll(ray: Any, busy: dict[Any, tuple[Any, int]], ticks: dict[Any, int]) -> None:
    """Ask busy workers how far they are; those that do not answer soon are not waited for."""
    calls = {worker.ticks.remote(): worker for worker, _ in busy.values()}
    answered, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0.1) if calls else ([], [])
    for call in answered:
        try:
            ticks[calls[call]] = ray.get(call)
        except ray.exceptions.RayActorError:
            continue


class _ItemWorker:
    """One process of the cluster, with a worker in it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._ticks = 0
        try:
            self._worker = make()
        except ObjectStatesError as problem:  # the user's to mend, and the same in every process
            self._worker = problem

    def work(self, item: Any) -> tuple[Any, int]:
        from objectstates.engine import attempt

        if isinstance(self._worker, ObjectStatesError):
            return self._worker, 0
        return attempt(self._worker, item, self._tick), self._ticks

    def ticks(self) -> int:
        return self._ticks

    def _tick(self, count: int) -> None:
        self._ticks += count


# --- objects that stay ---------------------------------------------------------------------------


class RayCrew:
    """Objects on a cluster, each made there by its maker, and asked one method after another.

    changing : the methods that change an object: all that must be told again to one that was lost.
    fresh : a method of these after which nothing told since the last but ``lasting`` matters.
    """

    def __init__(
        self,
        ray: Any,
        makers: Sequence[Callable[[], Any]],
        *,
        changing: frozenset[str],
        fresh: str,
        lasting: frozenset[str],
    ) -> None:
        self._ray, self._makers = ray, list(makers)
        self._changing, self._fresh, self._lasting = changing, fresh, lasting
        self._told: list[list[tuple[str, tuple[Any, ...]]]] = [[] for _ in makers]
        self._kind = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(_Host)
        self._hosts = [self._kind.remote(make) for make in self._makers]
        self.rebuilt = 0

    def __len__(self) -> int:
        return len(self._makers)

    def ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every object, each with arguments of its own; answers in order."""
        calls = [
            host.call.remote(method, given)
            for host, given in zip(self._hosts, arguments, strict=True)
        ]
        answers = [
            self._answer(s, call, method, given)
            for s, (call, given) in enumerate(zip(calls, arguments, strict=True))
        ]
        if method == self._fresh:
            self._told = [[t for t in told if t[0] in self._lasting] for told in self._told]
        if method in self._changing:
            for told, given in zip(self._told, arguments, strict=True):
                told.append((method, given))
        return answers

    def _answer(self, s: int, call: Any, method: str, given: tuple[Any, ...]) -> Any:
        errors = self._ray.exceptions
        for _ in range(_ATTEMPTS):
            try:
                return self._ray.get(call)
            except errors.RayTaskError as problem:
                raise problem.cause from None
            except errors.RayActorError:
                self.rebuilt += 1
                host = self._hosts[s] = self._kind.remote(self._makers[s])
                for earlier in self._told[s]:
                    host.call.remote(*earlier)
                call = host.call.remote(method, given)
        raise SettingError(f"a part of the work was lost {_ATTEMPTS} times: too little memory?")

    def close(self) -> None:
        """End the objects, their files with them."""
        for host in self._hosts:
            try:
                self._ray.get(host.call.remote("close", ()))
            except self._ray.exceptions.RayError:
                continue  # gone already
            finally:
                self._ray.kill(host)


class _Host:
    def __init__(self, make: Callable[[], Any]) -> None:
        try:
            self._guest = make()
        except ObjectStatesError as problem:  # told when it is called: the making has no listener
            self._guest = problem

    def call(self, method: str, given: tuple[Any, ...]) -> Any:
        if isinstance(self._guest, ObjectStatesError):
            raise self._guest
        return getattr(self._guest, method)(*given)

"""Actors on a Ray cluster, rebuilt on other machines when a machine is lost.

An actor that is rebuilt repeats the calls that led to its state. What an actor does depends on its
calls only, so this restores the state exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self

from objectstates.base.errors import SettingError
from objectstates.parallel import ray_pool
from objectstates.parallel.actors import Actor, Host
from objectstates.parallel.ray_pool import fraction, loss_errors, message_line

_CLOSING_SECONDS = 60.0  # removing scratch files may take a while; then actors are killed
_ATTEMPTS = 3  # to rebuild what was lost during one call; more losses have a common cause


@dataclass(frozen=True)
class Replay:
    """Which calls restore the state of an actor.

    mutating : methods that change the state; only their calls are repeated.
    reset : the mutating method before which only calls of ``setup`` methods matter.
    """

    mutating: frozenset[str]
    reset: str
    setup: frozenset[str]


class RayActors:
    """Actors in processes of the cluster ``ray``, spread over its machines.

    Each reserves a core or, if there are more actors than cores, an equal fraction of one. Rebuilt
    actors reserve nothing: the remaining machines may be full. ``rebuilt`` counts them.
    """

    def __init__(self, ray: Any, makers: Sequence[Callable[[], Actor]], replay: Replay) -> None:
        self._ray, self._makers, self._replay = ray, list(makers), replay
        self._loss_errors = loss_errors(ray)
        self._class = ray.remote(scheduling_strategy="SPREAD", max_concurrency=1)(_RayHost)
        self._hosts: list[Any] = [None] * len(self)
        cores = max(int(ray.cluster_resources().get("CPU", 1)), 1)
        self._cpus = fraction(-(-len(self) // cores))
        self._history: list[tuple[str, list[Any]]] = []  # calls to repeat: method, arguments
        self.rebuilt = 0

    def __len__(self) -> int:
        return len(self._makers)

    def __enter__(self) -> Self:
        try:
            self._start(range(len(self)), cpus=self._cpus)
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        calls = [host.call.remote("close", ()) for host in self._hosts]
        self._ray.wait(calls, num_returns=len(calls), timeout=_CLOSING_SECONDS)
        self._kill()

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every actor, each with its own arguments; answers in order."""
        if len(arguments) != len(self):
            raise ValueError(f"{len(arguments)} arguments for {len(self)} actors")
        given: list[Any] = list(arguments)
        if all(one is given[0] for one in given):  # sent once to each machine, not to each actor
            given = [self._ray.put(given[0])] * len(given)
        answers: dict[int, Any] = {}
        lost = self._collect(method, given, range(len(self)), answers)
        for _ in range(_ATTEMPTS):
            if not lost:
                break
            self._rebuild(list(lost))
            lost = self._collect(method, given, list(lost), answers)
        if lost:
            raise SettingError(
                f"a part of the work was lost {_ATTEMPTS + 1} times: too little memory? "
                f"({next(iter(lost.values()))})"
            )
        if method == self._replay.reset:
            self._history = [call for call in self._history if call[0] in self._replay.setup]
        if method in self._replay.mutating:
            self._history.append((method, given))
        return [answers[a] for a in range(len(self))]

    def _collect(
        self, method: str, given: list[Any], which: Sequence[int], answers: dict[int, Any]
    ) -> dict[int, str]:
        """Call these actors and add their answers; returns those that are lost, with the reason.

        All answers are awaited before the first error is raised.
        """
        calls = {a: self._hosts[a].call.remote(method, given[a]) for a in which}
        lost: dict[int, str] = {}
        problems: list[Exception] = []
        for a, call in calls.items():
            try:
                answers[a] = self._ray.get(call)
            except self._ray.exceptions.RayTaskError as problem:
                problems.append(problem.cause)
            except self._loss_errors as loss:
                lost[a] = message_line(loss)
        if problems:
            raise problems[0]
        return lost

    def _rebuild(self, lost: Sequence[int]) -> None:
        """Create these actors again and repeat their calls; new losses are noticed later."""
        self.rebuilt += len(lost)
        self._start(lost, cpus=0)
        left = list(lost)
        for method, given in self._history:
            gone = self._collect(method, given, left, {})
            left = [a for a in left if a not in gone]

    def _start(self, which: Sequence[int], *, cpus: float) -> None:
        """Create actors and wait for their processes; constructor errors surface on first call."""
        for a in which:
            self._hosts[a] = self._class.options(num_cpus=cpus).remote(self._makers[a])
        started = [self._hosts[a].is_up.remote() for a in which]
        seconds = ray_pool.PLACING_SECONDS
        _, late = self._ray.wait(started, num_returns=len(started), timeout=seconds)
        if late:
            raise SettingError(
                f"{len(late)} of {len(self)} shards found no room on the Ray cluster within "
                f"{seconds:.0f} s: use fewer `shards`, or more machines; do others use it?"
            )

    def _kill(self) -> None:
        for host in self._hosts:
            if host is not None:
                self._ray.kill(host)


class _RayHost(Host):
    """A process of the cluster with one actor in it.

    What it is sent is copied: Ray's arrays are read-only, for which numba would compile each kernel
    again.
    """

    def __init__(self, make: Callable[[], Actor]) -> None:
        super().__init__(deepcopy(make))

    def call(self, method: str, given: tuple[Any, ...]) -> Any:
        return super().call(method, deepcopy(given))

    def is_up(self) -> bool:
        return True

"""A crew on a Ray cluster: objects on its machines, made anew elsewhere when a machine is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from objectstates.base.errors import SettingError
from objectstates.parallel import ray_pool
from objectstates.parallel.actors import Guest, LastingCrew, LostError, Member, Memory
from objectstates.parallel.ray_pool import first_line, losses, part

_CLOSING_SECONDS = 60.0


class RayCrew(LastingCrew):
    """Objects in processes of the cluster ``ray``, spread over its machines.

    Each has a core, or where there are more objects than cores, an equal part of one. Those made
    anew ask for none: the machines that are left may be full, and must do with what they have.
    """

    def __init__(self, ray: Any, makers: Sequence[Callable[[], Member]], memory: Memory) -> None:
        super().__init__(makers, memory)
        self._ray, self._losses = ray, losses(ray)
        self._kind = ray.remote(scheduling_strategy="SPREAD", max_concurrency=1)(Host)
        self._hosts: list[Any] = [None] * len(self)
        cores = max(int(ray.cluster_resources().get("CPU", 1)), 1)
        self._share = part(-(-len(self) // cores))

    def _start(self, which: Sequence[int], *, again: bool) -> None:
        kind = self._kind.options(num_cpus=0 if again else self._share)
        for s in which:
            self._hosts[s] = kind.remote(self._makers[s])
        standing = [self._hosts[s].stand.remote() for s in which]
        # What is wrong with one that cannot start is told when it is asked.
        seconds = ray_pool.PLACING_SECONDS
        _, late = self._ray.wait(standing, num_returns=len(standing), timeout=seconds)
        if late:
            raise SettingError(
                f"{len(late)} of {len(self)} shards found no room on the Ray cluster within "
                f"{seconds:.0f} s: use fewer --shards, or more machines; do others use it?"
            )

    def _shared(self, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What all are told alike is sent once to each machine, not to each object."""
        if all(given is arguments[0] for given in arguments):
            return [self._ray.put(arguments[0])] * len(arguments)
        return list(arguments)

    def _send(self, s: int, method: str, given: Any) -> Any:
        return self._hosts[s].call.remote(method, given)

    def _receive(self, s: int, ticket: Any) -> Any:
        try:
            return self._ray.get(ticket)
        except self._ray.exceptions.RayTaskError as problem:
            raise problem.cause from None
        except self._losses as loss:
            raise LostError(first_line(loss)) from None

    def __exit__(self, *_: object) -> None:
        calls = [host.call.remote("close", ()) for host in self._hosts]
        self._ray.wait(calls, num_returns=len(calls), timeout=_CLOSING_SECONDS)
        self._kill()

    def _kill(self) -> None:
        for host in self._hosts:
            if host is not None:
                self._ray.kill(host)


class Host(Guest):
    """A process of the cluster with one object in it."""

    def stand(self) -> bool:
        return True

"""A few objects that stay where they are, each asked one method after another: the shards of a fit.

In this process, each worked on by a thread; or in processes of their own. Processes die. Then the
object is made anew and told again all it was told, which brings it exactly where it was, since what
it does depends on nothing else. On a Ray cluster the same is done (``ray_crew.py``).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, Self

from threadpoolctl import threadpool_limits

from objectstates.base.errors import ObjectStatesError, SettingError

_ATTEMPTS = 3  # to make anew what was lost during one call


class Crew(Protocol):
    """Objects, wherever they are."""

    def __len__(self) -> int: ...

    def ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every object, each with arguments of its own; answers in order."""
        ...


class Member(Protocol):
    """One of a crew: it has whatever methods it is asked for, and ends."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Memory:
    """What an object that was made anew must be told again.

    changing : the methods that change an object; all others may be forgotten.
    fresh : one of these after which nothing told earlier matters but ``lasting`` ones.
    """

    changing: frozenset[str]
    fresh: str
    lasting: frozenset[str]


class LocalCrew:
    """Objects in this process, each worked on by a thread."""

    def __init__(self, shards: Sequence[Member]) -> None:
        self._shards = list(shards)
        self._threads = ThreadPoolExecutor(len(self._shards))

    def __len__(self) -> int:
        return len(self._shards)

    def ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        if len(self._shards) == 1:
            return [getattr(self._shards[0], method)(*arguments[0])]
        calls = [
            self._threads.submit(getattr(shard, method), *given)
            for shard, given in zip(self._shards, arguments, strict=True)
        ]
        return [call.result() for call in calls]

    def __enter__(self) -> LocalCrew:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()
        for shard in self._shards:
            shard.close()


class LostError(Exception):
    """An object is gone, with all that it knew."""


class LastingCrew(ABC):
    """Objects elsewhere, made anew when they are lost. ``rebuilt`` counts how often that was."""

    def __init__(self, makers: Sequence[Callable[[], Member]], memory: Memory) -> None:
        self._makers, self._memory = list(makers), memory
        self._told: list[tuple[str, list[tuple[Any, ...]]]] = []
        self.rebuilt = 0

    def __len__(self) -> int:
        return len(self._makers)

    def __enter__(self) -> Self:
        try:
            self._start(range(len(self)), again=False)
        except BaseException:
            self._kill()
            raise
        return self

    def ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every object, each with arguments of its own; answers in order."""
        if len(arguments) != len(self):
            raise ValueError(f"{len(arguments)} arguments for {len(self)} objects")
        given = self._shared(arguments)
        answers: dict[int, Any] = {}
        lost = self._collect(method, given, range(len(self)), answers)
        for _ in range(_ATTEMPTS):
            if not lost:
                break
            self._revive(list(lost))
            lost = self._collect(method, given, list(lost), answers)
        if lost:
            raise SettingError(
                f"a part of the work was lost {_ATTEMPTS + 1} times: too little memory? "
                f"({next(iter(lost.values()))})"
            )
        self._remember(method, given)
        return [answers[s] for s in range(len(self))]

    def _collect(
        self, method: str, given: list[Any], which: Sequence[int], answers: dict[int, Any]
    ) -> dict[int, LostError]:
        """Ask these and add their answers; who is gone. All are heard before one's error counts."""
        tickets = {s: self._send(s, method, given[s]) for s in which}
        lost: dict[int, LostError] = {}
        problems: list[Exception] = []
        for s, ticket in tickets.items():
            try:
                answers[s] = self._receive(s, ticket)
            except LostError as loss:
                lost[s] = loss
            except Exception as problem:
                problems.append(problem)
        if problems:
            raise problems[0]
        return lost

    def _remember(self, method: str, given: list[tuple[Any, ...]]) -> None:
        if method == self._memory.fresh:
            self._told = [told for told in self._told if told[0] in self._memory.lasting]
        if method in self._memory.changing:
            self._told.append((method, given))

    def _revive(self, lost: Sequence[int]) -> None:
        """Make them anew and tell them all again, side by side; who is lost again is seen later."""
        self.rebuilt += len(lost)
        self._start(lost, again=True)
        left = list(lost)
        for method, given in self._told:
            gone = self._collect(method, given, left, {})
            left = [s for s in left if s not in gone]

    def _shared(self, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The arguments in the form in which they are sent, and remembered."""
        return list(arguments)

    @abstractmethod
    def _start(self, which: Sequence[int], *, again: bool) -> None:
        """Have the makers of these make them; what goes wrong is told when they are asked."""

    @abstractmethod
    def _kill(self) -> None:
        """End all that were started, whatever they are at."""

    @abstractmethod
    def _send(self, s: int, method: str, given: Any) -> Any:
        """Ask one, and do not wait. Never raises: who is gone is noticed when it should answer."""

    @abstractmethod
    def _receive(self, s: int, ticket: Any) -> Any:
        """The answer to what was sent; raises what the object raised, or `LostError`."""


class ProcessCrew(LastingCrew):
    """Objects in processes of this machine, one each."""

    def __init__(self, makers: Sequence[Callable[[], Member]], memory: Memory) -> None:
        super().__init__(makers, memory)
        self._context = multiprocessing.get_context("spawn")
        self._processes: list[Any] = [None] * len(self)
        self._pipes: list[Any] = [None] * len(self)

    def _start(self, which: Sequence[int], *, again: bool) -> None:
        threads = max(1, (os.cpu_count() or 1) // len(self))
        for s in which:
            self._end(s)
            self._pipes[s], theirs = self._context.Pipe()
            process = self._context.Process(
                target=_serve, args=(self._makers[s], theirs, threads), daemon=True
            )
            process.start()
            self._processes[s] = process  # only what was started can be ended
            theirs.close()  # so that its end is heard

    def _send(self, s: int, method: str, given: Any) -> None:
        try:
            self._pipes[s].send((method, given))
        except OSError:
            return

    def _receive(self, s: int, ticket: Any) -> Any:
        try:
            answer, problem = self._pipes[s].recv()
        except (EOFError, OSError):
            raise LostError(f"process {self._processes[s].pid} died") from None
        if problem is not None:
            raise problem
        return answer

    def _end(self, s: int) -> None:
        if self._processes[s] is not None:
            self._processes[s].kill()
            self._processes[s].join()
            self._pipes[s].close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close them; after an error kill them, for who knows what they are at.

        Then they cannot close themselves, and their maker clears away what they leave.
        """
        try:
            if kind is None:
                self._collect("close", [()] * len(self), range(len(self)), {})
        except ObjectStatesError:
            pass  # never made: nothing to close
        finally:
            self._kill()

    def _kill(self) -> None:
        for s in range(len(self)):
            self._end(s)


def _serve(make: Callable[[], Member], pipe: Any, threads: int) -> None:
    """Be one object: answer what comes through ``pipe`` until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends us
    threading.Thread(target=end_with_parent, daemon=True).start()
    guest = Guest(make)
    with threadpool_limits(threads):  # there are others beside us
        while True:
            try:
                method, given = pipe.recv()
            except EOFError:
                return
            try:
                answer: tuple[Any, Exception | None] = guest.call(method, given), None
            except Exception as problem:  # whoever asked hears of it
                answer = None, problem
            pipe.send(answer)


def end_with_parent() -> None:
    """A parent that is killed cannot end us; without this we would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class Guest:
    """An object where it is; one that cannot be made says so when it is called."""

    def __init__(self, make: Callable[[], Member]) -> None:
        self._problem: ObjectStatesError | None = None
        try:
            self._guest = make()
        except ObjectStatesError as problem:  # the making itself has no listener
            self._problem = problem

    def call(self, method: str, given: tuple[Any, ...]) -> Any:
        if self._problem is not None:
            raise self._problem
        return getattr(self._guest, method)(*given)

"""Actors on this machine: stateful workers in threads of this process, or in worker processes.

A group of actors is called like one object: every actor runs the same method with arguments of its
own. The shards of a fit are actors. On a Ray cluster: ``ray_actors.py``.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NoReturn, Protocol, Self

from threadpoolctl import threadpool_limits

from objectstates.base.errors import ObjectStatesError, WorkerError
from objectstates.parallel.spawn import WorkerContext


class Actor(Protocol):
    """A stateful worker; it has whatever methods are called on it."""

    def close(self) -> None: ...


class Actors(Protocol):
    """A group of actors, wherever they run."""

    def __len__(self) -> int: ...

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every actor, each with its own arguments; answers in order."""
        ...


class LocalActors:
    """Actors in this process, one thread each."""

    def __init__(self, actors: Sequence[Actor]) -> None:
        self._actors = list(actors)
        self._threads = ThreadPoolExecutor(len(self._actors))

    def __len__(self) -> int:
        return len(self._actors)

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        if len(self._actors) == 1:
            return [getattr(self._actors[0], method)(*arguments[0])]
        calls = [
            self._threads.submit(getattr(actor, method), *given)
            for actor, given in zip(self._actors, arguments, strict=True)
        ]
        return [call.result() for call in calls]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()
        for actor in self._actors:
            actor.close()


class ProcessActors:
    """Actors in ``processes`` worker processes of this machine, divided evenly among them.

    The state of a process that dies is lost, so its death is an error.
    """

    def __init__(self, makers: Sequence[Callable[[], Actor]], processes: int) -> None:
        self._makers = list(makers)
        bounds = [len(makers) * p // processes for p in range(processes + 1)]
        self._parts = [slice(*bound) for bound in pairwise(bounds)]
        self._processes: list[Any] = []
        self._pipes: list[Any] = []

    def __len__(self) -> int:
        return len(self._makers)

    def __enter__(self) -> Self:
        context = WorkerContext()
        threads = max(1, (os.cpu_count() or 1) // len(self._parts))
        try:
            for part in self._parts:
                pipe, theirs = context.Pipe()
                self._pipes.append(pipe)
                process = context.Process(
                    target=_serve, args=(self._makers[part], theirs, threads), daemon=True
                )
                process.start()
                self._processes.append(process)
                theirs.close()  # so that the end of the process closes the pipe
        except BaseException:
            self._kill()
            raise
        return self

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        if len(arguments) != len(self):
            raise ValueError(f"{len(arguments)} arguments for {len(self)} actors")
        answers: list[Any] = []
        problems: list[Exception] = []
        for p, part in enumerate(self._parts):
            try:
                self._pipes[p].send((method, arguments[part]))
            except OSError:
                self._report_death(p, method)
        for p in range(len(self._parts)):  # all replies are read, so that none is left in a pipe
            try:
                answer, problem = self._pipes[p].recv()
            except (EOFError, OSError):
                self._report_death(p, method)
            if problem is None:
                answers += answer
            else:
                problems.append(problem)
        if problems:
            raise problems[0]
        return answers

    def _report_death(self, p: int, method: str) -> NoReturn:
        process = self._processes[p]
        process.join()
        killed = process.exitcode == -signal.SIGKILL
        hint = "too little memory?" if killed else "its traceback is above"
        raise WorkerError(
            f"worker process {process.pid} died with exit code {process.exitcode} in {method}: "
            f"{hint}"
        ) from None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let the actors close; after an error kill their processes, whatever they are doing."""
        if kind is not None:
            self._kill()
            return
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join()

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        for pipe in self._pipes:
            pipe.close()


def _serve(makers: Sequence[Callable[[], Actor]], pipe: Any, threads: int) -> None:
    """Main loop of a worker process: answer calls until the pipe is closed."""
    follow_parent()
    with threadpool_limits(threads), LocalActors([Host(make) for make in makers]) as actors:
        while True:
            try:
                method, arguments = pipe.recv()
            except EOFError:
                return
            try:
                answers = actors.call("call", [(method, given) for given in arguments])
                reply: tuple[list[Any] | None, Exception | None] = answers, None
            except Exception as problem:  # raised again in the parent process
                reply = None, problem
            pipe.send(reply)


def follow_parent() -> None:
    """Leave Ctrl-C to the parent process, which ends this one; end if the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class Host:
    """Worker-side wrapper of an actor; an error of its constructor is raised by the first call."""

    def __init__(self, make: Callable[[], Actor]) -> None:
        self._actor: Actor | None = None
        self._problem: ObjectStatesError | None = None
        try:
            self._actor = make()
        except ObjectStatesError as problem:
            self._problem = problem

    def call(self, method: str, given: tuple[Any, ...]) -> Any:
        if self._problem is not None:
            raise self._problem
        return getattr(self._actor, method)(*given)

    def close(self) -> None:
        if self._actor is not None:
            self._actor.close()

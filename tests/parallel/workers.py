"""Actors and workers that tests send to other processes.

Each of those processes imports this file, so it imports little.
"""

import multiprocessing
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

from objectstates.base.errors import StorageError, VideoError

# --- actors --------------------------------------------------------------------------------------


class Sum:
    """Adds up numbers; one with the number 99 cannot be made."""

    def __init__(self, folder: Path, number: int):
        if number == 99:
            raise VideoError("cannot be made")
        self.folder, self.number, self.factor, self.total = folder, number, 1, 0

    def base(self, factor):
        self.factor = factor

    def reset(self):
        self.total = 0

    def add(self, amount):
        with (self.folder / f"calls{self.number}").open("a") as file:
            file.write("x")
        self.total += self.factor * amount
        return self.total

    def dies(self, number):
        if self.number == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def fails(self):
        raise VideoError(f"{self.number} cannot")

    def interrupts(self):
        """Send the parent process a Ctrl-C, then never answer."""
        if self.number == 0:
            parent = multiprocessing.parent_process()
            assert parent is not None
            assert parent.pid is not None
            os.kill(parent.pid, signal.SIGINT)
        threading.Event().wait()

    def pid(self):
        return os.getpid()

    def close(self):
        (self.folder / f"closed{self.number}").touch()


class Mortal(Sum):
    """Can be told to die, as often as is counted in its folder."""

    def dies(self, times):
        """Before it answers, so many times in all."""
        deaths = self.folder / f"deaths{self.number}"
        count = len(deaths.read_text()) if deaths.exists() else 0
        if count < times:
            deaths.write_text("x" * (count + 1))
            os.kill(os.getpid(), signal.SIGKILL)
        return self.total


def sums(folder, numbers=(0, 1, 2)):
    return [partial(Sum, folder, number) for number in numbers]


def mortals(folder):
    return [partial(Mortal, folder, number) for number in range(3)]


# --- workers of a pool ---------------------------------------------------------------------------


class Squarer:
    """A worker that can be told to fail, to crash, or to die once."""

    def __init__(self, folder=None):
        self.folder = folder

    def __call__(self, item, tick):
        tick(1)
        if item == "bad":
            raise VideoError("cannot be squared")
        if item == "bug":
            raise ZeroDivisionError("oops")
        if item == "full":
            raise StorageError("no room")
        if item == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        if item == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if item == "dies once":
            marker = self.folder / "died"
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return "alive"
        return item * item


class Meeting:
    """A worker whose items 2 and 3 wait for each other; item 1 says which of them have begun."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, item, tick):
        if item == 1:
            return sorted(path.name for path in self.folder.iterdir())
        (self.folder / str(item)).touch()
        until = time.monotonic() + 60
        while not (self.folder / str(5 - item)).exists() and time.monotonic() < until:
            time.sleep(0.01)
        return []


class Environment:
    """A worker that looks up variables of its environment."""

    def __call__(self, item, tick):
        return os.environ.get(item)


class Masked:
    """A worker that says whether Ctrl-C is kept from it."""

    def __call__(self, item, tick):
        return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


class Unmakeable(Squarer):
    def __init__(self):
        raise VideoError("no such detector")


class Broken(Squarer):
    def __init__(self):
        raise RuntimeError("no such library")


class Slow:
    """A worker that says on which machine it ran."""

    def __call__(self, item, tick):
        import ray

        tick(1)
        time.sleep(0.3)
        return item * item, ray.get_runtime_context().get_node_id()


class Where:
    """A worker that says on which machine and GPU it ran."""

    def __call__(self, item, tick):
        import ray

        time.sleep(0.2)
        return ray.get_runtime_context().get_node_id(), tuple(ray.get_gpu_ids())


class Waiter:
    """Writes the id of its process and never ends."""

    def __call__(self, item, tick):
        os.write(1, f"{os.getpid()}\n".encode())
        threading.Event().wait()

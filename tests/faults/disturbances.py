"""What is done to a running command, and what is put right before it is repeated."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.commands import Command, Place


@dataclass
class Ended:
    """How a disturbed run ended.

    codes : exit codes; negative ones are signals. hung : it had to be killed after a long wait.
    """

    codes: list[int]
    errors: str
    hung: bool = False
    orphans: int = 0


@dataclass(frozen=True)
class Disturbance:
    """run : starts the command, disturbs it and waits for its end.

    fits : whether it makes sense for a command. allowed : exit codes beside 0 and 2.
    """

    name: str
    run: Callable[[Place, Command, Random], Ended]
    fits: Callable[[Command], bool] = lambda _: True
    allowed: tuple[int, ...] = ()


def patience(place: Place, command: Command) -> float:
    """Seconds after which a run counts as hung; machines are slower under load."""
    return 20 * place.seconds[command.name] + 120


# --- signals --------------------------------------------------------------------------------------


def _by_signal(number: signal.Signals, *, to_group: bool = False) -> Callable[..., Ended]:
    def run(place: Place, command: Command, rng: Random) -> Ended:
        process = place.start(place.words(command))
        _wait(process, rng.uniform(0.0, 1.05) * place.seconds[command.name])
        if process.poll() is None:
            (os.killpg if to_group else os.kill)(process.pid, number)
        return _end(place, command, process)

    return run


def _kill_worker(place: Place, command: Command, rng: Random) -> Ended:
    process = place.start(place.words(command))
    _wait(process, rng.uniform(0.2, 0.9) * place.seconds[command.name])
    servers = [pid for pid in _children(process.pid) if b"forkserver" in _command_line(pid)]
    workers = [pid for server in servers for pid in _children(server)]
    if workers:
        _signal(rng.choice(workers), signal.SIGKILL)
    return _end(place, command, process)


# --- limits ---------------------------------------------------------------------------------------


def _limited(kind: int, least: float, most: float) -> Callable[..., Ended]:
    def run(place: Place, command: Command, rng: Random) -> Ended:
        limit = int(least * (most / least) ** rng.random())

        def set_limit() -> None:
            resource.setrlimit(kind, (limit, limit))

        process = place.start(place.words(command), preexec_fn=set_limit)
        return _end(place, command, process)

    return run


def can_mount(folder: Path) -> bool:
    """Whether small disks can be made here: by root, outside of most containers."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if done.returncode == 0:
        subprocess.run(["umount", str(folder)], check=True)
    return done.returncode == 0


def _on_small_disk(place: Place, command: Command, rng: Random) -> Ended:
    """All folders of the run are on a disk with little room left; later it has enough."""
    used = sum(f.stat().st_size for f in place.work.rglob("*") if f.is_file())
    room = int(4096 * (2000.0 ** rng.random()))  # 4 kB to 8 MB
    _mount(place, f"size={used + 65536 + room}")
    process = place.start(place.words(command))
    ended = _end(place, command, process)
    subprocess.run(["mount", "-o", "remount,size=1g", str(place.work)], check=True)
    return ended


def _read_only(place: Place, command: Command, rng: Random) -> Ended:
    """The disk becomes read-only, at once or in the middle."""
    _mount(place, "size=1g")
    process = None
    if rng.random() < 0.5:
        process = place.start(place.words(command))
        _wait(process, rng.uniform(0.0, 1.0) * place.seconds[command.name])
    # Refused while files are open for writing: then it is tried for a while.
    for _ in range(200):
        done = subprocess.run(
            ["mount", "-o", "remount,ro", str(place.work)], capture_output=True, check=False
        )
        if done.returncode == 0:
            break
        time.sleep(0.01)
    if process is None:
        process = place.start(place.words(command))
    ended = _end(place, command, process)
    subprocess.run(["mount", "-o", "remount,rw", str(place.work)], check=True)
    return ended


def _mount(place: Place, options: str) -> None:
    """Move the folders of the run to a disk of their own."""
    aside = place.root / "aside"
    place.work.rename(aside)
    place.work.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place.work)], check=True)
    subprocess.run(["cp", "-a", f"{aside}/.", str(place.work)], check=True)
    subprocess.run(["rm", "-rf", str(aside)], check=True)


def unmount(place: Place) -> None:
    """Give up the disk of a run, if it has one."""
    while os.path.ismount(place.work):
        subprocess.run(["umount", "-l", str(place.work)], check=True)


# --- the cache, and company -----------------------------------------------------------------------


def _damaged_cache(place: Place, command: Command, rng: Random) -> Ended:
    place.fill_cache(command)
    entries = sorted(path for path in place.cache.rglob("*") if path.is_file())
    for path in rng.sample(entries, rng.randint(1, len(entries))):
        content = bytearray(path.read_bytes())
        match rng.randrange(4):
            case 0:
                content = content[: rng.randrange(len(content))]
            case 1:
                content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            case 2:
                start = rng.randrange(len(content))
                content[start : start + 512] = bytes(len(content[start : start + 512]))
            case 3:
                content += bytes(rng.randrange(1, 100))
        path.write_bytes(content)
    return _end(place, command, place.start(place.words(command)))


def _two_at_once(place: Place, command: Command, rng: Random) -> Ended:
    first = place.start(place.words(command))
    _wait(first, rng.uniform(0.0, 0.8) * place.seconds[command.name])
    second = place.start(place.words(command))
    one, two = _end(place, command, first), _end(place, command, second)
    return Ended(
        one.codes + two.codes,
        one.errors + two.errors,
        one.hung or two.hung,
        one.orphans + two.orphans,
    )


# --- processes ------------------------------------------------------------------------------------


def _wait(process: subprocess.Popen[str], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def _end(place: Place, command: Command, process: subprocess.Popen[str]) -> Ended:
    """Wait for the end of a run and of its workers."""
    hung = False
    try:
        _, errors = process.communicate(timeout=patience(place, command))
    except subprocess.TimeoutExpired:
        hung = True
        os.killpg(process.pid, signal.SIGKILL)
        _, errors = process.communicate()
    deadline = time.monotonic() + 20
    while (left := _session(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        _signal(pid, signal.SIGKILL)
    return Ended([process.returncode], errors, hung, len(left))


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _children(parent: int) -> list[int]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if (facts := _stat(pid)) and int(facts[1]) == parent]


def _session(leader: int) -> list[int]:
    """Processes that a run left behind; those that ended and wait for their parent do not count."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    found = {pid: facts for pid in pids if (facts := _stat(pid))}
    return [pid for pid, facts in found.items() if int(facts[3]) == leader and facts[0] != "Z"]


DISTURBANCES = (
    Disturbance("SIGKILL", _by_signal(signal.SIGKILL), allowed=(-signal.SIGKILL,)),
    Disturbance("SIGTERM", _by_signal(signal.SIGTERM), allowed=(143, -signal.SIGTERM)),
    Disturbance(
        "SIGINT",
        _by_signal(signal.SIGINT, to_group=True),
        allowed=(130, -signal.SIGINT),
    ),
    Disturbance("worker killed", _kill_worker, lambda command: command.workers),
    Disturbance("file size limit", _limited(resource.RLIMIT_FSIZE, 2e3, 3e6)),
    Disturbance("memory limit", _limited(resource.RLIMIT_AS, 3e8, 4e9)),
    Disturbance("disk full", _on_small_disk),
    Disturbance("read-only", _read_only),
    Disturbance("cache damaged", _damaged_cache, lambda command: command.takes_cache),
    Disturbance("two at once", _two_at_once),
)
NEED_MOUNTS = ("disk full", "read-only")

"""Lack of memory, disk or open files on this machine, as distinct from faults of the input."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from objectstates.base.errors import MemoryLackError, StorageError

Lack = Literal["", "disk", "memory"]
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_MEMORY = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
_IN_WORDS = re.compile(
    r"bad_alloc|insufficient memory|out of memory|(?:not|n't|failed to|unable to) allocate", re.I
)
"""How libraries in C++ (OpenCV, onnxruntime, torch) report that there is no memory."""


def lack_behind(problem: BaseException) -> Lack:
    """What was lacking, if that is the reason of an error: ours, and not that of the input."""
    for cause in _causes(problem):
        if isinstance(cause, StorageError):
            return "disk"
        if isinstance(cause, MemoryError | MemoryLackError):
            return "memory"
        number = getattr(cause, "errno", None)
        if number in _DISK:
            return "disk"
        if number in _MEMORY or (
            isinstance(cause, RuntimeError) and _IN_WORDS.search(str(cause)) is not None
        ):
            return "memory"
        if type(cause).__module__ in ("cv2", "onnxruntime") and _IN_WORDS.search(str(cause)):
            return "memory"
    return ""


def _causes(problem: BaseException | None) -> Iterator[BaseException]:
    while problem is not None:
        yield problem
        problem = problem.__cause__


# --- memory ---------------------------------------------------------------------------------------


def memory_left() -> float:
    """Bytes that this process may still take: the machine's, and those of any limit on it.

    Limits are those of ``ulimit -v`` and of the control group (containers, batch systems).
    Infinite where none of them can be read.
    """
    return min(_of_machine(), _of_address_space(), _of_control_group())


def check_memory(needed: float, what: str, remedy: str) -> None:
    """Raise if that many bytes are not there; errors then are better than those of libraries."""
    left = memory_left()
    if needed > left:
        raise MemoryLackError(
            f"{what} needs about {_gigabytes(needed)} of memory, and {_gigabytes(max(left, 0))} "
            f"are left: {remedy}"
        )


_LIBRARIES = 2.5e9  # bytes of addresses that a fit of a small corpus takes: NumPy, numba, OpenCV
_PER_CORE = 0.15e9  # for the stacks and heaps of threads


def check_address_space() -> None:
    """Raise if ``ulimit -v`` leaves too little to load the libraries and their threads.

    They do not report that: some end the process, some crash, and some wait for ever.
    """
    needed = _LIBRARIES + _PER_CORE * (os.cpu_count() or 1) - _address_space()
    left = _of_address_space()
    if needed > left:
        raise MemoryLackError(
            f"the limit on virtual memory (ulimit -v) leaves {_gigabytes(max(left, 0))}, and about "
            f"{_gigabytes(needed)} are needed: raise it"
        )


def is_limited() -> bool:
    """Whether ``ulimit -v`` limits the memory of this process."""
    return _of_address_space() < float("inf")


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"


def _of_machine() -> float:
    try:
        facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        free = sum(int(facts[name].split()[0]) for name in ("MemAvailable", "SwapFree"))
    except (OSError, ValueError, KeyError, IndexError):
        return float("inf")
    return free * 1024.0


def _of_address_space() -> float:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return float("inf")
        return limit - _address_space()
    except (ImportError, OSError, ValueError):
        return float("inf")


def _address_space() -> float:
    """Bytes of addresses that this process has taken; 0 where that cannot be read."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError):
        return 0.0


def _of_control_group() -> float:
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text().strip()
        if limit == "max":
            return float("inf")
        used = int((folder / "memory.current").read_text())
        facts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return float(int(limit) - used + int(facts.get("inactive_file", 0)))
    except (OSError, ValueError):
        return float("inf")

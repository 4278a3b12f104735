"""One place that says how the kernels of this package are compiled and kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
_REORDERED = {"reassoc", "contract", "nsz"}


def compiled(kernel: Kernel) -> Kernel:
    """Compile ``kernel`` to machine code on first use and keep it on disk for the next run.

    Sums may be reordered (so that dot products use vector instructions); infinities and NaNs keep
    their meaning.
    """
    return _jit(kernel, fastmath=_REORDERED)


def compiled_exactly(kernel: Kernel) -> Kernel:
    """The same, with sums in the order in which they are written.

    A kernel that others call is compiled again as a part of each, and optimised anew; which of all
    these is run depends on what a process loaded first. Where sums may be reordered, they can
    differ in their last digits. A solver that chooses between labellings that are equally good must
    not depend on that: here all compute the same bits, in every process.
    """
    return _jit(kernel)


def compiled_into_callers(kernel: Kernel) -> Kernel:
    """``compiled``, as a part of whoever calls it and nowhere else: for sums that must be fast."""
    return _jit(kernel, fastmath=_REORDERED, forceinline=True)


def _jit(kernel: Kernel, **options: Any) -> Kernel:
    try:
        return cast(Kernel, numba.njit(cache=True, nogil=True, **options)(kernel))
    except RuntimeError:  # no folder can be written to: compile in every run
        return cast(Kernel, numba.njit(nogil=True, **options)(kernel))


def _forget_outdated_kernels() -> None:
    """Delete cached kernels older than any source file that defines kernels.

    numba compares a cached kernel with its own file alone, but a kernel also contains the kernels
    that it calls, which may be defined in other files.
    """
    package = Path(__file__).parents[1]
    newest = max(
        path.stat().st_mtime
        for path in package.rglob("*.py")
        if b"objectstates.base.jit" in path.read_bytes() or path == Path(__file__)
    )
    for cached in package.rglob("__pycache__/*.nb[ic]"):
        with suppress(OSError):  # another process may be doing the same
            if cached.stat().st_mtime < newest:
                cached.unlink()


_forget_outdated_kernels()

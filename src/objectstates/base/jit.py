"""Compilation of this package's numba kernels, and their cache on disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
_REORDERED = {"reassoc", "contract", "nsz"}


def compiled(kernel: Kernel) -> Kernel:
    """Compile ``kernel`` on first use and cache it on disk.

    Sums may be reordered, so that dot products are vectorised; infinities and NaNs are respected.
    """
    return _jit(kernel, fastmath=_REORDERED)


def compiled_exactly(kernel: Kernel) -> Kernel:
    """The same, with sums in source order: the same bits in every process.

    numba compiles a kernel again into each kernel that calls it, and which copy runs depends on
    what a process loaded first. With reordered sums the copies can differ in the last digits, and a
    solver could choose between equally good labellings differently.
    """
    return _jit(kernel)


def compiled_into_callers(kernel: Kernel) -> Kernel:
    """As `compiled`, but always inlined into the calling kernel."""
    return _jit(kernel, fastmath=_REORDERED, forceinline=True)


def _jit(kernel: Kernel, **options: Any) -> Kernel:
    try:
        return cast(Kernel, numba.njit(cache=True, nogil=True, **options)(kernel))
    except RuntimeError:  # no writable cache folder: compile in every run
        return cast(Kernel, numba.njit(nogil=True, **options)(kernel))


def _delete_outdated_kernels() -> None:
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


_delete_outdated_kernels()

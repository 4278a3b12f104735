"""One place that says how the kernels of this package are compiled and kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(kernel: Kernel) -> Kernel:
    """Compile ``kernel`` to machine code on first use and keep it on disk for the next run.

    Sums may be reordered (so that dot products use vector instructions); infinities and NaNs keep
    their meaning, because an infinite cost is how an entry is forbidden.
    """
    options: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract", "nsz"}}
    try:
        return cast(Kernel, numba.njit(cache=True, **options)(kernel))
    except RuntimeError:  # no folder can be written to: compile in every run
        return cast(Kernel, numba.njit(**options)(kernel))


def _forget_outdated_kernels() -> None:
    """Drop what was compiled before any source was last changed.

    numba compares a kept kernel with its own file alone, but a kernel also contains the kernels
    that it calls, which may stand in other files.
    """
    sources = Path(__file__).parent
    newest = max(path.stat().st_mtime for path in sources.rglob("*.py"))
    for kept in sources.rglob("__pycache__/*.nb[ic]"):
        with suppress(OSError):  # another process may be doing the same
            if kept.stat().st_mtime < newest:
                kept.unlink()


_forget_outdated_kernels()

"""One place that says how the kernels of this package are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(kernel: Kernel) -> Kernel:
    """Compile ``kernel`` to machine code on first use and keep it on disk for the next run.

    Sums may be reordered (so that dot products use vector instructions); infinities and NaNs keep
    their meaning, because an infinite cost is how an entry is forbidden.
    """
    decorator = numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
    result: Kernel = decorator(kernel)
    return result

"""Threads of NumPy's and SciPy's BLAS.

The wheels of NumPy and of SciPy each bring a BLAS with threads of its own, and these wait actively
for a while when they are done: a product in one slows down the next call of the other. The large
products of a fit are SciPy's, which has the symmetric and triangular ones, so NumPy's BLAS stays on
one thread meanwhile.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Self

import numpy as np


class _NumpyOnOneThread(ContextDecorator):
    """Limits NumPy's BLAS from the first entry, by any thread, to the last exit."""

    def __init__(self) -> None:
        self._lock, self._inside, self._before = Lock(), 0, 1

    def __enter__(self) -> Self:
        threads, set_threads = _numpys_threads()
        with self._lock:
            if not self._inside:
                self._before = threads()
                set_threads(1)
            self._inside += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                _numpys_threads()[1](self._before)


numpy_on_one_thread = _NumpyOnOneThread()


@cache
def _numpys_threads() -> tuple[Callable[[], int], Callable[[int], object]]:
    """Getter and setter of the OpenBLAS in NumPy's wheel; without effect if NumPy has another BLAS.

    threadpoolctl (3.8) lets only one thread of a process set the number.
    """
    for file in Path(np.__file__).parent.with_name("numpy.libs").glob("*openblas*"):
        library = ctypes.CDLL(str(file))
        for prefix in ("scipy_", ""):  # the latter in wheels of NumPy 1
            names = (f"{prefix}openblas_{verb}_num_threads64_" for verb in ("get", "set"))
            get, set_ = (getattr(library, name, None) for name in names)
            if get is not None and set_ is not None:
                return get, set_
    return lambda: 1, lambda _: None

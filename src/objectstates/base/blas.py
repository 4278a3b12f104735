"""Threads of NumPy's and SciPy's BLAS.

The wheels of NumPy and of SciPy each bring a BLAS with threads of its own, and these wait actively
for a while when they are done: a product in one slows down the next call of the other. The large
products of a fit are SciPy's, which has the symmetric and triangular ones, so NumPy's BLAS stays on
one thread meanwhile.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
from threadpoolctl import ThreadpoolController


class _NumpyOnOneThread(ContextDecorator):
    """Limits NumPy's BLAS from the first entry, by any thread, to the last exit."""

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._before: list[int] = []

    def __enter__(self) -> Self:
        with self._lock:
            if not self._inside:
                self._before = [library.num_threads for library in _numpy_libraries()]
                for library in _numpy_libraries():
                    library.set_num_threads(1)
            self._inside += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                for library, threads in zip(_numpy_libraries(), self._before, strict=True):
                    library.set_num_threads(threads)


numpy_on_one_thread = _NumpyOnOneThread()


@cache
def _numpy_libraries() -> tuple[Any, ...]:
    """threadpoolctl's handles of NumPy's own BLAS; none where other packages use the same."""
    folder = Path(np.__file__).parent
    places = folder, folder.with_name("numpy.libs")
    every = ThreadpoolController().select(user_api="blas").lib_controllers
    own = [
        library
        for library in every
        if any(Path(library.filepath).is_relative_to(place) for place in places)
    ]
    return tuple(own) if len(own) < len(every) else ()

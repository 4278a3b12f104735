"""Compilation of this package's numba kernels, and their cache on disk.

A kernel contains the kernels that it calls, which may be defined in other files, but numba compares
a cached kernel with its own file alone. So the kernels of one state of the sources have a folder of
their own, named after a digest of all files that define kernels: a kernel of another state is never
found, wherever the folder lies and whatever the files' dates.

Installing the package compiles the kernels of a fit (``tools/kernel_hook.py``), so that the first
one does not wait for them. They lie in the package and serve the versions of Python and numba
and the kind of CPU that they were compiled with; elsewhere kernels are compiled on first use.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import caching
from numba.core.registry import cpu_target

from objectstates.base.cache import cache_folder

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
_REORDERED = {"reassoc", "contract", "nsz"}
_CONFIG: Any = numba.config
_PACKAGE = Path(__file__).parents[1]
_PREFIX = "objectstates-kernels-"
_UNUSED_DAYS = 30  # until the kernels of another state of the sources are deleted


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


def load_without_blas() -> None:
    """Have all of numba loaded, but SciPy's BLAS, which no kernel uses: it takes 0.2 s.

    For processes that run our kernels alone. Of other functions, numba would refuse convolutions.
    """
    blas, users = "scipy.linalg.cython_blas", "numba.np.arraymath"
    if blas in sys.modules or users in sys.modules:
        return
    modules: dict[str, Any] = sys.modules
    modules[blas] = None  # importing it is an ImportError
    try:
        cpu_target.typing_context.refresh()  # as the first call of a kernel does
        cpu_target.target_context.refresh()
    finally:
        del modules[blas]


def _jit(kernel: Kernel, **options: Any) -> Kernel:
    dispatcher: Any = numba.njit(nogil=True, **options)(kernel)
    written, installed = _kernel_folder(), _installed_folder()
    folder = written or installed
    if folder is not None:  # else it is compiled in every run
        # As ``cache=True``, which takes no folder of our choice.
        other = installed if installed != folder else None
        found = _KernelCache(kernel, folder, other, writes=written is not None)
        dispatcher._cache = found  # noqa: SLF001
    return cast(Kernel, dispatcher)


class _KernelCache(caching.FunctionCache):  # type: ignore[misc]
    """numba's cache of one kernel, in ``folder``; what is not there is read from ``other``."""

    def __init__(self, kernel: Any, folder: Path, other: Path | None, *, writes: bool) -> None:
        self._impl_class = partial(_Files, folder=folder)
        super().__init__(kernel)
        self._writes = writes
        self._other = None if other is None else _KernelCache(kernel, other, None, writes=False)

    def load_overload(self, signature: Any, target: Any) -> Any:
        found = super().load_overload(signature, target)
        if found is None and self._other is not None:
            found = self._other.load_overload(signature, target)
        return found

    def save_overload(self, signature: Any, kernel: Any) -> None:
        if self._writes:
            with suppress(OSError):  # a full disk: the next process compiles it again
                super().save_overload(signature, kernel)


class _Files(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """The files of a kernel in a folder."""

    def __init__(self, kernel: Any, folder: Path) -> None:
        self._locator_classes = [_Place(kernel, folder)]
        super().__init__(kernel)


class _Place(caching._CacheLocator):  # type: ignore[misc]  # noqa: SLF001
    """Where a kernel's files lie and what they are named after: its package, and its line."""

    def __init__(self, kernel: Any, folder: Path) -> None:
        self._folder = folder / kernel.__module__.rpartition(".")[0]
        self._line = kernel.__code__.co_firstlineno
        self._py_file = kernel.__code__.co_filename  # numba names it in warnings

    def from_function(self, *_: Any) -> _Place:
        return self

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return ""  # the folder is that of these sources

    def get_disambiguator(self) -> str:
        return str(self._line)


@cache
def _kernel_folder() -> Path | None:
    """The folder where these sources' kernels are written; None if no place can be written.

    Places are ``NUMBA_CACHE_DIR``, this package (not if it is installed read-only), and the user's
    cache.
    """
    places = [_PACKAGE / "__pycache__", cache_folder() / "kernels"]
    if _CONFIG.CACHE_DIR:
        places.insert(0, Path(_CONFIG.CACHE_DIR))
    for place in places:
        folder = place / _folder_name()
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            os.utime(folder)  # it is in use
            _delete_unused(place)
            return folder
    return None


@cache
def _installed_folder() -> Path | None:
    """The folder of kernels that came with the package, if there is one."""
    folder = _PACKAGE / "__pycache__" / _folder_name()
    return folder if folder.is_dir() else None


@cache
def _folder_name() -> str:
    return _PREFIX + _source_digest(_PACKAGE)


def _source_digest(package: Path) -> str:
    """A digest of the files that define kernels."""
    total = hashlib.blake2b(digest_size=10)
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        if b"objectstates.base.jit" in content or path == Path(__file__):
            total.update(f"{path.relative_to(package).as_posix()}\0{len(content)}\0".encode())
            total.update(content)
    return total.hexdigest()


def _delete_unused(place: Path) -> None:
    """Delete kernels of other states of the sources that no process has used for long."""
    for folder in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another process may be doing the same
            if folder.stat().st_mtime < time.time() - _UNUSED_DAYS * 86_400:
                shutil.rmtree(folder, ignore_errors=True)

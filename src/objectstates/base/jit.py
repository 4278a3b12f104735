"""Compilation of this package's numba kernels, and their cache on disk.

A kernel contains the kernels that it calls, which may be defined in other files, but numba compares
a cached kernel with its own file alone. So the kernels of one state of the sources have a folder of
their own, named after a digest of all files that define kernels: a kernel of another state is never
found, wherever the folder lies and whatever the files' dates.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from objectstates.base.cache import cache_folder

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
_REORDERED = {"reassoc", "contract", "nsz"}
_CONFIG: Any = numba.config
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


def _jit(kernel: Kernel, **options: Any) -> Kernel:
    folder = _kernel_folder()
    if folder is None:  # compile in every run
        return cast(Kernel, numba.njit(nogil=True, **options)(kernel))
    given = _CONFIG.CACHE_DIR
    _CONFIG.CACHE_DIR = str(folder)
    try:
        return cast(Kernel, numba.njit(cache=True, nogil=True, **options)(kernel))
    except RuntimeError:  # the folder has become unwritable
        return cast(Kernel, numba.njit(nogil=True, **options)(kernel))
    finally:
        _CONFIG.CACHE_DIR = given


@cache
def _kernel_folder() -> Path | None:
    """The folder of these sources' kernels; None if no place can be written.

    Places are ``NUMBA_CACHE_DIR``, this package (not if it is installed read-only), and the user's
    cache.
    """
    package = Path(__file__).parents[1]
    places = [package / "__pycache__", cache_folder() / "kernels"]
    if _CONFIG.CACHE_DIR:
        places.insert(0, Path(_CONFIG.CACHE_DIR))
    name = _PREFIX + _source_digest(package)
    for place in places:
        folder = place / name
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            os.utime(folder)  # it is in use
            _delete_unused(place)
            return folder
    return None


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

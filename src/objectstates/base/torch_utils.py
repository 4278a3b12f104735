"""Devices, memory and errors of torch, which is an optional dependency, imported where used."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt

from objectstates.base.errors import MissingExtraError, ObjectStatesError, SettingError


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Name the missing extra. A torchvision that does not match torch raises RuntimeError."""
    try:
        yield
    except (ImportError, RuntimeError, OSError) as error:
        raise MissingExtraError(
            f"{what} needs an extra: pip install 'objectstates[{extra}]' ({error})"
        ) from error


@contextmanager
def loading(what: str, kind: type[ObjectStatesError]) -> Iterator[None]:
    """Raise ``kind`` with the cause if ``what`` cannot be loaded."""
    try:
        yield
    except Exception as error:  # loaders of networks raise errors of any type
        raise kind(f"{what} cannot be loaded: {error}") from error


def torch_device(device: str) -> Any:
    """The ``torch.device``, or an error if it is not available."""
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise SettingError(f"`device`: {device!r} is not available: use 'cpu'")
    return torch.device(device)


def solver_device(device: str) -> Any:
    """The device of a solver, or an error that names what is missing."""
    if device not in ("cpu", "cuda"):
        raise SettingError(
            f"`device`: {device!r}: a solver runs on 'cpu' or 'cuda' (CUDA_VISIBLE_DEVICES selects "
            "the GPU)"
        )
    with needs_extra("torch", f"to solve on {device!r}"):
        import torch  # noqa: F401
    return torch_device(device)


@contextmanager
def within_memory(device: str) -> Iterator[None]:
    """Raise an error with a remedy where a solver's device runs out of memory."""
    try:
        yield
    except RuntimeError as problem:  # the base of torch's; torch is not imported for the CPU
        if device == "cpu":
            raise
        import torch

        if not isinstance(problem, torch.cuda.OutOfMemoryError):
            raise
        raise SettingError(
            f"`device`: {device!r} has too little memory for this corpus: use 'cpu'"
        ) from problem


@contextmanager
def page_locked(memory: npt.NDArray[Any]) -> Iterator[None]:
    """Page-lock contiguous ``memory``, so that a GPU reads it by DMA, without a staging copy.

    Locking takes as long as a copy: it pays for memory that is reused, such as memory shared with
    processes that write to it.
    """
    import torch

    runtime = torch.cuda.cudart()
    code = runtime.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0)
    if code != runtime.cudaError.success:
        raise SettingError(
            f"{memory.nbytes >> 20} MiB of memory cannot be page-locked for the GPU "
            f"({runtime.cudaGetErrorString(code)}): use less, or raise the limit (ulimit -l)"
        )
    try:
        yield
    finally:
        torch.cuda.synchronize()  # copies may be pending
        torch.cuda.check_error(int(runtime.cudaHostUnregister(memory.ctypes.data)))


def is_page_locked(memory: npt.NDArray[Any]) -> bool:
    """Whether a GPU can read this array without a staging copy."""
    import torch

    readable = memory.flags.c_contiguous and memory.flags.writeable  # or torch warns
    return readable and bool(torch.from_numpy(memory).is_pinned())


@contextmanager
def cpu_threads(count: int) -> Iterator[None]:
    """Set the number of torch's threads, which is one for the whole process, and restore it."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def weights_digest(network: Any) -> str:
    """Short digest of all weights, for cache keys that change with the model."""
    import torch

    digest = hashlib.sha256()
    for name, value in network.state_dict().items():
        digest.update(name.encode())
        digest.update(value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]

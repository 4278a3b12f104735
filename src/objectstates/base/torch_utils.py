"""What all that runs on torch shares. Torch is imported where used: it is an extra."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt

from objectstates.base.errors import MissingExtraError, ObjectStatesError, SettingError


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Say which extra is missing. A torchvision that does not fit torch raises RuntimeError."""
    try:
        yield
    except (ImportError, RuntimeError, OSError) as error:
        raise MissingExtraError(
            f"{what} needs an extra: pip install 'objectstates[{extra}]' ({error})"
        ) from error


@contextmanager
def loading(what: str, kind: type[ObjectStatesError]) -> Iterator[None]:
    """Say what cannot be loaded, and why."""
    try:
        yield
    except Exception as error:  # loaders of networks raise whatever their formats' readers do
        raise kind(f"{what} cannot be loaded: {error}") from error


def torch_device(device: str) -> Any:
    """Return the device, or say that it is not here."""
    import torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise SettingError(f"device {device!r} is not available: use --device cpu")
    return torch.device(device)


def solver_device(device: str) -> Any:
    """The device a solver asks for, or which extra or what else is missing."""
    if device not in ("cpu", "cuda"):
        raise SettingError(
            f"device {device!r}: a solver runs on cpu or cuda (CUDA_VISIBLE_DEVICES names the GPU)"
        )
    with needs_extra("torch", f"to solve on {device!r}"):
        import torch  # noqa: F401
    return torch_device(device)


@contextmanager
def within_memory(device: str) -> Iterator[None]:
    """Say what to do where a solver's device has too little memory."""
    try:
        yield
    except RuntimeError as problem:  # as torch's is, which is imported for another device only
        if device == "cpu":
            raise
        import torch

        if not isinstance(problem, torch.cuda.OutOfMemoryError):
            raise
        raise SettingError(
            f"device {device!r} has too little memory for this corpus: use --device cpu"
        ) from problem


@contextmanager
def page_locked(memory: npt.NDArray[Any]) -> Iterator[None]:
    """Meanwhile a GPU reads ``memory``, contiguous, by itself, without a copy of the processor's.

    Locking takes as long as a copy: it pays for memory that is written to again and again. What
    other processes write is read alike, if they share it.
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
        torch.cuda.synchronize()  # it may still be read
        torch.cuda.check_error(int(runtime.cudaHostUnregister(memory.ctypes.data)))


def is_page_locked(memory: npt.NDArray[Any]) -> bool:
    """Whether a GPU can read this array by itself."""
    import torch

    fit = memory.flags.c_contiguous and memory.flags.writeable  # or torch warns
    return fit and bool(torch.from_numpy(memory).is_pinned())


@contextmanager
def cpu_threads(count: int) -> Iterator[None]:
    """Torch has one number of threads for the whole process: lend it ours."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def weights_digest(network: Any) -> str:
    """Short digest of all weights, so that a changed model is never mistaken for the old one."""
    import torch

    digest = hashlib.sha256()
    for name, value in network.state_dict().items():
        digest.update(name.encode())
        digest.update(value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]

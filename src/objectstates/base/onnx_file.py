"""ONNX files without the package ``onnx``: the messages that our graphs need, and a reader of names.

A file is one protobuf message (``onnx.proto`` of ONNX). A message is a list of fields, each a key
(number and wire type) and a value: a variable-length integer, four or eight bytes, or a length and
as many bytes, which are a text, numbers or an inner message. Writers give the bytes that ``onnx``
gives for the same content.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FLOAT, UINT8, INT64 = 1, 2, 7  # element types (``TensorProto.DataType``)

Shape = Sequence[int | str | None]

_ELEMENTS = {np.dtype(np.float32): FLOAT, np.dtype(np.uint8): UINT8, np.dtype(np.int64): INT64}
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5  # wire types
_EXTERNAL = 1  # ``TensorProto.DataLocation``: the numbers are in another file


@dataclass(frozen=True)
class Node:
    """An operator with one output.

    attributes : integers, floats or lists of integers, by name.
    """

    operator: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Any]


def model_file(
    name: str,
    nodes: Iterable[Node],
    constants: Iterable[tuple[str, npt.NDArray[Any]]],
    inputs: Iterable[tuple[str, int, Shape]],
    outputs: Iterable[tuple[str, int, Shape]],
    *,
    operators: int,
    version: int,
) -> bytes:
    """A model of one graph.

    inputs, outputs : name, element type and shape; a text in a shape names an unknown length.
    operators, version : version of the operator set, and of the file format.
    """
    graph = [_inner(1, _node(node)) for node in nodes]
    graph.append(_inner(2, name.encode()))
    graph += [_inner(5, _tensor(key, value)) for key, value in constants]
    graph += [_inner(11, _value(*about)) for about in inputs]
    graph += [_inner(12, _value(*about)) for about in outputs]
    operator_set = _inner(1, b"") + _number(2, operators)
    return b"".join(
        [
            _number(1, version),
            _inner(2, b"objectstates"),
            _inner(7, b"".join(graph)),
            _inner(8, operator_set),
        ]
    )


def _node(node: Node) -> bytes:
    parts = [_inner(1, name.encode()) for name in node.inputs]
    parts += [_inner(2, node.output.encode()), _inner(4, node.operator.encode())]
    parts += [_inner(5, _attribute(*item)) for item in sorted(node.attributes.items())]
    return b"".join(parts)


def _attribute(name: str, value: Any) -> bytes:
    start = _inner(1, name.encode())
    if isinstance(value, float):
        return start + _key(2, _FOUR_BYTES) + struct.pack("<f", value) + _number(20, 1)
    if isinstance(value, int):
        return start + _number(3, value) + _number(20, 2)
    return start + b"".join(_number(8, each) for each in value) + _number(20, 7)


def _tensor(name: str, value: npt.NDArray[Any]) -> bytes:
    parts = [_number(1, size) for size in value.shape]
    parts += [_number(2, _ELEMENTS[value.dtype]), _inner(8, name.encode())]
    return b"".join([*parts, _inner(9, value.astype(value.dtype.newbyteorder("<")).tobytes())])


def _value(name: str, element: int, shape: Shape) -> bytes:
    """An input or output."""
    sizes = b"".join(_inner(1, _size(size)) for size in shape)
    tensor = _number(1, element) + _inner(2, sizes)
    return _inner(1, name.encode()) + _inner(2, _inner(1, tensor))


def _size(size: int | str | None) -> bytes:
    if size is None:
        return b""
    return _inner(2, size.encode()) if isinstance(size, str) else _number(1, size)


def _key(field: int, wire: int) -> bytes:
    return _varint(field << 3 | wire)


def _number(field: int, value: int) -> bytes:
    return _key(field, _VARINT) + _varint(value)


def _inner(field: int, content: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; negative numbers as 64-bit two's complement."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


# --- reading -------------------------------------------------------------------------------------

_PARTS = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
"""The fields of each message that lead to tensors, and what they hold."""


def external_names(content: bytes) -> set[str]:
    """Names of the files that hold tensors of a model, wherever in its graphs they are used.

    Raises ValueError if the content is no protobuf message.
    """
    found, waiting = set[str](), [("model", memoryview(content))]
    while waiting:
        kind, part = waiting.pop()
        entries, elsewhere = dict[str, str](), False
        for field, value in _fields(part):
            if isinstance(value, int):
                elsewhere |= kind == "tensor" and field == 14 and value == _EXTERNAL
            elif field in _PARTS[kind]:
                waiting.append((_PARTS[kind][field], value))
            elif kind == "tensor" and field == 13:
                entry = {n: bytes(text).decode() for n, text in _fields(value) if n in (1, 2)}
                entries[entry.get(1, "")] = entry.get(2, "")
        if elsewhere and "location" in entries:
            found.add(entries["location"])
    return found


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Number and value of each field: an integer, or the bytes."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        field, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _read_varint(message, at)
            yield field, value
            continue
        if wire == _BYTES:
            length, at = _read_varint(message, at)
        elif wire in (_FOUR_BYTES, _EIGHT_BYTES):
            length = 4 if wire == _FOUR_BYTES else 8
        else:
            raise ValueError(f"wire type {wire} is not known")
        if at + length > len(message):
            raise ValueError("a field is longer than its message")
        yield field, message[at : at + length]
        at += length


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    """The integer at a position, and the position after it."""
    value = 0
    for n, byte in enumerate(message[at : at + 10]):
        value |= (byte & 0x7F) << 7 * n
        if byte < 0x80:
            return value, at + n + 1
    raise ValueError("an integer does not end")

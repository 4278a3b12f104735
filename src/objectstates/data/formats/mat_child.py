"""Program of the child process of ``mat_file.py``: decode one MATLAB file to stdout.

A hostile file can crash the libraries that decode it, or make them need any amount of memory. So
they run here, with limits, and this file imports nothing of the package: it is run by its path.

Output: a line of JSON, then the arrays in NumPy's format, one after another. The line is
``{"tree": {name: tree}}`` or ``{"error": text}``. A tree is the number of an array, a list of trees
(a cell) or an object of trees (a struct).

Arguments: the file, the most bytes of memory, the most seconds, and the names to read; all if none.
"""

from __future__ import annotations

import json
import sys
from typing import IO, Any

import numpy as np

MOST_NESTED = 16  # cells in cells; releases have two
MOST_VALUES = 5_000_000  # arrays in cells
HDF5 = b"\x89HDF\r\n\x1a\n"


def limit(memory: int, seconds: int) -> None:
    """Bound the memory and the time of this process, where the system can."""
    try:
        import resource
    except ImportError:  # Windows; the parent still bounds the time
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Pipe:
    """Only the methods that NumPy needs: of a real file it would ask for its position."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.read, self.write = stream.read, stream.write


class Packing:
    """Collects arrays and the trees that they belong to."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []

    def array(self, value: Any) -> int:
        array = np.asarray(value)
        if array.dtype.kind not in "biufcSU":
            raise ValueError(f"a value is of type {array.dtype}, not numbers or text")
        if len(self.arrays) >= MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES} values")
        self.arrays.append(array)
        return len(self.arrays) - 1

    def matlab5(self, value: Any, depth: int = 0) -> Any:
        _check_depth(depth)
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "OV":
            return self.array(value)
        items = list(value.ravel(order="F"))
        if value.dtype.names is None:
            return [self.matlab5(item, depth + 1) for item in items]
        names = value.dtype.names
        structs = [{n: self.matlab5(item[n], depth + 1) for n in names} for item in items]
        return structs[0] if len(structs) == 1 else structs

    def hdf5(self, file: Any, item: Any, depth: int = 0) -> Any:
        _check_depth(depth)
        if hasattr(item, "keys"):  # a group: a struct
            return {name: self.hdf5(file, item[name], depth + 1) for name in item}
        value = item[()]
        if item.attrs.get("MATLAB_empty", 0):  # the dataset holds the shape
            return self.array(np.empty([int(n) for n in np.ravel(value)]))
        if isinstance(value, np.ndarray) and value.dtype == object:  # references: a cell
            references = value.T.ravel(order="F")
            return [self.hdf5(file, file[reference], depth + 1) for reference in references]
        return self.array(np.asarray(value).T)


def _check_depth(depth: int) -> None:
    if depth > MOST_NESTED:
        raise ValueError(f"its cells are nested deeper than {MOST_NESTED}")


def decode(path: str, names: list[str]) -> tuple[dict[str, Any], list[Any]]:
    """The tree of each variable, and the arrays."""
    packing = Packing()
    with open(path, "rb") as file:
        head = file.read(520)
    if HDF5 in head:
        import h5py

        with h5py.File(path, "r") as content:
            wanted = [n for n in (names or content) if n in content and not n.startswith("#")]
            return {n: packing.hdf5(content, content[n]) for n in wanted}, packing.arrays
    from scipy.io import loadmat

    found = loadmat(path, variable_names=names or None)
    own = [name for name in found if not name.startswith("__")]
    return {name: packing.matlab5(found[name]) for name in own}, packing.arrays


def main(path: str, memory: str, seconds: str, *names: str) -> None:
    """Write the answer to stdout."""
    limit(int(memory), int(seconds))
    out = Pipe(sys.stdout.buffer)
    try:
        tree, arrays = decode(path, list(names))
    except MemoryError:
        answer: dict[str, Any] = {"error": f"it needs more than {int(memory) >> 20} MB of memory"}
        arrays = []
    except BaseException as problem:  # the libraries raise errors of any type
        answer, arrays = {"error": f"{type(problem).__name__}: {problem}"[:500]}, []
    else:
        answer = {"tree": tree}
    out.write(json.dumps(answer).encode() + b"\n")
    for array in arrays:
        np.lib.format.write_array(out, array, allow_pickle=False)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Files of named arrays (.npz) that may be damaged."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt


def read_npz(source: Path | IO[bytes]) -> dict[str, npt.NDArray[Any]]:
    """The arrays by name, without pickle; raise ValueError for a damaged file.

    OSError if it cannot be opened.
    """
    if isinstance(source, Path):
        with source.open("rb") as file:
            return read_npz(file)
    try:
        with np.load(source, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Exception as problem:  # zipfile, zlib, tokenize and NumPy raise errors of any type
        raise ValueError(f"no file of arrays: {type(problem).__name__}: {problem}") from problem

"""MATLAB files, version 5 or 7.3, decoded in a child process with limits on memory and time.

The libraries that decode them crash on hostile files; here that is an error like any other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from typing import IO, Any

import numpy as np

from objectstates.base.errors import CorpusError, MissingExtraError
from objectstates.data.formats import mat_child

MEMORY = 3 << 29  # bytes that decoding may need, and PER_BYTE more for each byte of the file
PER_BYTE = 32  # features of rectified networks and masks compress ten times; ten times is less
SECONDS = 15.0  # that decoding may take, and one more for each RATE bytes
RATE = 2_000_000


def read_mat(path: str | Path, names: Iterable[str] = ()) -> dict[str, Any]:
    """The variables of a file by name; of ``names`` those that it has, if any are given.

    Numbers and text are arrays, cells are lists in MATLAB's order, structs dicts by field.

    Raise `CorpusError` with the file's name if it cannot be decoded within the limits.
    """
    place = Path(path)
    try:
        size = place.stat().st_size
        with place.open("rb") as file:
            is_hdf5 = mat_child.HDF5 in file.read(520)
    except OSError as problem:
        raise CorpusError(f"{place} cannot be read: {problem.strerror}") from problem
    if is_hdf5 and not _has_h5py():
        raise MissingExtraError(
            f"{place} is a MATLAB 7.3 file: to read it, install h5py (the extra mat73)"
        )
    limits = MEMORY + PER_BYTE * size, SECONDS + size / RATE
    with _decoding(place, names, *limits) as child:
        assert child.stdout is not None
        try:
            answer = json.loads(child.stdout.readline() or b"{}")
            if "tree" in answer:
                return {n: _value(t, child.stdout) for n, t in answer["tree"].items()}
            reason = str(answer.get("error", ""))
        except (ValueError, TypeError, EOFError, MemoryError, RecursionError, AttributeError):
            reason = ""
        reason = reason or _reason_of_end(child, limits[1])
    raise CorpusError(f"{place} is not a MATLAB file that can be read: {' '.join(reason.split())}")


def require(path: Path, variables: Mapping[str, Any], names: Iterable[str], kind: str) -> None:
    """Raise `CorpusError` unless a file of this kind has all these variables."""
    missing = [name for name in names if name not in variables]
    if missing:
        raise CorpusError(f"{path} lacks {', '.join(missing)}: is it {kind}?")


@contextmanager
def _decoding(
    path: Path, names: Iterable[str], memory: int, seconds: float
) -> Iterator[subprocess.Popen[bytes]]:
    """The child process, which is killed when its time is over, or with the block."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # each needs memory
    child = subprocess.Popen(
        # -P: a file of the user's folder must not be imported in place of a library.
        [
            *(sys.executable, "-P", mat_child.__file__, os.path.abspath(path)),
            *(str(memory), str(int(seconds) + 1), *names),
        ],
        env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    timer = Timer(seconds, child.kill)
    timer.start()
    try:
        yield child
    finally:
        timer.cancel()
        child.kill()
        if child.stdout is not None:
            child.stdout.close()
        child.wait()


def _value(tree: Any, stream: IO[bytes]) -> Any:
    """A value from its tree; arrays follow in the stream in the order of the trees."""
    if isinstance(tree, list):
        return [_value(item, stream) for item in tree]
    if isinstance(tree, dict):
        return {name: _value(item, stream) for name, item in tree.items()}
    return np.asarray(np.lib.format.read_array(mat_child.Pipe(stream), allow_pickle=False))


def _reason_of_end(child: subprocess.Popen[bytes], seconds: float) -> str:
    """Why the child ended without an answer."""
    try:
        code = child.wait(1.0)
    except subprocess.TimeoutExpired:
        return "what was decoded is no array"
    if code == -9:
        return f"it takes more than {seconds:.0f} s"
    return f"decoding it ended with code {code}: it is damaged, or made to do harm"


def _has_h5py() -> bool:
    try:
        return find_spec("h5py") is not None
    except ValueError:  # it was removed from what can be imported
        return False

"""Whether a place may be written: never over an input, nor over files that we did not write.

Folders of one artefact are checked by `storage.Artefact`; here are single files, and folders of
results that grow.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from objectstates.base.errors import ObjectStatesError
from objectstates.base.storage import leftover_of, write_atomically

Inputs = Iterable[str | Path | None]


def check_no_input(out: str | Path, inputs: Inputs, error: type[ObjectStatesError]) -> None:
    """Raise if ``out`` is one of the inputs, or a folder that holds one."""
    place = os.path.realpath(out)
    for given in inputs:
        if given is None or given == "":
            continue
        source = os.path.realpath(given)
        if source == place or _is_same(source, place):
            raise error(f"{out} is an input ({given}): choose another place for what is written")
        if source.startswith(os.path.join(place, "")):
            raise error(f"{out} holds the input {given}: choose another place for what is written")


def _is_same(first: str, second: str) -> bool:
    """Whether two paths are one file, as hard links are."""
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False


def check_file(
    out: str | Path,
    inputs: Inputs,
    is_ours: Callable[[Path], bool],
    error: type[ObjectStatesError],
) -> None:
    """Raise unless ``out`` is free, or a file of the kind that is to be written, and no input.

    is_ours : whether an existing file is of that kind.
    """
    check_no_input(out, inputs, error)
    path = Path(out)
    try:
        if not os.path.lexists(path):
            return
        ours = path.is_file() and (path.stat().st_size == 0 or is_ours(path))
    except OSError as problem:
        raise error(f"cannot write {out}: {problem.strerror or problem}") from problem
    if not ours:
        raise error(f"{out} exists and is something else: move it away or choose another name")


def starts_with(start: bytes) -> Callable[[Path], bool]:
    """For `check_file`: files that begin with these bytes."""

    def is_ours(path: Path) -> bool:
        with path.open("rb") as file:
            return file.read(len(start)) == start

    return is_ours


@dataclass(frozen=True)
class OwnFolder:
    """A folder in which a program keeps results, with a header that says whose it is.

    names : of all files and folders in it, beside the header.
    earlier : one that earlier versions, which wrote no header, made first.
    """

    header: str
    names: frozenset[str]
    earlier: str
    error: type[ObjectStatesError]

    def open(self, path: str | Path) -> Path:
        """Make the folder, or check that nothing else is in it; raise if there is."""
        folder = Path(path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            present = {name for name in os.listdir(folder) if leftover_of(name) is None}
            foreign = sorted(present - self.names - {self.header})
            own = self.header in present or (folder / self.earlier).is_dir()
            if foreign or (present and not own):
                name = (foreign or sorted(present))[0]
                raise self.error(
                    f"{path} exists and holds something else ({name}): move it away or choose "
                    "another folder"
                )
            if self.header not in present:
                write_atomically(folder / self.header, json.dumps({"format_version": 1}) + "\n")
        except OSError as problem:
            raise self.error(f"cannot write {path}: {problem.strerror or problem}") from problem
        return folder

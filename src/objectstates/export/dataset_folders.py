"""Whole datasets from a few changed files: as a copy, or in place.

In place, a complete folder is prepared beside the dataset, with hard links to all files that stay
the same, and then takes the place of the dataset in one step. Whatever stops the program before
that step leaves the dataset as it was, and whatever stops it later leaves the new one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from objectstates.base.errors import ExportError
from objectstates.base.storage import (
    clear_leftovers,
    exchange,
    remove,
    temporary_name,
    write_atomically,
)


def complete_copy(dataset: Path, folder: Path) -> None:
    """Copy into ``folder`` all files of the dataset that it does not have yet.

    Links are followed; those that lead nowhere are left out.
    """
    for path, target in _missing(dataset, folder, follow=True):
        if path.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def rewrite_in_place(
    dataset: Path, write: Callable[[Path], list[str]]
) -> tuple[list[str], list[str]]:
    """Change files of a dataset; returns their paths within it, and what ``write`` returns.

    write : puts the changed files into a folder.
    """
    root = dataset.resolve()
    clear_leftovers(root)  # links and new files
    temporary = temporary_name(root)
    try:
        temporary.mkdir()
        problems = write(temporary)
        changed = sorted(path.relative_to(temporary) for path in _files(temporary))
        if not changed:
            raise ExportError(f"nothing to write into {root}: {'; '.join(problems)}")
        if len(changed) == 1 and (root / changed[0]).parent.resolve().is_relative_to(root):
            write_atomically(root / changed[0], (temporary / changed[0]).read_bytes())
        else:
            _link_others(root, temporary)
            _flush(temporary / path for path in changed)
            shutil.copystat(root, temporary)
            exchange(temporary, root)
    except OSError as problem:
        raise ExportError(
            f"{root} cannot be changed in place ({problem.strerror or problem}), and is as it was: "
            "make room, or write a copy with `out`"
        ) from problem
    finally:
        remove(temporary)
    return [path.as_posix() for path in changed], problems


def _files(folder: Path) -> Iterator[Path]:
    """All files, also links to files, in order."""
    for place, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(place, name) for name in sorted(names))


def _missing(
    place: Path, folder: Path, *, follow: bool = False, above: frozenset[Path] = frozenset()
) -> Iterator[tuple[Path, Path]]:
    """What ``folder`` lacks of the files and links in ``place``, and where it belongs.

    follow : go into links to folders. Else such a link is kept as it is, unless ``folder`` has a
        folder of that name, with changed files.
    above : the folders on the way here, to which no link leads back.
    """
    above |= {place.resolve()}
    for path in sorted(place.iterdir()):
        target = folder / path.name
        if path.is_dir() and (follow or target.is_dir() or not path.is_symlink()):
            if path.resolve() not in above:
                yield from _missing(path, target, follow=follow, above=above)
        elif not os.path.lexists(target):
            yield path, target


def _link_others(root: Path, folder: Path) -> None:
    """Link the files of ``root`` that ``folder`` does not have; copy where that is not possible."""
    for path, target in _missing(root, folder):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, target, follow_symlinks=False)
        except (OSError, NotImplementedError):
            shutil.copy2(path, target, follow_symlinks=False)


def _flush(paths: Iterator[Path]) -> None:
    """Have files on the disk before they are needed, also if the power fails."""
    for path in paths:
        with path.open("rb") as file, suppress(OSError):
            os.fsync(file.fileno())

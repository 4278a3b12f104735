"""Receive videos: streamed to disk under a temporary name, renamed when complete."""

from __future__ import annotations

import errno
import filecmp
import secrets
import shutil
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

from objectstates.base.errors import StorageError, VideoError
from objectstates.base.storage import remove
from objectstates.video.source import VIDEO_SUFFIXES
from objectstates.web.studio.project import PARTIAL

LARGEST = 64 << 30
"""Bytes of one video: days of film, so more is a mistake."""

_NAME_BYTES = 200  # most file systems allow 255; the temporary name is longer
_SPARE_BYTES = 500 << 20  # left free on the disk, for corpus and result
_FORBIDDEN = set('/\\:*?"<>|')  # on some system, so that a project can be moved


def safe_name(text: str) -> str:
    """The name of a video as a file name; raises `VideoError` if it cannot be one."""
    if not text.strip(" ."):
        raise VideoError("the video has no name")
    if text.startswith(".") or not text.isprintable() or _FORBIDDEN & set(text):
        raise VideoError(f"{text[:80]!r} cannot be the name of a file: rename the video")
    if len(text.encode("utf-8", "replace")) > _NAME_BYTES:
        raise VideoError(f"the name {text[:40]!r}... is too long: rename the video")
    if not text.lower().endswith(VIDEO_SUFFIXES):
        raise VideoError(f"{text} does not end like a video; known are {' '.join(VIDEO_SUFFIXES)}")
    return text


async def receive(folder: Path, name: str, size: int | None, parts: AsyncIterator[bytes]) -> Path:
    """Write the parts of a video into the folder; returns its place.

    A video that is there already is not kept twice; another one of the same name gets a number.

    size : bytes, if they are known beforehand.
    """
    name = safe_name(name)
    free = shutil.disk_usage(folder).free
    if size is not None and size > free - _SPARE_BYTES:
        raise StorageError(f"the disk has no room for {name}: free some space, or use its folder")
    temporary = folder / f".{secrets.token_hex(8)}{PARTIAL}"
    try:
        with temporary.open("xb") as file:
            async for part in parts:
                file.write(part)
        if not temporary.stat().st_size:
            raise VideoError(f"{name} is empty; copy or download it again")
        return _keep(temporary, folder, name)
    except OSError as problem:
        if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageError(f"the disk is full: free some space, then add {name} again") from None
    finally:
        remove(temporary)


def _keep(temporary: Path, folder: Path, name: str) -> Path:
    stem, suffix = Path(name).stem, Path(name).suffix
    for number in count(1):
        place = folder / (name if number == 1 else f"{stem}-{number}{suffix}")
        if not place.exists():
            temporary.rename(place)
            return place
        if filecmp.cmp(temporary, place, shallow=False):
            return place
    raise AssertionError

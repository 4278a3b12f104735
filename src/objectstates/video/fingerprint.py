"""Fingerprints of videos, by which a result tells that a video was replaced after it was read.

A fingerprint is of the content and not of the date, so a copy of a video is the same video. It
takes a few small reads, whatever the size of the video.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

INFO = "videos_read"
"""Key in a corpus' information: the fingerprint of each video by its path in the corpus."""

_PIECE = 1 << 16  # bytes read at the beginning, in the middle and at the end
_NAMED = 3  # videos that a message names


def fingerprint(path: str | os.PathLike[str]) -> str:
    """Size in bytes and a digest of three pieces; of a folder, of its files' names and sizes."""
    digest, size = hashlib.blake2b(digest_size=8), 0
    if os.path.isdir(path):
        files = sorted((e.name, e.stat().st_size) for e in os.scandir(path) if e.is_file())
        digest.update(repr(files).encode(errors="surrogateescape"))
        size = sum(bytes_ for _, bytes_ in files)
    elif not os.path.isfile(path):
        raise OSError(errno.ENOENT, "no such file", str(path))  # a pipe would wait for its writer
    else:
        with Path(path).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            for place in (0, size // 2, max(0, size - _PIECE)):
                file.seek(place)
                digest.update(file.read(_PIECE))
    return f"{size}-{digest.hexdigest()}"


def fingerprints(videos: Iterable[str]) -> dict[str, str]:
    """The fingerprint of each video; those that cannot be read are left out."""
    found = {}
    for video in dict.fromkeys(videos):
        try:
            found[video] = fingerprint(video)
        except OSError:
            continue
    return found


def replaced_videos(
    recorded: object, videos: Iterable[str | None], find: Callable[[str], Path] = Path
) -> list[str]:
    """Those of ``videos`` that exist with another content than ``recorded`` says.

    recorded : what a corpus has as `INFO`; None in a corpus without fingerprints.
    find : where a video is now, given its path in the corpus.
    """
    known = recorded if isinstance(recorded, Mapping) else {}
    changed = []
    for video in dict.fromkeys(v for v in videos if v and v in known):
        try:
            if fingerprint(find(video)) != known[video]:
                changed.append(video)
        except OSError:
            continue  # missing videos are reported where they are read
    return changed


def about_replaced(videos: list[str]) -> list[str]:
    """A sentence about replaced videos; none if there are none."""
    if not videos:
        return []
    more = f" and {len(videos) - _NAMED} more" if len(videos) > _NAMED else ""
    count = "1 video was" if len(videos) == 1 else f"{len(videos)} videos were"
    return [
        f"{count} replaced after being read: {', '.join(videos[:_NAMED])}{more}. Times and boxes "
        "are of the earlier content: run discover (or ingest and fit) again."
    ]

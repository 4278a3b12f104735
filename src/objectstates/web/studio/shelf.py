"""What is known of the project's videos: length and size, or why one cannot be read.

Videos are opened in a thread, one after the other, because hundreds of them take seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from objectstates.base.errors import VideoError
from objectstates.base.file_names import printable_name
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import probe

Key = tuple[str, int, int]  # path, time of change and size of a video

_REPORT_EVERY = 20  # videos between two reports


@dataclass(frozen=True)
class Facts:
    """Of one video: seconds, or the error that names the remedy."""

    seconds: float | None = None
    error: str = ""


class Shelf:
    """Facts about videos, by path, time of change and size.

    on_change : called from the thread when new facts are known.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._known: dict[Key, Facts] = {}
        self._waiting: list[Key] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def describe(self, clips: Sequence[ClipSpan], own: Path) -> list[dict[str, Any]]:
        """The clips for the page; ``own`` is the folder from which videos may be removed."""
        described = []
        for clip in clips:
            key = str(clip.video), *_stamp(clip.video)
            facts = self._facts(key)
            described.append(
                {
                    "id": clip.id,
                    "name": printable_name(clip.video.name),
                    "own": clip.video.parent == own,
                    "seconds": facts.seconds if facts else None,
                    "error": facts.error if facts else "",
                    "stamp": key[1],
                }
            )
        return described

    def _facts(self, key: Key) -> Facts | None:
        with self._lock:
            if key in self._known:
                return self._known[key]
            if key not in self._waiting:
                self._waiting.append(key)
            if self._thread is None:
                self._thread = threading.Thread(target=self._read, daemon=True)
                self._thread.start()
        return None

    def _read(self) -> None:
        unreported = 0
        while True:
            with self._lock:
                if not self._waiting or self._closed:
                    self._thread = None
                    break
                key = self._waiting[0]
            facts = _probe(Path(key[0]))
            with self._lock:
                self._known[key] = facts
                self._waiting.remove(key)
            unreported += 1
            if unreported >= _REPORT_EVERY:
                self._on_change()
                unreported = 0
        if unreported and not self._closed:
            self._on_change()

    def close(self) -> None:
        self._closed = True


def _probe(video: Path) -> Facts:
    try:
        return Facts(seconds=round(probe(video).duration, 2))
    except VideoError as problem:
        return Facts(error=str(problem).removeprefix(f"{video}: "))


def _stamp(video: Path) -> tuple[int, int]:
    """Milliseconds of the last change, which JavaScript can hold exactly, and bytes."""
    try:
        facts = video.stat()
    except OSError:
        return 0, 0
    return facts.st_mtime_ns // 1_000_000, facts.st_size

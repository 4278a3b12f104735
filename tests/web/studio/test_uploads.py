"""Videos are received whole or not at all, and only as files in their folder."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from objectstates.base.errors import StorageError, VideoError
from objectstates.web.studio import uploads
from objectstates.web.studio.uploads import receive, safe_name


async def parts(*content: bytes, then: BaseException | None = None) -> AsyncIterator[bytes]:
    for part in content:
        yield part
    if then is not None:
        raise then


def put(folder: Path, name: str, *content: bytes, size: int | None = None) -> Path:
    return asyncio.run(receive(folder, name, size, parts(*content)))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_parts_become_one_file(tmp_path: Path) -> None:
    place = put(tmp_path, "é clip.MP4", b"ab", b"", b"c", size=3)
    assert (place.name, place.read_bytes()) == ("é clip.MP4", b"abc")
    assert names(tmp_path) == ["é clip.MP4"]


def test_the_same_video_is_kept_once_another_gets_a_number(tmp_path: Path) -> None:
    for content in (b"one", b"two", b"one", b"two", b"three"):
        put(tmp_path, "a.mp4", content)
    assert names(tmp_path) == ["a-2.mp4", "a-3.mp4", "a.mp4"]
    assert (tmp_path / "a.mp4").read_bytes() == b"one"


@pytest.mark.parametrize(
    "name",
    ["", " ", ".", "..", "../a.mp4", "a/../../b.mp4", "/etc/a.mp4", "a\\b.mp4", ".hidden.mp4",
     "a\n.mp4", "a\0.mp4", "x" * 300 + ".mp4", "a.txt", "a.mp4.exe", "mp4", "studio.json",
     "<script>.mp4", "C:a.mp4", "\u202ea.mp4", "\ud800.mp4"],
)  # fmt: skip
def test_hostile_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(VideoError):
        put(tmp_path, name, b"x")
    assert names(tmp_path) == []
    assert safe_name("a.mp4") == "a.mp4"


def test_what_is_cut_short_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        asyncio.run(receive(tmp_path, "a.mp4", None, parts(b"half", then=ConnectionError())))
    with pytest.raises(VideoError, match="empty"):
        put(tmp_path, "a.mp4")
    assert names(tmp_path) == []


def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(StorageError, match="no room"):
        put(tmp_path, "a.mp4", b"x", size=free)
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(StorageError, match="disk is full"):
        asyncio.run(receive(tmp_path, "a.mp4", None, parts(b"half", then=full)))

    def refuse(*_: object) -> Path:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(uploads, "_keep", refuse)
    with pytest.raises(PermissionError):
        put(tmp_path, "a.mp4", b"x")
    assert names(tmp_path) == []

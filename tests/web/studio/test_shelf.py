"""Lengths of videos, and why one cannot be read, without waiting for them."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from objectstates.video.clip_list import ClipSpan
from objectstates.web.studio.shelf import Shelf
from tests.web.films import write_film


def read(shelf: Shelf, clips: list[ClipSpan], own: Path) -> list[dict[str, Any]]:
    """Ask until all facts are known."""
    for _ in range(400):
        found = shelf.describe(clips, own)
        if all(video["seconds"] or video["error"] for video in found):
            return found
        time.sleep(0.05)
    raise AssertionError(found)


def test_facts_come_later_and_again_after_a_change(tmp_path: Path) -> None:
    changed = threading.Event()
    shelf = Shelf(changed.set)
    film = write_film(tmp_path / "a.mp4", "libx264", [40 * n for n in range(25)])
    (tmp_path / "b.mp4").write_bytes(b"not a video")
    clips = [ClipSpan("a", film), ClipSpan("b", tmp_path / "b.mp4")]
    first = shelf.describe(clips, tmp_path)
    assert first[0] == {**first[0], "seconds": None, "error": "", "own": True}
    assert changed.wait(20)
    good, bad = read(shelf, clips, tmp_path / "other")
    assert (good["seconds"], good["own"]) == (1.0, False)
    assert "not a video" in bad["error"]
    assert str(tmp_path) not in bad["error"]

    (tmp_path / "b.mp4").unlink()
    film.rename(tmp_path / "b.mp4")
    gone, good = read(shelf, clips, tmp_path)
    assert good["seconds"] == 1.0
    assert "does not exist" in gone["error"]
    shelf.close()

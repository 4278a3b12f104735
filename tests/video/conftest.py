from __future__ import annotations

from pathlib import Path

import pytest

from tests.video.videos import (
    gray,
    write_video,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("videos")


@pytest.fixture(scope="module")
def plain(folder: Path) -> Path:
    """50 frames at 25 fps with B-frames; the index comes first, so a cut file can be opened."""
    return write_video(folder / "plain.mp4", gray(50), muxer={"movflags": "faststart"})

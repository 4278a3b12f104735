"""What a browser cannot play gets a copy with the same frames at the same times."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from objectstates.base.errors import VideoError
from objectstates.video.reader import read_frames
from objectstates.web.preview import needs_preview, preview_of
from tests.web.films import number_of, write_film, write_images, write_sound

EVEN = [40 * n for n in range(30)]
UNEVEN = [0, 40, 80, 200, 240, 500, 533, 566, 600, 900]  # a variable frame rate


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OBJECTSTATES_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("name", "codec", "pix_fmt", "needed"),
    [
        ("a.mp4", "libx264", "yuv420p", False),
        ("a.webm", "libvpx", "yuv420p", False),
        ("a.mp4", "libx264", "yuv444p", True),
        ("a.mkv", "libx264", "yuv420p", True),
        ("a.mp4", "mpeg4", "yuv420p", True),
        ("a.avi", "mjpeg", "yuvj420p", True),
        ("a.mp4", "libsvtav1", "yuv420p", True),
    ],
)
def test_only_what_every_browser_plays_is_served_as_it_is(
    tmp_path: Path, name: str, codec: str, pix_fmt: str, needed: bool
) -> None:
    assert needs_preview(write_film(tmp_path / name, codec, EVEN, pix_fmt)) == needed


def test_sound_that_begins_before_the_picture_needs_a_preview(tmp_path: Path) -> None:
    """The browser counts time from the sound, we from the first frame."""
    late = [200 + time for time in EVEN]
    film = write_film(tmp_path / "a.mp4", "libx264", late, sound=True)
    assert needs_preview(film)
    assert next(iter(read_frames(preview_of(film)))).time == 0
    assert not needs_preview(write_film(tmp_path / "b.mp4", "libx264", EVEN, sound=True))
    cover = tmp_path / "sound.mp4"
    with av.open(str(cover), "w") as container:
        write_sound(container)
    assert needs_preview(cover)


@pytest.mark.parametrize(("name", "times"), [("a.avi", EVEN), ("b.mkv", UNEVEN)])
def test_frames_keep_their_times(tmp_path: Path, name: str, times: list[int]) -> None:
    film = write_film(tmp_path / name, "mpeg4", times)
    found = preview_of(film)
    assert not needs_preview(found)
    frames = list(read_frames(found))
    assert [frame.time for frame in frames] == [frame.time for frame in read_frames(film)]
    assert [round(1000 * frame.time) for frame in frames] == times
    assert [number_of(frame.image) for frame in frames] == list(range(len(times)))


def test_a_folder_of_images_becomes_a_film(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "images", 12)
    assert needs_preview(folder)
    frames = list(read_frames(preview_of(folder, image_fps=12.5)))
    assert [round(frame.time, 6) for frame in frames] == [n * 0.08 for n in range(12)]
    assert [number_of(frame.image) for frame in frames] == list(range(12))


def test_it_is_made_once_and_again_after_a_change(tmp_path: Path) -> None:
    film = write_film(tmp_path / "a.avi", "mpeg4", EVEN)
    first = preview_of(film)
    stamp = first.stat().st_mtime_ns
    assert preview_of(film) == first
    assert first.stat().st_mtime_ns == stamp
    write_film(film, "mpeg4", EVEN[:5])
    second = preview_of(film)
    assert second != first
    assert len(list(read_frames(second))) == 5


def test_what_cannot_be_read_leaves_nothing_in_the_cache(tmp_path: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"not a video")
    for call in (needs_preview, preview_of):
        with pytest.raises(VideoError, match=r"broken\.mp4"):
            call(broken)
    assert not list((tmp_path / "cache" / "previews").glob("*"))


def test_without_x264_it_is_webm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = av.codec.codecs_available - {"libx264"}
    monkeypatch.setattr(av.codec, "codecs_available", others)
    film = write_film(tmp_path / "a.avi", "mpeg4", EVEN[:8])
    found = preview_of(film)
    assert found.suffix == ".webm"
    assert not needs_preview(found)
    assert [round(1000 * frame.time) for frame in read_frames(found)] == EVEN[:8]
    monkeypatch.setattr(av.codec, "codecs_available", set())
    with pytest.raises(VideoError, match="reinstall"):
        preview_of(film)

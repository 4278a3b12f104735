"""Videos and frames of the session's clips, and nothing else."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import cv2
import numpy as np
import pytest
from starlette.routing import Mount

from objectstates.web.media import video_routes
from tests.web.films import SIZE, number_of, write_film
from tests.web.serving import Client, serving_routes

HOSTILE = ["../../secret", "..", "/etc/passwd", "a/b c", "<img src=x onerror=alert(1)>", "é%2e&=#?"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    write_film(folder / "film.mp4", "libx264", [40 * n for n in range(30)])
    write_film(folder / "old.avi", "mpeg4", [40 * n for n in range(30)])
    (folder / "broken.mp4").write_bytes(b"not a video")
    (folder / "secret.txt").write_text("secret")
    return folder


@pytest.fixture(scope="module")
def ask(folder: Path):
    clips = {"film": "film.mp4", "old": "old.avi", "broken": "broken.mp4", "gone": "gone.mp4"}
    clips |= {"text": "secret.txt", **dict.fromkeys(HOSTILE, "film.mp4")}

    def path_of(clip: str) -> Path | None:
        return folder / clips[clip] if clip in clips else None

    with serving_routes([Mount("/review", routes=video_routes(path_of))]) as client:
        yield client


def test_byte_ranges(ask: Client, folder: Path) -> None:
    content = (folder / "film.mp4").read_bytes()
    size = len(content)
    whole = ask("GET", "/review/video?clip=film")
    assert (whole.status, whole.body) == (200, content)
    assert whole.headers["accept-ranges"] == "bytes"
    assert whole.headers["content-type"] == "video/mp4"
    for wanted, first, end in (
        ("bytes=0-9", 0, 10), ("bytes=10-", 10, size), ("bytes=-7", size - 7, size),
        (f"bytes=5-{size + 99}", 5, size),
    ):  # fmt: skip
        part = ask("GET", "/review/video?clip=film", Range=wanted)
        assert (part.status, part.body) == (206, content[first:end])
        assert part.headers["content-range"] == f"bytes {first}-{end - 1}/{size}"
    beyond = ask("GET", "/review/video?clip=film", Range=f"bytes={size}-")
    assert beyond.status == 416
    assert beyond.headers["content-range"].endswith(f"*/{size}")
    assert ask("GET", "/review/video?clip=film", Range="bytes=9-1").status in (400, 416)
    head = ask("HEAD", "/review/video?clip=film")
    assert (head.body, head.headers["content-length"]) == (b"", str(size))


def test_what_browsers_cannot_play_comes_as_a_preview(ask: Client, folder: Path) -> None:
    answer = ask("GET", "/review/video?clip=old", Range="bytes=0-99")
    assert answer.status == 206
    assert answer.headers["content-type"] == "video/mp4"
    assert b"ftyp" in answer.body


@pytest.mark.parametrize("clip", HOSTILE)
def test_clips_may_have_any_name(ask: Client, clip: str) -> None:
    assert ask("GET", f"/review/video?clip={quote(clip, safe='')}").status == 200


@pytest.mark.parametrize(
    "query",
    ["", "?clip=", "?clip=missing", "?clip=../secret.txt", "?clip=%2fetc%2fshadow", "?clip=text",
     "?clip=gone", "?clip=broken", "?path=/etc/passwd", "?clip=film.mp4", "?clip=film%00"],
)  # fmt: skip
def test_nothing_else_is_served(ask: Client, query: str) -> None:
    for kind in ("video", "frame"):
        answer = ask("GET", f"/review/{kind}{query}{'&' if query else '?'}time=0")
        assert answer.status == 404
        assert "error" in answer.json
        assert answer.error != "secret"
    assert ask("GET", "/review/../etc/passwd").status == 404
    assert ask("GET", "/review/video/..%2f..%2fsecret.txt").status == 404


def test_a_frame_is_the_nearest_to_the_time(ask: Client) -> None:
    for clip in ("film", "old"):
        answer = ask("GET", f"/review/frame?clip={clip}&time=0.41&side=48")
        assert answer.headers["content-type"] == "image/jpeg"
        assert float(answer.headers["x-frame-time"]) == pytest.approx(0.4)
        image = cv2.imdecode(np.frombuffer(answer.body, np.uint8), cv2.IMREAD_COLOR)
        assert image is not None
        assert image.shape == (32, 48, 3)
        assert number_of(image) == 10
    full = ask("GET", "/review/frame?clip=film&time=0")
    image = cv2.imdecode(np.frombuffer(full.body, np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    assert image.shape[1::-1] == SIZE


@pytest.mark.parametrize(
    "query", ["", "&time=x", "&time=nan", "&time=-1", "&time=inf", "&time=0&side=0",
              "&time=0&side=99999", "&time=0&side=nan"]
)  # fmt: skip
def test_times_and_sizes_are_checked(ask: Client, query: str) -> None:
    answer = ask("GET", f"/review/frame?clip=film{query}")
    assert answer.status == 400
    assert "must be a number" in answer.error
    assert ask("GET", "/review/frame?clip=film&time=99").status == 404

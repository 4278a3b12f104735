from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Mount

from objectstates.detect.labels import read_labels
from objectstates.video.clip_list import find_clips
from objectstates.web.label.routes import label_routes
from objectstates.web.label.session import LabelSession
from tests.web.label.people import demo_clips, true_box
from tests.web.serving import Client, serving_routes

AT = {"clip": "drawer_06", "time": 1.0}
BOX = {"box": true_box("drawer_06", 1.0), "how": "drawn"}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelSession]:
    folder = tmp_path_factory.mktemp("routes") / "labels"
    made = LabelSession(demo_clips(2), "drawer", folder)
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(session: LabelSession) -> Iterator[Client]:
    with serving_routes([Mount("/label", routes=label_routes(session))]) as made:
        yield made


def test_the_page_and_its_files_are_served(client: Client):
    page = client("GET", "/label/")
    assert page.status == 200
    assert b"<script" in page.body
    assert b"style=" not in page.body
    for name in ("label.js", "boxes.js", "progress.js", "label.css"):
        assert client("GET", f"/label/assets/{name}").status == 200
    assert client("GET", "/label/frame?clip=drawer_06&time=1&side=160").body[:2] == b"\xff\xd8"


def test_a_frame_is_labelled_followed_accepted_and_forgotten(client: Client, session: LabelSession):
    first = client("POST", "/label/api/next", json={}).json["frame"]
    assert first["clip"] == "drawer_06"
    shown = client("POST", "/label/api/frame", json=AT).json
    assert (shown["width"], shown["height"], shown["boxes"]) == (320, 240, [])
    saved = client("POST", "/label/api/label", json={**AT, "boxes": [BOX]}).json
    assert saved["boxes"] == [BOX]
    found = client("POST", "/label/api/follow", json=AT).json
    order = {"id": found["id"], "first": 0, "last": 1.6}
    accepted = client("POST", "/label/api/accept", json=order).json
    assert accepted["accepted"] > 0
    assert accepted["state"] == client("GET", "/label/api/state").json
    for frame in session.state()["frames"]:
        client("POST", "/label/api/unlabel", json={n: frame[n] for n in ("clip", "time")})
    assert client("GET", "/label/api/state").json["frames"] == []
    middle = client("POST", "/label/api/frame", json={"clip": "drawer_06"}).json
    assert abs(middle["time"] - middle["end"] / 2) < 0.05


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all names are text")
def test_names_that_are_no_text_are_shown_and_labelled(tmp_path: Path):
    """Also a video that cannot be read: its path is in the answers."""
    folder = tmp_path / os.fsdecode(b"d\xe9")
    folder.mkdir()
    shutil.copy(demo_clips(1)[0].video, folder / os.fsdecode(b"caf\xe9.mp4"))
    (folder / os.fsdecode(b"bad\xe9.mp4")).write_bytes(b"no video")
    session = LabelSession(find_clips([folder]), "drawer", folder / "labels")
    with serving_routes([Mount("/label", routes=label_routes(session))]) as client:
        bad = client("POST", "/label/api/frame", json={"clip": "bad%E9", "time": 1.0})
        assert (bad.status, "d%E9/bad%E9.mp4: this is not a video" in bad.error) == (400, True)
        assert client("GET", "/label/frame?clip=bad%25E9&time=1").status == 404
        assert client("GET", "/label/video?clip=caf%25E9", Range="bytes=0-9").status == 206
        assert client("GET", "/label/frame?clip=caf%25E9&time=1").body[:2] == b"\xff\xd8"
        saved = client("POST", "/label/api/label", json={**AT, "clip": "caf%E9", "boxes": [BOX]})
        assert saved.json["boxes"] == [BOX]
        assert client("POST", "/label/api/follow", json={**AT, "clip": "caf%E9"}).json["frames"]
        state = client("GET", "/label/api/state").json
    session.close()
    assert state["folder"].endswith("d%E9/labels")
    assert [clip["id"] for clip in state["clips"]] == ["bad%E9", "caf%E9"]
    (image,) = read_labels(folder / "labels" / "labels.json").images
    assert image.source.is_file()


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("label", {**AT, "boxes": [{"box": [1, 2, 3]}]}, "four numbers"),
        ("label", {**AT, "boxes": [{"box": [1, 2, 3, "4"]}]}, "four numbers"),
        ("label", {**AT, "boxes": [{"box": [1, 2, True, 4]}]}, "four numbers"),
        ("label", {**AT, "boxes": [{"box": [1, 2, 1e300, 4]}]}, "four numbers"),
        ("label", {**AT, "boxes": [7]}, "must be an object"),
        ("label", {**AT, "boxes": [{"box": [1, 2, 30, 40], "how": "magic"}]}, "how must be"),
        ("label", {**AT, "boxes": None}, "list of at most"),
        ("label", {**AT, "boxes": [BOX] * 51}, "list of at most"),
        ("label", {**AT, "boxes": [{"box": [900, 2, 950, 40]}]}, "outside of the frame"),
        ("label", {"clip": "nobody", "time": 1, "boxes": []}, "no clip"),
        ("label", {"clip": "../../etc/passwd", "time": 1, "boxes": []}, "no clip"),
        ("label", {"clip": "drawer_06", "time": 1e6, "boxes": []}, "no frame at"),
        ("label", {"clip": "drawer_06", "time": -1, "boxes": []}, "number of seconds"),
        ("label", {"clip": 5, "time": 1, "boxes": []}, "id of a clip"),
        ("frame", {"clip": "drawer_06", "time": "now"}, "number of seconds"),
        ("frame", {"clip": "nobody"}, "no clip"),
        ("next", {"clip": "drawer_06"}, "number of seconds"),
        ("follow", {"clip": "drawer_07", "time": 1}, "draw one first"),
        ("accept", {"id": "1", "first": 0, "last": 1}, "whole number"),
        ("accept", {"id": 999, "first": 0, "last": 1}, "wait no longer"),
        ("finish", {}, "label at least 4"),
    ],
)
def test_what_makes_no_sense_gets_one_sentence(
    client: Client, session: LabelSession, path: str, body: dict[str, Any], says: str
):
    answer = client("POST", f"/label/api/{path}", json=body)
    assert answer.status == 400
    assert says in answer.error
    assert session.state()["frames"] == []


def test_bodies_that_are_no_json_are_refused(client: Client):
    for body in (b"", b"{", b"[1]", b'{"time": NaN}', b"[" * 100_000):
        answer = client("POST", "/label/api/label", body, Content_Type="application/json")
        assert answer.status == 400
    assert client("POST", "/label/api/label", b"{}", Content_Type="text/plain").status == 415
    assert client("GET", "/label/api/label").status == 405
    assert client("POST", "/label/api/label", json=AT, Cookie=None).status == 403
    origin = client("POST", "/label/api/label", json=AT, Origin="http://evil.example")
    assert origin.status == 403


def test_only_videos_of_the_session_are_served(client: Client, session: LabelSession):
    for clip in ("nobody", "..%2F..%2Fetc%2Fpasswd", str(Path(session.folder) / "labels.json")):
        assert client("GET", f"/label/frame?clip={clip}&time=0").status == 404
        assert client("GET", f"/label/video?clip={clip}").status == 404
    assert client("GET", "/label/assets/..%2Froutes.py").status == 404

"""The requests of the studio's page, and those that it would never send."""

from __future__ import annotations

import http.client
import os
import shutil
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from objectstates.web.events import EventStream
from objectstates.web.protection import cookie_name
from objectstates.web.studio.application import create_studio
from objectstates.web.studio.project import Project
from objectstates.web.studio.session import StudioSession
from tests.web.serving import TOKEN, Client, serving
from tests.web.studio.demo_clips import DEMO, VIDEOS


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return Project(tmp_path_factory.mktemp("routes") / "project")


@pytest.fixture(scope="module")
def ask(project):
    session = StudioSession(project, EventStream())
    with serving(create_studio(session, token=TOKEN)) as client:
        yield client


def test_the_page_and_its_files(ask: Client) -> None:
    page = ask("GET", "/")
    assert page.headers["content-type"].startswith("text/html")
    for path in ("/studio/studio.js", "/studio/studio.css", "/studio/icon.svg"):
        assert ask("GET", path).status == 200
        assert path.encode() in page.body
    assert b"<script>" not in page.body
    assert b"style=" not in page.body


def test_videos_are_received_shown_and_removed(ask: Client, project: Project) -> None:
    content = VIDEOS[0].read_bytes()
    answer = ask("PUT", "/api/upload?name=my%20clip.mp4", content)
    assert answer.json == {"name": "my clip.mp4"}
    assert (project.videos / "my clip.mp4").read_bytes() == content
    chunks = [content[:1000], content[1000:]]
    assert ask("PUT", "/api/upload?name=my%20clip.mp4", chunks).json == {"name": "my clip.mp4"}
    state = ask("GET", "/api/state").json
    assert "my clip" in [video["id"] for video in state["videos"]]
    assert ask("GET", "/video?clip=my%20clip", Range="bytes=0-9").status == 206
    assert ask("GET", "/frame?clip=my%20clip&time=1").headers["content-type"] == "image/jpeg"
    removed = ask("POST", "/api/videos/remove", json={"clip": "my clip"}).json
    assert "my clip" not in [video["id"] for video in removed["videos"]]
    assert ask("GET", "/video?clip=my%20clip").status == 404


@pytest.mark.parametrize(
    "name", ["", "../x.mp4", "..%2fx.mp4", "%2fetc%2fx.mp4", "x.txt", "%00.mp4"]
)
def test_uploads_stay_in_their_folder(ask: Client, project: Project, name: str) -> None:
    before = sorted(project.folder.rglob("*"))
    assert ask("PUT", f"/api/upload?name={name}", b"x").status == 400
    assert sorted(project.folder.rglob("*")) == before


def test_an_upload_that_is_cut_short_leaves_nothing(ask: Client, project: Project) -> None:
    before = sorted(project.folder.rglob("*"))
    connection = http.client.HTTPConnection("127.0.0.1", ask.port)
    connection.putrequest("PUT", "/api/upload?name=cut.mp4", skip_host=True)
    for header, value in {
        "Host": ask.host, "Origin": f"http://{ask.host}", "Content-Length": "1000000",
        "Cookie": f"{cookie_name(ask.port)}={TOKEN}",
    }.items():  # fmt: skip
        connection.putheader(header, value)
    connection.endheaders(b"half of it")
    connection.close()
    for _ in range(100):
        if sorted(project.folder.rglob("*")) == before:
            break
        time.sleep(0.05)
    assert sorted(project.folder.rglob("*")) == before


def test_folders_and_names(ask: Client) -> None:
    assert ask("POST", "/api/folders", json={"path": str(DEMO)}).json["clips"] >= 10
    wrong = ask("POST", "/api/folders", json={"path": "relative"})
    assert (wrong.status, "whole path" in wrong.error) == (400, True)
    state = ask("POST", "/api/choices", json={"object": "<b>drawer</b>"}).json
    assert state["choices"]["object"] == "<b>drawer</b>"
    assert ask("POST", "/api/folders/remove", json={"path": str(DEMO)}).json["folders"] == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all names are text")
def test_names_that_are_no_text_are_shown_and_found(
    ask: Client, project: Project, tmp_path: Path
) -> None:
    """The page sends a folder's name as it was shown."""
    folder, name = tmp_path / os.fsdecode(b"d\xe9"), os.fsdecode(b"caf\xe9.mp4")
    folder.mkdir()
    shutil.copy(VIDEOS[0], folder / name)
    (folder / os.fsdecode(b"bad\xe9.mp4")).write_bytes(b"no video")
    shown = f"{tmp_path}/d%E9"
    assert ask("POST", "/api/folders", json={"path": shown}).json == {"clips": 2}
    state = ask("GET", "/api/state").json
    assert shown in state["folders"]
    assert {"bad%E9", "caf%E9"} <= {video["id"] for video in state["videos"]}
    assert ask("GET", "/video?clip=caf%25E9", Range="bytes=0-9").status == 206
    assert ask("GET", "/frame?clip=caf%25E9&time=1").headers["content-type"] == "image/jpeg"
    bad = ask("GET", "/frame?clip=bad%25E9&time=1")
    assert (bad.status, "d%E9/bad%E9.mp4: this is not a video" in bad.error) == (404, True)
    shutil.copy(VIDEOS[0], project.videos / name)  # then there are two of this name
    ids = [video["id"] for video in ask("GET", "/api/state").json["videos"]]
    assert {"videos_caf%E9", "d%E9_caf%E9"} <= set(ids)
    removed = ask("POST", "/api/videos/remove", json={"clip": "videos_caf%E9"})
    assert removed.status == 200
    shutil.rmtree(folder)
    assert "d%E9" in ask("GET", "/api/state").json["gone"][0]
    assert shown not in ask("POST", "/api/folders/remove", json={"path": shown}).json["folders"]


@pytest.mark.parametrize(
    ("path", "body"),
    [("folders", {}), ("folders", {"path": 3}), ("folders", {"path": "x" * 5000}),
     ("videos/remove", {"clip": None}), ("videos/remove", {"clip": "missing"}),
     ("choices", {"object": ["x"]}), ("export", {}), ("export", {"format": "exe"}),
     ("discover", {})],
)  # fmt: skip
def test_requests_that_make_no_sense_are_a_sentence(ask: Client, path: str, body) -> None:
    answer = ask("POST", f"/api/{path}", json=body)
    assert answer.status == 400
    assert answer.error


def test_the_report_may_not_ask_the_server(ask: Client, project: Project) -> None:
    assert ask("GET", "/report").status == 404
    project.found.mkdir(exist_ok=True)
    (project.found / "report.html").write_text("<p>")
    policy = ask("GET", "/report").headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'")


@pytest.mark.parametrize(
    "path", ["/studio.json", "/videos/a.mp4", "/../studio.json", "/studio/..%2f..%2fsession.py",
             "/found/report.html", f"/{quote(str(Path(__file__)), safe='')}"],
)  # fmt: skip
def test_no_other_file_is_served(ask: Client, path: str) -> None:
    assert ask("GET", path).status == 404

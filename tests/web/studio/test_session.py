"""What the studio's page can do, without a browser."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from objectstates.app.workspace import Workspace
from objectstates.base.errors import ObjectStatesError, VideoError, WorkspaceError
from objectstates.data.label_names import LabelNames
from objectstates.video.clip_list import ClipSpan, find_clips
from objectstates.web.events import EventStream
from objectstates.web.studio.project import Job, Project
from objectstates.web.studio.session import OFFERED, StudioSession
from tests.web.studio.demo_clips import DEMO, QUICK, VIDEOS

SETTINGS = {name: QUICK[name] for name in ("max_side", "processes", "verdict")}


@pytest.fixture
def session(tmp_path):
    made = StudioSession(Project(tmp_path / "project"), EventStream(), SETTINGS)
    yield made
    made.close()


def wait(condition: Callable[[], bool]) -> None:
    for _ in range(2400):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("this takes too long")


def test_from_videos_to_exports(session: StudioSession, tmp_path: Path) -> None:
    for video in VIDEOS:
        shutil.copy(video, session.project.videos)
    names = {"object": "drawer", "state_1": "closed", "action": "opening", "state_2": "open"}
    session.choose(names)
    with pytest.raises(WorkspaceError, match="draw boxes"):
        session.discover()
    with pytest.raises(WorkspaceError, match="discover first"):
        session.export("csv")
    session.project.labels.mkdir(parents=True)
    shutil.copy(DEMO / "drawer.npz", session.project.labels / "drawer.npz")
    assert session.state()["detector"]
    assert session.reviewable() is None

    session.discover()
    assert session.state()["job"]["state"] == "running"
    assert session.state()["progress"] is not None
    assert session.reviewable() is None
    for action in (session.discover, lambda: session.remove_video("drawer_06")):
        with pytest.raises(WorkspaceError, match="is running"):
            action()
    wait(lambda: session.state()["job"]["state"] != "running")
    state = session.state()
    assert (state["job"], state["outdated"]) == ({"state": "done", "error": ""}, False)
    assert state["found"]["clips"] == len(VIDEOS)
    assert "drawer" in state["found"]["headline"]
    assert session.reviewable() == 1

    assert session.export("csv")["files"] >= 1
    done = session.export("all")
    assert done["files"] > len(OFFERED)
    state = session.state()
    assert all(Path(each["folder"]).is_dir() for each in state["exports"])
    rows = (session.project.found / "exports" / "jsonl").glob("*.jsonl")
    assert any("opening" in path.read_text() for path in rows)

    again = StudioSession(Project(session.project.folder), EventStream())
    seen = again.state()
    assert {**seen, "videos": []} == {**state, "videos": []}
    again.remove_video(seen["videos"][0]["id"])
    assert again.state()["outdated"]
    again.close()


def test_a_discovery_that_fails_or_is_cancelled_says_so(session: StudioSession) -> None:
    session.project.add_folder(str(DEMO))
    session.choose({"object": "drawer", "boxes": "motion"})
    session.discover()
    wait(lambda: session.state()["progress"]["stage"] == "ingest")
    session.cancel()
    assert session.state()["job"]["state"] == "cancelled"
    (session.project.found / "foreign").write_text("x")
    session.discover()
    wait(lambda: session.state()["job"]["state"] != "running")
    assert session.state()["job"]["state"] == "failed"
    assert "foreign" in session.state()["job"]["error"]


def test_the_server_may_end_meanwhile(tmp_path: Path) -> None:
    session = StudioSession(Project(tmp_path / "project"), EventStream(), SETTINGS)
    session.project.add_folder(str(DEMO))
    session.choose({"boxes": "motion"})
    session.discover()
    session.close()
    assert Project(tmp_path / "project").choices.job.state == "interrupted"


def test_a_session_finds_the_discovery_of_a_killed_server_interrupted(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.change({"job": Job("running")})
    StudioSession(project, EventStream(), SETTINGS).close()
    assert Project(tmp_path / "project").choices.job.state == "interrupted"


def test_a_folder_that_takes_long_to_search_keeps_nobody_waiting(
    session: StudioSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "large"
    folder.mkdir()
    shutil.copy(VIDEOS[0], folder)
    searching, go_on = threading.Event(), threading.Event()

    def slowly(paths: Iterable[str | Path]) -> list[ClipSpan]:
        paths = list(paths)
        if folder in paths:
            searching.set()
            assert go_on.wait(60)
        return find_clips(paths)

    monkeypatch.setattr("objectstates.web.studio.project.find_clips", slowly)
    added = threading.Thread(target=session.add_folder, args=(str(folder),))
    added.start()
    assert searching.wait(60)
    try:
        other = threading.Thread(target=session.choose, args=({"object": "drawer"},))
        other.start()
        other.join(20)
        assert not other.is_alive()
        assert session.state()["videos"] == []
    finally:
        go_on.set()
        added.join(60)
    assert len(session.state()["videos"]) == 1


def test_only_what_was_added_to_the_page_can_be_removed(
    session: StudioSession, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    shutil.copy(VIDEOS[0], folder / "mine.mp4")
    shutil.copy(VIDEOS[1], session.project.videos / "copy.mp4")
    assert session.add_folder(str(folder)) == 1
    for clip in ("mine", "missing", "../studio.json", ""):
        with pytest.raises(VideoError):
            session.remove_video(clip)
    assert session.video("copy") == session.project.videos / "copy.mp4"
    session.remove_video("copy")
    assert session.video("copy") is None
    assert session.video("mine") == folder / "mine.mp4"
    session.remove_folder(str(folder))
    assert session.video("mine") is None
    assert (folder / "mine.mp4").exists()


@pytest.mark.parametrize("values", [{"folders": "/"}, {"job": "done"}, {"object": 1}, {"x": "y"}])
def test_the_page_sets_names_and_nothing_else(session: StudioSession, values) -> None:
    before = session.project.choices
    with pytest.raises(ObjectStatesError):
        session.choose(values)
    assert session.project.choices == before


def test_names_chosen_in_review_hold(session: StudioSession) -> None:
    session.choose({"state_1": "closed", "state_2": "open"})
    Workspace(session.project.found)
    review = session.project.found / "review.json"
    names = LabelNames.of("shut,open").to_json()
    review.write_text(json.dumps({"names": names}))
    state = session.state()
    assert state["named_in_review"]
    assert [state["choices"][k] for k in names] == ["shut", "", "open"]
    for broken in ("{", "{}"):
        review.write_text(broken)
        assert not session.state()["named_in_review"]
    review.write_text(json.dumps({"names": names}))
    (session.project.found / "foreign").write_text("x")
    assert not session.state()["named_in_review"]


def test_too_few_videos_and_unknown_formats(session: StudioSession) -> None:
    session.choose({"boxes": "motion"})
    with pytest.raises(VideoError, match="at least two"):
        session.discover()
    with pytest.raises(WorkspaceError, match="csv"):
        session.export("../x")


def test_the_state_is_json_without_a_result(session: StudioSession) -> None:
    state = session.state()
    json.dumps(state, allow_nan=False)
    assert state["found"] is None
    assert not state["outdated"]


def test_a_discovery_waits_for_a_review_that_writes(session: StudioSession) -> None:
    for video in VIDEOS:
        shutil.copy(video, session.project.videos)
    session.choose({"boxes": "motion"})
    session.finishing = lambda: True
    with pytest.raises(WorkspaceError, match="being written"):
        session.discover()
    assert session.state()["job"]["state"] == "none"


def test_a_discovery_that_cannot_be_started_leaves_no_trace(session: StudioSession) -> None:
    for video in VIDEOS:
        shutil.copy(video, session.project.videos)
    session.choose({"boxes": "motion"})
    session.project.log.mkdir()
    with pytest.raises(WorkspaceError, match="cannot be started"):
        session.discover()
    assert session.state()["job"]["state"] == "none"

"""Label and review within the studio: sessions are made when they are needed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from objectstates.base.errors import ResultError
from objectstates.web.events import EventStream
from objectstates.web.studio.application import SubPage, create_studio
from objectstates.web.studio.project import Project
from objectstates.web.studio.session import StudioSession
from tests.web.serving import TOKEN, serving, serving_routes
from tests.web.studio.demo_clips import DEMO


class Numbered:
    """A session that tells its number."""

    made: list[Numbered] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.closed = False
        self.made.append(self)

    def close(self) -> None:
        self.closed = True

    def show(self, _: Request) -> PlainTextResponse:
        return PlainTextResponse(str(self.made.index(self)))


def test_a_session_lives_as_long_as_what_it_depends_on() -> None:
    key: list[int | None] = [None]

    def make() -> tuple[Numbered, list[Route]]:
        if key[0] == 3:
            raise ResultError("`result` is damaged: discover again")
        session = Numbered()
        return session, [Route("/", session.show), Route("/api/x", session.show)]

    page = SubPage(lambda: key[0], make)
    with serving_routes([Mount("/sub", app=page)]) as ask:
        home = ask("GET", "/sub/")
        assert (home.status, home.headers["location"][:10]) == (303, "/#problem=")
        assert ask("GET", "/sub/api/x").status == 409
        key[0] = 1
        assert [ask("GET", "/sub/").body for _ in range(2)] == [b"0", b"0"]
        key[0] = 2
        assert ask("GET", "/sub/").body == b"1"
        assert [session.closed for session in Numbered.made] == [True, False]
        key[0] = 3
        assert "damaged" in ask("GET", "/sub/").headers["location"]
        assert ask("GET", "/sub/api/x").error == "result is damaged: discover again"
        key[0] = 2
        assert ask("GET", "/sub/").body == b"2"
        page.close()
        assert all(session.closed for session in Numbered.made)
        assert ask("GET", "/sub/").body == b"3"


def test_pages_without_anything_to_show_lead_back(tmp_path) -> None:
    session = StudioSession(Project(tmp_path / "project"), EventStream())
    with serving(create_studio(session, token=TOKEN)) as ask:
        for path in ("/review/", "/label/"):
            answer = ask("GET", path)
            assert (answer.status, answer.headers["location"][:1]) == (303, "/")


def test_the_labelling_page_is_of_the_projects_clips(tmp_path) -> None:
    session = StudioSession(Project(tmp_path / "project"), EventStream())
    session.add_folder(str(DEMO))
    session.choose({"object": "drawer"})
    with serving(create_studio(session, token=TOKEN)) as ask:
        assert b"label.js" in ask("GET", "/label/").body
        state = ask("GET", "/label/api/state").json
        assert [clip["id"] for clip in state["clips"]] == [span.id for span in session.clips()]
        assert state["folder"] == str(session.project.labels)
        frame = ask("POST", "/label/api/frame", json={"clip": "drawer_06", "time": 1.0}).json
        box = {"box": [20, 20, 60, 60], "how": "drawn"}
        body = {"clip": "drawer_06", "time": frame["time"], "boxes": [box]}
        assert ask("POST", "/label/api/label", json=body).json["labelled"]
        assert ask("GET", "/api/state").json["drawn"] == 1
        session.choose({"object": "robot"})  # another object has labels of its own
        assert ask("GET", "/label/api/state").json["frames"] == []
        assert ask("GET", "/api/state").json["drawn"] == 0

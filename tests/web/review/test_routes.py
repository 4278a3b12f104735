"""Requests to the review: what a page sends, and what it would never send."""

from __future__ import annotations

import shutil

import pytest
from starlette.routing import Mount

from objectstates.web.review.routes import review_routes
from objectstates.web.review.session import ReviewSession
from tests.web.review.found import NAMES, make_found
from tests.web.serving import serving_routes


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_found(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def reviewed(made, tmp_path_factory):
    found = shutil.copytree(made, tmp_path_factory.mktemp("served") / "found")
    session = ReviewSession(found)
    routes = [Mount("/review", routes=review_routes(session))]
    with serving_routes(routes, events=session.events) as client:
        yield client, found
    session.close()


@pytest.fixture
def ask(reviewed):
    return reviewed[0]


@pytest.fixture
def corrections(reviewed):
    """Nothing is written by what is refused."""
    path = reviewed[1] / "corrections.csv"
    before = path.read_bytes() if path.exists() else b""
    yield path
    assert (path.read_bytes() if path.exists() else b"") == before


def test_every_clip_can_be_read_and_corrected_whatever_its_name(ask):
    names = [row["id"] for row in ask("GET", "/review/api/state").json["clips"]]
    assert names == list(NAMES)
    for name in names:
        answer = ask("POST", "/review/api/confirm", json={"clip": name})
        assert answer.status == 200, answer.body
    assert all(row["kinds"] for row in ask("GET", "/review/api/state").json["clips"])
    for _ in names:
        assert ask("POST", "/review/api/undo", json={}).status == 200
    assert ask("GET", "/review/api/state").json["corrections"] == 0


def test_pages_and_media_are_served(ask):
    assert b"<title>Review</title>" in ask("GET", "/review/").body
    for name in ("review.js", "review.css", "timeline.js"):
        assert ask("GET", f"/review/assets/{name}").status == 200
    assert ask("GET", "/review/video?clip=a").status == 200
    assert ask("GET", "/review/frame?clip=..%2Fg&time=1").headers["content-type"] == "image/jpeg"
    assert len(ask("GET", "/review/api/frames?clip=a").json) > 100
    clip = ask("GET", "/review/api/clip?clip=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E").json
    assert clip["size"] == [96, 64]
    assert len(clip["tracklets"]) == 12


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("action", {"clip": "a"}),
        ("action", {"clip": "a", "start": "1", "end": 2}),
        ("action", {"clip": "a", "start": True, "end": 2}),
        ("action", {"clip": "a", "start": -1, "end": 2}),
        ("action", {"clip": "a", "start": 1e300, "end": 2}),
        ("action", {"clip": "a", "start": 3, "end": 2}),
        ("action", {"clip": "a", "start": 10**400, "end": 2}),
        ("action", {"clip": ["a"], "start": 1, "end": 2}),
        ("action", {"clip": "../../etc/passwd", "start": 1, "end": 2}),
        ("action", {"clip": "a" * 2000, "start": 1, "end": 2}),
        ("action", {"clip": "\udc00", "start": 1, "end": 2}),
        ("tracklet", {"clip": "a", "tracklet": 999, "value": "1"}),
        ("tracklet", {"clip": "a", "tracklet": 1.5, "value": "1"}),
        ("tracklet", {"clip": "a", "tracklet": True, "value": "1"}),
        ("tracklet", {"clip": "a", "tracklet": 0, "value": "3"}),
        ("tracklet", {"clip": "a", "tracklet": 0, "value": {"1": 1}}),
        ("interval", {"clip": "a", "start": 1, "end": 2, "value": "not_object"}),
        ("confirm", {}),
        ("names", {"state_1": "x", "action": "y"}),
        ("names", {"state_1": "x", "action": "y", "state_2": "x"}),
        ("names", {"state_1": "a\nb", "action": "y", "state_2": "z"}),
        ("note", {"clip": "a", "text": 5}),
        ("note", {"clip": "a", "text": "x" * 3000}),
        ("note", {"clip": "a", "text": "\ud83d"}),
        ("finish", {"formats": "csv"}),
        ("finish", {"formats": ["../csv"]}),
        ("finish", {"formats": [["csv"]]}),
    ],
)
def test_malformed_requests_are_refused_with_a_sentence(ask, corrections, path, body):
    answer = ask("POST", f"/review/api/{path}", json=body)
    assert answer.status == 400
    assert 5 < len(answer.error) < 300
    assert "Traceback" not in answer.error


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": None}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Cookie": None}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Length": str(1 << 30)}, 413),
    ],
)
def test_requests_of_other_pages_are_refused(ask, corrections, given, status):
    answer = ask("POST", "/review/api/exclude", json={"clip": "a"}, **given)
    assert answer.status == status


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b'{"clip": NaN}', b"\xff\xfe", b"[" * 9999])
def test_bodies_that_are_no_objects_are_refused(ask, corrections, body):
    answer = ask("POST", "/review/api/exclude", body, Content_Type="application/json")
    assert answer.status == 400


@pytest.mark.parametrize(
    "path",
    [
        "/review/video?clip=film.mp4",
        "/review/video?clip=..%2F..%2Ffilm.mp4",
        "/review/video",
        "/review/frame?clip=nothing&time=1",
        "/review/assets/..%2Fsession.py",
        "/review/assets/../session.py",
        "/review/api/nothing",
        "/review/%2e%2e/%2e%2e/etc/passwd",
    ],
)
def test_nothing_but_the_clips_is_served(ask, path):
    assert ask("GET", path).status == 404


def test_a_clip_that_is_not_of_the_review_is_named(ask):
    for path in ("/review/api/clip?clip=nothing", "/review/api/frames?clip=", "/review/api/clip"):
        assert ask("GET", path).status == 400
    assert ask("GET", "/review/api/exclude").status == 405

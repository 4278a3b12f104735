"""The page as people meet it: in a real browser, with mouse, touch and keys."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from starlette.routing import Mount

from benchmarks.browser import REMEDY, browser, has_browser, requests, resize
from objectstates.base.geometry import paired_iou
from objectstates.cli.label import next_command
from objectstates.web.events import EventStream
from objectstates.web.label.routes import label_routes
from objectstates.web.label.session import LabelSession
from objectstates.web.server import create_app
from tests.web.label.people import SIZE, demo_clips, draw, eventually, true_box
from tests.web.serving import TOKEN, serving

if not has_browser():
    pytest.skip(REMEDY, allow_module_level=True)

ENTER, ESCAPE, LEFT, RIGHT, SHIFT = "\ue007", "\ue00c", "\ue012", "\ue014", "\ue008"


class Opened(NamedTuple):
    """A session, and a browser that shows its page."""

    session: LabelSession
    driver: Any
    address: str

    def text(self, name: str) -> str:
        return str(self.driver.find_element("id", name).text)

    def visible(self, name: str) -> bool:
        return bool(self.driver.find_element("id", name).is_displayed())

    def at(self) -> tuple[str, float]:
        """Clip and time of the frame on screen, once there is one."""
        eventually(lambda: self.text("clip-time"), "a frame is shown", 60)
        return self.text("clip-name"), float(self.text("clip-time").split()[0])

    def press(self, *keys: str, shift: bool = False) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        chain = ActionChains(self.driver)
        chain = chain.key_down(SHIFT) if shift else chain
        chain = chain.send_keys(*keys)
        (chain.key_up(SHIFT) if shift else chain).perform()

    def drag(self, box: list[float]) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        overlay = self.driver.find_element("id", "overlay")
        place = overlay.rect
        x1, y1, x2, y2 = (
            value * place[side] / SIZE[n % 2] - place[side] / 2
            for n, (value, side) in enumerate(zip(box, ["width", "height"] * 2, strict=True))
        )
        chain = ActionChains(self.driver, duration=50)
        chain.move_to_element_with_offset(overlay, x1, y1).click_and_hold()
        chain.move_to_element_with_offset(overlay, x2, y2).release().perform()

    def frames(self) -> list[dict[str, Any]]:
        frames: list[dict[str, Any]] = self.session.state()["frames"]
        return frames

    def boxes(self) -> int:
        """Boxes on screen that are no proposals."""
        return len(self.driver.find_elements("css selector", "#overlay .box:not(.proposal)"))

    def went_on(self, before: tuple[str, float]) -> None:
        eventually(lambda: self.at() != before, "another frame is shown", 60)


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser(1280, 800) as opened:
        yield opened


@pytest.fixture
def page(driver: Any, tmp_path: Path) -> Iterator[Opened]:
    events = EventStream()
    folder = tmp_path / "labels"
    session = LabelSession(
        demo_clips(6),
        "drawer",
        folder,
        next_command=partial(next_command, [Path("my_videos")], "drawer"),
        publish=events.publish,
    )
    session.start()
    app = create_app([Mount("/label", routes=label_routes(session))], token=TOKEN, events=events)
    with serving(app) as client:
        resize(driver, 1280, 800)
        address = f"http://127.0.0.1:{client.port}/label/"
        driver.get_log("browser")
        requests(driver)
        driver.get(f"{address}?token={TOKEN}")
        yield Opened(session, driver, address)
        outside = [
            url for url in requests(driver) if url.startswith("http") and address[:-6] not in url
        ]
        assert outside == []
        problems = [entry for entry in driver.get_log("browser") if entry["level"] != "INFO"]
        assert problems == []
        driver.get("about:blank")
    session.close()


def test_a_box_is_drawn_followed_kept_and_the_next_frame_shown(page: Opened):
    before = page.at()
    page.drag(true_box(*before))
    eventually(page.frames, "the box is saved")
    drawn = np.array([page.frames()[0]["boxes"][0]["box"]])
    assert paired_iou(drawn, np.array([true_box(*before)]))[0] > 0.85
    eventually(lambda: page.visible("followed"), "the followed boxes are shown")
    assert len(page.frames()) == 1
    page.driver.find_elements("css selector", "#followed-film button")[0].click()
    page.press(ENTER)
    page.went_on(before)
    kept = [frame for frame in page.frames() if not frame["by_hand"]]
    assert kept
    first = min(frame["time"] for frame in page.frames())
    assert all(frame["time"] >= first for frame in kept)
    eventually(lambda: page.text("followed-count") == str(len(kept)), "they are counted")
    page.driver.get(page.address)
    eventually(lambda: page.text("boxes") == "1", "a reload shows what is on disk")
    strip = page.driver.find_elements("css selector", "#strip button")
    assert len(strip) == len(page.frames())


def test_a_slip_of_the_hand_is_no_label(page: Opened):
    before = page.at()
    page.drag(true_box(*before))
    (frame,) = eventually(page.frames, "the box is saved")
    page.drag(true_box(*before))  # from its own corner to the opposite one
    page.press("o")  # and what follows still has the box
    assert page.boxes() == 1
    assert page.frames() == [frame]


def test_proposals_that_come_during_a_drag_do_not_end_it(page: Opened):
    from selenium.webdriver.common.action_chains import ActionChains

    page.at()
    overlay = page.driver.find_element("id", "overlay")
    told = {key: page.session.state()[key] for key in ("clips", "counts", "training", "finished")}
    told["training"]["has_detector"] = True
    assert page.session._publish is not None
    with page.session._lock:  # the frame with its proposals is long in coming
        page.session._publish("label.state", told)
        eventually(lambda: page.driver.find_elements("css selector", ".toast"), "it is told")
        chain = ActionChains(page.driver, duration=50).move_to_element(overlay).click_and_hold()
        chain.move_by_offset(30, 30).perform()
    clock.sleep(1)  # in which it comes
    ActionChains(page.driver, duration=50).move_by_offset(30, 30).release().perform()
    eventually(page.frames, "the box is saved", 20)


def test_a_frame_without_a_box_is_skipped_but_not_accepted(page: Opened):
    before = page.at()
    assert "Drag a box around the drawer" in page.text("status")
    assert not page.driver.find_element("id", "accept").is_enabled()
    page.press(ENTER)
    eventually(lambda: "no box yet" in page.text("status"), "the page says what to do")
    assert page.at() == before
    assert page.text("finish-note").startswith("Draw a box in 4 more frames")
    page.press("n")
    page.went_on(before)


def test_everything_can_be_done_by_keyboard(page: Opened):
    before = page.at()
    page.press("b")
    eventually(page.frames, "a box is in the middle")
    x1, _, x2, _ = page.frames()[0]["boxes"][0]["box"]
    page.press(LEFT, LEFT)
    page.press(RIGHT, RIGHT, RIGHT, RIGHT, shift=True)
    eventually(lambda: _near(page, x1 - 4, x2 + 4), "it is moved, then wider", 60)  # by 2 pixels
    page.press("d")
    eventually(lambda: not page.frames(), "it is deleted")
    assert page.boxes() == 0
    page.press("v")
    page.went_on(before)
    (absent,) = page.frames()
    assert absent["boxes"] == []
    here = page.at()
    page.press("n")
    page.went_on(here)
    page.press("p")
    eventually(lambda: page.at() == here, "the previous frame is shown again")
    page.press("?")
    eventually(lambda: page.driver.find_elements("css selector", "dialog[open]"), "keys are listed")
    page.press(ESCAPE)


def _near(page: Opened, x1: float, x2: float) -> bool:
    boxes = [box["box"] for frame in page.frames() for box in frame["boxes"]]
    return bool(boxes) and abs(boxes[0][0] - x1) < 0.1 and abs(boxes[0][2] - x2) < 0.1


def test_a_finger_draws_too(page: Opened):
    resize(page.driver, 390, 844)
    at = page.at()
    place = page.driver.execute_script(
        "const r = document.getElementById('overlay').getBoundingClientRect();"
        "return [r.left, r.top, r.width, r.height]"
    )
    left, top, width, height = place
    assert left >= 0
    assert left + width <= 390
    x1, y1, x2, y2 = true_box(*at)
    points = [
        {"x": left + x * width / SIZE[0], "y": top + y * height / SIZE[1]}
        for x, y in ((x1, y1), ((x1 + x2) / 2, (y1 + y2) / 2), (x2, y2))
    ]
    for kind, touched in zip(("touchStart", "touchMove", "touchMove"), points, strict=True):
        event = {"type": kind, "touchPoints": [touched]}
        page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", event)
    end = {"type": "touchEnd", "touchPoints": []}
    page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", end)
    eventually(page.frames, "the box is saved")
    drawn = np.array([page.frames()[0]["boxes"][0]["box"]])
    assert paired_iou(drawn, np.array([true_box(*at)]))[0] > 0.8
    wide = page.driver.execute_script("return document.documentElement.scrollWidth")
    assert wide <= 390


def go_to_a_proposal(page: Opened) -> None:
    """A detector that has seen five boxes does not find the object in every frame."""
    for _ in range(8):
        before = page.at()
        page.press("n")
        page.went_on(before)
        end = clock.monotonic() + 10
        while clock.monotonic() < end:
            if page.driver.find_elements("css selector", "#overlay .box.proposal"):
                return
            clock.sleep(0.1)
    raise AssertionError("no frame has a proposal")


def test_proposals_are_accepted_by_one_key_and_the_command_is_shown(page: Opened):
    page.at()
    draw(page.session, 5)  # as in another tab
    eventually(lambda: page.session.state()["training"]["has_detector"], "there are proposals", 400)
    go_to_a_proposal(page)
    before = page.at()
    page.press(ENTER)
    page.went_on(before)
    accepted = page.frames()[-1]
    assert accepted["boxes"][0]["how"] == "proposed"
    truth = np.array([true_box(accepted["clip"], accepted["time"])])
    assert paired_iou(np.array([accepted["boxes"][0]["box"]]), truth)[0] > 0.4
    eventually(lambda: page.text("boxes") == "6", "it is counted")
    page.driver.find_element("id", "finish").click()
    eventually(lambda: page.visible("done"), "the detector is trained", 600)
    command = page.text("command")
    assert command.startswith("objectstates discover my_videos --object drawer --detector fewshot:")
    assert "trained on 6 boxes of 6 clips" in page.text("done-note")
    assert page.visible("recall")

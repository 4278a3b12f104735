"""The studio in a real browser, from a folder of videos to exports, with kill -9 on the way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from benchmarks import browser as chromium
from objectstates.data.corrections import read_corrections
from objectstates.data.result import Result
from objectstates.web.studio.session import OFFERED
from tests.web.films import write_film, write_images
from tests.web.studio.demo_clips import DEMO

ROOT = Path(__file__).parents[2]
CLIPS = [f"drawer_{number:02d}" for number in (6, 7, 8)]
BOXES = 10
SETTINGS = "processes = 1\n[ingest]\nmax_side = 160\n[fit]\nverdict = false\n"
PATIENCE = 90.0  # seconds for one step, on a busy machine

pytestmark = [
    pytest.mark.skipif(not chromium.has_browser(), reason=chromium.REMEDY),
    pytest.mark.skipif(os.name != "posix", reason="signals of POSIX"),
]


class Server:
    """The command in a process of its own, which can be killed and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        (folder / "settings.toml").write_text(SETTINGS)
        self.address = self._start()

    def _start(self) -> str:
        words = ["studio", "project", "--config", "settings.toml", "--no-open", *self.options]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "objectstates", *words],
            stdout=subprocess.PIPE, text=True, cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("open "):
                return line.split()[1]
        self.kill()
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def restart(self) -> None:
        """As after a crash: killed in the middle, then started by the user."""
        self.kill()
        self.address = self._start()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)
        return self.process.returncode


class Page:
    """The browser, with what a user does."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def find(self, selector: str) -> WebElement:
        found: WebElement = self.driver.find_element(By.CSS_SELECTOR, selector)
        return found

    def click(self, selector: str) -> None:
        self.wait(lambda: self.find(selector).is_displayed() and self.find(selector).is_enabled())
        self.driver.execute_script(
            "arguments[0].scrollIntoView({block: 'center'})", self.find(selector)
        )
        self.find(selector).click()

    def text(self, selector: str) -> str:
        return str(self.find(selector).text)

    def ask(self, path: str) -> Any:
        """What the server tells the page."""
        script = "const done = arguments[1]; fetch(arguments[0]).then((r) => r.json()).then(done)"
        return self.driver.execute_async_script(script, path)

    def check_log(self) -> None:
        found = self.driver.get_log("browser")
        assert [entry for entry in found if entry["level"] == "SEVERE"] == []

    def reopen(self, server: Server, path: str = "/") -> None:
        """Kill the server, start it again, and open the page anew."""
        self.check_log()
        server.restart()
        self.driver.get("about:blank")
        self.driver.get_log("browser")  # requests to the dead server failed
        self.driver.get(server.address.replace("/?", f"{path}?"))

    def wait(self, condition: Callable[[], object]) -> None:
        end, problem = time.monotonic() + PATIENCE, ""
        while time.monotonic() < end:
            try:
                if condition():
                    return
            except Exception as error:  # what is shown is being replaced
                problem = str(error)
            time.sleep(0.1)
        raise AssertionError(f"{self.driver.current_url}: {problem or self.text('body')}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.kill()


@contextmanager
def quiet_browser() -> Iterator[Page]:
    """A browser that must log no error and ask no other machine."""
    with chromium.browser() as driver:
        page = Page(driver)
        yield page
        page.check_log()
        inside = ("data:", "blob:", "chrome:", "about:")
        asked = [url for url in chromium.requests(driver) if not url.startswith(inside)]
        assert asked
        assert [url for url in asked if not re.match(r"http://127\.0\.0\.1:\d+/", url)] == []


def true_box(clip: str, seconds: float) -> list[float]:
    truth = json.loads((DEMO / f"{clip}.json").read_text())
    boxes = truth["object"]["box"]
    return [float(side) for side in boxes[min(round(seconds * truth["fps"]), len(boxes) - 1)]]


def test_from_videos_to_exports(server: Server) -> None:
    project = server.folder / "project"
    with quiet_browser() as page:
        page.driver.set_script_timeout(30)
        add_videos(page, server)
        draw_boxes(page, server)
        discover(page, server)
        review(page, server, project)
        export(page)
    result = Result.load(project / "found" / "result")
    assert result.names.to_json() == {"state_1": "closed", "action": "opening", "state_2": "open"}
    assert sum(map(bool, result.corrected)) == 2
    assert server.end() == 0


def add_videos(page: Page, server: Server) -> None:
    page.driver.get(server.address)
    assert "token" not in page.driver.current_url
    page.wait(lambda: page.text("#project"))
    files = "\n".join(str(DEMO / f"{clip}.mp4") for clip in CLIPS)
    page.find("#files").send_keys(files)
    page.wait(lambda: len(page.driver.find_elements(By.CSS_SELECTOR, ".video img")) == len(CLIPS))
    for name, value in {
        "object": "drawer", "state_1": "closed", "action": "opening", "state_2": "open",
    }.items():  # fmt: skip
        page.find(f"input[name={name}]").send_keys(value)
    page.find("h1").click()
    page.wait(lambda: page.ask("/api/state")["choices"]["state_2"] == "open")


def draw_boxes(page: Page, server: Server) -> None:
    page.click("#label")
    page.wait(lambda: page.find("#overlay").is_displayed())
    for number in range(BOXES):
        if number == BOXES // 2:
            page.reopen(server, "/label/")
            page.wait(lambda: page.text("#boxes") == str(BOXES // 2))
        draw_next(page, number + 1)
    page.click("#finish")
    page.wait(lambda: page.ask("/api/state")["detector"])
    page.driver.get(server.address)


def draw_next(page: Page, number: int) -> None:
    """Draw the box of the frame that is shown, the ``number``-th; go on to the next frame."""
    page.wait(lambda: page.text("#clip-name") in CLIPS and page.text("#clip-time"))
    clip, at = page.text("#clip-name"), page.text("#clip-time")
    draw(page, true_box(clip, float(at.split()[0])))
    page.wait(lambda: page.text("#boxes") == str(number))
    page.click("#skip")
    page.wait(lambda: (page.text("#clip-name"), page.text("#clip-time")) != (clip, at))


def draw(page: Page, box: list[float]) -> None:
    """Drag a box, given in pixels of the video, on the frame that is shown."""
    page.wait(lambda: "loading" not in str(page.find("#stage").get_attribute("class")))
    overlay = page.find("#overlay")
    page.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", overlay)
    view = page.driver.execute_script("return arguments[0].getAttribute('viewBox')", overlay)
    width, height = map(float, view.split()[2:])
    shown = overlay.rect
    x1, y1, x2, y2 = (
        side * shown[name] / whole - shown[name] / 2
        for side, name, whole in zip(box, ("width", "height") * 2, (width, height) * 2, strict=True)
    )
    chain = ActionChains(page.driver, duration=50)
    chain.move_to_element_with_offset(overlay, round(x1), round(y1)).click_and_hold()
    chain.move_to_element_with_offset(overlay, round(x2), round(y2)).release().perform()


def discover(page: Page, server: Server) -> None:
    page.wait(lambda: "current" in str(page.find("#step-discover").get_attribute("class")))
    page.click("#discover")
    page.wait(lambda: page.ask("/api/state")["progress"]["done"] >= 1)
    page.reopen(server)
    page.wait(lambda: page.text("#discover") == "Continue")
    page.click("#discover")
    page.wait(lambda: page.find("#progress").is_displayed())
    page.wait(lambda: "drawer changes" in page.text("#outcome"))


def review(page: Page, server: Server, project: Path) -> None:
    page.click("#review")
    page.wait(lambda: page.text("#clip-name") in CLIPS)
    page.click("#confirm")
    page.wait(lambda: len(page.ask("api/state")["clips"]) == len(CLIPS))
    page.wait(lambda: page.ask("api/state")["corrections"] == 1)
    page.reopen(server, "/review/")
    page.wait(lambda: page.ask("/review/api/state")["corrections"] == 1)
    page.wait(lambda: page.text("#clip-name") in CLIPS)
    first = page.text("#clip-name")
    page.click("#following")
    page.wait(lambda: page.text("#clip-name") != first)
    shown = page.ask(f"/review/api/clip?clip={page.text('#clip-name')}")["answer"]["actions"][0]
    page.find("body").send_keys("]")  # the action ends a frame later
    corrections = project / "found" / "corrections.csv"
    page.wait(lambda: len(read_corrections(corrections)) == 2)
    page.wait(lambda: page.ask("/review/api/state")["phase"] in ("exact", "judged"))
    told = next(row for row in read_corrections(corrections) if row.kind == "action")
    assert told.end is not None
    assert told.end > shown[1]
    assert page.ask("/api/state")["found"]["unwritten"]
    page.click("#finish")
    page.click("#finish-go")
    page.wait(lambda: page.ask("/review/api/state")["saved"])
    page.wait(lambda: not page.ask("/review/api/state")["finish"]["running"])
    assert not page.ask("/api/state")["found"]["unwritten"]
    page.driver.get(server.address)


def export(page: Page) -> None:
    page.wait(lambda: "2 clips corrected" in page.text("#step-review .status"))
    page.click("#export-all")
    wanted = f"{len(OFFERED)} of {len(OFFERED)} formats written"
    page.wait(lambda: page.text("#step-export .status") == wanted)
    home = page.driver.current_url
    page.driver.get(f"{home}report")
    assert "drawer" in page.text("h1")
    page.driver.get(home)


HOSTILE = "<img src=x onerror=document.title='hacked'>"
"""The name of a clip, which is text wherever it is shown."""

FRAME_NUMBER = """
const [url, time, done] = arguments;
const video = document.createElement("video");
video.muted = true;
video.src = url;
video.onerror = () => done(`error: ${video.error.message}`);
video.onloadeddata = () => { video.currentTime = time; };
video.onseeked = () => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  const context = canvas.getContext("2d");
  context.drawImage(video, 0, 0);
  let number = 0;
  for (let bit = 0; bit < 6; bit += 1) {
    const x = Math.round(((bit + 0.5) * canvas.width) / 6);
    if (context.getImageData(x, canvas.height / 2, 1, 1).data[1] > 128) number += 1 << bit;
  }
  done(number);
};
"""
"""The number that a film's frame at a time shows (``films.py``), as the browser plays it."""


def test_names_are_text_and_videos_show_the_right_frames(tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    times = [40 * n for n in range(50)]
    write_film(videos / f"{HOSTILE}.mp4", "libx264", times)
    write_film(videos / "100% #1 'é'?.avi", "mpeg4", times)
    write_images(videos / "pictures", 50)
    (videos / "broken.mp4").write_bytes(b"not a video")
    server = Server(tmp_path, "--videos", str(videos))
    try:
        with quiet_browser() as page:
            page.driver.get(server.address)
            page.wait(lambda: len(page.driver.find_elements(By.CSS_SELECTOR, ".video img")) == 3)
            shown = [each.text for each in page.driver.find_elements(By.CSS_SELECTOR, ".name")]
            assert set(shown) == {HOSTILE, "100% #1 'é'?", "pictures", "broken"}
            assert page.text(".video.broken .picture") == "cannot be read"
            assert "not a video" in page.text("#unreadable")
            assert page.driver.title == "objectstates studio"
            for clip in (HOSTILE, "100% #1 'é'?", "pictures"):
                url = f"/video?clip={quote(clip, safe='')}"
                for number in (0, 1, 17, 33, 49):
                    at = number / 25 + 0.02  # the middle of the frame
                    assert page.driver.execute_async_script(FRAME_NUMBER, url, at) == number
    finally:
        server.kill()

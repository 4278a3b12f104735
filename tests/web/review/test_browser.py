"""The review as people meet it: the command, a real browser, and a server that is killed."""

from __future__ import annotations

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
from urllib.parse import urlsplit

import pytest

from benchmarks.browser import REMEDY, browser, has_browser, requests, resize
from objectstates.data.corrections import read_corrections
from objectstates.data.result import Result
from tests.web.review.found import make_chain, make_found

if not has_browser():
    pytest.skip(REMEDY, allow_module_level=True)

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser(1280, 800) as opened:
        yield opened


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_found(tmp_path_factory.mktemp("made"))


@contextmanager
def running(found: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command, with the address it prints."""
    command = [sys.executable, "-m", "objectstates", "review", str(found), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            address = re.search(r"http://\S+", line)
            assert address, line
            yield address[0], process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 0


def eventually(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"it never came to be that {what}")


class Page:
    def __init__(self, driver: Any, address: str, first: str = "a") -> None:
        self.driver, self.origin = driver, "{0.scheme}://{0.netloc}".format(urlsplit(address))
        driver.get("about:blank")  # a page of an earlier server would ask for it
        driver.get_log("browser")
        requests(driver)
        driver.get(address)
        eventually(lambda: self.text("clip-name") == first, "the first clip is shown")
        self.settled()

    def js(self, script: str, *args: Any) -> Any:
        return self.driver.execute_script(f"return {script}", *args)

    def text(self, id: str) -> str:
        return str(self.js("document.getElementById(arguments[0]).textContent", id))

    def rename(self, *names: str) -> None:
        """Name state 1, the action and state 2 in the dialog."""
        self.js("document.getElementById('names').click()")
        for field, name in zip(("state_1", "action", "state_2"), names, strict=True):
            place = self.driver.find_element(By.ID, f"name-{field}")
            place.clear()
            place.send_keys(name)
        place.send_keys(Keys.ENTER)
        eventually(lambda: names[1] in self.text("names"), "the names are shown")
        eventually(lambda: not self.js("document.querySelector('dialog[open]')"), "it is closed")

    def settled(self) -> None:
        done = "document.getElementById('status').dataset.phase"
        eventually(lambda: self.js(done) in ("judged", "judging", "exact"), "it is refitted")

    def press(self, *keys: str) -> None:
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def click(self, selector: str) -> None:
        self._on(selector, lambda found: found.click())

    def drag(self, selector: str, by: int) -> None:
        def dragged(handle: Any) -> None:
            ActionChains(self.driver).drag_and_drop_by_offset(handle, by, 0).perform()

        self._on(selector, dragged)

    def _on(self, selector: str, act: Callable[[Any], None]) -> None:
        """Find and act, again if the page was drawn anew between the two."""

        def done() -> bool:
            try:
                act(self.driver.find_element(By.CSS_SELECTOR, selector))
            except StaleElementReferenceException:
                return False
            return True

        eventually(done, f"{selector} stays for a moment")

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]


def rows_of(found: Path, clip: str) -> list[tuple[Any, ...]]:
    path = found / "corrections.csv"
    rows = read_corrections(path) if path.exists() else ()
    return [(row.kind, row.start, row.end, row.value) for row in rows if row.clip == clip]


def at_frame(time: float) -> bool:
    return abs(time * 10 - round(time * 10)) < 1e-6


def correct_three_clips(page: Page, found: Path) -> None:
    # drag the end of the action: it snaps to frames, and is on disk when the mouse is released
    page.drag(".handle.end", 60)
    (row,) = eventually(lambda: rows_of(found, "a"), "the action is on disk")
    assert row[0] == "action"
    assert at_frame(row[2])
    page.settled()
    page.press("}", "}")  # two frames earlier
    eventually(lambda: rows_of(found, "a")[0][2] == pytest.approx(row[2] - 0.2), "it is nudged")
    page.settled()
    page.press("j")
    eventually(lambda: page.text("clip-name") == "b", "the next clip is shown")
    page.press("c")
    eventually(lambda: rows_of(found, "b"), "the confirmation is on disk")
    assert rows_of(found, "b")[0][0] == "confirm"
    page.press("j")
    eventually(lambda: page.text("clip-name") == "c", "the third clip is shown")
    page.settled()
    page.click('.tracklet[data-index="11"]')
    eventually(lambda: rows_of(found, "c"), "what is said of a tracklet is on disk")
    page.press("u")
    eventually(lambda: not rows_of(found, "c"), "it is undone")
    page.press("U")
    eventually(lambda: rows_of(found, "c"), "it is done again")
    page.press("x")
    eventually(lambda: "exclude" in [row[0] for row in rows_of(found, "c")], "it is excluded")
    page.settled()
    eventually(lambda: "excluded by a correction" in page.text("was"), "the reason is shown")


def write_note_and_names(page: Page, found: Path) -> None:
    page.press("m")
    page.press("odd", Keys.ESCAPE)
    eventually(lambda: "odd" in (found / "review.json").read_text(), "the note is on disk")
    page.click("#names")
    for name, text in (("state_1", "closed"), ("action", "opening"), ("state_2", "open")):
        field = page.driver.find_element(By.ID, f"name-{name}")
        field.clear()
        field.send_keys(text)
    page.click("#names-form .primary")
    eventually(lambda: "opening" in page.text("names"), "the names are shown")


def test_corrections_survive_a_killed_server_and_become_the_result(
    driver: Any, found: Path
) -> None:
    with running(found) as (address, process):
        page = Page(driver, address)
        correct_three_clips(page, found)
        write_note_and_names(page, found)
        Select(driver.find_element(By.ID, "filter")).select_by_value("corrected")
        listed = "document.querySelectorAll('#list li').length"
        eventually(lambda: page.js(listed) == 3, "the corrected clips are listed")
        Select(driver.find_element(By.ID, "filter")).select_by_value("all")
        before = (found / "corrections.csv").read_bytes()
        assert page.complaints() == []
        asked = [url for url in requests(driver) if not url.startswith(("data:", "blob:"))]
        assert {url for url in asked if not url.startswith(page.origin)} == set()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with running(found) as (address, _):  # the lock is free again, and nothing is lost
        page = Page(driver, address)
        assert (found / "corrections.csv").read_bytes() == before
        assert "opening" in page.text("names")
        assert not page.js("document.getElementById('undo').disabled")
        page.click("#finish")
        page.click("#formats input[value=csv]")
        page.click("#finish-go")
        eventually(lambda: "Written" in page.text("finish-stage"), "it is written")
        assert "exports" in page.text("finish-written")
        assert page.complaints() == []
    result = Result.load(found / "result")
    assert {row.clip for row in result.corrections} == {"a", "b", "c"}
    assert result.names.action == "opening"
    assert "opening" in (found / "exports" / "csv" / "segments.csv").read_text()


def test_a_second_server_on_the_folder_says_so(found: Path) -> None:
    with running(found):
        command = [sys.executable, "-m", "objectstates", "review", str(found), "--no-open"]
        second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 2
    assert "open in another objectstates server" in second.stderr


def test_two_tabs_show_the_same(driver: Any, found: Path) -> None:
    with running(found) as (address, _):
        page = Page(driver, address)
        first = driver.current_window_handle
        driver.switch_to.new_window("tab")
        try:
            other = Page(driver, page.origin + "/review/")
            other.press("h")
            eventually(lambda: rows_of(found, "a") == [("no_change", None, None, "")], "it is told")
        finally:
            driver.close()
            driver.switch_to.window(first)
        shown = "document.querySelector('#list li').textContent.includes('no change')"
        eventually(lambda: page.js(shown), "the first tab shows it")
        page.press("u")
        eventually(lambda: rows_of(found, "a") != [("no_change", None, None, "")], "it is undone")


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_names_are_text_and_nothing_is_wider_than_the_window(
    driver: Any, found: Path, size: tuple[int, int]
) -> None:
    with running(found) as (address, _):
        resize(driver, *size)
        try:
            page = Page(driver, address)
            for _ in range(7):
                page.js("document.getElementById('following').click()")
                time.sleep(0.2)
            eventually(lambda: page.text("clip-name") == "ü", "the last clip is shown")
            assert (
                page.js("document.querySelectorAll('main img, #list img:not(.thumb)').length") == 0
            )
            page.rename("closed", "turning the handle of the faucet", "open")
            assert page.js("document.documentElement.scrollWidth <= innerWidth")
            ends = "id => document.getElementById(id).getBoundingClientRect().right <= innerWidth"
            assert page.js(f"['names', 'finish', 'status'].every({ends})")
            assert size[0] < 900 or page.js("document.querySelector('.bar').offsetHeight < 70")
            page.press("?")
            keys = "[...document.querySelectorAll('dialog[open] .keys kbd')]"
            assert page.js(f"{keys}.length > 10 && {keys}.every(key => key.offsetWidth)")
            page.press(Keys.ESCAPE)
            buttons = (
                "[...document.querySelectorAll('button, input, select, textarea, [role=slider]')]"
            )
            named = "b => b.textContent.trim() || b.ariaLabel || b.labels?.length"
            assert page.js(f"{buttons}.every({named})")
            assert page.complaints() == []
        finally:
            resize(driver, 1280, 800)


def test_the_actions_of_a_chain_have_a_lane_each(driver: Any, tmp_path: Path) -> None:
    found = make_chain(tmp_path)
    with running(found) as (address, _):
        page = Page(driver, address, "clip 0")
        assert page.js("document.querySelectorAll('.action-lane').length") == 2
        page.drag(".action-lane:nth-of-type(3) .handle.end", 60)
        (row,) = eventually(lambda: rows_of(found, "clip 0"), "the action is on disk")
        assert (row[0], row[3]) == ("action", "2")
        assert row[2] > 4.0
        page.settled()
        page.press("a", "]")  # the first action, and its end a frame later
        eventually(lambda: len(rows_of(found, "clip 0")) == 2, "the other is on disk, too")
        assert ("action", "1") in [(each[0], each[3]) for each in rows_of(found, "clip 0")]
        page.settled()
        page.click("#names")
        assert page.js("document.querySelectorAll('#name-fields input').length") == 5
        page.click("#names-cancel")
        assert page.complaints() == []

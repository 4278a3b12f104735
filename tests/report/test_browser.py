"""The page as people meet it: in a real browser, opened from disk."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks.browser import REMEDY, address, browser, has_browser, requests, resize
from objectstates import Result, write_report
from tests.chains import chain_result, draw_chain
from tests.report.scenes import ACTION, NAMES, SECONDS, draw_video, make_result

if not has_browser():
    pytest.skip(REMEDY, allow_module_level=True)

Script = Callable[..., Any]


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as opened:
        yield opened


@pytest.fixture
def js(driver: Any, page: Path) -> Script:
    """The page, opened afresh; runs a script in it."""
    return visit(driver, page)


def visit(driver: Any, page: Path) -> Script:
    resize(driver, 1280, 900)
    driver.get_log("browser")
    requests(driver)
    driver.get(address(page))
    driver.execute_script("document.documentElement.style.scrollBehavior = 'auto'")
    return lambda script, *args: driver.execute_script(f"return {script}", *args)


def eventually(condition: Callable[[], Any], what: str, seconds: float = 20.0) -> Any:
    """Wait for the browser, which other processes may slow down."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"it never came to be that {what}")


def scroll_to(js: Script, number: int) -> None:
    js(f"document.getElementById('clip-{number}').scrollIntoView({{block: 'center'}})")
    eventually(lambda: js(f"document.querySelector('#clip-{number} .timeline')"), "a row is filled")


def press(driver: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    for key in keys:
        ActionChains(driver).send_keys(key).perform()


def shown(js: Script) -> list[int]:
    """The numbers of the clips that are listed, in order."""
    rows = "document.querySelectorAll('.clip:not([hidden])')"
    return list(js(f"[...{rows}].map(x => +x.dataset.clip)"))


def set_control(js: Script, name: str, value: str) -> None:
    js(f"void (document.getElementById('{name}').value = arguments[0])", value)
    event = "new Event('input', {bubbles: true})"
    js(f"document.getElementById('{name}').dispatchEvent({event})")


def test_it_opens_from_disk_without_network_or_complaint(driver: Any, js: Script) -> None:
    for number in range(len(NAMES)):
        scroll_to(js, number)
    js("document.querySelector('#clip-0 .thumbnail').click()")
    eventually(lambda: js("document.querySelector('.player video')?.readyState > 1"), "it plays")
    schemes = {url.split(":")[0] for url in requests(driver)}
    assert schemes <= {"file", "data"}
    complaints = [entry for entry in driver.get_log("browser") if entry["level"] != "DEBUG"]
    assert complaints == []


def test_names_show_as_text(js: Script) -> None:
    assert js("typeof window.alerted") == "undefined"
    names = js("[...document.querySelectorAll('.clip h3')].map(x => x.textContent)")
    assert set(names) == set(NAMES)
    scroll_to(js, 0)
    label = js("document.querySelector('#clip-0 .thumbnail').getAttribute('aria-label')")
    assert NAMES[0] in label


def test_frames_come_first_and_show_the_states(js: Script) -> None:
    tags = "document.querySelectorAll('.highlight:first-child .tag')"
    roles = js(f"[...{tags}].map(x => x.textContent.trim())")
    assert roles == ["state 1", "action", "state 2"]
    assert js("document.querySelectorAll('.highlight:first-child rect:not(.halo)').length") == 2
    loaded = js(
        "[...document.querySelectorAll('.highlight img')].every(x => x.naturalWidth >= 160)"
    )
    assert loaded
    assert js("document.querySelectorAll('.crop').length") == 2 * len(NAMES)


def test_the_change_is_on_the_timeline_and_in_a_picture(driver: Any, js: Script) -> None:
    scroll_to(js, 0)
    curve, mark = (js(f"document.querySelector('#clip-0 .timeline .{style}').getBBox().x + "
                      f"document.querySelector('#clip-0 .timeline .{style}').getBBox().width / 2")
                   for style in ("change", "action-time"))  # fmt: skip
    assert curve == pytest.approx(500, abs=40), "it spans the time axis"
    assert mark == pytest.approx(1000 * ACTION / SECONDS, abs=100)
    picture = "document.querySelector('#clip-0 .where img')"
    assert "% of the picture, is yellow" in js(f"{picture}.alt")
    eventually(lambda: js(f"{picture}.naturalWidth") > 0, "the picture is decoded")
    text = js("document.querySelector('#clip-0 .where .text').textContent")
    assert text.endswith("% of the picture changes for good")
    js("document.querySelector('#clip-0 .where').click()")
    eventually(lambda: js("document.querySelector('#clip-0 .player')"), "it plays")


def test_a_clip_without_a_profile_shows_none(js: Script) -> None:
    last = len(NAMES) - 1
    scroll_to(js, last)
    assert js(f"document.querySelectorAll('#clip-{last} .thumbnail').length") == 3
    assert js(f"document.querySelectorAll('#clip-{last} .timeline .change').length") == 0


def test_rows_are_filled_when_they_are_scrolled_near(js: Script, driver: Any) -> None:
    resize(driver, 1280, 300)
    driver.refresh()
    assert js("document.querySelectorAll('#clips .timeline').length") < len(NAMES)
    last = shown(js)[-1]
    scroll_to(js, last)
    moments = f"#clip-{last} .strip.of-3 > .thumbnail:not(.where)"
    assert js(f"document.querySelectorAll('{moments} img').length") == 3


def test_rows_sort_and_filter(js: Script) -> None:
    confidence = js(
        "[...document.querySelectorAll('.clip .num')].map(x => parseFloat(x.textContent))"
    )
    assert confidence == sorted(confidence, reverse=True)
    set_control(js, "sort", "unsure")
    assert shown(js)[0] == list(reversed(shown(js)))[-1]
    backwards = js(
        "[...document.querySelectorAll('.clip .num')].map(x => parseFloat(x.textContent))"
    )
    assert backwards == sorted(confidence)
    set_control(js, "sort", "name")
    assert shown(js).index(5) < shown(js).index(4), "clip 9 comes before clip 10"
    set_control(js, "sort", "wrong")
    assert set(shown(js)[:2]) == {4, 5}
    set_control(js, "search", "CLIP")
    assert set(shown(js)) == {4, 5}
    assert js("document.getElementById('count').textContent") == "2 of 6 clips"
    set_control(js, "search", "<script>")
    assert shown(js) == [0]
    set_control(js, "search", "nothing like it")
    assert shown(js) == []
    js("document.getElementById('reset').click()")
    assert len(shown(js)) == len(NAMES)
    set_control(js, "least", js("document.getElementById('least').max"))
    assert len(shown(js)) < len(NAMES)


def test_mistakes_are_counted_and_filtered_by_kind(js: Script) -> None:
    failures = js(
        "Object.fromEntries([...document.querySelectorAll('.mistake-count')]"
        ".map(x => [x.dataset.kind, +x.querySelector('strong').textContent]))"
    )
    assert failures["object"] == failures["state"] == 0
    assert failures["action"] == 1
    assert failures["ambiguous"] >= 1
    js("document.querySelector('.mistake-count[data-kind=action]').click()")
    assert shown(js) == [4]
    assert "action off by 1.8 s" in js("document.querySelector('#clip-4 .mistakes').textContent")
    js("document.querySelector('.mistake-count[data-kind=action]').click()")
    assert len(shown(js)) == len(NAMES)
    set_control(js, "kind", "none")
    assert sorted(shown(js)) == [0, 1, 2, 3]


def test_the_truth_lies_over_the_timeline(js: Script) -> None:
    scroll_to(js, 4)
    left = js(
        "(() => { const row = document.getElementById('clip-4');"
        "const t = row.querySelector('.timeline svg').getBoundingClientRect();"
        "const b = row.querySelector('.true-action').getBoundingClientRect();"
        "return [(b.left - t.left) / t.width, b.width / t.width] })()"
    )
    assert left == pytest.approx([1.0 / 6, 0.5 / 6], abs=0.01)
    scroll_to(js, 5)
    assert js("document.querySelectorAll('#clip-5 .truth-mark.ambiguous').length") == 1
    assert js("document.querySelectorAll('#clip-5 .cross').length") >= 1


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_click_on_a_moment_plays_the_video_there(js: Script, number: int) -> None:
    """Whatever the file is called: the clips' have spaces, hashes, percent signs, umlauts."""
    scroll_to(js, number)
    moment = float(js(f"document.querySelectorAll('#clip-{number} .thumbnail')[2].dataset.time"))
    js(f"document.querySelectorAll('#clip-{number} .thumbnail')[2].click()")
    playing = "document.querySelector('.player video')"
    eventually(lambda: js(f"{playing}?.readyState >= 2"), "the video is loaded")
    assert js(f"document.querySelector('#clip-{number} .player') !== null")
    eventually(lambda: js(f"{playing}.currentTime") > moment + 0.2, "the video plays on")
    assert js(f"{playing}.played.start(0)") >= moment - 0.1, "nothing before it was played"


def test_a_click_on_the_timeline_plays_there(driver: Any, js: Script) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    scroll_to(js, 1)
    timeline = driver.find_element("css selector", "#clip-1 .timeline")
    offset = timeline.rect["width"] * (4.5 / 6 - 0.5)
    ActionChains(driver).move_to_element_with_offset(timeline, int(offset), 0).perform()
    assert js("document.getElementById('tooltip').textContent").startswith("4.5 s")
    ActionChains(driver).move_to_element_with_offset(timeline, int(offset), 0).click().perform()
    playing = "document.querySelector('.player video')"
    eventually(lambda: js(f"{playing}?.readyState >= 2"), "the video is loaded")
    eventually(lambda: js(f"{playing}.played.length"), "it plays")
    assert 4.4 <= js(f"{playing}.played.start(0)") <= 4.6


def test_boxes_follow_the_object_while_it_plays(js: Script) -> None:
    scroll_to(js, 1)
    js("document.querySelectorAll('#clip-1 .thumbnail')[0].click()")
    playing = "document.querySelector('.player video')"
    eventually(lambda: js(f"{playing}?.readyState >= 2"), "the video is loaded")
    js(f"{playing}.pause()")
    js(f"void ({playing}.currentTime = 5.5)")
    box = "document.querySelector('.player rect:not(.halo)')"
    at = f"Math.abs({box}?.getAttribute('x') - 31) <= 1"  # 20 + 2 * 5.5
    eventually(lambda: js(at), "the box has followed")
    assert float(js(f"{box}.getAttribute('width')")) == pytest.approx(40, abs=1)
    assert js("document.querySelector('.player svg').getAttribute('viewBox')") == "0 0 160 120"


def test_the_keyboard_does_it_all(driver: Any, js: Script) -> None:
    from selenium.webdriver.common.keys import Keys

    order = shown(js)
    focused = "document.activeElement.closest('.clip')?.dataset.clip"
    press(driver, "/")
    assert js("document.activeElement.id") == "search"
    press(driver, "c", "l", "i", "p", Keys.ESCAPE)
    assert js("document.getElementById('search').value") == ""
    press(driver, Keys.ENTER)
    assert int(js(focused)) == order[0]
    press(driver, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
    assert int(js(focused)) == order[1]
    press(driver, Keys.END)
    assert int(js(focused)) == order[-1]
    press(driver, Keys.ENTER)
    eventually(lambda: js("document.querySelector('.player video')?.paused === false"), "it plays")
    press(driver, " ")
    eventually(lambda: js("document.querySelector('.player video')?.paused"), "it pauses")
    before = js("document.querySelector('.player video').currentTime")
    press(driver, Keys.ARROW_RIGHT)
    eventually(
        lambda: js("document.querySelector('.player video').currentTime") > before, "it steps on"
    )
    press(driver, Keys.ESCAPE)
    assert js("document.querySelector('.player')") is None
    assert int(js(focused)) == order[-1]
    tabbable = js("[...document.querySelectorAll('#clips [tabindex=\"0\"]')].length")
    assert 1 <= tabbable <= 6, "only one row takes part in the order of tabs"


def test_without_the_video_key_frames_step_through(
    driver: Any, result: Result, page: Path, tmp_path: Path
) -> None:
    """The page was sent to someone without the videos."""
    text = page.read_text(encoding="utf-8")
    alone = tmp_path / "alone.html"
    alone.write_text(text.replace("file://", "file:///nowhere"), encoding="utf-8")
    js = visit(driver, alone)
    scroll_to(js, 1)
    js("document.querySelectorAll('#clip-1 .thumbnail')[0].click()")
    told = "document.querySelector('.status')?.textContent"
    eventually(lambda: "key frames" in (js(told) or ""), "it falls back")
    eventually(lambda: float(js(told).split()[0]) > 4, "it steps through")
    assert js("document.querySelector('.player img').naturalWidth") > 0
    assert js("document.querySelectorAll('.player rect').length") >= 1


def test_moved_together_with_its_videos_it_still_plays(
    driver: Any, folder: Path, page: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "videos", tmp_path / "videos")
    text = page.read_text(encoding="utf-8").replace("file://", "file:///nowhere")
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    js = visit(driver, tmp_path / "report.html")
    scroll_to(js, 1)
    js("document.querySelectorAll('#clip-1 .thumbnail')[0].click()")
    eventually(lambda: js("document.querySelector('.player video')?.readyState >= 2"), "it plays")


@pytest.mark.parametrize("target", ["joint", "state", "action"])
def test_results_without_videos(driver: Any, tmp_path: Path, target: str) -> None:
    js = visit(driver, write_report(make_result(target=target), tmp_path / "a.html"))
    for number in range(len(NAMES)):
        scroll_to(js, number)
    assert js("document.querySelectorAll('.highlight, .crop').length") == 0
    press(driver, "/")
    js("document.querySelector('#clip-2 .timeline').click()")
    eventually(
        lambda: "no video" in js("document.querySelector('.status').textContent"), "it tells"
    )
    assert driver.get_log("browser") == []


def test_vp9_plays_too(driver: Any, tmp_path: Path) -> None:
    from dataclasses import replace

    video = str(draw_video(tmp_path / "a.webm", "libvpx-vp9"))
    result = make_result()
    result = replace(result, corpus=replace(result.corpus, videos=(video,) * len(NAMES)))
    js = visit(driver, write_report(result, tmp_path / "a.html"))
    scroll_to(js, 0)
    js("document.querySelectorAll('#clip-0 .thumbnail')[1].click()")
    eventually(lambda: js("document.querySelector('.player video')?.readyState >= 2"), "it plays")


@pytest.mark.parametrize("width", [360, 390, 768])
def test_narrow_screens_need_no_sideways_scrolling(driver: Any, js: Script, width: int) -> None:
    resize(driver, width, 800)
    driver.refresh()
    for number in range(len(NAMES)):
        scroll_to(js, number)
    js("document.querySelector('#clip-0 .thumbnail').click()")
    assert js("document.documentElement.scrollWidth") <= width
    small = js(
        "[...document.querySelectorAll('.toolbar input, .toolbar select')]"
        ".filter(x => x.type !== 'range' && x.getBoundingClientRect().height < 30).length"
    )
    assert small == 0


CONTRAST = """(() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (x) => {
    for (let e = x; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const bad = [];
  const texts = 'h1, h2, h3, p, span, dt, dd, button, label, summary';
  for (const x of document.querySelectorAll(texts)) {
    const own = [...x.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const exempt = x.closest('.highlight .at, :disabled, .cross, .digit');
    if (!own || !x.checkVisibility() || exempt) continue;
    const [a, b] = [light(parse(getComputedStyle(x).color)), light(behind(x))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push([x.className || x.tagName, x.textContent.trim().slice(0, 30), ratio]);
  }
  return bad;
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_has_contrast(driver: Any, page: Path, dark: bool) -> None:
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    js = visit(driver, page)
    scroll_to(js, 4)
    paper = js("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, paper.strip("rgb()").split(","))) / 3
    assert (brightness < 60) == dark
    assert js(CONTRAST) == []
    js("document.getElementById('theme').click()")  # light by hand, whatever the system
    js("document.getElementById('theme').click()")  # dark
    assert js("getComputedStyle(document.body).backgroundColor") == "rgb(21, 20, 18)"
    assert js(CONTRAST) == []
    js("document.getElementById('theme').click()")  # as the system again
    assert js("getComputedStyle(document.body).backgroundColor") == paper


def test_everything_that_can_be_pressed_has_a_name(js: Script) -> None:
    for number in range(len(NAMES)):
        scroll_to(js, number)
    nameless = js(
        "[...document.querySelectorAll('button, input, select, [role=img]')].filter(x =>"
        "!x.textContent.trim() && !x.getAttribute('aria-label') && !x.labels?.length)"
        ".map(x => x.outerHTML.slice(0, 200))"
    )
    assert nameless == []
    assert js("document.querySelectorAll('img:not([alt])').length") == 0


def test_a_chain_of_six_is_readable_on_a_desktop_and_on_a_phone(
    driver: Any, tmp_path: Path
) -> None:
    result = chain_result(6, 3, draw_chain(tmp_path / "chain.mp4", 7))
    page = write_report(result, tmp_path / "chain.html", processes=1)
    js = visit(driver, page)
    for width, height in ((1280, 900), (390, 844)):
        resize(driver, width, height)
        scroll_to(js, 2)
        scroll_to(js, 0)
        heads = "[...document.querySelectorAll('#clip-0 .action-head')]"
        assert js(f"{heads}.map(x => x.textContent)") == list("123456")
        edges = js(f"{heads}.map(x => x.getBoundingClientRect()).map(x => [x.left, x.right])")
        assert all(a[1] < b[0] for a, b in pairwise(edges)), "no number covers the next"
        assert js("document.querySelectorAll('#clip-2 .action-head').length") == 5
        assert js("document.querySelectorAll('#clip-0 .curve').length") == 6
        assert js("document.querySelectorAll('#clip-0 .thumbnail').length") == 13
        assert js("document.documentElement.scrollWidth <= innerWidth")
    for theme in ("light", "dark"):
        js("void (document.documentElement.dataset.theme = arguments[0])", theme)
        keys = (
            "[...document.querySelectorAll('.key')].map(x => getComputedStyle(x).backgroundColor)"
        )
        assert len(set(js(keys)[:7])) == 7, "each state has its colour"
    assert driver.get_log("browser") == []


def test_paper_has_all_clips_in_light_colours(driver: Any, js: Script) -> None:
    """Rows far below are not filled yet, tables are closed, and the theme may be dark."""
    js("document.documentElement.dataset.theme = 'dark'")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        js("window.dispatchEvent(new Event('beforeprint'))")
        assert js(
            "[...document.querySelectorAll('.clip')].every((c) => c.querySelector('.timeline'))"
        )
        assert js("document.querySelectorAll('details:not([open])').length") == 0
        assert js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        for gone in (".toolbar", ".sections", "#theme", ".anchor"):
            assert js(f"getComputedStyle(document.querySelector('{gone}')).display") == "none"
        js("window.dispatchEvent(new Event('afterprint'))")
        assert js("document.querySelectorAll('details:not([open])').length") > 0
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        js("delete document.documentElement.dataset.theme")

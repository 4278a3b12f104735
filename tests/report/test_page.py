from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from benchmarks.report import with_videos
from objectstates import Corpus, JointDiscovery, Result, write_report
from objectstates.base.errors import ReportError
from objectstates.data.label_names import LabelNames
from objectstates.data.result import SkippedClip
from objectstates.data.synthetic import synthetic_corpus
from objectstates.data.verdict import Finding, Verdict
from objectstates.video.fingerprint import INFO
from tests.chains import chain_result, draw_chain
from tests.report.scenes import NAMES, make_result


class Reader(HTMLParser):
    """The text that is shown, and the tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.inside.append(tag)

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self.inside.pop()

    def handle_data(self, data):
        if not self.inside:
            self.text += data


def data(page: str) -> dict[str, Any]:
    """What the page's script reads."""
    found = re.search(r'id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return dict(json.loads(found[1]))


def test_names_are_text_and_nothing_else(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    reader = Reader(text)
    for name in NAMES:
        assert name in reader.text
    assert "<script>alert(1)" not in text
    scripts = [attrs for tag, attrs in reader.tags if tag == "script" and "type" not in attrs]
    assert len(scripts) == 1
    assert {clip["name"] for clip in data(text)["clips"]} == set(NAMES)


def test_nothing_refers_to_the_network(page: Path) -> None:
    reader = Reader(page.read_text(encoding="utf-8"))
    for _, attrs in reader.tags:
        for name in ("src", "href", "srcset", "action", "data"):
            value = attrs.get(name) or ""
            assert value.startswith(("data:", "#")) or not value, value[:80]
    assert "@import" not in page.read_text(encoding="utf-8")


def test_the_same_result_gives_the_same_bytes(result: Result, page: Path, folder: Path) -> None:
    again = write_report(result, folder / "again.html", processes=2)
    assert again.read_bytes() == page.read_bytes()


def test_videos_are_addressed_relatively_and_absolutely(page: Path, folder: Path) -> None:
    clip = data(page.read_text(encoding="utf-8"))["clips"][1]
    absolute = (folder / "videos" / "a b#1?.mp4").resolve().as_uri()
    assert clip["video"] == ["./videos/a%20b%231%3F.mp4", absolute]
    assert "%23" in absolute


def test_the_page_states_its_size(page: Path) -> None:
    stated = re.search(r"This file has ([\d.]+) MB", page.read_text(encoding="utf-8"))
    assert stated is not None
    assert float(stated[1]) == pytest.approx(page.stat().st_size / 1e6, abs=0.051)


def test_without_videos_it_is_still_a_page(tmp_path: Path) -> None:
    result = make_result()
    text = write_report(result, tmp_path / "a.html").read_text(encoding="utf-8")
    assert "6 of 6 clips name no video" in text
    assert all(clip["video"] == clip["frames"] == [] for clip in data(text)["clips"])


def test_what_changes_is_shown_where_it_is_known(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    clips = data(text)["clips"]
    for number, clip in enumerate(clips):
        stored = re.search(rf'id="frames-{number}">(.*?)</script>', text, re.S)
        assert stored is not None
        known = number < len(clips) - 1
        assert (clip["change"] is not None) == known
        assert clip["where"] == (len(clip["frames"]) if known else -1)
        assert len(stored[1].split()) == len(clip["frames"]) + known
    assert "curve shows when the picture changes for good" in Reader(text).text
    other = write_report(make_result(), tmp_path / "a.html").read_text(encoding="utf-8")
    assert {clip["change"] for clip in data(other)["clips"]} == {None}
    assert "changes for good" not in Reader(other).text


def test_videos_that_have_moved_are_named(result: Result, tmp_path: Path) -> None:
    videos = ("/gone/<b>.mp4", *result.corpus.videos[1:])
    moved = replace(result, corpus=replace(result.corpus, videos=videos))
    text = write_report(moved, tmp_path / "a.html").read_text(encoding="utf-8")
    assert "Videos not found: /gone/&lt;b&gt;.mp4" in text
    assert data(text)["clips"][0]["frames"] == []
    assert data(text)["clips"][1]["frames"]


def page_text(result: Result, path: Path) -> str:
    """What the page shows, with single spaces."""
    page = write_report(result, path / "page.html").read_text(encoding="utf-8")
    return " ".join(Reader(page).text.split())


@pytest.mark.parametrize("findings", [("found", "doubtful"), ("not_found", "not_found")])
def test_the_verdict_is_the_first_thing_said(
    findings: tuple[Finding, Finding], tmp_path: Path
) -> None:
    action, states = findings
    remedy = "Raise `context` <b>."
    verdict = Verdict(action, states, "Not all fits.", remedy, "no-change", {"states": 0.5})
    text = page_text(replace(make_result(), verdict=verdict), tmp_path)
    said = [f"{side}: {word.replace('_', ' ')}"
            for side, word in zip(("Action", "States"), findings, strict=True)]  # fmt: skip
    order = [*said, "expect 50 % right", "Not all fits.", "Raise context <b>.",
             "docs/failures.md#no-change", "objectstates looked for", "All clips"]  # fmt: skip
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "objectstates found" not in text


def test_without_a_verdict_nothing_is_said_of_it(tmp_path: Path) -> None:
    text = page_text(replace(make_result(), verdict=None, confidences=None), tmp_path)
    for words in ("Action: ", "States: ", "doubtful", "right: "):
        assert words not in text
    assert "The confidence ranks clips; it is not a probability." in text


def test_chances_are_shown_where_they_are_known(tmp_path: Path) -> None:
    result = make_result()
    chances = np.tile([0.9, 0.8, 0.6], (len(result.clips), 1))
    page = write_report(replace(result, confidences=chances), tmp_path / "a.html")
    text = page.read_text(encoding="utf-8")
    assert 'title="chance that the answers of this clip are right: 0.80"' in text
    assert "0.80 (action 0.90, state 1 0.80, state 2 0.60)" in text
    assert "not a probability" not in text


def test_advice_is_on_the_page(tmp_path: Path) -> None:
    assert "6 clips are few" in page_text(make_result(), tmp_path)


def test_truth_by_time_alone_is_called_an_upper_bound(result: Result, tmp_path: Path) -> None:
    for with_boxes in (0, 6):
        info = {**result.corpus.info, "truth": {"clips": 6, "with_boxes": with_boxes}}
        timed = replace(result, corpus=replace(result.corpus, info=info))
        path = write_report(timed, tmp_path / "a.html")
        page = path.read_text(encoding="utf-8")
        assert ("by time alone, an upper bound" in page) == (with_boxes == 0)
        assert ("not the object" in Reader(page).text) == (with_boxes == 6)
        assert data(page)["byTime"] == (with_boxes == 0)


@pytest.mark.parametrize("target", ["state", "action"])
def test_one_side_alone(target: str, tmp_path: Path) -> None:
    result = make_result(target=target)
    text = write_report(result, tmp_path / "a.html").read_text(encoding="utf-8")
    roles = {moment[1] for clip in data(text)["clips"] for moment in clip["moments"]}
    expected = {"state 1", "state 2"} if target == "state" else {"before", "action", "after"}
    assert roles == expected


def test_predictions_and_clips_without_tracklets(tmp_path: Path) -> None:
    corpus = synthetic_corpus(n_clips=4)
    model = JointDiscovery(target="action", max_passes=60).fit(corpus)
    clips = list(synthetic_corpus(n_clips=2, seed=3))
    bare = Corpus.from_clips([type(clips[0])("bare", (), clips[0].chunks), clips[1]])
    text = write_report(model.predict(bare), tmp_path / "a.html").read_text(encoding="utf-8")
    assert data(text)["clips"][0]["tracklets"] == []
    assert "learned on 4 clips" in text


def test_clips_left_out_are_named_with_reasons(result: Result, tmp_path: Path) -> None:
    skipped = replace(result, skipped=(SkippedClip("<i>lonely</i>", "has one tracklet only"),))
    text = Reader(write_report(skipped, tmp_path / "a.html").read_text(encoding="utf-8")).text
    assert "<i>lonely</i>" in text
    assert "has one tracklet only" in text


def test_five_hundred_clips_stay_below_sixteen_megabytes(tmp_path: Path) -> None:
    """Frames of noise, which compress worst."""
    rng = np.random.default_rng(0)
    video = tmp_path / "noise.mp4"
    with av.open(str(video), "w") as container:
        stream = container.add_stream("libx264", rate=2, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        for _ in range(40):
            noise = rng.integers(0, 255, (240, 320, 3), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(noise)))
        container.mux(stream.encode())
    corpus = with_videos(synthetic_corpus(n_clips=500, tracklets_per_clip=20), [video])
    result = JointDiscovery(max_passes=55).fit(corpus).result_
    page = write_report(result, tmp_path / "a.html", processes=1)
    assert 3e6 < page.stat().st_size < 16e6
    clips = data(page.read_text(encoding="utf-8"))["clips"]
    assert all(len(clip["frames"]) == 3 for clip in clips)


# Writing


def test_a_report_replaces_a_report_and_nothing_else(result: Result, tmp_path: Path) -> None:
    precious = tmp_path / "thesis.html"
    precious.write_text("<html>years of work</html>")
    with pytest.raises(ReportError, match="exists and is no report"):
        write_report(result, precious)
    assert precious.read_text() == "<html>years of work</html>"
    with pytest.raises(ReportError, match="is a folder"):
        write_report(result, tmp_path)
    page = write_report(make_result(), tmp_path / "deep" / "a.html")
    write_report(make_result(), page)
    assert [path.name for path in page.parent.iterdir()] == ["a.html"]


def test_the_report_about_another_result_is_replaced_only_by_name(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        make_result().save(name)
    assert run("report", "one")[0] == 0
    first = (tmp_path / "report.html").read_bytes()
    code, _, err = run("report", "two")
    assert code == 2
    assert "report.html is about another result: name the file to write with --out" in err
    assert (tmp_path / "report.html").read_bytes() == first
    assert run("report", "one")[0] == 0, "its own report is replaced"
    assert run("report", "two", "--out", "report.html")[0] == 0
    assert (tmp_path / "report.html").read_bytes() != first


def test_the_command(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_result().save("r")
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    code, out, err = run("report", "r", "--open")
    assert (code, err) == (0, "")
    assert "report.html" in out
    assert opened == [(tmp_path / "report.html").resolve().as_uri()]
    code, out, _ = run("report", "r", "--out", "b.html", "--json")
    assert json.loads(out)["clips"] == 6
    assert len(opened) == 1
    for words, message in (
        (["report", "nowhere"], "nowhere has no result.json"),
        (["report", "r", "--out", "r"], "r is a folder: name a file, such as report.html"),
        (["report", "r", "--out", "r/result.json"], "exists and is no report"),
        (["report", "r", "--out", "b.html/c.html"], "cannot write"),
    ):
        code, _, err = run(*words)
        assert code == 2
        assert message in err
        assert err.count("\n") == 1


def test_it_uses_the_users_names(result: Result, tmp_path: Path) -> None:
    named = replace(result, names=LabelNames.of("closed,<b>open</b>", "opening"))
    text = write_report(named, tmp_path / "named.html", processes=1).read_text()
    assert '<span class="tag state-1">closed</span>' in text
    assert '<span class="tag state-2">&lt;b&gt;open&lt;/b&gt;</span>' in text
    assert '"called":{"state 1":"closed","action":"opening"' in text
    assert "opening and its score" in text
    assert "<b>open</b>" not in text


def test_a_chain_shows_each_of_its_steps(tmp_path: Path) -> None:
    result = chain_result(6, 3, draw_chain(tmp_path / "chain.mp4", 7))
    path = write_report(result, tmp_path / "chain.html", processes=1)
    text = path.read_text(encoding="utf-8")
    assert "How the thing changes, in 6 steps and 3 clips" in text
    assert text.count('class="key state-') == 7
    first, *_, last = data(text)["clips"]
    assert [action[0] for action in first["actions"]] == [1, 2, 3, 4, 5, 6]
    assert len(first["moments"]) == 13
    assert len(first["scores"]) == 6
    assert [action[0] for action in last["actions"]] == [1, 3, 4, 5, 6]
    assert "action 2 was not found" in text


def test_a_replaced_video_is_named_on_the_page(result: Result, tmp_path: Path) -> None:
    video = result.corpus.videos[0]
    info = {**result.corpus.info, INFO: {video: "1-0"}}
    stale = replace(result, corpus=replace(result.corpus, info=info))
    page = write_report(stale, tmp_path / "r.html", processes=1).read_text(encoding="utf-8")
    assert f"1 video was replaced after being read: {video}." in Reader(page).text


def test_sections_are_linked_from_the_top(page: Path) -> None:
    reader = Reader(page.read_text(encoding="utf-8"))
    ids = {attributes.get("id") for _, attributes in reader.tags}
    links = [a.get("href") or "" for tag, a in reader.tags if tag == "a"]
    assert {"#found", "#states", "#average", "#precision", "#all", "#optimisation"} <= {*links}
    assert {"#clip-0", "#clip-1"} <= {*links}
    assert {link.removeprefix("#") for link in links} <= ids

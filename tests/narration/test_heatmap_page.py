import re
from html.parser import HTMLParser

import numpy as np

from objectstates.narration.heatmap_page import colour, shades, write_page
from objectstates.narration.retrieval import Retrieved, retrieve
from objectstates.narration.sentences import load_action
from objectstates.narration.text_classifier import TfidfSvm
from objectstates.narration.transcript import Narration

IDLE = "so anyway my neighbour told me all about his holiday in spain and the food there"


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.marks, self.links = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        if tag == "mark":
            self.marks.append(attributes["class"])
        self.links += [attributes[key] for key in ("href", "src") if key in attributes]


def spoken(text, name, video=None):
    words = text.split()
    starts = 0.5 * np.arange(len(words))
    return Narration(name, words, np.stack([starts, starts + 0.5], 1), video)


def make(tmp_path, name="talk", text=f"{IDLE} put the wheel on the hub {IDLE}", video=True):
    scorer = TfidfSvm().fit(load_action("put-wheel").sentences)
    narration = spoken(text, name, tmp_path / "videos" / f"{name}.mp4" if video else None)
    clips = retrieve([narration], scorer)
    write_page(tmp_path / "page.html", clips, scorer, "Put <wheel>")
    return (tmp_path / "page.html").read_text(), clips


def test_what_was_found_is_the_reddest_and_marked(tmp_path):
    text, _ = make(tmp_path)
    marks = Page(text).marks
    heat = [int(re.findall(r"^h(\d+)", mark)[0]) for mark in marks]
    assert "found" in marks[int(np.argmax(heat))]
    assert min(heat) == 0
    assert "found" not in marks[0]


def test_names_are_text_and_links_lead_to_the_video(tmp_path):
    name = '<img src=x onerror="alert(1)"> & #1'
    text, (clip,) = make(tmp_path, name)
    page = Page(text)
    assert "img" not in page.tags
    assert "Put &lt;wheel&gt;" in text
    video = [link for link in page.links if link.startswith("videos/")]
    assert video
    assert all("%23" in link and "<" not in link for link in video)
    assert any(link.endswith(f"#t={clip.start:.2f},{clip.end:.2f}") for link in video)


def test_nothing_is_loaded_from_elsewhere(tmp_path):
    page = Page(make(tmp_path, video=False)[0])
    assert not [link for link in page.links if not link.startswith("#")]
    assert "link" not in page.tags
    assert "video" not in page.tags


def test_hours_of_speech_make_a_page_that_opens(tmp_path):
    text, _ = make(tmp_path, text=f"{IDLE} " * 3000 + "put the wheel on the hub")
    assert len(text) < 600_000
    assert "words before this are not shown" in text


def test_colours_go_from_blue_to_red():
    blue, red = colour(0), colour(20)
    assert int(blue[5:], 16) > int(blue[1:3], 16)
    assert int(red[1:3], 16) > int(red[5:], 16)
    assert shades(np.array([-9.0, 0.0, 0.5, 1.0, 9.0]), 0.0, 1.0) == [0, 0, 10, 20, 20]


def test_a_page_of_nothing(tmp_path):
    found: list[Retrieved] = []
    write_page(tmp_path / "p.html", found, TfidfSvm(), "none")
    assert "<article" not in (tmp_path / "p.html").read_text()

import csv
import io
from html.parser import HTMLParser

import numpy as np
import pytest

from objectstates.evaluation import ClipScore, Evaluation, method_row
from objectstates.evaluation.table_files import (
    Table,
    method_table,
    to_csv,
    to_html,
    to_markdown,
    write_table,
)

TABLE = Table(
    "Scores <b>",
    ("method", "states", "clips"),
    (("joint, <script>", 0.123456789, 7), ("a|b", np.nan, None)),
    ("A note & more",),
)


def test_csv_keeps_all_digits():
    rows = list(csv.reader(io.StringIO(to_csv(TABLE))))
    assert rows == [
        ["method", "states", "clips"],
        ["joint, <script>", "0.123456789", "7"],
        ["a|b", "", ""],
    ]


def test_markdown_rounds_and_names_cannot_break_it():
    lines = to_markdown(TABLE).splitlines()
    assert "| joint, &lt;script&gt; | 0.12 | 7 |" in lines
    assert r"| a\|b | - | - |" in lines
    assert lines[-1] == "A note &amp; more"


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.cells, self.tags, self.inside = [], set(), False

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.inside = tag == "td"
        self.cells += [""] * self.inside

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.cells[-1] += data


def test_html_shows_names_as_they_are():
    page = Cells()
    page.feed(to_html(TABLE))
    assert page.cells == ["joint, <script>", "0.12", "7", "a|b", "-", "-"]
    assert not page.tags & {"script", "b", "link", "img"}, "markup, or something from elsewhere"


def test_tables_are_written_in_all_forms(tmp_path):
    paths = write_table(TABLE, tmp_path / "new", "scores")
    assert sorted(path.name for path in paths) == ["scores.csv", "scores.html", "scores.md"]
    assert paths[0].read_text() == to_csv(TABLE)
    assert len(list((tmp_path / "new").iterdir())) == 3


def test_a_table_of_methods():
    scores = Evaluation((ClipScore("a", (1.0, 0.0), (0.5, 0.5), (np.nan,), 3),))
    table = method_table("All", [method_row("mine", [scores])])
    (row,) = csv.DictReader(io.StringIO(to_csv(table)))
    assert float(row["states"]) == 0.5
    assert float(row["labels_per_clip"]) == 3
    assert row["action"] == ""
    assert float(row["states_recall"]) == pytest.approx(0.5)

"""Which Python the continuous integration tries besides its own."""

import sys
from pathlib import Path

from tools.other_python import choose, probe

OLD, SAME, NEW, TOO_NEW = (
    ((3, minor, 2), Path(f"/{name}"))
    for minor, name in ((9, "old"), (11, "same"), (13, "new"), (99, "too_new"))
)


def test_another_minor_version_is_preferred_and_the_newest_of_them():
    assert choose([SAME, NEW, ((3, 12, 9), Path("/middle"))], (3, 11)) == NEW[1]


def test_another_build_of_the_same_version_is_better_than_none():
    assert choose([SAME, OLD, TOO_NEW], (3, 11)) == SAME[1]


def test_there_may_be_none():
    assert choose([], (3, 11)) is None
    assert choose([OLD, TOO_NEW], (3, 11)) is None


def test_this_python_and_what_does_not_run_are_no_other(tmp_path):
    assert probe(Path(sys.executable)) is None
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "python3").chmod(0o755)
    assert probe(tmp_path / "python3") is None
    assert probe(tmp_path / "missing") is None

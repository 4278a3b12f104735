"""The command ``occurrences``."""

import json

import pytest

from objectstates import JointDiscovery, Result
from objectstates.cli import occurrences as command
from objectstates.discovery import occurrences
from tests.long_videos import long_videos, once


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A model, and the corpora of long videos with and without occurrences."""
    root = tmp_path_factory.mktemp("data")
    JointDiscovery(changes=2, pattern="ABA", verdict=False).fit(once()).save(root / "model")
    long_videos([2, 0]).save(root / "long")
    long_videos([0, 0]).save(root / "idle")
    return root


def test_occurrences_are_listed_and_written(run, folders, tmp_path):
    out = tmp_path / "found"
    code, text, _ = run("occurrences", folders / "model", folders / "long", "--out", out)
    assert code == 0
    for words in ("video0#1", "video0#2", "video1 shows no occurrence", "confidence"):
        assert words in " ".join(text.split())
    assert Result.load(out).clips == ("video0#1", "video0#2")
    assert run("inspect", out)[0] == 0
    assert run("export", out, "--to", "csv", "--out", tmp_path / "tables")[0] == 0


def test_json_is_for_scripts(run, folders, tmp_path):
    out = tmp_path / "found"
    code, text, _ = run("occurrences", folders / "model", folders / "long", "--out", out, "--json")
    facts = json.loads(text)
    assert code == 0
    assert list(facts["skipped"]) == ["video1"]
    first, second = facts["occurrences"]
    assert first["start"] < first["action_times"][0] < first["action_times"][1] < first["end"]
    assert first["end"] <= second["start"]
    assert first["video"] == "video0.mp4"
    assert first["score"] > facts["minimum"]


def test_no_occurrence_is_an_answer(run, folders, tmp_path):
    out = tmp_path / "found"
    code, text, _ = run("occurrences", folders / "model", folders / "idle", "--out", out)
    assert code == 0
    assert "none of 2 videos shows an occurrence" in " ".join(text.split())
    assert not out.exists()


def test_mistakes_are_named(run, folders, tmp_path):
    model = folders / "model"
    code, _, err = run("occurrences", model, folders / "long", "--out", model)
    assert code == 2
    assert "the model itself" in err
    code, _, err = run(
        *("occurrences", model, folders / "long", "--out", tmp_path / "r", "--minimum", "nan")
    )
    assert code == 2
    assert "--minimum" in err


def test_the_default_minimum_is_that_of_the_library():
    assert command.MINIMUM == occurrences.MINIMUM

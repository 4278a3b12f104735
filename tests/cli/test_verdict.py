"""The verdict on the terminal, and the exit code of a command that requires one."""

import json
from dataclasses import replace

import numpy as np
import pytest
import typer

from objectstates import JointDiscovery, Result
from objectstates.cli.verdict import check_required
from objectstates.data.synthetic import synthetic_corpus
from objectstates.data.verdict import FINDINGS, Verdict

DOUBTFUL = Verdict(
    "found",
    "doubtful",
    "The states look alike in 3 clips.",
    "Raise the `context` of boxes.",
    "wrong-object",
    {"action": 0.96, "states": 0.5},
)


@pytest.fixture(scope="module")
def doubtful():
    result = JointDiscovery().fit(synthetic_corpus(n_clips=6)).result_
    return replace(result, verdict=DOUBTFUL, confidences=np.full((6, 3), 0.75))


@pytest.mark.parametrize("words", [("inspect",), ("report", "--out", "page.html")])
def test_the_verdict_comes_first(run, doubtful, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    doubtful.save("r")
    command, *more = words
    code, out, _ = run(command, "r", *more)
    assert code == 0
    first = out.splitlines()[:4]
    assert first[0] == "action: found (expect 96 % right); states: doubtful (expect 50 % right)"
    assert first[1] == "The states look alike in 3 clips."
    assert first[2] == "Raise the context of boxes. See docs/failures.md#wrong-object."
    assert first[3].startswith("note: 6 clips are few")
    facts = json.loads(run(command, "r", *more, "--json")[1])
    assert Verdict.from_json(facts["verdict"]) == DOUBTFUL
    assert facts["advice"][0]["name"] == "few_clips"


def test_a_result_of_an_earlier_version_has_none(run, doubtful, tmp_path):
    replace(doubtful, verdict=None, confidences=None).save(tmp_path / "r")
    out = run("inspect", tmp_path / "r")[1]
    assert "doubtful" not in out
    assert "found" not in out
    assert "verdict" not in json.loads(run("inspect", tmp_path / "r", "--json")[1])


@pytest.mark.parametrize("required", ["found", "doubtful"])
@pytest.mark.parametrize("action", FINDINGS)
@pytest.mark.parametrize("states", FINDINGS)
def test_the_worse_side_is_what_counts(doubtful, capsys, required, action, states):
    result = replace(doubtful, verdict=replace(DOUBTFUL, action=action, states=states))
    allowed = {"found"} if required == "found" else {"found", "doubtful"}
    if {action, states} <= allowed:
        check_required(result, required)
        return
    with pytest.raises(typer.Exit) as end:
        check_required(result, required)
    assert end.value.exit_code == 1
    assert capsys.readouterr().err.startswith("objectstates: the verdict is action ")


def test_nothing_is_required_unless_asked_for(doubtful):
    check_required(replace(doubtful, verdict=None), None)
    with pytest.raises(typer.Exit):
        check_required(replace(doubtful, verdict=None), "doubtful")


def test_a_required_verdict_decides_the_exit_code_after_all_is_written(run, tmp_path):
    synthetic_corpus(n_clips=6, noise=3.0).save(tmp_path / "c")
    code, out, err = run("fit", tmp_path / "c", "--out", tmp_path / "r", "--require", "found")
    verdict = Result.load(tmp_path / "r").verdict
    assert str(tmp_path / "r") in out.replace("\n", "").replace(" ", "")
    assert code == (0 if verdict is not None and verdict.worst == "found" else 1)
    assert len(err.splitlines()) == code
    assert run("fit", tmp_path / "c", "--out", tmp_path / "r", "--require", "sure")[0] == 2

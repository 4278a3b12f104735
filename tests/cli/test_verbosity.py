"""--quiet, --verbose, completion and the pointer to the help of a command."""

import json
import os
import subprocess
import sys

import pytest

from objectstates.data.synthetic import synthetic_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "corpus"
    synthetic_corpus(n_clips=3).save(folder)
    return folder


@pytest.mark.parametrize("words", [("inspect", "--quiet"), ("--quiet", "inspect")])
def test_quiet_prints_nothing_but_json(run, corpus, words):
    assert run(*words, corpus) == (0, "", "")
    code, out, _ = run(*words, corpus, "--json")
    assert code == 0
    assert json.loads(out)["clips"] == 3
    assert "clips" in run("inspect", corpus)[1], "the next command is not quiet"


def test_quiet_says_what_is_wrong(run):
    assert run("inspect", "nowhere", "--quiet") == (2, "", "objectstates: nowhere does not exist\n")


def test_verbose_tells_where_an_error_was_raised(run):
    code, _, err = run("inspect", "nowhere", "--verbose")
    assert code == 2
    assert "Traceback" in err
    assert "read_corpus" in err
    assert err.endswith("objectstates: nowhere does not exist\n")


def test_a_usage_error_points_to_the_help_of_its_command(run):
    for words, named in (
        (("inspect", "x", "--loud"), "objectstates inspect"),
        (("detector", "train"), "objectstates detector train"),
        (("sing",), "objectstates"),
    ):
        code, _, err = run(*words)
        assert code == 2
        assert err.endswith(f"(see {named} --help)\n")


def test_the_shell_completes_commands_and_options():
    code = "import sys; sys.argv = ['objectstates']; from objectstates.cli import main; main()"
    for words, count, wanted in (
        ("objectstates insp", 1, "inspect"),
        ("objectstates fit --see", 2, "--seed"),
    ):
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(count)}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False,
            env={**os.environ, "_OBJECTSTATES_COMPLETE": "complete_bash", **asked},
        )  # fmt: skip
        assert done.stdout.split() == [wanted]

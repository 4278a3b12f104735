import json
import re
import tomllib
from inspect import signature
from typing import get_args

import pytest

from objectstates import JointDiscovery, Result
from objectstates.base.errors import ConfigurationError
from objectstates.cli.discover import discover
from objectstates.cli.fit import fit
from objectstates.cli.ingest import ingest
from objectstates.cli.settings_file import effective, options_of, read_configuration
from objectstates.data.synthetic import synthetic_corpus
from objectstates.ingest.pipeline import IngestSettings

STAGES = ("ingest", "fit", "report")
ELSEWHERE = {
    "on_infeasible",  # which the command line calls --strict
    *("changes", "optional", "pattern"),  # follow from the names of states and actions
}


@pytest.fixture
def template(run, tmp_path):
    code, _, _ = run("config", "init", tmp_path / "objectstates.toml")
    assert code == 0
    return (tmp_path / "objectstates.toml").read_text()


def uncommented(template):
    """The template as if its reader had taken away the # before every setting with a default."""
    return re.sub(r"^# (\w+ = .*)$", r"\1", template, flags=re.MULTILINE)


def test_the_template_changes_nothing_until_edited(template, tmp_path):
    assert tomllib.loads(template) == {name: {} for name in STAGES}
    assert read_configuration(tmp_path / "objectstates.toml", "discover") == {}


def test_the_template_has_every_option_with_its_default(template, tmp_path):
    lines = [line for line in uncommented(template).splitlines() if not line.endswith("# not set")]
    (tmp_path / "all.toml").write_text("\n".join(lines))
    found = read_configuration(tmp_path / "all.toml", "discover")
    options = options_of(discover)
    defaults = {name: option.default for name, option in options.items()}
    assert found == {name: value for name, value in defaults.items() if value is not None}
    assert {**options_of(ingest), **options_of(fit)}.keys() <= options.keys()
    text = " ".join(template.replace("\n# ", " ").split())
    for name, option in options.items():
        assert get_args(option.annotation)[1].help in text, name


@pytest.mark.parametrize(("settings", "command"), [(JointDiscovery, fit), (IngestSettings, ingest)])
def test_flags_are_those_of_the_library_with_its_defaults(settings, command):
    flags = options_of(command)
    for setting in signature(settings).parameters.values():
        if setting.name not in ELSEWHERE:
            assert flags[setting.name].default == setting.default, setting.name


def test_a_setting_that_is_not_set_is_still_valid_when_written(template, tmp_path):
    (tmp_path / "all.toml").write_text(uncommented(template))
    found = read_configuration(tmp_path / "all.toml", "discover")
    assert found.keys() == options_of(discover).keys()


def test_flags_take_precedence_over_the_file_and_the_file_over_defaults(run, tmp_path):
    synthetic_corpus(n_clips=3).save(tmp_path / "c")
    (tmp_path / "s.toml").write_text(
        'seed = 7\n[fit]\nnu = 0.25\nmax_passes = 60\nsolver = "block"\n[ingest]\nthreshold = 0.1\n'
    )
    words = ["fit", tmp_path / "c", "--out", tmp_path / "r", "--config", tmp_path / "s.toml"]
    assert run(*words, "--nu", 0.5)[0] == 0
    settings = Result.load(tmp_path / "r").settings
    assert (settings["nu"], settings["max_passes"], settings["seed"]) == (0.5, 60, 7)
    assert settings["mu"] == JointDiscovery().mu
    told = json.loads(run("inspect", tmp_path / "r", "--json")[1])["configuration"]
    assert told["seed"] == 7
    assert told["fit"]["nu"] == 0.5
    assert told["fit"]["max_passes"] == 60
    assert "ingest" not in told, "fit has nothing to do with it"
    assert "nu 0.5" in run("inspect", tmp_path / "r")[1]


def test_what_was_effective_can_be_read_back(tmp_path):
    values = {name: option.default for name, option in options_of(discover).items()}
    told = effective("discover", {**values, "nu": 0.5, "object_name": "drawer"})
    assert told["ingest"]["object"] == "drawer"
    assert told["fit"]["nu"] == 0.5
    assert {"seed", "strict", *STAGES} <= told.keys()
    assert told["report"] == {"open": False}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fit]\nmue = 1\n", "there is no setting mue in [fit]; did you mean mu in [fit]?"),
        ("nu = 1\n", "there is no setting nu; did you mean nu in [fit]?"),
        ("[fitt]\nnu = 1\n", "there is no setting fitt; did you mean [fit]?"),
        ("[fit]\nthreshold = 1\n", "did you mean threshold in [ingest]?"),
        ("[fit]\nxyzzy = 1\n", "objectstates config init lists all"),
        ('[fit]\nnu = "1"\n', "nu in [fit] must be a number, not '1'"),
        ("[fit]\nnu = true\n", "nu in [fit] must be a number, not True"),
        ("[fit]\nmax_passes = 1.5\n", "max_passes in [fit] must be a whole number, not 1.5"),
        ("[ingest]\nobject = 3\n", "object in [ingest] must be text in quotes, not 3"),
        ("strict = 1\n", "strict must be true or false, not 1"),
        ('[fit]\nsolver = "magic"\n', "solver in [fit] must be one of block, full, not 'magic'"),
        ("fit = 3\n", "fit is a table of settings: write [fit]"),
        ("[fit\n", "is not TOML"),
        ("[fit]\nout = 'x'\n", "there is no setting out in [fit]"),
    ],
)
def test_mistakes_in_a_file_are_one_line(run, tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(text)
    for command in (["fit", "c"], ["ingest", "v.mp4"], ["discover", "v.mp4"]):
        code, _, err = run(*command, "--out", "r", "--config", "s.toml")
        assert code == 2
        assert err.startswith("objectstates: s.toml")
        assert message in err
        assert err.count("\n") == 1, err
        assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = " + "[" * 20_000, "nested too deep"),
        ("seed = " + "{a = " * 10_000, "nested too deep"),
        ("# " + "x" * 70_000, "larger than 64 kB"),
    ],
)
def test_hostile_settings_are_refused(tmp_path, text, message):
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=rf"s\.toml is {message}"):
        read_configuration(tmp_path / "s.toml", "fit")


def test_a_missing_file_names_the_remedy(run, tmp_path):
    code, _, err = run("fit", "c", "--out", "r", "--config", tmp_path / "no.toml")
    assert code == 2
    assert "config init" in err


def test_no_file_is_overwritten(run, tmp_path):
    (tmp_path / "mine.toml").write_text("precious")
    code, _, err = run("config", "init", tmp_path / "mine.toml")
    assert code == 2
    assert "exists" in err
    assert (tmp_path / "mine.toml").read_text() == "precious"
    assert run("config", "init", tmp_path / "no" / "mine.toml")[0] == 2


def test_paper_settings_take_precedence_over_the_file_and_flags_over_both(run, tmp_path):
    synthetic_corpus(n_clips=3).save(tmp_path / "c")
    (tmp_path / "mine.toml").write_text("[fit]\nnu = 3.0\nmax_passes = 60\n")
    words = ("fit", tmp_path / "c", "--out", tmp_path / "r", "--config", tmp_path / "mine.toml")
    for more, nu in ((("--paper",), 1.0), (("--paper", "--nu", "0.5"), 0.5)):
        assert run(*words, *more)[0] == 0
        settings = Result.load(tmp_path / "r").settings
        expected = JointDiscovery.paper(nu=nu, max_passes=60).get_params()
        assert settings == {**expected, "optional": []}

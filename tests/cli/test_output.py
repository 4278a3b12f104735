"""What the commands print."""

import typer
from typer.testing import CliRunner

from objectstates.base.errors import SettingError
from objectstates.cli.output import Command, complain, parameters_as_flags


def test_parameters_become_flags_of_the_running_command(run, tmp_path):
    code, _, err = run("ingest", tmp_path, "--out", tmp_path / "c", "--tracklet-seconds", 0)
    assert code == 2
    assert err.startswith("objectstates: --tracklet-seconds must be ")
    code, _, err = run("fit", tmp_path, "--out", tmp_path / "r", "--engine", "ray")
    assert code == 2
    assert err == "objectstates: a fit on a Ray cluster is out of core: add --out-of-core\n"


def test_only_options_of_the_command_become_flags(capsys):
    app = typer.Typer()

    @app.command(cls=Command)
    def command(max_side: int = 1, name: str = typer.Option("", "--object")) -> None:
        complain("warning: `max_side` is small")
        raise SettingError("`max_side`, `name`, `object` and `scratch` are odd, `not this` and ``")

    done = CliRunner().invoke(app, [])
    assert done.exit_code == 2
    assert done.output.splitlines() == [
        "objectstates: warning: --max-side is small",
        "objectstates: --max-side, --object, --object and scratch are odd, `not this` and ``",
    ]
    assert parameters_as_flags("`max_side`") == "max_side", "outside of a command"

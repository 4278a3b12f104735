"""The command of ``config``: init."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from objectstates.base.errors import ConfigurationError
from objectstates.cli.output import add_command
from objectstates.cli.settings_file import template

config_commands = typer.Typer(help="Write a file of settings.", no_args_is_help=True)


@config_commands.callback()
def _group() -> None:
    """A group even with a single command."""


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("objectstates.toml"),
) -> None:
    """Write a file with all settings, their meaning and their defaults."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError:
        raise ConfigurationError(f"{path} exists: move it away or choose another name") from None
    except OSError as problem:
        raise ConfigurationError(f"cannot write {path}: {problem.strerror}") from problem
    print(f"wrote {path}")


add_command(config_commands, init)

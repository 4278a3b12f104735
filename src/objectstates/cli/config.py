"""Commands about files of settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from objectstates.base.errors import ConfigurationError
from objectstates.cli.configuration import template

config_commands = typer.Typer(help="Write a file of settings.", no_args_is_help=True)


@config_commands.callback()
def _group() -> None:
    """Keep init a word of its own, though it is the only command."""


@config_commands.command()
def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("objectstates.toml"),
) -> None:
    """Write a file with every setting, its meaning and its default."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError:
        raise ConfigurationError(
            f"{path} exists: move it away, or choose another name"
        ) from None  # fmt: skip
    except OSError as problem:
        raise ConfigurationError(f"cannot write {path}: {problem.strerror}") from problem
    print(f"wrote {path}")

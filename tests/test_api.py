"""The names that ``import objectstates`` offers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import typer

import objectstates
from objectstates.cli import app

PACKAGE = Path(objectstates.__file__).parent


def test_dir_shows_the_api_and_nothing_else() -> None:
    assert {*objectstates.__all__, "__version__"} == set(dir(objectstates))
    assert "discover" in dir(objectstates)
    for name in dir(objectstates):
        assert getattr(objectstates, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = objectstates.nothing


def test_names_are_documented() -> None:
    for name in objectstates.__all__:
        assert getattr(objectstates, name).__doc__, name


def command_flags() -> set[str]:
    """All flags of all commands."""

    def commands(command: object) -> Iterator[object]:
        yield command
        for inner in getattr(command, "commands", {}).values():
            yield from commands(inner)

    found = commands(typer.main.get_command(app))
    parameters = [parameter for command in found for parameter in vars(command)["params"]]
    return {flag for parameter in parameters for flag in parameter.opts if flag[:2] == "--"}


def test_no_library_module_speaks_of_flags() -> None:
    """Library messages name parameters; only the command line knows its flags."""
    flags, found = command_flags(), []
    assert "--scratch" in flags
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.parent.name == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = flags.intersection(re.findall(r"(?<![\w-])--[a-z][a-z-]*", node.value))
                found += [f"{path.relative_to(PACKAGE)}:{node.lineno} {flag}" for flag in named]
    assert not found


def test_every_folder_says_what_belongs_in_it() -> None:
    folders = [path.parent.relative_to(PACKAGE).parts for path in PACKAGE.rglob("__init__.py")]
    modules = [import_module(".".join(["objectstates", *parts])) for parts in folders]
    assert not [module.__name__ for module in modules if not (module.__doc__ or "").strip()]

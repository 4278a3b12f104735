"""Settings from a file. Every option of the working commands has a place in it, by its flag's name.

Nothing is declared here: what may stand in a file, its type, default and explanation are read off
the signatures of the commands, so a new option can be set in files at once. The file gives the
defaults of the options, so that flags go before the file, and the file before built-in defaults.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import Parameter, signature
from pathlib import Path
from textwrap import wrap
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import typer
from typer.models import OptionInfo, ParameterInfo

from objectstates.base.choices import PAPER
from objectstates.base.errors import ConfigurationError

Command = TypeVar("Command", bound=Callable[..., Any])

OF_ONE_RUN = frozenset({"out", "like", "config", "paper", "json"})
"""Options that say what to do this time, and not how: they have no place in a file."""

_WORDS = {bool: "true or false", int: "a whole number", float: "a number"}


@dataclass(frozen=True)
class Setting:
    """One option of a command, as a file may set it.

    key : its name in files: the flag's, with underscores.
    parameter : its name in the command's function.
    choices : the values allowed, where they are few.
    """

    key: str
    parameter: str
    kind: type
    choices: tuple[str, ...]
    default: Any
    help: str

    def check(self, value: object) -> str | None:
        """What is wrong with a value from a file, if anything."""
        if self.choices:
            return None if value in self.choices else f"must be one of {', '.join(self.choices)}"
        numeric = self.kind is float and type(value) is int
        if numeric or type(value) is (self.kind if self.kind in _WORDS else str):
            return None
        return f"must be {_WORDS.get(self.kind, 'text in quotes')}"


def options_of(command: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters of a command that are options of how it works, by name."""
    return {
        name: parameter
        for name, parameter in signature(command, eval_str=True).parameters.items()
        if name not in OF_ONE_RUN and isinstance(_info(parameter), OptionInfo)
    }


def settings_of(command: Callable[..., Any]) -> list[Setting]:
    """What a file may set of a command."""
    return [describe(parameter) for parameter in options_of(command).values()]


def also_takes(stages: Mapping[str, Callable[..., Any]]) -> Callable[[Command], Command]:
    """Give a command, by its ``**options``, all options of other commands that it lacks."""

    def extend(command: Command) -> Command:
        given = signature(command, eval_str=True)
        parameters = {
            name: parameter.replace(kind=Parameter.KEYWORD_ONLY)
            for name, parameter in given.parameters.items()
            if parameter.kind is not Parameter.VAR_KEYWORD
        }
        for stage, other in stages.items():
            for name, parameter in options_of(other).items():
                parameters.setdefault(name, _under(f"Options of {stage}", parameter))
        signed = given.replace(parameters=list(parameters.values()))
        command.__signature__ = signed  # type: ignore[attr-defined]
        return command

    return extend


def _under(heading: str, parameter: Parameter) -> Parameter:
    """The same option, under a heading of the help."""
    option = copy(_info(parameter))
    assert isinstance(option, OptionInfo)
    option.rich_help_panel = heading
    kind = get_args(parameter.annotation)[0]
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=Annotated[kind, option])


def describe(parameter: Parameter) -> Setting:
    """A parameter of a command as users meet it."""
    info = _info(parameter)
    assert info is not None
    # typer holds the first flag of an Annotated option as its default
    named = [str(d) for d in (info.default, *(info.param_decls or ())) if d is not ...]
    flag = next((n for n in named if n.startswith("--")), f"--{parameter.name}").split("/")[0]
    kind = get_args(parameter.annotation)[0]
    if get_origin(kind) in (Union, UnionType):
        kind = next(k for k in get_args(kind) if k is not NoneType)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    return Setting(
        flag.removeprefix("--").replace("-", "_"),
        parameter.name,
        str if choices else kind,
        tuple(map(str, choices)),
        None if parameter.default in (Parameter.empty, ...) else parameter.default,
        info.help or "",
    )


def _info(parameter: Parameter) -> ParameterInfo | None:
    """What typer is told of a parameter."""
    if get_origin(parameter.annotation) is not Annotated:
        return None
    facts = get_args(parameter.annotation)[1:]
    return next((fact for fact in facts if isinstance(fact, ParameterInfo)), None)


# --- the layout of a file -------------------------------------------------------------------------


def layout() -> dict[str, list[Setting]]:
    """The tables of a file: one per stage, and first, without a name, what belongs to no single."""
    from objectstates.cli.discover import STAGES, discover

    stages = {name: settings_of(stage) for name, stage in STAGES.items()}
    owners = Counter(setting.key for settings in stages.values() for setting in settings)
    common = [setting for setting in settings_of(discover) if owners[setting.key] != 1]
    tables = {name: [s for s in found if owners[s.key] == 1] for name, found in stages.items()}
    return {"": common, **{name: settings for name, settings in tables.items() if settings}}


def template() -> str:
    """A file that explains and sets nothing: all settings, commented out, with their defaults."""
    lines = [
        "# Settings of objectstates: discover, ingest and fit read them with --config FILE.",
        "# Take away the # before a setting to change it. Flags go before this file. Paths are",
        "# relative to the folder in which the command runs.",
    ]
    for table, settings in layout().items():
        lines += ["", f"[{table}]"] if table else []
        for setting in settings:
            choices = f" One of {', '.join(setting.choices)}." if setting.choices else ""
            lines += ["", *(f"# {line}" for line in wrap(f"{setting.help}{choices}", 96))]
            lines.append(f"# {setting.key} = {_shown(setting)}")
    return "\n".join(lines) + "\n"


def _shown(setting: Setting) -> str:
    value = setting.default
    if value is None:
        example = {int: "1", float: "1.0", bool: "false"}.get(setting.kind, '"..."')
        return f"{example}  # not set"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else f'"{value}"'


# --- reading ------------------------------------------------------------------------------------


def read_configuration(path: Path, command: str) -> dict[str, Any]:
    """The defaults that a file gives to a command, by parameter; all of the file is checked."""
    tables = layout()
    content = _parse(path)
    values: dict[str, Any] = {}
    for table, setting, value in _entries(path, content, tables):
        problem = setting.check(value)
        if problem is not None:
            place = _name(table, setting.key)
            raise ConfigurationError(f"{path}: {place} {problem}, not {value!r}")
        if table in ("", command) or command == "discover":
            values[setting.parameter] = value
    return values


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path} does not exist: objectstates config init writes a file to start from"
        ) from None
    except OSError as problem:
        raise ConfigurationError(f"{path} cannot be read: {problem.strerror}") from problem
    except ValueError as problem:
        raise ConfigurationError(f"{path} is not TOML: {problem}") from problem


def _entries(
    path: Path, content: Mapping[str, Any], tables: Mapping[str, list[Setting]]
) -> Iterator[tuple[str, Setting, Any]]:
    for key, value in content.items():
        if key not in tables or not key:
            yield "", _find(path, "", key, tables), value
            continue
        if not isinstance(value, dict):
            raise ConfigurationError(f"{path}: {key} is a table of settings: write [{key}]")
        for inner, setting_value in value.items():
            yield key, _find(path, key, inner, tables), setting_value


def _find(path: Path, table: str, key: str, tables: Mapping[str, list[Setting]]) -> Setting:
    for setting in tables[table]:
        if setting.key == key:
            return setting
    places = {s.key: _name(t, s.key) for t, settings in tables.items() for s in settings}
    places.update({name: f"[{name}]" for name in tables if name and name not in places})
    near = get_close_matches(key, places, n=1, cutoff=0.5)
    hint = f"did you mean {places[near[0]]}?" if near else "objectstates config init lists all"
    raise ConfigurationError(f"{path}: there is no setting {_name(table, key)}; {hint}")


def _name(table: str, key: str) -> str:
    return f"{key} in [{table}]" if table else key


# --- the option and what came of it -------------------------------------------------------------


def _use(context: typer.Context, path: Path | None) -> Path | None:
    if path is not None:
        read = read_configuration(path, str(context.info_name))
        context.default_map = {**read, **(context.default_map or {})}
    return path


def _as_the_paper(context: typer.Context, wanted: bool) -> bool:
    if wanted:
        context.default_map = {**(context.default_map or {}), **PAPER, "chunks": "paper"}
    return wanted


Config = Annotated[
    Path | None,
    typer.Option(
        callback=_use,
        is_eager=True,
        help="Take settings from this TOML file (objectstates config init writes one).",
    ),
]


Paper = Annotated[
    bool,
    typer.Option(
        "--paper",
        callback=_as_the_paper,
        is_eager=True,
        help="The paper's settings instead of ours; other options still change them.",
    ),
]


def effective(command: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a command ran with, as a file would say them; what is not set is left out.

    values : of the command's parameters, by name.
    """
    found: dict[str, Any] = {}
    for table, settings in layout().items():
        chosen = {
            s.key: str(value) if isinstance(value, Path) else value
            for s in settings
            if (value := values.get(s.parameter)) is not None
        }
        if not table:
            found.update(chosen)
        elif chosen and command in (table, "discover"):
            found[table] = chosen
    return found

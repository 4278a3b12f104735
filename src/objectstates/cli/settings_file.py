"""Settings from a TOML file, with a table per stage of ``discover`` and a key per option.

The keys, their types, defaults and explanations are read from the signatures of the commands, so a
new option can be set in files at once. The file replaces the defaults of the options: flags take
precedence over the file, the file over built-in defaults.
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

from objectstates.base.choices import PAPER, PAPER_INGEST
from objectstates.base.errors import ConfigurationError
from objectstates.cli.options import seconds_or_auto

Command = TypeVar("Command", bound=Callable[..., Any])

FROM_FILE = "objectstates.settings_file"
"""Key in a call's ``meta``: the file of ``--config``, and what it sets, by parameter."""

OF_ONE_RUN = frozenset({"out", "like", "config", "paper", "json", "require"})
"""Options of a single run, which cannot be set in a file."""

_MAX_BYTES = 1 << 16  # of a file; one with all settings has 10 kB

_WORDS = {bool: "true or false", int: "a whole number", float: "a number"}


@dataclass(frozen=True)
class Setting:
    """An option of a command, as a key in a file.

    key : the flag's name, with underscores.
    parameter : its name in the command's function.
    choices : the allowed values, if they are enumerated.
    words : values allowed beside those of the kind.
    """

    key: str
    parameter: str
    kind: type
    choices: tuple[str, ...]
    default: Any
    help: str
    words: tuple[str, ...] = ()

    def check(self, value: object) -> str | None:
        """The error in a value from a file, or None."""
        if self.choices:
            return None if value in self.choices else f"must be one of {', '.join(self.choices)}"
        numeric = self.kind is float and type(value) is int
        if numeric or type(value) is (self.kind if self.kind in _WORDS else str):
            return None
        if value in self.words:
            return None
        expected = [_WORDS.get(self.kind, "text in quotes"), *(f'"{w}"' for w in self.words)]
        return f"must be {' or '.join(expected)}"


def options_of(command: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters of a command that can be set in a file, by name."""
    return {
        name: parameter
        for name, parameter in signature(command, eval_str=True).parameters.items()
        if name not in OF_ONE_RUN and isinstance(_info(parameter), OptionInfo)
    }


def settings_of(command: Callable[..., Any]) -> list[Setting]:
    """The settings of a command."""
    return [describe(parameter) for parameter in options_of(command).values()]


_stages: dict[str, Callable[..., Any]] = {}
"""Set by `runs_stages`: the commands of the stages; under "" the command that runs them."""


def runs_stages(stages: Mapping[str, Callable[..., Any]]) -> Callable[[Command], Command]:
    """Declare the command whose stages are other commands, in the order of the file's tables.

    Its ``**options`` take all options of the stages that it does not have itself.
    """

    def extend(command: Command) -> Command:
        _stages.update({"": command, **stages})
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
    """The same option, under another heading of the help."""
    option = copy(_info(parameter))
    assert isinstance(option, OptionInfo)
    option.rich_help_panel = heading
    kind = get_args(parameter.annotation)[0]
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=Annotated[kind, option])


def describe(parameter: Parameter) -> Setting:
    """The setting of a parameter of a command."""
    info = _info(parameter)
    assert info is not None
    # typer holds the first flag of an Annotated option as its default
    named = [str(d) for d in (info.default, *(info.param_decls or ())) if d is not ...]
    flag = next((n for n in named if n.startswith("--")), f"--{parameter.name}").split("/")[0]
    kind = get_args(parameter.annotation)[0]
    if info.parser is seconds_or_auto:
        kind = float
    elif get_origin(kind) in (Union, UnionType):
        kind = next(k for k in get_args(kind) if k is not NoneType)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    return Setting(
        flag.removeprefix("--").replace("-", "_"),
        parameter.name,
        str if choices else kind,
        tuple(map(str, choices)),
        None if parameter.default in (Parameter.empty, ...) else parameter.default,
        info.help or "",
        ("auto",) if info.parser is seconds_or_auto else (),
    )


def _info(parameter: Parameter) -> ParameterInfo | None:
    """The typer declaration in a parameter's annotation."""
    if get_origin(parameter.annotation) is not Annotated:
        return None
    facts = get_args(parameter.annotation)[1:]
    return next((fact for fact in facts if isinstance(fact, ParameterInfo)), None)


# --- the layout of a file -------------------------------------------------------------------------


def layout() -> dict[str, list[Setting]]:
    """The tables of a file: one per stage; first, without a name, settings of several stages."""
    stages = {name: settings_of(stage) for name, stage in _stages.items()}
    all_settings = stages.pop("")
    owners = Counter(setting.key for settings in stages.values() for setting in settings)
    common = [setting for setting in all_settings if owners[setting.key] != 1]
    tables = {name: [s for s in found if owners[s.key] == 1] for name, found in stages.items()}
    return {"": common, **{name: settings for name, settings in tables.items() if settings}}


def template() -> str:
    """A file with all settings, explained and commented out, with their defaults."""
    lines = [
        "# Settings of objectstates: discover, ingest and fit read them with --config FILE.",
        "# Remove the # before a setting to change it. Flags take precedence over this file.",
        "# Paths are relative to the working directory of the command.",
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
    """The defaults that a file sets for a command, by parameter; the whole file is checked."""
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
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ConfigurationError(f"{path} is larger than {_MAX_BYTES >> 10} kB: no settings")
        return tomllib.loads(content.decode("utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path} does not exist: objectstates config init writes a file to start from"
        ) from None
    except OSError as problem:
        raise ConfigurationError(f"{path} cannot be read: {problem.strerror}") from problem
    except ValueError as problem:
        raise ConfigurationError(f"{path} is not TOML: {problem}") from problem
    except RecursionError:
        raise ConfigurationError(f"{path} is nested too deep to be settings") from None


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


# --- the options that change defaults, and the record of a run ----------------------------------


def _use_file(context: typer.Context, path: Path | None) -> Path | None:
    if path is not None:
        read = read_configuration(path, str(context.info_name))
        context.meta[FROM_FILE] = path, read
        context.default_map = {**read, **(context.default_map or {})}
    return path


def _use_paper(context: typer.Context, wanted: bool) -> bool:
    if wanted:
        context.default_map = {**(context.default_map or {}), **PAPER, **PAPER_INGEST}
    return wanted


Config = Annotated[
    Path | None,
    typer.Option(
        callback=_use_file,
        is_eager=True,
        help="Read settings from this TOML file (objectstates config init writes one).",
    ),
]


Paper = Annotated[
    bool,
    typer.Option(
        "--paper",
        callback=_use_paper,
        is_eager=True,
        help="Use the paper's settings; other options still change them, --config does not.",
    ),
]


def effective(command: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run in the layout of a file, without those that are None.

    values : the values of the command's parameters, by name.
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

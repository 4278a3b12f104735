"""How much a command says: ``--quiet`` and ``--verbose``, which all commands have."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, TypeVar

import typer

Function = TypeVar("Function", bound=Callable[..., Any])

_level: ContextVar[int] = ContextVar("level", default=0)
"""-1 is quiet, 1 is verbose."""


def quiet() -> bool:
    """Whether only errors, warnings and JSON are printed."""
    return _level.get() < 0


def verbose() -> bool:
    """Whether every step of progress and the tracebacks of errors are printed."""
    return _level.get() > 0


def reset() -> None:
    """Forget the options of an earlier command of this process."""
    _level.set(0)


def _be_quiet(wanted: bool) -> None:
    if wanted:
        _level.set(-1)


def _be_verbose(wanted: bool) -> None:
    if wanted:
        _level.set(1)


Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", callback=_be_quiet, expose_value=False, rich_help_panel="Messages",
        help="Print errors, warnings and what --json asks for, nothing else.",
    ),
]  # fmt: skip
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", callback=_be_verbose, expose_value=False, rich_help_panel="Messages",
        help="Print every step of the progress, and where an error was raised.",
    ),
]  # fmt: skip


def with_verbosity(command: Function) -> Function:
    """The command with the options ``--quiet`` and ``--verbose``, which it does not see."""

    @wraps(command)
    def call(*args: Any, **options: Any) -> Any:
        return command(*args, **{k: v for k, v in options.items() if k in listed})

    own = signature(command, eval_str=True)
    listed = {n: p for n, p in own.parameters.items() if p.kind is not Parameter.VAR_KEYWORD}
    more = {
        name: Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=False)
        for name, kind in (("quiet", Quiet), ("verbose", Verbose))
    }
    everything = [*listed.values(), *more.values()]
    call.__signature__ = own.replace(parameters=everything)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in everything}
    return call  # type: ignore[return-value]


@contextlib.contextmanager
def stdout_unless_quiet(json: bool) -> Iterator[None]:
    """Drop what the block prints, but for JSON, if the command is quiet."""
    if not quiet() or json:
        yield
        return
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        yield

"""The command line: parse, call, print. Slow imports are made where they are used."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from objectstates import __version__
from objectstates.base.errors import ObjectStatesError
from objectstates.base.resources import check_address_space
from objectstates.cli import (
    config,
    cut,
    demo,
    detector,
    discover,
    evaluation,
    export,
    fit,
    ingest,
    inspect,
    label,
    narration,
    occurrences,
    report,
    review,
    signals,
    studio,
)
from objectstates.cli.output import add_command, complain
from objectstates.cli.streams import make_streams_usable
from objectstates.cli.verbosity import Quiet, Verbose, reset

app = typer.Typer(
    help="Find when a manipulation happens and what the object looks like before and after it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (
    discover.discover,
    narration.transcribe,
    narration.retrieve,
    ingest.ingest,
    fit.fit,
    fit.predict,
    occurrences.occurrences,
    label.label,
    inspect.inspect,
    report.report,
    export.export,
    review.review,
    cut.cut,
    evaluation.reproduce,
    evaluation.benchmark,
    studio.studio,
    demo.demo,
):
    add_command(app, command)
app.add_typer(detector.detector_commands, name="detector")
app.add_typer(config.config_commands, name="config")


def main() -> NoReturn:
    """Run the command line; an error of the user is one line on stderr and exit code 2."""
    make_streams_usable()
    reset()
    try:
        code = app(prog_name="objectstates", standalone_mode=False)
        sys.stdout.flush()
        if code == 130:  # all that typer leaves of an interrupt
            complain("interrupted")
            code = signals.exit_code()
    except ObjectStatesError as problem:  # of an option's callback, before a command runs
        complain(str(problem))
        code = 2
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        code = signals.exit_code()
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except MemoryError as problem:
        complain(f"too little memory: {problem or 'close other programs, or use fewer clips'}")
        code = 2
    except OSError as problem:
        complain(f"{problem.filename or 'the output'}: {problem.strerror or problem}")
        code = 2
    except Exception as problem:
        message = getattr(problem, "format_message", None)  # of typer's usage errors
        if message is None:
            raise
        if message():
            context = getattr(problem, "ctx", None)
            command = "objectstates" if context is None else context.command_path
            complain(f"{message()} (see {command} --help)")
        code = 2
    sys.exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"objectstates {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Options of all commands."""
    check_address_space()

"""The verdict on a result on the terminal, and the exit code of a script that requires one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from objectstates.cli.options import flag
from objectstates.cli.output import complain, parameters_as_flags, printable

if TYPE_CHECKING:
    from objectstates.data.result import Result
    from objectstates.data.verdict import Finding

Require = Annotated[
    Literal["found", "doubtful"] | None,
    flag("Exit with code 1 if the verdict on action or states is worse than this."),
]


def print_verdict(result: Result) -> None:
    """Print the verdict, if there is one, and the advice about the clips."""
    from objectstates.discovery.preflight import warnings_about
    from objectstates.report.verdict_text import advice_line, verdict_lines

    lines = [] if result.verdict is None else verdict_lines(result.verdict)
    lines += [f"note: {advice_line(advice)}" for advice in warnings_about(result)]
    for line in lines:
        print(printable(parameters_as_flags(line)))


def check_required(result: Result, required: Finding | None) -> None:
    """Exit with code 1 unless the verdict is at least as good as required."""
    if required is None:
        return
    from objectstates.data.verdict import FINDINGS
    from objectstates.report.verdict_text import one_line

    verdict = result.verdict
    if verdict is not None and FINDINGS.index(verdict.worst) <= FINDINGS.index(required):
        return
    what = "there is no verdict" if verdict is None else f"the verdict is {one_line(verdict)}"
    complain(f"{what}: less than `require` {required}")
    raise typer.Exit(1)

"""The verdict on a result on the terminal, and the exit code of a script that requires one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from objectstates.cli.options import flag
from objectstates.cli.output import complain, parameters_as_flags, printable

if TYPE_CHECKING:
    from objectstates.data.result import Result

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


def check_required(result: Result, required: str | None) -> None:
    """Exit with code 1 unless the verdict is at least as good as required."""
    if required is None:
        return
    from objectstates.data.verdict import FINDINGS
    from objectstates.report.verdict_text import one_line

    verdict = result.verdict
    allowed = FINDINGS[: 1 + FINDINGS.index("found" if required == "found" else "doubtful")]
    if verdict is not None and verdict.worst in allowed:
        return
    what = "this result has no verdict" if verdict is None else one_line(verdict)
    complain(f"{what}, which is worse than `require` {required}")
    raise typer.Exit(1)

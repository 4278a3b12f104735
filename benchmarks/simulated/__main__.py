"""Render clips: ``python -m benchmarks.simulated TASK ... --clips K --seed S --out DIR``.

A task is a manipulation or a chain of them. ``--leave-out 0.2`` leaves out the last step of a
chain in one clip of five; ``--occurrences 0:4`` renders long videos in which the chain happens zero
to four times. Writes ``DIR/<task>/<clip>.mp4`` and ``.json``, and ``DIR/crops.json``. Existing
clips are kept, so an interrupted run resumes.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.simulated import crops
from benchmarks.simulated.chains import CHAINS, Chain, chain, plans
from benchmarks.simulated.tasks import MANIPULATIONS
from objectstates.base.errors import ObjectStatesError, SettingError
from objectstates.parallel.pool import run_all
from objectstates.parallel.tasks import Outcome


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.simulated", description=__doc__)
    parser.add_argument(
        "tasks", nargs="*", metavar="TASK", help="see --list; 'all' for single changes"
    )
    parser.add_argument("--list", action="store_true", help="name all tasks")
    parser.add_argument("--clips", type=int, default=20, help="of each task")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("simulated"))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--leave-out", type=float, default=0.0, help="share of clips, 0 to 1")
    parser.add_argument("--occurrences", metavar="LOW:HIGH", help="of the chain in a long video")
    return parser.parse_args()


def occurrence_range(text: str | None) -> tuple[int, int] | None:
    """``0:4`` as (0, 4)."""
    if text is None:
        return None
    low, _, high = text.partition(":")
    if not (low.isdecimal() and high.isdecimal() and int(low) <= int(high)):
        raise SettingError(f"--occurrences {text!r} is not LOW:HIGH, such as 0:4")
    return int(low), int(high)


def check_chains(tasks: list[Chain], leave_out: float, occurrences: tuple[int, int] | None) -> None:
    """Whether steps can be left out, and chains repeated, as told."""
    if not 0 <= leave_out <= 1:
        raise SettingError(f"--leave-out {leave_out:g} is no share of clips: give 0 to 1")
    if leave_out and occurrences is not None:
        raise SettingError("give --leave-out or --occurrences: only whole chains can be repeated")
    for task in tasks:
        if len(task.steps) == 1 and (leave_out or occurrences is not None):
            raise SettingError(f"{task.name} is no chain: render it without --leave-out")
        if occurrences is not None and occurrences[1] > 1 and not task.cycle:
            raise SettingError(f"{task.name} does not end as it starts: give --occurrences 0:1")


def actions_line(actions: tuple[tuple[int, int], ...]) -> str:
    """``action 5 to 9, 20 to 30``, in frames."""
    spans = ", ".join(f"{first} to {last}" for first, last in actions)
    return f"action {spans}" if spans else "no action"


def generate(chosen: argparse.Namespace, console: Console) -> int:
    """Render the missing clips; returns the number of failures."""
    names = list(MANIPULATIONS) if chosen.tasks == ["all"] else chosen.tasks
    if not names or chosen.clips < 1 or chosen.processes < 1 or chosen.seed < 0:
        raise SettingError("name a task or 'all'; --clips and --processes from 1, --seed from 0")
    tasks = [chain(name) for name in dict.fromkeys(names)]
    occurrences = occurrence_range(chosen.occurrences)
    check_chains(tasks, chosen.leave_out, occurrences)
    from benchmarks.simulated.generation import ClipRequest, worker  # imports the simulator

    planned = [plans(c, chosen.clips, chosen.seed, chosen.leave_out, occurrences) for c in tasks]
    requests = [
        ClipRequest(task_plans[index], index, chosen.seed, chosen.out)
        for index in range(chosen.clips)
        for task_plans in planned
    ]
    missing = [request for request in requests if not request.json.exists()]
    console.print(
        f"{len(requests) - len(missing)} of {len(requests)} clips are there", highlight=False
    )
    rejected, failures = Counter[str](), 0
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        bar = progress.add_task("clips", total=len(missing))

        def done(index: int, outcome: Outcome[Any]) -> None:
            nonlocal failures
            progress.advance(bar)
            if (made := outcome.value) is None:
                failures += 1
                progress.console.print(f"{missing[index].name}: {outcome.failure}", markup=False)
                return
            rejected.update(made.rejected)
            progress.console.print(
                f"{made.name}: {made.frames} frames, {actions_line(made.actions)}, "
                f"{sum(made.rejected.values())} tries rejected",
                highlight=False,
            )

        if missing:
            run_all(worker, missing, processes=chosen.processes, on_done=done)
    for reason, count in rejected.most_common():
        console.print(f"rejected {count} x {reason}", highlight=False)
    return failures


def crop(folder: Path, seed: int, console: Console) -> None:
    cut = crops.write_crops(folder, seed)
    clips = crops.read_clips(folder)
    for task in sorted({clip.task for clip in clips if clip.changes == 1}):
        whole, cropped = crops.middle_hits([clip for clip in clips if clip.task == task], cut)
        console.print(
            f"{task}: the middle is in the action of {whole:.0%} of clips, {cropped:.0%} of crops",
            highlight=False,
        )


def main() -> int:
    chosen, console = options(), Console()
    if chosen.list:
        for task in MANIPULATIONS.values():
            console.print(f"{task.name:18} {' -> '.join(task.states)}", highlight=False)
        for steps in CHAINS.values():
            console.print(f"{steps.name:18} {' -> '.join(steps.states)}", highlight=False)
        return 0
    try:
        failures = generate(chosen, console)
        crop(chosen.out, chosen.seed, console)
    except ObjectStatesError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    except OSError as problem:
        print(f"error: cannot write {chosen.out}: {problem}", file=sys.stderr)
        return 2
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

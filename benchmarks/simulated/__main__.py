"""Render clips: ``python -m benchmarks.simulated TASK ... --clips K --seed S --out DIR``.

Writes ``DIR/<task>/<clip>.mp4`` and ``.json``, and ``DIR/crops.json``. Existing clips are
kept, so an interrupted run resumes.
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
from benchmarks.simulated.tasks import MANIPULATIONS, manipulation
from objectstates.base.errors import ObjectStatesError, SettingError
from objectstates.parallel.pool import run_all
from objectstates.parallel.tasks import Outcome


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.simulated", description=__doc__)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="see --list; 'all' for all")
    parser.add_argument("--list", action="store_true", help="name all tasks")
    parser.add_argument("--clips", type=int, default=20, help="of each task")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("simulated"))
    parser.add_argument("--processes", type=int, default=1)
    return parser.parse_args()


def generate(chosen: argparse.Namespace, console: Console) -> int:
    """Render the missing clips; returns the number of failures."""
    names = list(MANIPULATIONS) if chosen.tasks == ["all"] else chosen.tasks
    if not names or chosen.clips < 1 or chosen.processes < 1 or chosen.seed < 0:
        raise SettingError("name a task or 'all'; --clips and --processes from 1, --seed from 0")
    tasks = [manipulation(name).name for name in dict.fromkeys(names)]
    from benchmarks.simulated.generation import ClipRequest, worker  # imports the simulator

    requests = [
        ClipRequest(task, index, chosen.seed, chosen.out)
        for index in range(chosen.clips)
        for task in tasks
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
                f"{made.name}: {made.frames} frames, action {made.action[0]} to {made.action[1]}, "
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
    for task in sorted({clip.task for clip in clips}):
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

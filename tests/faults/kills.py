"""Disturb the real commands at random moments, and compare with undisturbed runs.

    python -m tests.faults.kills --minutes 30 --seed 1 --out kills.json

After every disturbance each earlier artefact must be whole, old or new; then the same command is
repeated undisturbed, and must write what an undisturbed run writes, byte for byte but for the
seconds that it took. Nothing of the disturbed run may be left. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.faults.commands import COMMANDS, Command, Contents, Place
from tests.faults.disturbances import (
    DISTURBANCES,
    NEED_MOUNTS,
    Disturbance,
    Ended,
    can_mount,
    patience,
    unmount,
)

COUNTS = ("trials", "lost", "wrong", "tracebacks", "hangs", "crashes", "leftovers", "orphans")
"""Columns of the table; all but the first must be 0.

lost : an earlier artefact is neither old nor new, the user's file changed, or the command cannot be
repeated. wrong : the repeated command wrote something else.
"""


@dataclass
class Tally:
    """What happened in the trials, by command and disturbance; ``faults`` in words."""

    counts: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, command: str, disturbance: str, faults: Sequence[tuple[str, str]]) -> None:
        counter = self.counts.setdefault((command, disturbance), Counter())
        counter["trials"] += 1
        counter.update({kind for kind, _ in faults})
        for kind, text in faults:
            self.faults.append(f"{kind}: {command}, {disturbance}: {text}")

    @property
    def total(self) -> Counter[str]:
        return sum(self.counts.values(), Counter())

    def table(self) -> str:
        lines = [f"{'command':24}{'disturbance':18}" + "".join(f"{n:>11}" for n in COUNTS)]
        rows = [*sorted(self.counts.items()), (("all", ""), self.total)]
        for (command, disturbance), counter in rows:
            cells = "".join(f"{counter[name]:>11}" for name in COUNTS)
            lines.append(f"{command:24}{disturbance:18}{cells}")
        return "\n".join([*lines, *self.faults])

    def to_json(self) -> dict[str, object]:
        rows = [
            {"command": command, "disturbance": disturbance, **{n: c[n] for n in COUNTS}}
            for (command, disturbance), c in sorted(self.counts.items())
        ]
        return {"total": {n: self.total[n] for n in COUNTS}, "rows": rows, "faults": self.faults}


def trial(
    place: Place, command: Command, disturbance: Disturbance, seed: int
) -> list[tuple[str, str]]:
    """Disturb one run and repeat it; the faults, each with its kind."""
    rng = Random(seed)
    place.reset(command if rng.random() < 0.6 else None, cache=rng.random() < 0.4)
    try:
        ended = disturbance.run(place, command, rng)
        faults = [*_of_run(ended, disturbance), *_of_artefacts(place, command)]
        faults += _of_repeat(place, command)
    finally:
        unmount(place)
    return [(kind, f"{text} (seed {seed})") for kind, text in faults]


def _of_run(ended: Ended, disturbance: Disturbance) -> Iterator[tuple[str, str]]:
    last = " | ".join(ended.errors.strip().splitlines()[-3:])
    if ended.hung:
        yield "hangs", f"the run did not end: {last}"
    if "Traceback (most recent call last)" in ended.errors:
        yield "tracebacks", last
    bad = [code for code in ended.codes if code not in (0, 2, *disturbance.allowed)]
    if bad and not ended.hung:
        yield "crashes", f"exit codes {ended.codes}: {last}"
    if ended.orphans:
        yield "orphans", f"{ended.orphans} processes were left"


def _of_artefacts(place: Place, command: Command) -> Iterator[tuple[str, str]]:
    """Each artefact must be as before, as after, or absent if there was none."""
    if (place.out / "mine.txt").read_text() != "precious":
        yield "lost", "the user's own file changed"
    found = place.contents(command)
    for artefact in command.artefacts:
        now, old, new = (
            {name: value for name, value in part.items() if name.startswith(f"{artefact}:")}
            for part in (found, place.earlier[command.name], place.whole[command.name])
        )
        if artefact == "segments":  # grows file by file, see its manifest
            continue
        if now and now not in (old, new):
            yield "lost", f"{artefact} is neither whole as before nor as after: {_apart(now, new)}"


def _of_repeat(place: Place, command: Command) -> Iterator[tuple[str, str]]:
    with place.start(place.words(command)) as process:
        try:
            _, errors = process.communicate(timeout=patience(place, command))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            yield "hangs", "the repeated run did not end"
            return
    if process.returncode != 0:
        yield "lost", f"cannot be repeated: {errors.strip().splitlines()[-1:]}"
        return
    found, whole = place.contents(command), place.whole[command.name]
    if found != whole:
        yield "wrong", f"other artefacts: {_apart(found, whole)}"
    if strangers := place.strangers(command):
        yield "leftovers", ", ".join(strangers)


def _apart(found: Contents, expected: Contents) -> str:
    names = [n for n in {*found, *expected} if found.get(n) != expected.get(n)]
    return ", ".join(sorted(name.split(":")[1] for name in names))


def selected(
    commands: str, disturbances: str, place: Place
) -> tuple[tuple[Command, ...], tuple[Disturbance, ...]]:
    """Those whose names were given; without mounts, those that need none."""
    chosen = tuple(c for c in COMMANDS if not commands or c.name in commands.split(","))
    kinds = [d for d in DISTURBANCES if not disturbances or d.name in disturbances.split(",")]
    if any(d.name in NEED_MOUNTS for d in kinds) and not can_mount(place.root / "mount"):
        print("no disks can be mounted here: left out", ", ".join(NEED_MOUNTS), file=sys.stderr)
        kinds = [d for d in kinds if d.name not in NEED_MOUNTS]
    return chosen, tuple(kinds)


def torture(
    place: Place,
    commands: Sequence[Command],
    disturbances: Sequence[Disturbance],
    *,
    minutes: float,
    seed: int,
    most: int = sys.maxsize,
) -> Tally:
    """Trials until the time is over, all pairs before any is repeated, in random order."""
    rng, tally, deadline = Random(seed), Tally(), time.monotonic() + 60 * minutes
    pairs = [(c, d) for c in commands for d in disturbances if d.fits(c)]
    count = 0
    while True:
        rng.shuffle(pairs)
        for command, disturbance in pairs:
            if time.monotonic() > deadline or count >= most:
                return tally
            count += 1
            faults = trial(place, command, disturbance, rng.randrange(2**31))
            tally.add(command.name, disturbance.name, faults)
            for kind, text in faults:
                print(f"{kind}: {command.name}, {disturbance.name}: {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file for the counts")
    parser.add_argument("--commands", default="", help="names with commas; all unless given")
    parser.add_argument("--disturbances", default="", help="likewise")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # disks are unmounted even then
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        place = Place(Path(folder).resolve())
        commands, disturbances = selected(given.commands, given.disturbances, place)
        place.prepare(commands)
        print("seconds undisturbed:", {n: round(s, 1) for n, s in place.seconds.items()})
        tally = torture(place, commands, disturbances, minutes=given.minutes, seed=given.seed)
    print(tally.table())
    if given.out is not None:
        given.out.write_text(json.dumps(tally.to_json(), indent=1) + "\n")
    bad = sum(number for name, number in tally.total.items() if name != "trials")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

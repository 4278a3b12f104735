"""Mutated files for every parser: ``python -m tests.faults.parsers --cases N --seed S --out FILE``.

A case is right if the parser accepts the file, or refuses it with an error of ours that names it.
Anything else is a failure: another exception, a crash of the process, more than `SECONDS` or more
than `MEMORY`, or, where there are checksums, other content than was written. Cases run in forked
processes with these limits. A table of counts is printed; the exit code is 1 after any failure.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from objectstates.base.errors import ObjectStatesError
from tests.faults.mutations import (
    Random,
    dump_tree,
    mutate_bytes,
    mutate_table,
    mutate_text,
    mutate_tree,
)
from tests.faults.parser_table import Parser, all_parsers

SECONDS = 20  # a parser that takes longer hangs
MEMORY = 2 << 30  # bytes beyond what the process has before the case
FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else None  # in memory: every case writes a file
BATCH = 500  # cases per forked process
OUTCOMES = ("refused", "accepted", "wrong", "traceback", "crash", "hang")


@dataclass
class Counts:
    """Outcomes of one parser, and the first failures with their seeds."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def add(self, outcome: str, seconds: float, what: str) -> None:
        self.outcomes[outcome] += 1
        self.slowest = max(self.slowest, seconds)
        if outcome not in ("refused", "accepted") and len(self.failures) < 20:
            self.failures.append(f"{outcome}: {what}")


# --- one case -----------------------------------------------------------------------------------


def mutated(random: Random, path: Path, original: bytes) -> bytes:
    """The content of a file after a mutation that suits it."""
    if random.random() < (0.25 if path.suffix in _STRUCTURED else 0.5 if _is_text(path) else 1.0):
        return mutate_bytes(random, original)
    if path.suffix in (".json", ".json3"):
        return dump_tree(random, mutate_tree(random, json.loads(original)))
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in original.decode().splitlines()]
        rows = mutate_tree(random, lines)
        rows = rows if isinstance(rows, list) else [rows]
        return b"\n".join(dump_tree(random, row) for row in rows)
    if path.suffix == ".parquet":
        out = pa.BufferOutputStream()
        try:
            table = mutate_table(random, pq.read_table(pa.BufferReader(original)))
            pq.write_table(table, out)
        except (pa.ArrowException, TypeError, ValueError, OverflowError, KeyError):
            return mutate_bytes(random, original)
        return bytes(out.getvalue())
    return mutate_text(random, original.decode()).encode("utf-8", "surrogatepass")


_STRUCTURED = (".json", ".json3", ".jsonl", ".parquet")


def _is_text(path: Path) -> bool:
    return path.suffix not in (".npz", ".onnx", ".mat", *_STRUCTURED)


class TooLongError(Exception):
    """Raised by the alarm."""


def _alarm(*_: object) -> None:
    raise TooLongError


def run_case(parser: Parser, folder: Path, seed: str, content: str | None) -> tuple[str, str]:
    """The outcome of one case, and what happened.

    content : what a valid artefact with checksums holds.
    """
    rng = random.Random(seed)
    name = rng.choice(parser.files)
    path = folder / name
    original = path.read_bytes()
    try:
        changed = mutated(rng, path, original)
        path.write_bytes(changed)
        signal.alarm(SECONDS)
        try:
            value = parser.read(folder)
            sealed = parser.sealed if path.suffix != ".json" or b'"checksums"' in changed else None
            if sealed is not None and sealed(value) != content:  # without a key it is an older one
                return "wrong", f"seed {seed} {name}: other content was accepted"
            return "accepted", ""
        except ObjectStatesError as problem:
            message = " ".join(str(problem).split())
            if not any(part in message for part in (str(folder), path.name)):
                return "traceback", f"seed {seed} {name}: no file is named: {message[:200]}"
            return "refused", ""
        except TooLongError:
            return "hang", f"seed {seed} {name}"
        except BaseException as problem:
            return "traceback", f"seed {seed} {name}: {_where(problem)}"
        finally:
            signal.alarm(0)
    finally:
        path.write_bytes(original)


def _where(problem: BaseException) -> str:
    trace, place = problem.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "objectstates" in file and "/tests/" not in file:
            place = f"{Path(file).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(problem).__name__} at {place}: {str(problem)[:150]}"


# --- many cases, in forked processes ------------------------------------------------------------


def run_parser(parser: Parser, cases: int, seed: int) -> Counts:
    """The outcomes of so many cases of one parser."""
    counts = Counts()
    with tempfile.TemporaryDirectory(prefix="faults-", dir=FOLDER) as place:
        _prepare(parser, Path(place) / "valid")
        done = 0
        while done < cases:
            done = _run_batch(parser, Path(place), seed, done, min(done + BATCH, cases), counts)
    return counts


def _prepare(parser: Parser, folder: Path) -> None:
    """Write the valid files, in a process of its own: the libraries start threads."""
    folder.mkdir()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            warnings.simplefilter("ignore")
            parser.prepare(folder)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError(f"{parser.name}: the valid files cannot be written")


def _run_batch(
    parser: Parser, place: Path, seed: int, first: int, last: int, counts: Counts
) -> int:
    """Run some cases in a process of their own; the number of the case to go on with."""
    folder = place / str(first)
    shutil.copytree(place / "valid", folder)
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(readable)
        _in_child(
            parser, folder, [f"{seed}/{parser.name}/{n}" for n in range(first, last)], writable
        )
    os.close(writable)
    done = first
    with os.fdopen(readable, "r", encoding="utf-8") as lines:
        for line in lines:
            outcome, seconds, what = json.loads(line)
            counts.add(outcome, seconds, what)
            done += 1
    _, status = os.waitpid(pid, 0)
    if done < last:
        counts.add("crash", 0.0, f"seed {seed}/{parser.name}/{done}: process ended ({status})")
        done += 1
    return done


def _in_child(parser: Parser, folder: Path, seeds: Sequence[str], out: int) -> None:
    code = 1
    try:
        signal.signal(signal.SIGALRM, _alarm)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        warnings.simplefilter("ignore")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries print what they think of a file
        value = parser.read(folder)  # the valid files are accepted
        content = None if parser.sealed is None else parser.sealed(value)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))
        for seed in seeds:
            began = time.monotonic()
            outcome, what = run_case(parser, folder, seed, content)
            row = outcome, round(time.monotonic() - began, 3), what
            os.write(out, (json.dumps(row) + "\n").encode())
        code = 0
    finally:
        os._exit(code)


def run(
    cases: int, seed: int, names: Sequence[str] = (), out: Path | None = None
) -> dict[str, Counts]:
    """The outcomes of all parsers, or of some, which share the cases.

    out : a file that gets the counts after each parser.
    """
    parsers = [p for p in all_parsers() if not names or p.name in names]
    total = sum(parser.share for parser in parsers)
    found: dict[str, Counts] = {}
    for parser in parsers:
        found[parser.name] = run_parser(parser, max(1, round(cases * parser.share / total)), seed)
        print(_row(parser.name, found[parser.name]), flush=True)
        if out is not None:
            _write_counts(out, seed, found)
    return found


def _write_counts(out: Path, seed: int, found: Mapping[str, Counts]) -> None:
    rows = {
        name: {
            "cases": sum(counts.outcomes.values()),
            **{each: counts.outcomes[each] for each in OUTCOMES},
            "slowest_s": counts.slowest,
            "failures": counts.failures,
        }
        for name, counts in found.items()
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    cases = sum(sum(counts.outcomes.values()) for counts in found.values())
    out.write_text(json.dumps({"seed": seed, "cases": cases, "parsers": rows}, indent=1))


def _row(name: str, counts: Counts) -> str:
    cells = [sum(counts.outcomes.values()), *(counts.outcomes[each] for each in OUTCOMES)]
    return f"{name:24}" + "".join(f"{cell:>10}" for cell in cells) + f"{counts.slowest:>9.2f} s"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--cases", type=int, default=100_000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--parser", action="append", default=[])
    options = arguments.parse_args()
    print(f"{'parser':24}" + "".join(f"{o:>10}" for o in ("cases", *OUTCOMES)) + f"{'slowest':>11}")
    found = run(options.cases, options.seed, options.parser, options.out)
    whole = Counts(sum((c.outcomes for c in found.values()), Counter()))
    print(_row("all", whole))
    failures = [what for counts in found.values() for what in counts.failures]
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

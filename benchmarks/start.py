"""Cold and warm start: ``python -m benchmarks.start [--repeats 5] [--no-empty]``.

Each row is a new process: CPU seconds (user and system) and wall seconds, medians over the repeats,
and the ratio of CPU seconds to ``python -c "import numpy"``. The rows take turns, so that all meet
the same load. A first fit lasts from the start of the process to the end of the solver's first
pass, on eight synthetic clips, in a copy of the package:

- nothing compiled: no kernel is in any cache, which is measured once;
- as installed: the kernels are those that the wheel brings (``tools/kernel_hook.py``);
- again: all kernels are in the cache.

The ingest is of two clips of one second each. With two processes, two workers are started.

``benchmarks/results/start.json`` has the numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import objectstates

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
REFERENCE = "import numpy"

FIT = """
import os
from objectstates import JointDiscovery
from objectstates.data.synthetic import synthetic_corpus
JointDiscovery().fit(synthetic_corpus(n_clips=8, seed=0), lambda progress: os._exit(0))
"""

INGEST = """
import sys
from pathlib import Path
import objectstates
from objectstates.ingest.pipeline import IngestSettings, ingest
from objectstates.video.clip_list import ClipSpan
videos = sorted(Path(objectstates.__file__).parent.glob("demo/drawer/*.mp4"))[:2]
clips = [ClipSpan(video.stem, video, 0.0, 1.0) for video in videos]
ingest(clips, IngestSettings(), processes=int(sys.argv[1]))
"""

Command = tuple[list[str], dict[str, str]]
"""Arguments of Python, and variables of its environment."""


def seconds(command: Command) -> tuple[float, float]:
    """CPU and wall seconds of a process."""
    arguments, variables = command
    kept = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments], env={**kept, **variables}, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, wall


def copy_of_package(folder: Path) -> dict[str, str]:
    """A copy without compiled kernels, and the variables that let Python use it and no cache."""
    shutil.copytree(
        Path(objectstates.__file__).parent,
        folder / "objectstates",
        ignore=shutil.ignore_patterns("objectstates-kernels-*"),
    )
    path = os.pathsep.join([str(folder), str(ROOT)])
    return {"PYTHONPATH": path, "OBJECTSTATES_CACHE": str(folder / "cache")}


def measure(repeats: int, empty: bool) -> dict[str, dict[str, float]]:
    """Of each row its CPU and wall seconds, and the ratio to the reference."""
    with tempfile.TemporaryDirectory() as scratch:
        own = copy_of_package(Path(scratch) / "package")
        again = {**own, "NUMBA_CACHE_DIR": str(Path(scratch) / "kernels")}
        times: dict[str, list[tuple[float, float]]] = {}
        if empty:
            times["first fit, nothing compiled"] = [seconds((["-c", FIT], again))]
        seconds((["-m", "tools.light_kernels"], own))  # what the wheel brings
        rows: dict[str, Command] = {
            REFERENCE: (["-c", REFERENCE], {}),
            "import objectstates": (["-c", "import objectstates"], own),
            "objectstates --help": (["-m", "objectstates", "--help"], own),
            "import JointDiscovery": (["-c", "from objectstates import JointDiscovery"], own),
            "first fit, as installed": (["-c", FIT], own),
            "first fit, again": (["-c", FIT], again),
            "ingest": (["-c", INGEST, "1"], again),
            "ingest, two workers": (["-c", INGEST, "2"], again),
        }
        for name in ("first fit, again", "ingest"):  # compiles what is not there
            seconds(rows[name])
        for _ in range(repeats):
            for name, command in rows.items():
                times.setdefault(name, []).append(seconds(command))
    reference = median(cpu for cpu, _ in times[REFERENCE])
    return {
        name: {
            "cpu": (cpu := median(cpu for cpu, _ in runs)),
            "wall": median(wall for _, wall in runs),
            "ratio": cpu / reference,
        }
        for name, runs in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-empty", action="store_true", help="not without compiled kernels")
    options = parser.parse_args()
    found = measure(options.repeats, not options.no_empty)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "start.json").write_text(json.dumps(found, indent=1) + "\n")
    print("| start | CPU s | wall s | x import numpy |\n|---|---|---|---|")
    for name, row in sorted(found.items(), key=lambda item: item[1]["cpu"]):
        print(f"| {name} | {row['cpu']:.2f} | {row['wall']:.2f} | {row['ratio']:.1f} |")


if __name__ == "__main__":
    main()

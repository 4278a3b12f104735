"""How fits out of core grow: ``python -m benchmarks.scale``.

A million tracklets (33,334 clips of 30, d = 512) and their chunks (20 a clip, d = 128), 2.2 GB of
features, are written to a temporary folder and fitted to a relative gap of 10 % by a process that
may not hold more than 2 GB. The time per pass is compared with a floor, measured in the same
process on the same files: reading all factor rows once and multiplying them as often as a pass must
(the scores of all rows, and the sum of rows by label). CPU seconds are given beside wall-clock
seconds, for machines with other load.

``--tracklets 10000 100000 1000000`` are the sizes, ``--shards 2`` uses two threads. With
``--device cuda`` it is what ``scale_gpu.py`` measures instead, about a minute on an H200.

``python -m benchmarks.scale features`` (on a GPU), ``reduction`` and ``cluster`` give the other
tables of docs/scale.md: they are ``benchmarks.gpu``, ``.reduction`` and ``.cluster_simulation``,
with their options.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

RESULTS = Path(__file__).parent / "results"
TABLES = {"features": "gpu", "reduction": "reduction", "cluster": "cluster_simulation"}
TRACKLETS, CHUNKS = 30, 20  # per clip
STATE_SIZE, ACTION_SIZE = 512, 128
LIMIT = 2 * 2**30
NEVER = 10**9  # passes between roundings: passes alone are timed
SETTINGS: dict[str, Any] = {"mu": 1e-4, "lam": 1e-2}
NU_PER_CLIP = 2.0
OUT_OF_CORE = ("tracklets", "shards", "features_mb", "passes", "relative_gap", "seconds_per_pass",
               "us_per_pass_and_clip", "pass_to_floor", "pass_to_floor_cpu", "factorise_seconds",
               "solve_seconds", "peak_mb")  # fmt: skip


def draw_times(rng: np.random.Generator, n_clips: int) -> tuple[Any, Any]:
    """When the action of each clip is, (N,), and when its tracklets begin, (N, 30)."""
    length = CHUNKS * 0.4
    action_time = rng.uniform(0.25, 0.75, n_clips) * length
    return action_time, np.sort(rng.uniform(0, length - 1, (n_clips, TRACKLETS)), axis=1)


def constraints_of(start: Any) -> tuple[Any, Any]:
    """Of the action and the states, where tracklets of 0.9 s begin at ``start`` (N, 30)."""
    from objectstates.solver.oracle import one_row, ordered_states

    begin, n_clips = start.ravel(), len(start)
    offsets = np.arange(n_clips + 1) * TRACKLETS
    state = ordered_states(begin, begin + 0.9, offsets, linear=np.zeros((len(begin), 2)))
    offsets = np.arange(n_clips + 1) * CHUNKS
    times = np.tile((np.arange(CHUNKS) + 0.5) * 0.4, n_clips)
    return one_row(offsets, linear=np.zeros((len(times), 1)), times=times), state


class Made:
    """Features on disk, and the truth that shaped them.

    Like ``objectstates.data.synthetic``, cheaper: every clip has an action at a random time,
    tracklets before it look like one direction, after it like another, a third like neither.
    """

    def __init__(
        self,
        folder: Path,
        n_clips: int,
        seed: int = 0,
        *,
        state_size: int = STATE_SIZE,
        action_size: int = ACTION_SIZE,
    ) -> None:
        self.n_clips, self.sizes = n_clips, (action_size, state_size)
        rng = np.random.default_rng(seed)
        appearances = rng.standard_normal((4, state_size)) / state_size**0.5
        moves = rng.standard_normal((2, action_size)) / action_size**0.5
        self.length = CHUNKS * 0.4
        self.action_time, start = draw_times(rng, n_clips)
        self.start = start
        self.state_path, self.action_path = folder / "state.f4", folder / "action.f4"
        with self.state_path.open("wb") as states, self.action_path.open("wb") as actions:
            for first in range(0, n_clips, 256):
                times = self.action_time[first : first + 256]
                after = start[first : first + 256] + 0.45 > times[:, None]
                other = rng.random(after.shape) < 1 / 3
                kind = np.where(other, 2, after)
                rows = (
                    appearances[3] + appearances[kind] + self._noise(rng, (*kind.shape, state_size))
                )
                states.write(self._unit(rows).tobytes())
                middle = (np.arange(CHUNKS) + 0.5) * 0.4
                acting = np.abs(middle - times[:, None]) < 0.6
                rows = moves[0] + acting[:, :, None] * moves[1]
                rows = rows + self._noise(rng, (*acting.shape, action_size))
                actions.write(self._unit(rows).tobytes())

    @staticmethod
    def _noise(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return rng.standard_normal(shape, np.float32) * (1.0 / shape[-1] ** 0.5)

    @staticmethod
    def _unit(rows: Any) -> Any:
        return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)

    def sides(self) -> tuple[Any, Any, Any, Any]:
        """Constraints and features of the action and the states."""
        action, state = constraints_of(self.start)
        paths = self.action_path, self.state_path
        rows = [FileRows(path, size) for path, size in zip(paths, self.sizes, strict=True)]
        return action, state, *rows


class FileRows:
    """float32 rows of a plain file."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.shape = (path.stat().st_size // (4 * size), size)

    def read(self, lo: int, hi: int) -> Any:
        d = self.shape[1]
        rows = np.fromfile(self.path, np.float32, (hi - lo) * d, offset=4 * lo * d)
        return rows.reshape(hi - lo, d)


class Clock:
    """Seconds by the clock and of this process's processors, one entry per lap."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.begin()

    def begin(self) -> None:
        self._last = time.perf_counter(), time.process_time()

    def lap(self, *_: Any) -> None:
        now = time.perf_counter(), time.process_time()
        self.wall.append(now[0] - self._last[0])
        self.cpu.append(now[1] - self._last[1])
        self._last = now


def floor(shards: list[Any]) -> None:
    """Read all factor rows once and multiply them: scores, and sums by label."""
    from concurrent.futures import ThreadPoolExecutor

    def one(shard: Any) -> None:
        for batch in shard.read_batches():
            for side in (batch.action, batch.state):
                k, width = side.constraints.linear.shape[1], side.rows.shape[1]
                scores = side.rows @ np.ones((width, k), side.rows.dtype)
                side.rows.T @ scores

    with ThreadPoolExecutor(len(shards)) as threads:
        list(threads.map(one, shards))


def repeat_floor(shards: list[Any], clock: Clock) -> None:
    for _ in range(3):
        clock.begin()
        floor(shards)
        clock.lap()


def measure(n_tracklets: int, n_shards: int, tol: float, limit: int, pipe: Any) -> None:
    """Fit in this process, which may hold no more than ``limit`` bytes."""
    from objectstates.parallel.actors import LocalActors
    from objectstates.solver.frank_wolfe import minimise
    from objectstates.solver.scale.disk_shard import Shard
    from objectstates.solver.scale.moments import shift_of
    from objectstates.solver.scale.sharded import ShardedProblem, divide, part_of

    n_clips = -(-n_tracklets // TRACKLETS)
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        made = Made(Path(folder), n_clips)
        warm_up(Path(folder))
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
        action, state, chunks, tracklets = made.sides()
        shards = [
            Shard(
                part_of(action, chunks, *clips),
                part_of(state, tracklets, *clips),
                Path(folder) / str(s),
                single=n_shards == 1,
            )
            for s, clips in enumerate(divide(action, state, n_shards))
        ]
        factorising, passes, floors, whole = Clock(), Clock(), Clock(), Clock()
        with LocalActors(shards) as actors:
            factorising.begin()
            problem = ShardedProblem(
                actors, (shift_of(chunks), shift_of(tracklets)), nu=NU_PER_CLIP / made.length,
                **SETTINGS,
            )  # fmt: skip
            factorising.lap()
            with threadpool_limits(1):  # more only get into each other's way: rows are read once
                repeat_floor(shards, floors)
                whole.begin()
                passes.begin()
                found = minimise(
                    problem, tol=tol, max_passes=300, callback=passes.lap, round_every=NEVER
                )
                whole.lap()
                repeat_floor(shards, floors)
            labels = problem.kept_rounding().action
        chosen = labels.reshape(n_clips, CHUNKS).argmax(axis=1)
        right = np.abs((chosen + 0.5) * 0.4 - made.action_time) < 0.8
    pipe.send(
        {
            "tracklets": n_clips * TRACKLETS,
            "clips": n_clips,
            "shards": n_shards,
            "passes": found.passes,
            "relative_gap": found.gap / found.terms.total,
            "seconds_per_pass": median(passes.wall),
            "cpu_seconds_per_pass": median(passes.cpu),
            "us_per_pass_and_clip": 1e6 * median(passes.cpu) / n_clips,
            "floor_seconds": median(floors.wall),
            "floor_cpu_seconds": median(floors.cpu),
            "pass_to_floor": median(passes.wall) / median(floors.wall),
            "pass_to_floor_cpu": median(passes.cpu) / median(floors.cpu),
            "factorise_seconds": factorising.wall[0],
            "factorise_cpu_seconds": factorising.cpu[0],
            "solve_seconds": whole.wall[0],
            "peak_mb": _peak() / 2**20,
            "features_mb": 4 * n_clips * (TRACKLETS * STATE_SIZE + CHUNKS * ACTION_SIZE) / 2**20,
            "action_right": float(right.mean()),
        }
    )


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def warm_up(folder: Path) -> None:
    """Load the compiled kernels."""
    from objectstates.parallel.actors import LocalActors
    from objectstates.solver.frank_wolfe import minimise
    from objectstates.solver.scale.disk_shard import Shard
    from objectstates.solver.scale.moments import shift_of
    from objectstates.solver.scale.sharded import ShardedProblem, part_of

    (folder / "warm").mkdir()
    made = Made(folder / "warm", 120)
    action, state, chunks, tracklets = made.sides()
    shard = Shard(part_of(action, chunks, 0, 120), part_of(state, tracklets, 0, 120), folder / "w")
    with LocalActors([shard]) as actors:
        shifts = shift_of(chunks), shift_of(tracklets)
        minimise(ShardedProblem(actors, shifts, nu=1.0, **SETTINGS), max_passes=60)


def in_a_process(*arguments: Any) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=measure, args=(*arguments, theirs))
    process.start()
    theirs.close()
    try:
        return dict(ours.recv())
    except EOFError:
        sys.exit(f"{arguments} failed")
    finally:
        process.join()


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in TABLES:
        importlib.import_module(f"benchmarks.{TABLES[sys.argv.pop(1)]}").main()
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tracklets", type=int, nargs="+")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--tol", type=float, default=0.1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--mini-batches", type=int, nargs="+", default=[1, 2, 4], help="on a device"
    )
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    if options.device != "cpu":
        report = on_device(options)
        (RESULTS / "scale_gpu.json").write_text(json.dumps(report, indent=1) + "\n")
        return
    rows = []
    for n_tracklets in options.tracklets or [10**4, 10**5, 10**6]:
        rows.append(in_a_process(n_tracklets, options.shards, options.tol, LIMIT))
        show("out of core", rows, OUT_OF_CORE)
    (RESULTS / "scale.json").write_text(json.dumps(rows, indent=1) + "\n")


def on_device(options: Any) -> dict[str, Any]:
    """Both tables of ``scale_gpu.py``."""
    from benchmarks.scale_gpu import PAPER_SIZE, RESIDENT, million, paper_size

    report: dict[str, Any] = {"paper_size": paper_size(options.device), "resident": []}
    show("47 clips, 1,400 x 8,192 and 2,350 x 3,000", report["paper_size"], PAPER_SIZE)
    for n_tracklets in options.tracklets or [10**5, 10**6]:
        for count in options.mini_batches:
            # The host alone takes minutes for more.
            judged = n_tracklets <= 10**5 and count == options.mini_batches[0]
            report["resident"].append(
                million(n_tracklets, options.device, options.tol, count, judged)
            )
    show("resident", report["resident"], RESIDENT)
    return report


def show(title: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    """Some columns of what was measured; all of it is in the JSON."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for column in columns:
        table.add_column(column.replace("_", " "))
    for row in rows:
        cells = [row[column] for column in columns]
        table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()

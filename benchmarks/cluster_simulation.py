"""What a cluster would take, and how far to believe it.

``python -m benchmarks.cluster_simulation [--large] [--no-ray] [--plan]``

Small fits (CPU seconds of every step, passes by the number of shards), small ingests and, where Ray
is installed, its own costs are measured here; they give the constants of ``cluster_model.py``. What
the model then says of other fits (larger ones, other sizes of features, more shards, a cluster of
two nodes), which took no part in that, stands beside what they took. Last it says what a million
clips cost on named machines, and how that depends on what is uncertain.

``--large`` adds a fit of a million tracklets, d = 512 (needs 5 GB of disk); ``--no-ray`` leaves Ray
out; ``--plan`` shows the last part anew, with the constants that were measured last. Close
everything else first: only the CPU seconds forgive company.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

from benchmarks.cluster_model import (
    STARTING_PASSES,
    STEPS,
    Bill,
    Constants,
    Corpus,
    Fit,
    Machines,
    simulate_ingest,
)
from benchmarks.scale import CHUNKS, NU_PER_CLIP, SETTINGS, TRACKLETS, Made
from objectstates.cli.output import make_table, print_table
from objectstates.parallel.actors import LocalActors
from objectstates.parallel.ray_actors import Replay
from objectstates.solver.frank_wolfe import Progress, minimise
from objectstates.solver.scale.disk_shard import Shard
from objectstates.solver.scale.moments import shift_of
from objectstates.solver.scale.sharded import ROUND_EVERY, ShardedProblem, divide, part_of

RESULTS = Path(__file__).parent / "results"
PLACE = RESULTS / "cluster_simulation.json"
DEMO = Path(__file__).parents[1] / "src" / "objectstates" / "demo" / "drawer"

# Tracklets, d of the states, d of the action, shards. Rows are more than caches hold, as those of a
# cluster's shards are, whose speed reading from a cache would not show.
CALIBRATION = [
    (100_000, 64, 32, 1),
    (60_000, 256, 64, 1),
    (100_000, 128, 64, 2),
    (30_000, 1024, 128, 1),
    (10_000, 2048, 128, 1),
]
VALIDATION = [(100_000, 256, 64, 1), (40_000, 512, 128, 1), (200_000, 128, 64, 4),
              (20_000, 2048, 128, 1)]  # fmt: skip
LARGE = (1_000_000, 512, 128, 1)
PASSES, PASSES_SHARDS = (100_000, 128, 64), (1, 2, 4, 8)
MORE_PASSES = [(100_000, 128, 64, 16), (100_000, 128, 64, 32), (30_000, 256, 64, 8)]
GAP = 0.01  # the estimator's default tolerance
ON_RAY, RAY_PASSES = (60_000, 128, 64, 2), 70
CLIPS, OTHER_CLIPS = ("drawer_06", "drawer_11"), ("drawer_13", "drawer_18")

MILLION = Corpus(1_000_000, state_size=2048, action_size=1362)  # chunks as ingest makes them
AWS = Machines(
    "m6id.4xlarge", 16, cores=8, memory=64e9, disk=1.5e9, network=1.2e9, dollars=0.95
)  # 16 hyper-threads count as 8 cores; price on demand, us-east-1

REPLAY = Replay(frozenset(), "start", frozenset())  # no machine is lost while it is measured


def corpus_of(tracklets: int, state_size: int, action_size: int) -> Corpus:
    return Corpus(-(-tracklets // TRACKLETS), TRACKLETS, CHUNKS, state_size, action_size)


# --- fits ----------------------------------------------------------------------------------------


class TimedShard(Shard):
    """A shard that knows how long the cores of its process have worked."""

    def worked(self) -> float:
        return time.process_time()


class Watched:
    """Actors whose calls are timed: seconds of the clock and of all this process's cores."""

    def __init__(self, actors: Any) -> None:
        self.actors = actors
        self.wall: dict[str, list[float]] = defaultdict(list)
        self.cpu: dict[str, list[float]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self.actors)

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        begin = time.perf_counter(), time.process_time()
        answers = self.actors.call(method, arguments)
        self.wall[method].append(time.perf_counter() - begin[0])
        self.cpu[method].append(time.process_time() - begin[1])
        return list(answers)


class RelativeGaps:
    """A callback that keeps the gap of every pass, as a share of the objective."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def __call__(self, progress: Progress) -> None:
        self.values.append(progress.gap / progress.objective)


@dataclass(frozen=True)
class Measured:
    """One fit: CPU seconds of each step, on average, and of the driver's factorising."""

    corpus: Corpus
    shards: int
    steps: dict[str, float]
    whiten: float
    spread: float
    passes: int
    passes_to_tenth: int  # until the gap is 10 % of the objective
    seconds: float  # by the clock, all of it
    core_seconds: float  # of the shards, wherever they are
    warming: float = 0.0  # seconds that a first fit in the same processes took longer


def shard_makers(made: Made, folder: Path, n_shards: int) -> list[Callable[[], Shard]]:
    action, state, chunks, tracklets = made.sides()
    return [
        partial(
            TimedShard,
            part_of(action, chunks, *clips),
            part_of(state, tracklets, *clips),
            folder / f"shard{s}",
            single=n_shards == 1,
        )
        for s, clips in enumerate(divide(action, state, n_shards))
    ]


@contextmanager
def local(makers: Sequence[Callable[[], Shard]]) -> Any:
    with LocalActors([make() for make in makers]) as actors:
        yield actors


def fit(
    tracklets: int,
    state_size: int,
    action_size: int,
    shards: int,
    *,
    tol: float,
    max_passes: int = 500,
    actors_of: Callable[..., Any] = local,
    twice: bool = False,
) -> Measured:
    """Fit made-up features; ``twice`` in the same processes, of which the second time counts."""
    corpus = corpus_of(tracklets, state_size, action_size)
    seconds: list[float] = []
    with tempfile.TemporaryDirectory(prefix="cluster-") as place, threadpool_limits(1):
        made = Made(Path(place), corpus.clips, state_size=state_size, action_size=action_size)
        with actors_of(shard_makers(made, Path(place), shards)) as actors:
            for _ in range(2 if twice else 1):
                gaps = RelativeGaps()
                watched, before = Watched(actors), actors.call("worked", [()] * shards)
                begin = time.perf_counter(), time.process_time()
                _, _, *rows = made.sides()
                shifts = shift_of(rows[0]), shift_of(rows[1])
                problem = ShardedProblem(watched, shifts, nu=NU_PER_CLIP / made.length, **SETTINGS)
                making = time.process_time() - begin[1]
                found = minimise(
                    problem,
                    tol=tol,
                    max_passes=max_passes,
                    round_every=ROUND_EVERY,
                    evaluate_every=ROUND_EVERY,
                    callback=gaps,
                )
                seconds.append(time.perf_counter() - begin[0])
                worked = np.subtract(actors.call("worked", [()] * shards), before)
    steps = {step: float(np.mean(watched.cpu[step])) for step in STEPS}
    steps["sweep"] += float(np.mean(watched.cpu["scale_step"]))
    whiten = making - sum(watched.cpu["measure"]) - sum(watched.cpu["prepare"])
    tenth = [n for n, gap in enumerate(gaps.values, start=1) if n > STARTING_PASSES and gap <= 0.1]
    return Measured(
        corpus,
        shards,
        steps,
        whiten=max(whiten, 0.0),
        spread=float(np.std(np.log(watched.cpu["sweep"][-10:]))),
        passes=found.passes,
        passes_to_tenth=tenth[0] if tenth else found.passes,
        seconds=seconds[-1],
        core_seconds=float(worked.sum()),
        warming=seconds[0] - seconds[-1],
    )


def calibrated(measured: Sequence[Measured]) -> Constants:
    """Non-negative constants whose relative errors on what was measured are least."""
    steps = {}
    for step in STEPS:
        amounts = np.array([m.corpus.amounts(step) for m in measured])
        seconds = np.array([m.steps[step] for m in measured])
        units = amounts.max(axis=0)
        found, _ = nnls(amounts / units / seconds[:, None], np.ones(len(seconds)))
        steps[step] = tuple((found / units).tolist())
    cubes = [m.corpus.state_size**3 + m.corpus.action_size**3 for m in measured]
    whiten = max(measured, key=lambda m: m.corpus.state_size).whiten / max(cubes)
    return Constants(steps, whiten, spread=float(np.median([m.spread for m in measured])))


def growth_of_passes(passes: dict[int, int]) -> tuple[float, float]:
    """The line a + b log2(shards) through passes by shards; b is not below 0."""
    slope, start = np.polyfit([math.log2(s) for s in passes], list(passes.values()), 1)
    return float(start if slope > 0 else np.mean(list(passes.values()))), max(float(slope), 0.0)


# --- ingest --------------------------------------------------------------------------------------


def seconds_per_frame(names: Sequence[str]) -> float:
    """CPU seconds of all stages from video to features, with the demo's few-shot detector."""
    from objectstates.ingest.pipeline import IngestSettings, ingest
    from objectstates.video.clip_list import find_clips

    settings = IngestSettings(detector=f"fewshot:{DEMO / 'drawer.npz'}", object_name="drawer")
    clips = find_clips([DEMO / f"{name}.mp4" for name in names])
    begin = time.process_time()
    _, report = ingest(clips, settings)
    return (time.process_time() - begin) / report.frames


# --- Ray -----------------------------------------------------------------------------------------


class Nothing:
    """Does nothing, so that what is around it can be timed."""

    def __call__(self, item: int, _tick: Any) -> int:
        return item

    def nothing(self) -> None:
        return None

    def close(self) -> None:
        return None


@contextmanager
def two_nodes() -> Any:
    import os

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 200 * 2**20, "include_dashboard": False, "num_cpus": 1}
    nodes = Cluster(initialize_head=True, head_node_args=small)
    nodes.add_node(**small)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    try:
        yield ray
    finally:
        ray.shutdown()
        nodes.shutdown()


def ray_constants(ray: Any) -> dict[str, float]:
    """Seconds by the clock: the best of several, for company only adds to them."""
    from objectstates.parallel.pool import run_all
    from objectstates.parallel.ray_actors import RayActors

    asks = {}
    for size in (1, 8):
        with RayActors(ray, [Nothing] * size, REPLAY) as actors:
            asks[size] = least(partial(actors.call, "nothing", [()] * size), 30)
    call = max(asks[8] - asks[1], 0.0) / 7
    ends: list[float] = []
    run_all(Nothing, list(range(600)), ray_address="auto",
            on_done=lambda *_: ends.append(time.perf_counter()))  # fmt: skip
    rates = [(ends[i + 100] - ends[i]) / 100 for i in range(0, 500, 50)]
    return {"ask": max(asks[1] - call, 0.0), "call": call, "item": min(rates)}


def least(what: Callable[[], Any], times: int) -> float:
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        what()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


@contextmanager
def on_ray(ray: Any, makers: Sequence[Callable[[], Shard]]) -> Any:
    from objectstates.parallel.ray_actors import RayActors

    with RayActors(ray, makers, REPLAY) as actors:
        yield actors


# --- predictions beside measurements -------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """What was predicted and what came out, of something that constants were not taken from."""

    what: str
    unit: str
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def compare_steps(constants: Constants, found: Measured) -> list[Compared]:
    c = found.corpus
    name = f"{c.clips * c.tracklets:,} x {c.state_size}, {found.shards} shard(s)"
    once = sum(constants.core_seconds(c, s) for s in ("measure", "prepare"))
    rows = [Compared(f"{name}: factorising", "CPU s", once,
                     found.steps["measure"] + found.steps["prepare"])]  # fmt: skip
    for step in ("sweep", "evaluate"):
        predicted = constants.core_seconds(c, step)
        rows.append(Compared(f"{name}: {step}", "CPU s", predicted, found.steps[step]))
    return rows


def show(rows: Sequence[Compared]) -> None:
    table = make_table("not used for calibration", "", "predicted", "measured", "error")
    for row in rows:
        table.add_row(row.what, row.unit, f"{row.predicted:.4g}", f"{row.measured:.4g}",
                      f"{row.error:+.0%}")  # fmt: skip
    print_table(table)


def measure(large: bool, with_ray: bool) -> tuple[Constants, list[Compared], dict[str, Any]]:
    fit(3_000, 64, 32, 2, tol=0.1, max_passes=60)  # compiles
    points = [fit(*point, tol=0.0, max_passes=56) for point in CALIBRATION]
    constants = calibrated(points)
    compared = []
    for point in [*VALIDATION, *([LARGE] if large else [])]:
        compared += compare_steps(constants, fit(*point, tol=0.0, max_passes=56))
    passes = {s: fit(*PASSES, s, tol=GAP) for s in PASSES_SHARDS}
    start, more = growth_of_passes({s: found.passes for s, found in passes.items()})
    constants = replace(constants, passes=start, passes_per_doubling=more)
    tenth = {s: found.passes_to_tenth for s, found in passes.items()}
    for tracklets, state_size, action_size, shards in MORE_PASSES:
        found = fit(tracklets, state_size, action_size, shards, tol=GAP)
        name = f"{tracklets:,} x {state_size}, {shards} shards: passes to a gap of 1 %"
        compared.append(Compared(name, "", constants.passes_with(shards), found.passes))
        tenth[shards] = found.passes_to_tenth
    seconds_per_frame(CLIPS[:1])  # compiles
    constants = replace(constants, frame=seconds_per_frame(CLIPS))
    frame = seconds_per_frame(OTHER_CLIPS)
    compared.append(Compared("ingest of other clips: a frame", "CPU s", constants.frame, frame))
    if with_ray:
        constants, rows = compare_on_ray(constants)
        compared += rows
    facts = {
        "passes": {s: found.passes for s, found in passes.items()},
        "passes_to_tenth": tenth,
        "calibration": [asdict(point) for point in points],
    }
    return constants, compared, facts


def compare_on_ray(constants: Constants) -> tuple[Constants, list[Compared]]:
    with two_nodes() as ray:
        measured: dict[str, Any] = ray_constants(ray)
        constants = replace(constants, **measured)
        found = fit(*ON_RAY, tol=0.0, max_passes=RAY_PASSES, actors_of=partial(on_ray, ray),
                    twice=True)  # fmt: skip
    constants = replace(constants, warming=max(found.warming, 0.0))
    nodes = Machines("two nodes", 2, cores=1, memory=1e12, disk=1e12, network=1e9)
    bill = Fit(found.corpus, nodes, replace(constants, warming=0.0), 2, passes=RAY_PASSES).run()
    name = f"{ON_RAY[0]:,} x {ON_RAY[1]}, two nodes of a Ray cluster, {RAY_PASSES} passes"
    return constants, [
        Compared(f"{name}: work of the shards", "CPU s", bill.core_seconds, found.core_seconds),
        Compared(f"{name}: by the clock", "s", bill.seconds, found.seconds),
    ]


# --- the plan ------------------------------------------------------------------------------------


def plan(constants: Constants, corpus: Corpus, machines: Machines) -> tuple[Bill, Bill]:
    shards = machines.count * machines.cores
    return (
        simulate_ingest(corpus, machines, constants),
        Fit(corpus, machines, constants, shards).run(),
    )


def variants(constants: Constants) -> dict[str, tuple[Constants, Machines]]:
    """What is uncertain, changed one at a time."""
    twice = {step: tuple(2 * c for c in found) for step, found in constants.steps.items()}
    deaths = replace(AWS, hours_between_deaths=24.0)
    return {
        "as measured": (constants, AWS),
        "4 machines": (constants, replace(AWS, count=4)),
        "8 machines": (constants, replace(AWS, count=8)),
        "32 machines": (constants, replace(AWS, count=32)),
        "128 machines": (constants, replace(AWS, count=128)),
        "arithmetic twice as slow": (
            replace(constants, steps=twice, frame=2 * constants.frame), AWS),
        "twice the passes": (
            replace(constants, passes=2 * constants.passes,
                    passes_per_doubling=2 * constants.passes_per_doubling), AWS),
        "equal work varies by half": (replace(constants, spread=0.5), AWS),
        "32 GB of memory: rows from disk": (constants, replace(AWS, memory=32e9)),
        "messages a hundred times dearer": (
            replace(constants, ask=100 * constants.ask, call=100 * constants.call), AWS),
        "a machine dies every 24 h of its own": (constants, deaths),
    }  # fmt: skip


def show_plan(constants: Constants) -> list[dict[str, Any]]:
    table = make_table("1 M clips, 30 M tracklets, d = 2,048", "ingest h", "fit h", "$", "passes",
                       "GB sent", "deaths", "clips redone")  # fmt: skip
    rows = []
    for name, (changed, machines) in variants(constants).items():
        observed, fitted = plan(changed, MILLION, machines)
        dollars = observed.dollars(machines) + fitted.dollars(machines)
        deaths = observed.deaths + fitted.deaths
        rows.append({
            "variant": name, "ingest_hours": observed.seconds / 3600,
            "fit_hours": fitted.seconds / 3600, "dollars": dollars, "passes": fitted.passes,
            "sent_bytes": fitted.sent, "messages": fitted.messages, "read_bytes": fitted.read,
            "flops": fitted.flops, "deaths": deaths, "redone": observed.redone,
            "stages": dict(fitted.stages), "core_hours": fitted.core_seconds / 3600,
        })  # fmt: skip
        table.add_row(name, f"{observed.seconds / 3600:.2f}", f"{fitted.seconds / 3600:.2f}",
                      f"{dollars:.0f}", str(fitted.passes), f"{fitted.sent / 1e9:.1f}",
                      str(deaths), str(observed.redone))  # fmt: skip
    print_table(table)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--no-ray", action="store_true")
    parser.add_argument("--plan", action="store_true", help="with what was measured last")
    options = parser.parse_args()
    if options.plan:
        show_plan(Constants(**json.loads(PLACE.read_text())["constants"]))
        return
    constants, compared, facts = measure(options.large, not options.no_ray)
    print(json.dumps({"constants": asdict(constants), "passes": facts["passes"],
                      "passes_to_tenth": facts["passes_to_tenth"]}, indent=1))  # fmt: skip
    show(compared)
    rows = show_plan(constants)
    RESULTS.mkdir(exist_ok=True)
    everything = {
        "constants": asdict(constants),
        **facts,
        "compared": [{**asdict(row), "error": row.error} for row in compared],
        "plan": rows,
    }
    PLACE.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()

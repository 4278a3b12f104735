"""The measurements of ``benchmarks.scale --device cuda``.

Two sizes, in one process; where features are many they are drawn on the device:

* the paper's (47 clips, 1,400 x 8,192 and 2,350 x 3,000): the whole fit in memory with the
  factorisation on the device, to 10 % and 1 %, copies and labelling included;
* 1,000,020 tracklets x 2,048 in float32 and 666,680 chunks x 128 in device memory: passes, each
  synchronised, beside the floor, reading all factor rows once (the sum of all their entries).

At 100,020 tracklets the solution is checked on the host: objective and gap from the labels alone,
in float64, by the kernels of the solver in memory, with factor rows recomputed from the features.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np

from benchmarks.scale import (
    ACTION_SIZE,
    CHUNKS,
    NEVER,
    NU_PER_CLIP,
    SETTINGS,
    TRACKLETS,
    constraints_of,
    draw_times,
)

WIDTH = 2048
REPEATS = 5
PAPER_SIZE = ("fit", "device", "passes", "relative_gap", "seconds", "slowest_seconds",
              "factorise_seconds", "solve_seconds", "label_seconds")  # fmt: skip
RESIDENT = ("tracklets", "mini_batches", "passes", "relative_gap", "floor_seconds",
            "seconds_per_pass", "pass_to_floor", "starting_pass_to_floor", "joint_pass_to_floor",
            "factorise_seconds", "solve_seconds", "objective_error", "gap_error")  # fmt: skip


class Clock:
    """Seconds between laps, each after all work of the device is done."""

    def __init__(self, device: Any) -> None:
        import torch

        self._wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
        self.laps: list[float] = []
        self.begin()

    def begin(self) -> None:
        self._wait()
        self._last = time.perf_counter()

    def lap(self, *_: Any) -> None:
        self._wait()
        now = time.perf_counter()
        self.laps.append(now - self._last)
        self._last = now


# --- the paper's size -----------------------------------------------------------------------------


def paper_size(device: str) -> list[dict[str, Any]]:
    """Whole fits, beside the same on the host."""
    from benchmarks.solver import paper_size, warm_up
    from objectstates.discovery.estimator import JointDiscovery

    corpus = paper_size()
    warm_up()
    rows = []
    for name, tol in (("to 10 %", 0.10), ("to 1 %", 0.01)):
        for where in (device, "cpu"):
            model = JointDiscovery(tol=tol, max_passes=2000, device=where)
            seconds, stages = [], []
            for _ in range(1 + REPEATS if where == device else 2):
                begin = time.perf_counter()
                model.fit(corpus)
                seconds.append(time.perf_counter() - begin)
                stages.append(model.result_.summary["seconds"])
            rows.append(
                {
                    "fit": name,
                    "device": where,
                    "first_seconds": seconds[0],
                    "seconds": median(seconds[1:]),
                    "slowest_seconds": max(seconds[1:]),
                    **{f"{s}_seconds": median(x[s] for x in stages[1:]) for s in stages[0]},
                    "passes": model.n_iter_,
                    "relative_gap": model.gap_ / model.relaxed_objective_,
                    "relaxed": model.relaxed_objective_,
                    "rounded": model.objective_,
                }
            )
    return rows


# --- a million tracklets --------------------------------------------------------------------------


class DeviceFeatures:
    """Features like those of ``scale.Made``, drawn on the device whenever they are read.

    kinds : (M,) which of the means (n, d) each row has, beside the last one, common to all.
    """

    def __init__(self, kinds: Any, means: Any, seed: int, block: int = 30 * 512) -> None:
        self.kinds, self.means, self._seed, self._block = kinds, means, seed, block
        self.shape = (len(kinds), means.shape[1])

    def read(self, lo: int, hi: int) -> Any:
        import torch

        parts = []
        for number in range(lo // self._block, -(-hi // self._block)):
            first = number * self._block
            rows = self._draw(number, first, min(first + self._block, len(self.kinds)))
            parts.append(rows[max(lo - first, 0) : hi - first])
        return torch.cat(parts)

    def _draw(self, number: int, lo: int, hi: int) -> Any:
        import torch

        generator = torch.Generator(self.means.device).manual_seed(1000 * self._seed + number)
        noise = torch.randn((hi - lo, self.shape[1]), generator=generator, device=self.means.device)
        rows = self.means[-1] + self.means[self.kinds[lo:hi]] + noise / self.shape[1] ** 0.5
        return rows / rows.norm(dim=1, keepdim=True)


def features(n_clips: int, device: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Constraints and features of the action and the states, and the actions' times."""
    import torch

    rng = np.random.default_rng(0)
    action_time, start = draw_times(rng, n_clips)
    after = start + 0.45 > action_time[:, None]
    kinds = np.where(rng.random(after.shape) < 1 / 3, 2, after)
    acting = np.abs((np.arange(CHUNKS) + 0.5) * 0.4 - action_time[:, None]) < 0.6
    sides = []
    for seed, (which, count, width) in enumerate(((acting, 3, ACTION_SIZE), (kinds, 4, WIDTH))):
        means = rng.standard_normal((count, width)).astype(np.float32) / width**0.5
        if seed == 0:
            means[0] = 0.0  # a chunk without the action has the common mean alone
        sides.append(
            DeviceFeatures(
                torch.as_tensor(which.astype(np.int64).ravel(), device=device),
                torch.as_tensor(means, device=device),
                seed,
            )
        )
    action, state = constraints_of(start)
    return action, state, *sides, action_time


def million(
    n_tracklets: int, device_name: str, tol: float, mini_batches: int, judged: bool
) -> dict[str, Any]:
    """Fit ``n_tracklets`` x 2,048 that stay on the device."""
    import torch

    from objectstates.parallel.actors import LocalActors
    from objectstates.solver.frank_wolfe import minimise
    from objectstates.solver.scale.gpu_shard import GpuShard
    from objectstates.solver.scale.sharded import ShardedProblem

    device = torch.device(device_name)
    n_clips = -(-n_tracklets // TRACKLETS)
    action, state, chunks, tracklets, action_time = features(n_clips, device)
    shifts = [x.read(0, 4096).double().mean(0).cpu().numpy() for x in (chunks, tracklets)]
    shard = GpuShard((action, chunks), (state, tracklets), device, mini_batches=mini_batches)
    n_batches = len(shard.sides[0].batches)
    factorising, passes, solving, evaluating = (Clock(device) for _ in range(4))
    with LocalActors([shard]) as actors:
        factorising.begin()
        nu, mu, lam = NU_PER_CLIP / (CHUNKS * 0.4), SETTINGS["mu"], SETTINGS["lam"]
        problem = ShardedProblem(actors, (shifts[0], shifts[1]), nu=nu, mu=mu, lam=lam)
        factorising.lap()
        minimise(problem, max_passes=52, round_every=NEVER)  # compiles kernels, captures graphs
        floors = floor(shard, device)
        stages: list[str] = []
        solving.begin()
        passes.begin()

        def after_pass(progress: Any) -> None:
            passes.lap()
            stages.append(progress.stage)

        found = minimise(problem, tol=tol, max_passes=300, round_every=NEVER, callback=after_pass)
        solving.lap()
        floors += floor(shard, device)
        evaluating.begin()
        shard.evaluate(shard.own_sums, problem.scales)
        evaluating.lap()
        exact = on_host(problem, shard, chunks, tracklets) if judged else None
        labels = problem.kept_rounding().action
    chosen = labels.reshape(n_clips, CHUNKS).argmax(axis=1)
    right = np.abs((chosen + 0.5) * 0.4 - action_time) < 0.8
    starting = [s for s, stage in zip(passes.laps, stages, strict=True) if stage == "start"]
    joint = [s for s, stage in zip(passes.laps, stages, strict=True) if stage == "joint"]
    bytes_read = 4 * n_clips * (TRACKLETS * WIDTH + CHUNKS * ACTION_SIZE)
    return {
        "tracklets": n_clips * TRACKLETS,
        "width": WIDTH,
        "clips": n_clips,
        "mini_batches": n_batches,
        "passes": found.passes,
        "relative_gap": found.gap / found.terms.total,
        "objective": found.terms.total,
        "objective_error": exact and abs(exact["objective"] / found.terms.total - 1),
        "gap_error": exact and abs(exact["gap"] / found.gap - 1),
        "seconds_per_pass": median(passes.laps),
        "seconds_per_starting_pass": median(starting),
        "seconds_per_joint_pass": median(joint),
        "floor_seconds": median(floors),
        "floor_tb_per_second": bytes_read / median(floors) / 1e12,
        "pass_to_floor": median(passes.laps) / median(floors),
        "starting_pass_to_floor": median(starting) / median(floors),
        "joint_pass_to_floor": median(joint) / median(floors),
        "factorise_seconds": factorising.laps[0],
        "solve_seconds": solving.laps[0],
        "evaluate_seconds": evaluating.laps[0],
        "features_gb": bytes_read / 1e9,
        "device_peak_gb": torch.cuda.max_memory_allocated() / 1e9 if device.type == "cuda" else 0.0,
        "action_right": float(right.mean()),
    }


def floor(shard: Any, device: Any) -> list[float]:
    """Read all factor rows once, several times."""
    clock = Clock(device)
    for _ in range(10):
        clock.begin()
        for side in shard.sides:
            side.rows.sum()
        clock.lap()
    return clock.laps


def on_host(problem: Any, shard: Any, chunks: Any, tracklets: Any) -> dict[str, float]:
    """Objective and gap of the shard's labels, by the kernels in memory, in float64."""
    from objectstates.solver.problem import duality_gap
    from objectstates.solver.scale.shard_messages import FactorSums, separable_terms, total_terms

    labels = [side.labels for side in shard.sides]
    sums = FactorSums(np.zeros((1, 1 + chunks.shape[1])), np.zeros((2, 1 + tracklets.shape[1])))
    for sides, parts in _host_sides(problem, shard, (chunks, tracklets), labels):
        for total, side, part in zip(sums, sides, parts, strict=True):
            total[:] += part.T @ side.rows
    gap = 0.0
    for sides, parts in _host_sides(problem, shard, (chunks, tracklets), labels):
        targets = [np.empty(len(part), np.int8) for part in parts]
        nothing = [np.zeros((side.constraints.n_clips, 1 + k)) for k, side in enumerate(sides)]
        gap += duality_gap(
            sides[0], sides[1], problem.scales.coupling,
            parts[0], parts[1], sums.action, sums.state, *nothing, *targets,
        )  # fmt: skip
    action, state = (side.constraints for side in shard.sides)
    terms = separable_terms(action, state, labels[0], labels[1])
    return {"objective": total_terms([terms], sums, problem.scales).total, "gap": gap}


def _host_sides(problem: Any, shard: Any, features: Any, labels: Any) -> Iterator[tuple[Any, Any]]:
    """Both sides of 512 clips at a time, with factor rows computed from features, and labels."""
    from objectstates.solver.problem import Side
    from objectstates.solver.scale.sharded import part_of

    n_clips = shard.sides[0].constraints.n_clips
    for first in range(0, n_clips, 512):
        clips = first, min(first + 512, n_clips)
        sides, parts = [], []
        for side, all_rows, whitening, y in zip(
            shard.sides, features, problem.whitenings.values(), labels, strict=True
        ):
            some, there = part_of(side.constraints, all_rows, *clips)
            drawn: Any = there.read(0, there.shape[0])
            rows = whitening.factor(drawn.cpu().numpy())
            if "float32" in str(side.rows.dtype):
                rows[:, 1:] = rows[:, 1:].astype(np.float32)
            nothing, none = np.empty(0), np.empty(0, np.int64)
            classes = np.arange(some.n_states)
            sides.append(Side(some, rows, False, nothing, none, 2.0 * side.n_rows, classes))
            parts.append(y[slice(*side.constraints.offsets[list(clips)])])
        yield sides, parts

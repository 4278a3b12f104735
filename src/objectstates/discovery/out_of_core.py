"""The joint problem of a corpus folder whose features stay on disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.choices import SideName, Solver, Target
from objectstates.base.storage import clear_leftovers, temporary_name
from objectstates.base.torch_utils import solver_device
from objectstates.data.corpus import Array, Corpus
from objectstates.data.corpus_io import StoredFeatures
from objectstates.discovery.chain_change import chunk_rows_for_chain
from objectstates.discovery.in_memory import Pose, Posed, Weights, check_features
from objectstates.parallel.actors import Actor
from objectstates.parallel.pool import start_actors
from objectstates.parallel.ray_actors import Replay
from objectstates.solver.oracle import Constraints
from objectstates.solver.scale.disk_shard import Shard
from objectstates.solver.scale.gpu_shard import GpuShard
from objectstates.solver.scale.moments import ArrayRows, FeatureRows, shift_of
from objectstates.solver.scale.sharded import ROUND_EVERY, ShardedProblem, divide, part_of

SCRATCH = "objectstates-fit"
"""The folders of shards are temporary ones of this name, so that a later fit finds leftovers."""
SMALL = 256 << 20  # bytes of features that the system keeps in memory: they are read at no cost

_REPLAY = Replay(
    mutating=frozenset(
        {"prepare", "start", "sweep", "step", "scale_step", "evaluate", "keep_rounding"}
    ),
    reset="start",
    setup=frozenset({"prepare"}),
)
"""The calls that restore a shard that was lost with a machine of a Ray cluster."""


@dataclass(frozen=True, eq=False)
class FeaturesOnDisk:
    """The features of both sides; a side that is not sought has no rows.

    shapes : of the whole tables, for the result's summary.
    """

    action: FeatureRows
    state: FeatureRows
    shapes: dict[str, Any]


def stored_features(path: Path, corpus: Corpus, kept: Corpus, *, target: Target) -> FeaturesOnDisk:
    """The features of the clips ``kept`` of the corpus in the folder ``path``."""
    chosen = np.isin(np.array(corpus.clip_ids, object), np.array(kept.clip_ids, object))
    sides: dict[SideName, FeatureRows] = {}
    shapes: dict[str, Any] = {}
    tables: list[tuple[SideName, str, Any]] = [
        ("action", "chunks", corpus.chunks),
        ("state", "tracklets", corpus.tracklets),
    ]
    for side, kind, table in tables:
        sides[side] = ArrayRows(np.empty((0, 0), np.float32))
        if target in (side, "joint"):
            rows = None
            if not chosen.all():
                rows = np.flatnonzero(np.repeat(chosen, np.diff(table.offsets)))
            stored = StoredFeatures(path, kind, rows)  # type: ignore[arg-type]
            check_features(path, side, *stored.shape)
            sides[side], shapes[kind] = stored, [len(table.start), stored.shape[1]]
    sides["action"] = chunk_rows_for_chain(kept, sides["action"])
    return FeaturesOnDisk(sides["action"], sides["state"], shapes)


def random_clips(n_clips: int, most: int, *, seed: int) -> Array:
    """Sorted indices of at most this many clips."""
    return np.sort(np.random.default_rng(seed).permutation(n_clips)[:most])


def with_stored_features(kept: Corpus, stored: FeaturesOnDisk, clips: Array) -> Corpus:
    """Some clips of ``kept``, with their features in memory; a side not sought has none."""

    def read(features: FeatureRows, offsets: Array) -> Array:
        if not features.shape[0]:
            return np.empty((int(np.diff(offsets)[clips].sum()), 0), np.float32)
        return np.concatenate([features.read(*offsets[n : n + 2]) for n in clips])

    return kept.select(clips).with_features(
        tracklets=read(stored.state, kept.tracklets.offsets),
        chunks=read(stored.action, kept.chunks.offsets),
    )


@dataclass(frozen=True)
class Workers:
    """Where the shards of a fit are: threads, worker processes, a Ray cluster, or a device.

    scratch : the folder for temporary files, the system's if None.
    device : "cpu", or one in whose memory the factors are kept instead of files.
    """

    shards: int = 1
    processes: int = 1
    ray_address: str | None = None
    scratch: str | Path | None = None
    device: str = "cpu"


def _schedule(stored: FeaturesOnDisk) -> tuple[int, int | None]:
    """How often labels are rounded and the gap is evaluated: as in memory, or less often.

    A rounding reads all rows once more, and the labels of the lowest objective are kept. Rounded
    less often, other labels may be kept, of a somewhat higher objective (docs/scale.md).
    """
    size = sum(4 * rows * columns for rows, columns in (stored.action.shape, stored.state.shape))
    return (1, None) if size <= SMALL else (ROUND_EVERY, ROUND_EVERY)


def pose_out_of_core(
    stored: FeaturesOnDisk,
    workers: Workers,
    *,
    solver: Solver,
    reduce: int | None,
    classes: Array,
) -> Pose:
    """Features stay on disk; factors are in temporary folders (or on a device) meanwhile.

    classes : (K,) which states look alike (``solver/problem.py``).
    """

    @contextmanager
    def pose(action: Constraints, state: Constraints, weights: Weights) -> Iterator[Posed]:
        ranges = divide(action, state, workers.shards)
        scratch = Path(workers.scratch or tempfile.gettempdir()) / SCRATCH
        clear_leftovers(scratch)
        folders = [temporary_name(scratch) for _ in ranges]
        device = None if workers.device == "cpu" else solver_device(workers.device)
        makers: list[Callable[[], Actor]] = []
        for folder, clips in zip(folders, ranges, strict=True):
            sides = part_of(action, stored.action, *clips), part_of(state, stored.state, *clips)
            single = len(ranges) == 1 and solver == "block"
            if device is None:
                makers.append(partial(Shard, *sides, folder, single=single, classes=classes))
            else:
                makers.append(partial(GpuShard, *sides, device, single=single))
        firsts = np.array([first for first, _ in ranges[1:]], np.int64)
        try:
            with start_actors(
                makers, _REPLAY, processes=workers.processes, ray_address=workers.ray_address
            ) as shards:
                problem = ShardedProblem(
                    shards,
                    (shift_of(stored.action), shift_of(stored.state)),
                    nu=weights.nu,
                    mu=weights.mu,
                    lam=weights.lam,
                    reduce=reduce,
                    classes=classes,
                    row_cuts={"action": action.offsets[firsts], "state": state.offsets[firsts]},
                )
                reductions = {} if reduce is None else problem.reductions()
                yield Posed(problem, reductions, *_schedule(stored))
        finally:
            for folder in folders:  # of shards that could not close: killed, or not all made
                shutil.rmtree(folder, ignore_errors=True)

    return pose

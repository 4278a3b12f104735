"""The joint problem of a corpus folder whose features stay on disk."""

from __future__ import annotations

import secrets
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
from objectstates.base.errors import CorpusError, SettingError
from objectstates.base.torch_utils import solver_device, within_memory
from objectstates.data.corpus import Array, Corpus
from objectstates.data.corpus_io import StoredFeatures
from objectstates.data.result import Classifier
from objectstates.discovery.labelling import Learned
from objectstates.parallel.actors import Actor
from objectstates.parallel.pool import start_actors
from objectstates.parallel.ray_actors import Replay
from objectstates.solver.oracle import Constraints
from objectstates.solver.problem import Terms
from objectstates.solver.scale.disk_shard import Shard
from objectstates.solver.scale.gpu_shard import ResidentShard
from objectstates.solver.scale.moments import ArrayRows, FeatureRows, Reduction, Whitening, shift_of
from objectstates.solver.scale.shard_messages import Wholes
from objectstates.solver.scale.sharded import (
    ShardedProblem,
    ShardedSolution,
    divide,
    part_of,
)

_REPLAY = Replay(
    mutating=frozenset({"prepare", "start", "sweep", "step", "settle", "examine", "keep"}),
    reset="start",
    setup=frozenset({"prepare"}),
)
"""The calls that restore a shard that was lost with a machine of a Ray cluster."""


@dataclass(frozen=True, eq=False)
class FeaturesOnDisk:
    """The features of both sides; a side that is not sought has no rows.

    shapes : of the whole tables, as a result tells them.
    """

    action: FeatureRows
    state: FeatureRows
    shapes: dict[str, Any]


def stored_features(path: Path, corpus: Corpus, kept: Corpus, *, target: Target) -> FeaturesOnDisk:
    """The features of the clips ``kept`` of the corpus in the folder ``path``."""
    chosen = np.isin(np.array(corpus.clip_ids, object), np.array(kept.clip_ids, object))
    sides: dict[str, FeatureRows] = {}
    shapes: dict[str, Any] = {}
    for side, kind, table in (
        ("action", "chunks", corpus.chunks),
        ("state", "tracklets", corpus.tracklets),
    ):
        sides[side] = ArrayRows(np.empty((0, 0), np.float32))
        if target in (side, "joint"):
            rows = None
            if not chosen.all():
                rows = np.flatnonzero(np.repeat(chosen, np.diff(table.offsets)))
            stored = StoredFeatures(path, kind, rows)  # type: ignore[arg-type]
            if not stored.shape[1] and stored.shape[0]:
                raise CorpusError(
                    f"{path} has no features to learn the {side} from: is it the corpus that "
                    "stands in a result? Give the one that ingest wrote"
                )
            sides[side], shapes[kind] = stored, [len(table.start), stored.shape[1]]
    return FeaturesOnDisk(sides["action"], sides["state"], shapes)


@dataclass(frozen=True, eq=False)
class RoundingOnDisk:
    """The best rounding of a run: labels, the scores and the classifiers behind them."""

    action: Array  # (T,) 0/1
    state: Array  # (M,) 0/1/2
    action_scores: Array  # (T, 1)
    state_scores: Array  # (M, 2)
    classifiers: dict[str, Classifier]
    terms: Terms
    passes: int


@dataclass(frozen=True, eq=False)
class ProblemOnDisk:
    """A problem over shards, and how its rows are divided among them."""

    sharded: ShardedProblem
    cuts: dict[SideName, Array]  # (S - 1,) where the rows of the next shard begin

    def rounding(self, solution: ShardedSolution) -> RoundingOnDisk:
        """The best rounding of the run that ended in ``solution``, fetched from the shards."""
        actors = self.sharded.actors
        found = actors.call("rounding", [()] * len(actors))
        columns = [np.concatenate(column) for column in zip(*found, strict=True)]
        classifiers = {}
        for k, (name, whitening) in enumerate(self._whitenings()):
            if whitening.n_rows:
                weights, bias = whitening.classifier(solution.relaxed[k])
                classifiers[str(name)] = Classifier(
                    weights, bias, whitening.n_rows, np.ones(len(bias))
                )
        return RoundingOnDisk(
            columns[0], columns[1], columns[2], columns[3],
            classifiers, solution.rounded_terms, solution.rounded_at_pass,
        )  # fmt: skip

    def integer_terms(self, action: Array, state: Array) -> Terms:
        """The objective of integer labels (T,) and (M,)."""
        both = zip(self._split("action", action), self._split("state", state), strict=True)
        ledgers = self.sharded.actors.call("ledger", list(both))
        return self.sharded.terms(
            ledgers, Wholes(self._whole("action", action), self._whole("state", state))
        )

    def learn(self, kind: SideName, labels: Array) -> Learned:
        """The ``Learner`` of this problem (``labelling.py``)."""
        whole = self._whole(kind, labels)
        parts = [(kind, part, whole) for part in self._split(kind, labels)]
        scores = np.concatenate(self.sharded.actors.call("held_out", parts))
        return Learned(scores, lambda: dict(self._whitenings())[kind].classifier(whole))

    def reductions(self) -> dict[str, Reduction]:
        """What each side that is sought lost when its features were reduced."""
        sides = self._whitenings()
        return {name: whitening.reduction for name, whitening in sides if whitening.n_rows}

    def _whole(self, kind: SideName, labels: Array) -> Array:
        parts = [(kind, part) for part in self._split(kind, labels)]
        return np.asarray(np.sum(self.sharded.actors.call("whole", parts), axis=0))

    def _split(self, kind: SideName, labels: Array) -> list[Array]:
        return np.split(labels, self.cuts[kind])

    def _whitenings(self) -> list[tuple[SideName, Whitening]]:
        return [("action", self.sharded.action), ("state", self.sharded.state)]


@contextmanager
def on_disk(
    stored: FeaturesOnDisk,
    action: Constraints,
    state: Constraints,
    *,
    nu: float,
    mu: float,
    lam: float,
    reduce: int | None = None,
    n_shards: int,
    solver: Solver,
    scratch: str | Path | None,
    processes: int = 1,
    ray_address: str | None = None,
    device: str = "cpu",
) -> Iterator[ProblemOnDisk]:
    """The problem, factored, while its files exist: in a temporary folder within ``scratch``.

    reduce : to how many directions features are reduced; None leaves them as they are.
    processes : number of worker processes that hold the shards; 1 means threads of this process.
    ray_address : of a Ray cluster, on whose machines the shards (and their scratch folders) are.
    device : "cpu", or one in whose memory the factors are kept instead of files.
    """
    runs = divide(action, state, n_shards)
    place, token = Path(scratch or tempfile.gettempdir()), secrets.token_hex(6)
    folders = [place / f"objectstates-{token}-{number}" for number in range(len(runs))]
    make: Callable[..., Actor] = _make_shard
    if device != "cpu":
        make = partial(_make_resident, solver_device(device))
    makers = [
        partial(
            make,
            part_of(action, stored.action, *clips),
            part_of(state, stored.state, *clips),
            folder,
            alone=len(runs) == 1 and solver == "block",
        )
        for folder, clips in zip(folders, runs, strict=True)
    ]
    firsts = np.array([first for first, _ in runs[1:]], np.int64)
    cuts: dict[SideName, Array] = {
        "action": action.offsets[firsts],
        "state": state.offsets[firsts],
    }
    try:
        with (
            within_memory(device),
            start_actors(makers, _REPLAY, processes=processes, ray_address=ray_address) as actors,
        ):
            shifts = shift_of(stored.action), shift_of(stored.state)
            sharded = ShardedProblem(actors, shifts, nu=nu, mu=mu, lam=lam, reduce=reduce)
            yield ProblemOnDisk(sharded, cuts)
    finally:
        for folder in folders:  # of shards that could not close: killed, or not all made
            shutil.rmtree(folder, ignore_errors=True)


def _make_resident(
    device: Any,
    action: tuple[Constraints, FeatureRows],
    state: tuple[Constraints, FeatureRows],
    _folder: Path,
    *,
    alone: bool,
) -> ResidentShard:
    return ResidentShard(action, state, device, alone=alone)


def _make_shard(
    action: tuple[Constraints, FeatureRows],
    state: tuple[Constraints, FeatureRows],
    folder: Path,
    *,
    alone: bool,
) -> TemporaryShard:
    try:
        shutil.rmtree(folder, ignore_errors=True)  # of a process that died
        folder.mkdir(mode=0o700)
    except OSError as problem:
        raise SettingError(
            f"no files can be written in {folder.parent} ({problem.strerror}): choose another "
            "folder with --scratch"
        ) from None
    return TemporaryShard(action, state, folder, alone=alone)


class TemporaryShard(Shard):
    """A shard whose folder is removed when it is closed."""

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)

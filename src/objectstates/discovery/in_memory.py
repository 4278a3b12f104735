"""From constraints and features to a solver's problem, with all rows in memory.

``out_of_core.py`` does the same for features that stay on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from objectstates.base.choices import SideName
from objectstates.base.errors import CorpusError
from objectstates.base.resources import check_memory
from objectstates.data.corpus import Array, Corpus
from objectstates.solver.cost import ClusteringCost, Factored, factored
from objectstates.solver.frank_wolfe import Problem
from objectstates.solver.in_memory import InMemoryProblem, Point
from objectstates.solver.oracle import Constraints
from objectstates.solver.problem import JointProblem, Side, make_side
from objectstates.solver.scale.factor_gpu import factored_on
from objectstates.solver.scale.moments import Reduction
from objectstates.solver.scale.pca import factored_reduced

WARM_ROUND_EVERY = 10  # passes; from a solution, few are needed, and the last is always rounded


MEMORY_PER_BYTE = 6  # of features on disk; measured: float64 rows, their factors, and copies


def check_memory_for(corpus: Path) -> None:
    """Raise if there is too little memory to fit a corpus folder, or a ``.mat`` file, in memory."""
    files = corpus.iterdir() if corpus.is_dir() else iter([corpus])
    size = sum(file.stat().st_size for file in files if file.is_file())
    check_memory(
        MEMORY_PER_BYTE * size,
        f"the fit of {corpus}",
        "add `out_of_core`, which keeps the features on disk, or close other programs",
    )


@dataclass(frozen=True)
class Weights:
    """Of the objective: nu per second of distortion, and the ridges of states and action."""

    nu: float
    mu: float
    lam: float


@dataclass(frozen=True, eq=False)
class Posed:
    """A problem, and how often ``minimise`` rounds and evaluates it.

    reductions : what was lost of each side's features, if they were reduced.
    """

    problem: Problem
    reductions: dict[SideName, Reduction]
    round_every: int = 1
    evaluate_every: int | None = None


Pose = Callable[[Constraints, Constraints, Weights], AbstractContextManager[Posed]]
"""Poses the problem of the action's and the states' constraints, factored, for a while."""


@dataclass(frozen=True, eq=False)
class _Sides:
    """Both sides, factored, under the constraints of the first problem that used them."""

    action: Side
    state: Side
    factored: dict[SideName, Factored]
    reductions: dict[SideName, Reduction]


class KeptFactors:
    """Factored features of the last few sets of clips, and the last solution.

    Corrections change constraints and not features, so that fits of the same clips can share them.
    """

    def __init__(self, most: int = 2) -> None:
        self._most = most
        self._sides: dict[object, _Sides] = {}
        self._last: tuple[tuple[str, ...], Point] | None = None

    def sides(self, key: object, make: Callable[[], _Sides]) -> _Sides:
        """Those kept under ``key``, or new ones; the oldest are dropped."""
        found = self._sides.pop(key, None) or make()
        self._sides[key] = found
        for oldest in list(self._sides)[: -self._most]:
            del self._sides[oldest]
        return found

    def costs(self, key: object) -> dict[SideName, ClusteringCost]:
        """Of the features kept under ``key``, by side; none if they are not kept."""
        found = self._sides.get(key)
        return {} if found is None else {s: each.cost for s, each in found.factored.items()}

    def remember(self, clips: tuple[str, ...], point: Point) -> None:
        """Keep a solution for `begin_at`."""
        self._last = clips, point

    def begin_at(
        self, clips: tuple[str, ...], action: Constraints, state: Constraints
    ) -> Point | None:
        """The last solution, in these clips; None if there is none."""
        if self._last is None:
            return None
        known = {clip: n for n, clip in enumerate(self._last[0])}
        numbers = np.array([known.get(clip, -1) for clip in clips], np.int64)
        return self._last[1].of_clips(numbers, action, state)


def key_of(clips: tuple[str, ...], n_chunks: int, n_tracklets: int, weights: Weights) -> object:
    """What `KeptFactors` of these clips depend on."""
    return clips, n_chunks, n_tracklets, weights.mu, weights.lam


def pose_in_memory(
    corpus: Corpus,
    *,
    device: str,
    reduce: int | None,
    classes: Array,
    starts: int = 1,
    kept: KeptFactors | None = None,
    warm: bool = False,
) -> Pose:
    """All rows are in memory; ``device`` factors the features, ``reduce`` as in the estimator.

    classes : (K,) which states look alike (``solver/problem.py``).
    starts : random labellings whose mean is the first point.
    kept : holds factors for later fits of these clips; ``warm`` begins at their last solution.
    """

    @contextmanager
    def pose(action: Constraints, state: Constraints, weights: Weights) -> Iterator[Posed]:
        def make() -> _Sides:
            return _factored_sides(corpus, action, state, weights, device=device, reduce=reduce)

        key = key_of(corpus.clip_ids, action.n_rows, state.n_rows, weights)
        sides = make() if kept is None else kept.sides(key, make)
        joint = JointProblem(
            sides.action._replace(constraints=action),
            sides.state._replace(constraints=state, classes=classes),
            weights.nu,
        )
        problem = InMemoryProblem(
            joint,
            lambda side, *given: sides.factored[side].classifier(*given),
            kept.begin_at(corpus.clip_ids, action, state) if kept is not None and warm else None,
            starts=starts,
        )
        yield Posed(problem, sides.reductions, WARM_ROUND_EVERY if warm else 1)
        if kept is not None:  # not after an exception: the point may be none
            kept.remember(corpus.clip_ids, problem.point())

    return pose


def _factored_sides(
    corpus: Corpus,
    action: Constraints,
    state: Constraints,
    weights: Weights,
    *,
    device: str,
    reduce: int | None,
) -> _Sides:
    sides: dict[SideName, Factored] = {}
    reductions: dict[SideName, Reduction] = {}
    tables: tuple[tuple[SideName, Array, float], ...] = (
        ("action", corpus.chunks.features[: action.n_rows], weights.lam),
        ("state", corpus.tracklets.features[: state.n_rows], weights.mu),
    )
    for side, features, ridge in tables:
        if reduce is not None:
            sides[side], reductions[side] = factored_reduced(features, ridge, reduce)
        elif device != "cpu":
            sides[side] = factored_on(device, features, ridge)
        else:
            sides[side] = factored(features, ridge)
    return _Sides(
        make_side(sides["action"].cost, action),
        make_side(sides["state"].cost, state),
        sides,
        {side: each for side, each in reductions.items() if sides[side].cost.n_samples},
    )


def check_features(source: object, side: SideName, n_rows: int, size: int) -> None:
    """Raise if a table of rows has no features to learn from."""
    if n_rows and not size:
        raise CorpusError(
            f"{source} has no features to learn the {side} from: is it the corpus inside a result? "
            "Give the one that ingest wrote"
        )

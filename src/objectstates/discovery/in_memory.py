"""From constraints and features to a solver's problem, with all rows in memory.

``out_of_core.py`` does the same for features that stay on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from objectstates.base.choices import SideName
from objectstates.base.errors import CorpusError
from objectstates.data.corpus import Array, Corpus
from objectstates.solver.cost import Factored, factored
from objectstates.solver.frank_wolfe import Problem
from objectstates.solver.in_memory import InMemoryProblem
from objectstates.solver.oracle import Constraints
from objectstates.solver.problem import JointProblem, make_side
from objectstates.solver.scale.factor_gpu import factored_on
from objectstates.solver.scale.moments import Reduction
from objectstates.solver.scale.pca import factored_reduced


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


def pose_in_memory(corpus: Corpus, *, device: str, reduce: int | None) -> Pose:
    """All rows are in memory; ``device`` factors the features, ``reduce`` as in the estimator."""

    @contextmanager
    def pose(action: Constraints, state: Constraints, weights: Weights) -> Iterator[Posed]:
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
        joint = JointProblem(
            make_side(sides["action"].cost, action),
            make_side(sides["state"].cost, state),
            weights.nu,
        )
        problem = InMemoryProblem(joint, lambda side, *given: sides[side].classifier(*given))
        lost = {side: each for side, each in reductions.items() if sides[side].cost.n_samples}
        yield Posed(problem, lost)

    return pose


def check_features(source: object, side: SideName, n_rows: int, size: int) -> None:
    """Raise if a table of rows has no features to learn from."""
    if n_rows and not size:
        raise CorpusError(
            f"{source} has no features to learn the {side} from: is it the corpus inside a result? "
            "Give the one that ingest wrote"
        )

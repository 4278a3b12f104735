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
from objectstates.solver.frank_wolfe import Problem
from objectstates.solver.in_memory import InMemoryProblem
from objectstates.solver.oracle import Constraints
from objectstates.solver.problem import JointProblem, make_side
from objectstates.solver.scale.factor_gpu import algebra_on
from objectstates.solver.scale.moments import Reduction
from objectstates.solver.scale.pca import ReducedAlgebra


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
        algebra = algebra_on(device) if reduce is None else ReducedAlgebra(reduce)
        features: dict[SideName, Array] = {
            "action": corpus.chunks.features[: action.n_rows],
            "state": corpus.tracklets.features[: state.n_rows],
        }
        ridges: dict[SideName, float] = {"action": weights.lam, "state": weights.mu}
        joint = JointProblem(
            make_side(algebra.factorise(features["action"], weights.lam), action),
            make_side(algebra.factorise(features["state"], weights.mu), state),
            weights.nu,
        )

        def classifier(side: SideName, labels: Array, residual: Array) -> tuple[Array, Array]:
            return algebra.linear_classifier(features[side], labels, residual, ridges[side])

        problem = InMemoryProblem(joint, classifier)
        reductions = {}
        if isinstance(algebra, ReducedAlgebra):
            reductions = {s: algebra.reduction(rows) for s, rows in features.items() if len(rows)}
        yield Posed(problem, reductions)

    return pose


def check_features(source: object, side: SideName, n_rows: int, size: int) -> None:
    """Raise if a table of rows has no features to learn from."""
    if n_rows and not size:
        raise CorpusError(
            f"{source} has no features to learn the {side} from: is it the corpus inside a result? "
            "Give the one that ingest wrote"
        )

"""Runs of the solver for an estimator: progress, times, the choice among several restarts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from objectstates.base.errors import SettingError
from objectstates.data.corpus import Array
from objectstates.discovery.in_memory import Posed
from objectstates.solver.cost import TOO_LARGE
from objectstates.solver.frank_wolfe import Progress, Rounding, Solution, minimise
from objectstates.solver.oracle import TIE


@dataclass(frozen=True)
class FitProgress(Progress):
    """What a callback of :meth:`JointDiscovery.fit` gets after every pass; ``restart`` from 0."""

    restart: int


Callback = Callable[[FitProgress], bool | None]

CHAIN_RESTARTS = 5
"""Of a chain of changes, unless told otherwise. Some starts end in optima that are clearly higher,
with the actions in the wrong places: docs/evaluation.md."""
AS_LOW = 0.05  # a relaxed objective that is higher than the lowest by this share is as good


class Stopper:
    """Calls the user's callback until it returns true; from then on every run is stopped."""

    def __init__(self, callback: Callback | None) -> None:
        self.stopped = False
        self._callback = callback

    def __call__(self, progress: FitProgress) -> bool:
        if self._callback is not None and not self.stopped:
            self.stopped = bool(self._callback(progress))
        return self.stopped


class Stopwatch:
    """Seconds per stage, summed over all runs."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now


@dataclass(frozen=True, eq=False)
class Run:
    """One run of the solver.

    trace : per pass with a rounding the seconds since the start, the relaxed objective, the duality
        gap, and the lowest objective of integer labels so far.
    """

    rounding: Rounding
    solution: Solution
    trace: list[list[float]]


def best_run(posed: Posed, *, seed: int, restarts: int, stopper: Stopper, **settings: Any) -> Run:
    """The best of the restarts, of those until the callback stops; see :func:`choose`.

    settings : ``solver``, ``tol`` and ``max_passes`` of ``minimise``.
    """
    runs: list[Run] = []
    while not runs or (len(runs) < restarts and not stopper.stopped):
        runs.append(_run(posed, seed, len(runs), stopper, settings))
    best = runs[choose(runs)]
    if best.solution.terms.total < -1e-9:  # a sum of squares: catastrophic cancellation
        raise SettingError(TOO_LARGE)
    return best


def choose(runs: Sequence[Run]) -> int:
    """The most typical of the runs whose relaxed objective is about the lowest; see
    :func:`typical`."""
    lowest = min(run.solution.terms.total for run in runs)
    bound = lowest + AS_LOW * abs(lowest)
    low = [k for k, run in enumerate(runs) if run.solution.terms.total <= bound]
    return low[typical([(runs[k].rounding.action, runs[k].rounding.state) for k in low])]


def typical(labels: list[tuple[Array, Array]]) -> int:
    """Which of several labellings (T,), (M,) agrees most with all others; the first of equal ones.

    The agreement of two is the share of labelled chunks, plus that of labelled tracklets, on which
    they agree. The labels of lowest objective are no better, and vary more (docs/evaluation.md);
    and counts, unlike objectives, have no rounding errors.
    """
    agreement = np.zeros(len(labels))
    for i, one in enumerate(labels):
        for other in labels[:i] + labels[i + 1 :]:
            agreement[i] += sum(map(_shared, one, other))
    return int(np.argmax(agreement >= agreement.max() - TIE * len(labels)))


def _shared(one: Array, other: Array) -> float:
    """Twice the rows with the same label, over the numbers of labelled rows of both."""
    labelled = int(np.count_nonzero(one)) + int(np.count_nonzero(other))
    return 2 * int(np.count_nonzero((one == other) & (one > 0))) / max(labelled, 1)


def restart_seed(seed: int, restart: int) -> int:
    """Of the random labels of a restart; other seeds have other ones."""
    if restart == 0:
        return seed
    return int(np.random.SeedSequence((seed, restart)).generate_state(1)[0])


def _run(posed: Posed, seed: int, restart: int, stopper: Stopper, settings: dict[str, Any]) -> Run:
    trace: list[list[float]] = []
    begun = time.perf_counter()

    def after_pass(progress: Progress) -> bool:
        if progress.stage == "joint" and progress.rounded < math.inf:
            seconds = time.perf_counter() - begun
            trace.append([seconds, progress.objective, progress.gap, progress.rounded])
        return stopper(FitProgress(**vars(progress), restart=restart))

    solution = minimise(
        posed.problem,
        **settings,
        seed=restart_seed(seed, restart),
        round_every=posed.round_every,
        evaluate_every=posed.evaluate_every,
        callback=after_pass,
    )
    return Run(posed.problem.kept_rounding(), solution, trace)

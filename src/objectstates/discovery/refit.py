"""Repeated fits of one corpus while a person corrects it.

Corrections change which labels are allowed, and nothing else. So the factored features are kept
from fit to fit. `Refitter.fit` gives exactly the result of ``JointDiscovery.fit`` with the same
corrections. `Refitter.update` is faster: it starts at the last solution, with the clips that were
corrected since then at random labels, and stops at a larger gap. Because the problem is not convex,
its labels can differ from those of `fit`: on the corpora tried, in 0 to 14 % of the actions. They
are to be shown until `fit` is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from objectstates.data.corpus import Corpus
from objectstates.data.corrections import Correction
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.discovery.estimator import JointDiscovery
from objectstates.discovery.fit_steps import (
    discover,
    discover_prepared,
    label,
    pose_clips,
    prepare,
    with_corrections,
    with_fit_summary,
    with_verdict,
)
from objectstates.discovery.in_memory import KeptFactors
from objectstates.discovery.outlier_clips import discover_in
from objectstates.discovery.progress import with_progress
from objectstates.discovery.solver_runs import Callback, FitProgress, Stopper, Stopwatch


class Cancelled(Exception):  # noqa: N818
    """A fit was given up, because its corrections are no longer the latest."""


class Refitter:
    """Fits of ``corpus`` with the ``settings`` of an earlier result (``Result.settings``)."""

    def __init__(self, corpus: Corpus, settings: Mapping[str, Any]) -> None:
        self.corpus = corpus
        self.model = JointDiscovery(**settings)
        self.model.check()
        self._kept = KeptFactors()
        self._learned: frozenset[str] | None = None  # by the last fit, if it rejected outliers
        self.seconds: float | None = None
        """What the last `fit` took."""

    def check(self, corrections: Iterable[Correction], names: LabelNames | None = None) -> None:
        """Raise what a fit with these corrections would, before it is run."""
        prepare(self.model, self.corpus, corrections, names)

    def fit(
        self,
        corrections: Iterable[Correction],
        names: LabelNames | None = None,
        *,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Result:
        """The result of ``JointDiscovery.fit``, without a verdict.

        cancelled : asked after every pass; if true, `Cancelled` is raised.
        """
        model, clock = self.model, Stopwatch()
        stopper = Stopper(_raising(cancelled))
        prepared = prepare(model, self.corpus, corrections, names)
        bounds = prepared.applied.bounds

        def discover_cold(clips: Corpus) -> Result:
            pose = pose_clips(model, clips, kept=self._kept, warm=False)
            return discover(model, clips, pose, stopper, clock, bounds)

        found = discover_prepared(model, prepared, discover_cold)
        found = with_fit_summary(found, self.corpus, prepared, clock)
        aside = {clip.clip for clip in found.set_aside}
        self._learned = frozenset(found.clips) - aside if aside else None
        self.seconds = sum(clock.seconds.values())
        return found

    def update(self, corrections: Iterable[Correction], names: LabelNames | None = None) -> Result:
        """A result in less time, from the last solution; outlier clips remain those of `fit`."""
        model, clock = self.model, Stopwatch()
        prepared = prepare(model, self.corpus, corrections, names)
        bounds, kept = prepared.applied.bounds, prepared.kept

        def discover_warm(clips: Corpus) -> Result:
            pose = pose_clips(model, clips, kept=self._kept, warm=True)
            return discover(model, clips, pose, Stopper(None), clock, bounds, warm=True)

        if self._learned is None:
            found = discover_warm(kept)
        else:
            learned = [n for n, clip in enumerate(kept.clip_ids) if clip in self._learned]
            found = discover_in(
                kept,
                np.array(learned),
                discover_warm,
                lambda result, clips: label(model, result, clips, bounds),
            )
        return with_fit_summary(with_corrections(found, prepared), self.corpus, prepared, clock)

    def judge(self, found: Result, *, cancelled: Callable[[], bool] = lambda: False) -> Result:
        """``found``, a result of `fit`, with verdict and progress as by ``JointDiscovery.fit``."""
        model, stop = self.model, _raising(cancelled)
        prepared = prepare(model, self.corpus, found.corrections, found.names)
        kept, bounds = prepared.kept, prepared.applied.bounds
        judged = with_verdict(model, kept, found, bounds, self._kept, stop)
        return with_progress(judged, kept.select, seed=int(model.seed))


def _raising(cancelled: Callable[[], bool]) -> Callback:
    def after_pass(_: FitProgress) -> bool:
        if cancelled():
            raise Cancelled
        return False

    return after_pass

"""The steps of a fit: prepare the corpus, solve and label, judge the result.

`JointDiscovery.fit` takes them in turn, ``refit.py`` with features that stay factored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.blas import numpy_on_one_thread
from objectstates.base.errors import SettingError
from objectstates.base.torch_utils import within_memory
from objectstates.data.corpus import Array, Corpus
from objectstates.data.corrections import Correction, read_corrections
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Classifier, Result, SkippedClip
from objectstates.discovery import result_assembly
from objectstates.discovery.chain_change import for_chain
from objectstates.discovery.constraints import Formulation
from objectstates.discovery.corrections import Applied, Bounds, apply_corrections
from objectstates.discovery.in_memory import (
    KeptFactors,
    Pose,
    Weights,
    check_features,
    pose_in_memory,
)
from objectstates.discovery.labelling import (
    NO_BOUNDS,
    detection_scale,
    label_by_rounding,
    label_held_out,
)
from objectstates.discovery.outlier_clips import discover_without_outliers
from objectstates.discovery.parts import (
    PART_SCHEDULE,
    PART_TOLERANCE,
    Parts,
    costs_of,
    removed_columns,
)
from objectstates.discovery.prediction import predict
from objectstates.discovery.settings import Settings
from objectstates.discovery.solver_runs import (
    CHAIN_RESTARTS,
    Callback,
    Stopper,
    Stopwatch,
    best_run,
)
from objectstates.discovery.verdict import judge
from objectstates.solver.frank_wolfe import FULL_STARTS, WHOLE

Corrections = str | Path | Iterable[Correction]
"""Rows, or a CSV file of them."""

WARM_TOLERANCE = 5.0
"""Times ``tol``, for a fit that starts at the solution of a similar problem: its labels agree with
those of a whole fit as well as they do at ``tol``, after a third of the passes."""


# --- before the solver ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prepared:
    """A corpus under corrections, ready to be fitted.

    kept : the clips that take part; ``skipped`` are the others, with reasons.
    """

    applied: Applied
    kept: Corpus
    skipped: tuple[SkippedClip, ...]
    names: LabelNames | None


def prepare(
    settings: Settings, corpus: Corpus, corrections: Corrections, names: LabelNames | None
) -> Prepared:
    """Check the features, apply the corrections and leave out clips without a labelling."""
    if settings.target != "action":
        check_features("the corpus", "state", *corpus.tracklets.features.shape)
    if settings.target != "state":
        check_features("the corpus", "action", *corpus.chunks.features.shape)
    return constrain(settings, corpus, corrections, names)


def constrain(
    settings: Settings, corpus: Corpus, corrections: Corrections, names: LabelNames | None
) -> Prepared:
    """Apply the corrections and leave out clips without a labelling."""
    changes = int(settings.changes)
    if names is not None and len(names.actions) != changes:
        raise SettingError(
            f"`names` are those of {len(names.actions)} actions, but `changes` is {changes}"
        )
    clips = for_chain(corpus.for_changes(changes))
    applied = apply_corrections(clips, correction_rows(corrections), names)
    skipped, kept = formulation(settings).leave_out_infeasible(
        applied.corpus, settings.on_infeasible, applied.places
    )
    return Prepared(applied, kept, (*applied.left_out, *skipped), names)


def correction_rows(corrections: Corrections) -> tuple[Correction, ...]:
    """Read from the file, if it is one."""
    if isinstance(corrections, str | Path):
        return read_corrections(corrections)
    return tuple(corrections)


def formulation(settings: Settings) -> Formulation:
    """The settings that shape the constraints."""
    return Formulation(
        settings.target,
        settings.constraint,
        settings.detection_weight,
        tuple(settings.optional),
        float(settings.price),
        settings.pattern,
    )


def pose_clips(settings: Settings, clips: Corpus, **kept: Any) -> Pose:
    """The problem of clips in memory; ``kept`` as in `pose_in_memory`."""
    return pose_in_memory(
        clips,
        device=settings.device,
        reduce=None if settings.reduce is None else int(settings.reduce),
        classes=formulation(settings).classes(clips.n_states),
        starts=FULL_STARTS if settings.solver == "full" else 1,
        **kept,
    )


# --- solving and labelling ------------------------------------------------------------------------


def discover_prepared(
    settings: Settings, prepared: Prepared, discover: Callable[[Corpus], Result]
) -> Result:
    """The result of ``discover``, without outlier clips if they are to be rejected."""
    if settings.reject == "auto":
        found = discover_without_outliers(
            prepared.kept,
            discover,
            lambda learned, clips: label(settings, learned, clips, prepared.applied.bounds),
            seed=int(settings.seed),
        )
    else:
        found = discover(prepared.kept)
    return with_corrections(found, prepared)


@numpy_on_one_thread
def discover(
    settings: Settings,
    corpus: Corpus,
    pose: Pose,
    stopper: Stopper,
    clock: Stopwatch,
    bounds: Bounds,
    *,
    warm: bool = False,
    quick: bool = False,
) -> Result:
    """The result on clips that all admit a labelling, wherever their rows are.

    warm : ``pose`` begins at the solution of a similar problem.
    quick : fewer passes, for classifiers that need not be as good.
    """
    clock.lap("other")
    sizes = len(corpus.chunks.start), len(corpus.tracklets.start)
    nu = float(settings.nu) / _seconds_per_unit(settings, corpus)
    held_out = settings.labelling == "held_out" and len(corpus) > 1  # a single clip has no others
    formed, weights = formulation(settings), Weights(nu, float(settings.mu), float(settings.lam))
    sides = formed.constraints(corpus, *sizes, required=held_out)
    with within_memory(settings.device), pose(*sides, weights) as posed:
        clock.lap("factorise")
        run = best_run(
            posed,
            seed=int(settings.seed),
            restarts=1 if warm else _restarts(settings, corpus.n_states),
            stopper=stopper,
            **_solver_settings(settings, warm, quick),
        )
        clock.lap("solve")
        if held_out:
            labels = run.rounding.action, run.rounding.state
            _, state = formed.constraints(corpus, *sizes)
            found, classifiers = label_held_out(
                corpus, state, *labels, posed.problem.learn, bounds, formed.steps
            )
        else:
            found, classifiers = label_by_rounding(corpus, run.rounding, bounds)
        _check_finite(classifiers)  # type: ignore[arg-type]
        terms = posed.problem.integer_terms(found.action, found.state)
    clock.lap("label")
    summary = {
        "seed": int(settings.seed),
        **result_assembly.run_summary(run, terms),
        "learned_from": len(corpus),
        "coupling_per_second": nu,
        "detection_scale": detection_scale(corpus),
        "labelled": "held_out" if held_out else "paper",
    }
    if settings.reduce is not None:
        summary["reduced"] = result_assembly.reduction_summary(posed.reductions, found)
    return Result(
        **result_assembly.columns(corpus, found),
        classifiers=classifiers,  # type: ignore[arg-type]
        settings=settings.as_json(),
        summary=summary,
    )


def _seconds_per_unit(settings: Settings, corpus: Corpus) -> float:
    """How many seconds the ``time_unit`` has."""
    if settings.time_unit == "second":
        return 1.0
    table = corpus.chunks
    lengths = table.end[table.offsets[1:] - 1] - table.start[table.offsets[:-1]]
    return float(lengths.mean())


def _restarts(settings: Settings, n_states: int) -> int:
    """How many runs are compared."""
    if settings.restarts is not None:
        return int(settings.restarts)
    return CHAIN_RESTARTS if n_states > 2 else 1


def _solver_settings(settings: Settings, warm: bool, quick: bool) -> dict[str, Any]:
    """Of ``minimise``, as in `discover`."""
    return {
        "solver": settings.solver,
        "tol": settings.tol * (WARM_TOLERANCE if warm else PART_TOLERANCE if quick else 1),
        "max_passes": settings.max_passes,
        "warm": warm,
        "schedule": PART_SCHEDULE if quick else WHOLE,
    }


def _check_finite(classifiers: dict[str, Classifier]) -> None:
    """Raise if a classifier is unusable."""
    ridges = {"state": "mu", "action": "lam"}
    for side, classifier in classifiers.items():
        if not (np.isfinite(classifier.weights).all() and np.isfinite(classifier.bias).all()):
            raise SettingError(f"the {side} classifier is not finite: raise `{ridges[side]}`")


def label(settings: Settings, learned: Result, clips: Corpus, bounds: Bounds) -> Result:
    """``clips``, labelled with the classifiers of a result."""
    return predict(learned, clips, formulation(settings), bounds)


def with_corrections(found: Result, prepared: Prepared) -> Result:
    """The result with the user's corrections and names."""
    names = prepared.names or LabelNames.usual(found.n_actions)
    return replace(found, corrections=prepared.applied.rows, names=names)


def with_fit_summary(
    found: Result,
    corpus: Corpus,
    prepared: Prepared,
    clock: Stopwatch,
    shapes: Mapping[str, Any] | None = None,
) -> Result:
    """The result with the clips that were left out, the sizes of ``corpus`` and the time taken.

    shapes : of the features, where ``corpus`` lacks them.
    """
    summary = {
        **found.summary,
        "corpus": {**result_assembly.sizes(corpus), **(shapes or {})},
        "seconds": clock.seconds,
        **result_assembly.skipped_at(corpus, prepared.kept),
    }
    return replace(found, skipped=prepared.skipped, summary=summary)


# --- the verdict ----------------------------------------------------------------------------------


@numpy_on_one_thread
def with_verdict(
    settings: Settings,
    corpus: Corpus,
    found: Result,
    bounds: Bounds,
    factors: KeptFactors | None = None,
    callback: Callback | None = None,
) -> Result:
    """``found``, the result on ``corpus``, with its verdict.

    factors : those of the fit, if they were kept.
    """

    def discover(clips: Corpus, parts: Sequence[Array]) -> Iterator[Result]:
        removed = removed_columns(corpus, clips)
        yield from discover_parts(settings, clips, parts, bounds, factors, removed, callback)

    def predicted(learned: Result, clips: Corpus) -> Result:
        return label(settings, learned, clips, bounds)

    return judge(corpus, found, discover, predicted, seed=int(settings.seed))


def discover_parts(
    settings: Settings,
    corpus: Corpus,
    parts: Sequence[Array],
    bounds: Bounds = NO_BOUNDS,
    factors: KeptFactors | None = None,
    removed: Array | None = None,
    callback: Callback | None = None,
) -> Iterator[Result]:
    """Results on parts of the clips, for the verdict.

    One restart and few passes suffice. The parts share the factored features of all clips, those
    of ``factors`` if it has them; ``removed`` as in `costs_of`.
    """
    once = replace(settings, restarts=1, device="cpu")
    shared = None
    if settings.reduce is None:  # else the directions of each part are its own
        weights = Weights(float(settings.nu), float(settings.mu), float(settings.lam))
        classes = formulation(settings).classes(corpus.n_states)
        starts = FULL_STARTS if settings.solver == "full" else 1
        costs = costs_of(corpus, settings.target, weights, factors, removed)
        shared = Parts(corpus, costs, classes=classes, starts=starts)
    for part in parts:
        clips = corpus.select(part) if shared is None else shared.clips(part)
        pose = pose_clips(once, clips) if shared is None else shared.pose(part)
        stopper, clock = Stopper(callback), Stopwatch()
        yield discover(once, clips, pose, stopper, clock, bounds, quick=shared is not None)

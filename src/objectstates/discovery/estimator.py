"""JointDiscovery: from a corpus to object states and action times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from objectstates.base.choices import (
    ConstraintName,
    Labelling,
    OnInfeasible,
    Reject,
    Solver,
    Target,
    TimeUnit,
    paper_fit,
)
from objectstates.base.errors import (
    CorrectionError,
    InfeasibleClipError,
    ResultError,
    SettingError,
)
from objectstates.base.estimator_api import Estimator, not_fitted_error
from objectstates.base.torch_utils import within_memory
from objectstates.data.corpus import Array, Corpus
from objectstates.data.corrections import Correction, read_corrections
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Classifier, Result, SkippedClip
from objectstates.discovery import how_many, result_assembly
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
from objectstates.discovery.occurrences import MINIMUM, occurrences
from objectstates.discovery.out_of_core import (
    FeaturesOnDisk,
    Workers,
    pose_out_of_core,
    random_clips,
    stored_features,
    with_stored_features,
)
from objectstates.discovery.outlier_clips import discover_without_outliers
from objectstates.discovery.parts import (
    PART_SCHEDULE,
    PART_TOLERANCE,
    Parts,
    costs_of,
    removed_columns,
)
from objectstates.discovery.prediction import check_lengths, check_sizes, predict
from objectstates.discovery.progress import apply_model, with_progress
from objectstates.discovery.replication import SAMPLE
from objectstates.discovery.settings import check_in_memory, check_out_of_core, check_settings
from objectstates.discovery.solver_runs import Callback, Stopper, Stopwatch, best_run
from objectstates.discovery.verdict import judge, judge_by_sample
from objectstates.solver.frank_wolfe import FULL_STARTS, WHOLE

Corrections = str | Path | Iterable[Correction]
"""Rows, or a CSV file of them."""

WARM_TOLERANCE = 5.0
"""Times ``tol``, for a fit that starts at the solution of a similar problem: its labels agree with
those of a whole fit as well as they do at ``tol``, after a third of the passes."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A corpus under corrections, ready to be fitted.

    kept : the clips that take part; ``skipped`` are the others, with reasons.
    """

    applied: Applied
    kept: Corpus
    skipped: tuple[SkippedClip, ...]
    names: LabelNames | None


@dataclass(eq=False, repr=False)
class JointDiscovery(Estimator):
    """Discover two object states and the action between them, in all clips of a corpus at once;
    or a chain of more states and the actions between them.

    Parameters
    ----------
    nu : weight of the coupling of states and action.
    time_unit : unit of the distortion: "clip", the mean length of the clips, or "second", as in
        the paper. At nu = 3 in clips, a label a sixth of a clip on the wrong side of the action
        costs as much as a wrong label, however long clips are.
    mu, lam : ridge weights of the state and the action classifier; the paper's by default.
    detection_weight : weight of the detector's scores (row g of the paper's table): labelling
        tracklet i costs ``detection_weight * (1 - score_i) / M``.
    labelling : "held_out" labels all tracklets with high leave-one-clip-out scores, and gives the
        action an extent; "paper" keeps the rounding of lowest objective, which labels about one
        tracklet per state and clip, and the action's chunk.
    reject : "auto" does not learn from outlier clips, such as clips that do not show the action.
        They are labelled by prediction, and listed in ``set_aside_``.
    constraint : each state labels "at_least_one" tracklet of a clip, or "exactly_one".
    target : what is sought: "joint", or the "state" or the "action" alone.
    changes : how many actions there are, with one state more; "auto" tries one to three and keeps
        what replicates best (``discovery/how_many.py``, ``result_.summary["changes"]``).
    optional : numbers (from 1) of the actions that a clip may lack, with the state after it.
    price : of lacking one: a clip lacks a step whose action and state score less than 1 - price
        in the mean, where 1 is a score like in other clips; with the paper's labelling, the cost
        in wrong labels of each side.
    pattern : which states of a chain look alike and share a classifier: "ABA" for closed, open,
        closed. None for different ones.
    solver : "block", Frank-Wolfe clip by clip, or "full", the paper's.
    tol : stop when the duality gap is at most this share of the relaxed objective ...
    max_passes : ... or after this many passes over all clips.
    restarts : how many runs, from different random labels; that whose labels agree most with the
        labels of the others is kept.
    seed : of all random choices.
    reduce : number of principal directions that the features of each side are reduced to, for very
        wide ones; None for no reduction. What that loses is in ``result_.summary["reduced"]``, see
        docs/scale.md. The classifiers apply to the original features.
    verdict : whether to judge the result, by twelve further fits to three quarters of the
        clips (at most 60): ``result_.verdict`` and the chance that each answer is right.
    on_infeasible : "skip" leaves out clips that admit no labelling, with a warning; "raise" raises.
    device : "cpu", or "cuda" for a GPU (needs the extra torch), where features are factored and, in
        :meth:`fit_folder`, held and solved. See docs/scale.md.

    Attributes
    ----------
    labels_ : (M,) state of every tracklet of the corpus: 0 for none, 1, 2 and so on.
    action_chunk_ : (N,) the action's chunk within each clip, -1 where there is none.
    action_time_ : (N,) its time in seconds, NaN where there is none.
    action_span_ : (N, 2) its start and end in seconds; these three are (N, A), (N, A) and
        (N, A, 2) for a chain of A changes.
    objective_ : objective of these labels; ``relaxed_objective_``, ``gap_``, ``n_iter_`` and
        ``converged_`` (to ``tol``, or to rounding error) are those of the relaxed solution.
    skipped_ : the clips left out, with reasons; ``set_aside_`` are those not learned from.
    verdict_ : a :class:`~objectstates.data.verdict.Verdict`, or None.
    reached_ : (N,) whether each clip ends in state 2: yes, no or unsure; "" if not judged.
    result_ : all of this, as a :class:`~objectstates.data.result.Result`.

    Examples
    --------
    >>> from objectstates.data.synthetic import synthetic_corpus
    >>> model = JointDiscovery(seed=0).fit(synthetic_corpus(n_clips=8, seed=0))
    >>> model.gap_ <= 0.01 * model.relaxed_objective_
    True
    >>> model.predict(synthetic_corpus(n_clips=2, seed=1)).action_chunk.shape
    (2,)
    """

    nu: float = 3.0
    mu: float = 1e-4
    lam: float = 1e-2
    detection_weight: float = 0.0
    time_unit: TimeUnit = "clip"
    labelling: Labelling = "held_out"
    reject: Reject = "none"
    constraint: ConstraintName = "at_least_one"
    target: Target = "joint"
    changes: int | Literal["auto"] = 1
    optional: tuple[int, ...] = ()
    price: float = 0.55
    pattern: str | None = None
    solver: Solver = "block"
    tol: float = 0.01
    max_passes: int = 500
    restarts: int = 1
    seed: int = 0
    reduce: int | None = None
    verdict: bool = True
    on_infeasible: OnInfeasible = "skip"
    device: str = "cpu"

    @classmethod
    def paper(cls, **settings: Any) -> JointDiscovery:
        """The paper's settings, except those given; with ``nu=0.5`` those of its code.

        The objective is the paper's, the solver "block", which ends at a lower duality gap.
        ``solver="full"`` is the paper's algorithm: its start, its steps and their number.

        >>> JointDiscovery.paper().nu, JointDiscovery.paper().labelling
        (1.0, 'paper')
        >>> JointDiscovery.paper(solver="full").max_passes
        630
        """
        return cls(**{**paper_fit(settings.get("solver", "block")), **settings})

    def fit(
        self,
        corpus: Corpus,
        callback: Callback | None = None,
        *,
        corrections: Corrections = (),
        names: LabelNames | None = None,
    ) -> JointDiscovery:
        """Discover in ``corpus``. ``callback`` is called after every pass; true from it stops.

        corrections : what is known of some clips: rows, or a file of them (docs/corrections.md).
        names : of the states and the action, for the result.
        """
        _check_type(corpus)
        self.check()
        if self.changes == "auto":
            return self._adopt(*self._how_many(corpus, callback, corrections), names)
        clock, stopper = Stopwatch(), Stopper(callback)
        prepared = self._prepare(corpus, corrections, names)
        kept, bounds = prepared.kept, prepared.applied.bounds
        factors = KeptFactors(most=1) if self.verdict else None

        def discover(clips: Corpus) -> Result:
            pose = self._pose_in_memory(clips, kept=factors)
            return self._discover(clips, pose, stopper, clock, bounds)

        found = self._found(prepared, discover)
        if self.verdict and not stopper.stopped:
            found = self._judged(kept, found, bounds, factors)
            clock.lap("verdict")
            found = with_progress(found, kept.select, seed=int(self.seed))
            clock.lap("progress")
        sizes = result_assembly.sizes(corpus)
        return self._finish(found, corpus, kept, prepared.skipped, sizes, clock)

    def _prepare(
        self, corpus: Corpus, corrections: Corrections, names: LabelNames | None
    ) -> Prepared:
        """Check the features, apply the corrections and leave out clips without a labelling."""
        if self.target != "action":
            check_features("the corpus", "state", *corpus.tracklets.features.shape)
        if self.target != "state":
            check_features("the corpus", "action", *corpus.chunks.features.shape)
        return self._constrained(corpus, corrections, names)

    def _constrained(
        self, corpus: Corpus, corrections: Corrections, names: LabelNames | None
    ) -> Prepared:
        """Apply the corrections and leave out clips without a labelling."""
        changes = int(self.changes)
        if names is not None and len(names.actions) != changes:
            raise SettingError(
                f"`names` are those of {len(names.actions)} actions, but `changes` is {changes}"
            )
        clips = for_chain(corpus.for_changes(changes))
        applied = apply_corrections(clips, _rows(corrections), names)
        skipped, kept = self._formulation.leave_out_infeasible(
            applied.corpus, self.on_infeasible, applied.places
        )
        return Prepared(applied, kept, (*applied.left_out, *skipped), names)

    def _found(self, prepared: Prepared, discover: Callable[[Corpus], Result]) -> Result:
        """The result of ``discover``, without outlier clips if they are to be rejected."""
        if self.reject == "auto":
            found = discover_without_outliers(
                prepared.kept,
                discover,
                lambda learned, clips: self._labelled(learned, clips, prepared.applied.bounds),
                seed=int(self.seed),
            )
        else:
            found = discover(prepared.kept)
        return _with_corrections(found, prepared.applied, prepared.names)

    def _labelled(self, learned: Result, clips: Corpus, bounds: Bounds) -> Result:
        """``clips``, labelled with the classifiers of a result."""
        return predict(learned, clips, self._formulation, bounds)

    def fit_folder(
        self,
        path: str | Path,
        callback: Callback | None = None,
        *,
        shards: int | None = None,
        processes: int = 1,
        scratch: str | Path | None = None,
        ray_address: str | None = None,
        corrections: Corrections = (),
        names: LabelNames | None = None,
    ) -> JointDiscovery:
        """Discover in the corpus folder ``path`` without holding its features in memory.

        They are read twice to be factored; the factors, of about the size of the features, are in
        a temporary folder within ``scratch`` (the system's unless given) during the fit; or, with
        another ``device`` than the CPU, in its memory.
        The problem and its certificate are those of :meth:`fit`. Labels are rounded every few
        passes instead of after each.

        shards : number of disjoint sets of clips that are worked on in parallel; by default one per
            worker process. More than one changes the order of block steps, and with it the
            solver's path.
        processes : number of worker processes among which the shards are divided; with 0 or 1,
            they are worked on by threads of this process.
        ray_address : of a Ray cluster that works on the shards instead; each of its machines must
            see ``path``, and have the folder ``scratch`` if that is given.
        corrections, names : as in :meth:`fit`.
        """
        check_settings(self.get_params())
        shards = check_out_of_core(self.get_params(), shards, processes, ray_address)
        clock, stopper = Stopwatch(), Stopper(callback)
        corpus = Corpus.load(path, features=False)
        if self.changes == "auto":
            clips = self._sample(path, corpus)
            told = tuple(row for row in _rows(corrections) if row.clip in clips.clip_ids)
            chosen, expected = self._how_many(clips, callback, told)
            means = {"scratch": scratch, "ray_address": ray_address, "corrections": corrections}
            chosen.fit_folder(path, callback, shards=shards, processes=processes, **means)  # type: ignore[arg-type]
            return self._adopt(chosen, expected, names)
        prepared = self._constrained(corpus, corrections, names)
        applied, kept, skipped = prepared.applied, prepared.kept, prepared.skipped
        stored = stored_features(Path(path), corpus, kept, target=self.target)
        workers = Workers(shards, int(processes), ray_address, scratch, self.device)
        pose = pose_out_of_core(
            stored,
            workers,
            solver=self.solver,
            reduce=self._reduce,
            classes=self._formulation.classes(kept.n_states),
        )
        found = self._discover(kept, pose, stopper, clock, applied.bounds)
        found = _with_corrections(found, applied, names)
        if self.verdict and not stopper.stopped:
            found = self._judged_by_sample(kept, stored, found, applied.bounds, clock)
        sizes = {**result_assembly.sizes(corpus), **stored.shapes}
        return self._finish(found, corpus, kept, skipped, sizes, clock)

    def _judged_by_sample(
        self, kept: Corpus, stored: FeaturesOnDisk, found: Result, bounds: Bounds, clock: Stopwatch
    ) -> Result:
        """``found``, the result on ``kept``, with verdict and progress by a sample of the clips."""
        sample = random_clips(len(kept), SAMPLE, seed=int(self.seed))
        clips = with_stored_features(kept, stored, sample)
        judged = self._judged(clips, found.select(sample), bounds)
        found = judge_by_sample(found, sample, judged)
        clock.lap("verdict")
        read = partial(with_stored_features, kept, stored)
        found = with_progress(found, read, seed=int(self.seed))
        clock.lap("progress")
        return found

    def _sample(self, path: str | Path, corpus: Corpus) -> Corpus:
        """Some clips of the corpus in the folder ``path``, with their features."""
        stored = stored_features(Path(path), corpus, corpus, target=self.target)
        clips = random_clips(len(corpus), SAMPLE, seed=int(self.seed))
        return with_stored_features(corpus, stored, clips)

    def _how_many(
        self, corpus: Corpus, callback: Callback | None, corrections: Corrections
    ) -> tuple[JointDiscovery, dict[how_many.Chain, how_many.Expected]]:
        """The fit of the chain that replicates best in ``corpus``, and what is expected of each
        that was tried."""
        fitted: dict[how_many.Chain, JointDiscovery] = {}
        expected: dict[how_many.Chain, how_many.Expected] = {}
        for chain in how_many.TRIED:
            changes = {"changes": chain[0], "pattern": chain[1], "verdict": True}
            tried = JointDiscovery(**{**self.get_params(), **changes})
            try:
                fitted[chain] = tried.fit(corpus, callback, corrections=corrections)
            except (InfeasibleClipError, CorrectionError):
                if chain[0] == 1:
                    raise
                break  # fewer tracklets than states, or told of fewer changes
            expected[chain] = how_many.expected_of(fitted[chain].result_)
        return fitted[how_many.choose(expected)], expected

    def _discover(
        self,
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
        nu = float(self.nu) / self._seconds_per_unit(corpus)
        held_out = self.labelling == "held_out" and len(corpus) > 1  # a single clip has no others
        formulation, weights = self._formulation, Weights(nu, float(self.mu), float(self.lam))
        sides = formulation.constraints(corpus, *sizes, required=held_out)
        with within_memory(self.device), pose(*sides, weights) as posed:
            clock.lap("factorise")
            run = best_run(
                posed,
                seed=int(self.seed),
                restarts=1 if warm else self.restarts,
                stopper=stopper,
                **self._solver_settings(warm, quick),
            )
            clock.lap("solve")
            if held_out:
                labels = run.rounding.action, run.rounding.state
                _, state = formulation.constraints(corpus, *sizes)
                found, classifiers = label_held_out(
                    corpus, state, *labels, posed.problem.learn, bounds, formulation.steps
                )
            else:
                found, classifiers = label_by_rounding(corpus, run.rounding, bounds)
            _check_finite(classifiers)  # type: ignore[arg-type]
            terms = posed.problem.integer_terms(found.action, found.state)
        clock.lap("label")
        summary = {
            "seed": int(self.seed),
            **result_assembly.run_summary(run, terms),
            "learned_from": len(corpus),
            "coupling_per_second": nu,
            "detection_scale": detection_scale(corpus),
            "labelled": "held_out" if held_out else "paper",
        }
        if self.reduce is not None:
            summary["reduced"] = result_assembly.reduction_summary(posed.reductions, found)
        return Result(
            **result_assembly.columns(corpus, found),
            classifiers=classifiers,  # type: ignore[arg-type]
            settings=self._settings(),
            summary=summary,
        )

    def _solver_settings(self, warm: bool, quick: bool) -> dict[str, Any]:
        """Of ``minimise``, as in `_discover`."""
        return {
            "solver": self.solver,
            "tol": self.tol * (WARM_TOLERANCE if warm else PART_TOLERANCE if quick else 1),
            "max_passes": self.max_passes,
            "warm": warm,
            "schedule": PART_SCHEDULE if quick else WHOLE,
        }

    def _judged(
        self,
        corpus: Corpus,
        found: Result,
        bounds: Bounds,
        factors: KeptFactors | None = None,
        callback: Callback | None = None,
    ) -> Result:
        """``found``, the result on ``corpus``, with its verdict.

        factors : those of the fit, if they are at hand.
        """

        def discover(clips: Corpus, parts: Sequence[Array]) -> Iterator[Result]:
            removed = removed_columns(corpus, clips)
            yield from self.discover_parts(clips, parts, bounds, factors, removed, callback)

        def label(learned: Result, clips: Corpus) -> Result:
            return self._labelled(learned, clips, bounds)

        return judge(corpus, found, discover, label, seed=int(self.seed))

    def discover_parts(
        self,
        corpus: Corpus,
        parts: Sequence[Array],
        bounds: Bounds = NO_BOUNDS,
        factors: KeptFactors | None = None,
        removed: Array | None = None,
        callback: Callback | None = None,
    ) -> Iterator[Result]:
        """Results on parts of the clips, for the verdict.

        One restart and few passes tell enough. The parts share the factored features of all clips,
        those of ``factors`` if it has them; ``removed`` as in `costs_of`.
        """
        once = JointDiscovery(**{**self.get_params(), "restarts": 1, "device": "cpu"})
        shared = None
        if self.reduce is None:  # else the directions of each part are its own
            weights = Weights(float(self.nu), float(self.mu), float(self.lam))
            classes = self._formulation.classes(corpus.n_states)
            starts = FULL_STARTS if self.solver == "full" else 1
            costs = costs_of(corpus, self.target, weights, factors, removed)
            shared = Parts(corpus, costs, classes=classes, starts=starts)
        for part in parts:
            clips = corpus.select(part) if shared is None else shared.clips(part)
            pose = once._pose_in_memory(clips) if shared is None else shared.pose(part)
            stopper, clock = Stopper(callback), Stopwatch()
            yield once._discover(clips, pose, stopper, clock, bounds, quick=shared is not None)

    def _finish(
        self,
        found: Result,
        corpus: Corpus,
        kept: Corpus,
        skipped: tuple[SkippedClip, ...],
        sizes: dict[str, Any],
        clock: Stopwatch,
    ) -> JointDiscovery:
        """Store the result and the fitted attributes."""
        summary = {**found.summary, "corpus": sizes, "seconds": clock.seconds}
        summary |= result_assembly.skipped_at(corpus, kept)
        self.result_ = replace(found, skipped=skipped, summary=summary)
        return self._with_attributes()

    def _adopt(
        self,
        chosen: JointDiscovery,
        expected: dict[how_many.Chain, how_many.Expected],
        names: LabelNames | None,
    ) -> JointDiscovery:
        """Take over the result of the chosen chain."""
        tried = {
            how_many.described(chain): {side: round(share, 4) for side, share in vars(each).items()}
            for chain, each in expected.items()
        }
        number = cast(int, chosen.changes)  # not auto
        facts = {"chosen": how_many.described((number, chosen.pattern)), "expected": tried}
        result = chosen.result_
        self.result_ = replace(
            result, summary={**result.summary, "changes": facts}, names=names or result.names
        )
        return self._with_attributes()

    def _with_attributes(self) -> JointDiscovery:
        """Set the fitted attributes that follow from ``result_``."""
        for name, value in result_assembly.fitted_attributes(self.result_).items():
            setattr(self, name, value)
        return self

    def predict(self, corpus: Corpus) -> Result:
        """Label clips that were not in the fit, with the settings and classifiers of the fit."""
        self._check_applies(corpus)
        clock = Stopwatch()
        fitted = JointDiscovery(**self.result_.settings)  # parameters may have been set since
        formulation = fitted._formulation
        skipped, kept = formulation.leave_out_infeasible(
            for_chain(corpus.for_changes(int(fitted.changes))), fitted.on_infeasible
        )
        found = predict(self.result_, kept, formulation)
        if self.result_.progress_model is not None:
            found = apply_model(self.result_.progress_model, kept, found)
        clock.lap("predict")
        return replace(found, skipped=skipped, summary=self._applied_summary(corpus, clock))

    def occurrences(self, corpus: Corpus, *, minimum: float = MINIMUM) -> Result:
        """Find what was learned in long videos, where it happens several times, once or never.

        corpus : the videos, each as one clip.
        minimum : the least score of an occurrence: 1 is like the clips of the fit, 0 unlike them.

        The clips of the result are the occurrences: spans of the videos, with ids ``<video>#1``,
        ``<video>#2`` and so on. ``skipped`` are the videos without any (docs/occurrences.md).
        """
        self._check_applies(corpus)
        clock = Stopwatch()
        fitted = JointDiscovery(**self.result_.settings)  # parameters may have been set since
        found = occurrences(self.result_, corpus, fitted._formulation, float(minimum))
        clock.lap("predict")
        summary = {**self._applied_summary(corpus, clock), **found.summary}
        return replace(found, summary={**summary, "occurrence_minimum": float(minimum)})

    def _check_applies(self, corpus: Corpus) -> None:
        """Raise unless the classifiers of the fit apply to ``corpus``."""
        self._check_fitted()
        _check_type(corpus)
        check_sizes(corpus, self.result_.classifiers)
        check_lengths(corpus, self.result_.corpus)

    def _applied_summary(self, corpus: Corpus, clock: Stopwatch) -> dict[str, Any]:
        """That of a result on other clips than those of the fit."""
        return {
            "kind": "predict",
            "versions": result_assembly.versions(),
            "seed": self.result_.settings["seed"],
            "corpus": result_assembly.sizes(corpus),
            "learned_on": self.result_.summary.get("corpus"),
            "seconds": clock.seconds,
        }

    def save(self, path: str | Path) -> None:
        """Write the result folder, from which :meth:`load` restores this estimator."""
        self._check_fitted()
        self.result_.save(path)

    @classmethod
    def load(cls, path: str | Path) -> JointDiscovery:
        """The fitted estimator that wrote the result folder ``path``."""
        result = Result.load(path)
        if result.summary.get("kind") != "fit":
            raise ResultError(f"{path} holds predictions: give the folder that fit wrote")
        try:
            settings = {**result.settings, "optional": tuple(result.settings.get("optional", ()))}
            model = cls(**settings)
            check_settings(model.get_params())
        except (TypeError, ValueError, AttributeError, SettingError) as problem:
            raise ResultError(f"{path}: its settings cannot be restored: {problem}") from None
        sought = {"state", "action"} if model.target == "joint" else {model.target}
        if set(result.classifiers) != sought:
            raise ResultError(f"{path} lacks a classifier: fit again")
        model.result_ = result
        try:
            return model._with_attributes()
        except (KeyError, TypeError, ValueError) as problem:
            raise ResultError(f"{path} lacks {problem} in its header: fit again") from None

    def check(self, *, shards: int | None = None, ray_address: str | None = None) -> None:
        """Raise now what :meth:`fit` would; given shards, what :meth:`fit_folder` would."""
        check_settings(self.get_params())
        if shards is None:
            check_in_memory(self.get_params())
        else:
            check_out_of_core(self.get_params(), shards, 1, ray_address)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "result_")

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise not_fitted_error(self)

    def _settings(self) -> dict[str, Any]:
        """The parameters in order of declaration, as JSON has them: without NumPy scalars."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["optional"] = list(map(int, self.optional))
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}

    @property
    def _formulation(self) -> Formulation:
        return Formulation(
            self.target,
            self.constraint,
            self.detection_weight,
            tuple(self.optional),
            float(self.price),
            self.pattern,
        )

    def _pose_in_memory(self, clips: Corpus, **kept: Any) -> Pose:
        """The problem of these clips; ``kept`` as in `pose_in_memory`."""
        return pose_in_memory(
            clips,
            device=self.device,
            reduce=self._reduce,
            classes=self._formulation.classes(clips.n_states),
            starts=FULL_STARTS if self.solver == "full" else 1,
            **kept,
        )

    @property
    def _reduce(self) -> int | None:
        return None if self.reduce is None else int(self.reduce)

    def _seconds_per_unit(self, corpus: Corpus) -> float:
        """How many seconds the ``time_unit`` has."""
        if self.time_unit == "second":
            return 1.0
        table = corpus.chunks
        lengths = table.end[table.offsets[1:] - 1] - table.start[table.offsets[:-1]]
        return float(lengths.mean())


def _rows(corrections: Corrections) -> tuple[Correction, ...]:
    if isinstance(corrections, str | Path):
        return read_corrections(corrections)
    return tuple(corrections)


def _with_corrections(found: Result, applied: Applied, names: LabelNames | None) -> Result:
    """The result with what the user told: corrections and names."""
    names = names or LabelNames.usual(found.n_actions)
    return replace(found, corrections=applied.rows, names=names)


def _check_type(corpus: Any) -> None:
    if not isinstance(corpus, Corpus):
        raise TypeError(
            f"a Corpus is needed, not {type(corpus).__name__}: make one of arrays with "
            "Corpus.from_arrays"
        )


def _check_finite(classifiers: dict[str, Classifier]) -> None:
    """Raise if a classifier is unusable."""
    ridges = {"state": "mu", "action": "lam"}
    for side, classifier in classifiers.items():
        if not (np.isfinite(classifier.weights).all() and np.isfinite(classifier.bias).all()):
            raise SettingError(f"the {side} classifier is not finite: raise `{ridges[side]}`")

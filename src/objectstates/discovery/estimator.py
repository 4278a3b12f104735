"""JointDiscovery: from a corpus to object states and action times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from objectstates.base.choices import paper_fit
from objectstates.base.errors import (
    CorrectionError,
    InfeasibleClipError,
    ResultError,
    SettingError,
)
from objectstates.base.estimator_api import Estimator, not_fitted_error
from objectstates.data.corpus import Corpus
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.discovery import how_many, result_assembly
from objectstates.discovery.chain_change import for_chain
from objectstates.discovery.corrections import Bounds
from objectstates.discovery.fit_steps import (
    Corrections,
    constrain,
    correction_rows,
    discover,
    discover_prepared,
    formulation,
    pose_clips,
    prepare,
    with_corrections,
    with_fit_summary,
    with_verdict,
)
from objectstates.discovery.in_memory import KeptFactors
from objectstates.discovery.occurrences import MINIMUM, occurrences
from objectstates.discovery.out_of_core import (
    FeaturesOnDisk,
    Workers,
    pose_out_of_core,
    random_clips,
    stored_features,
    with_stored_features,
)
from objectstates.discovery.prediction import check_lengths, check_sizes, predict
from objectstates.discovery.progress import apply_model, with_progress
from objectstates.discovery.replication import SAMPLE
from objectstates.discovery.settings import (
    Settings,
    check_in_memory,
    check_out_of_core,
    check_settings,
)
from objectstates.discovery.solver_runs import Callback, Stopper, Stopwatch
from objectstates.discovery.verdict import judge_by_sample


@dataclass(eq=False, repr=False)
class JointDiscovery(Settings, Estimator):
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
        on average, where 1 is a score like in other clips; with the paper's labelling, the cost
        in wrong labels of each side.
    pattern : which states of a chain look alike and share a classifier: "ABA" for closed, open,
        closed. None for different ones.
    solver : "block", Frank-Wolfe clip by clip, or "full", the paper's.
    tol : stop when the duality gap is at most this share of the relaxed objective ...
    max_passes : ... or after this many passes over all clips.
    restarts : how many runs, from different random labels; of those with about the lowest objective
        that is kept whose labels agree most with the labels of the others. None: 1 for one change,
        5 for a chain.
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
        prepared = prepare(self, corpus, corrections, names)
        kept, bounds = prepared.kept, prepared.applied.bounds
        factors = KeptFactors(most=1) if self.verdict else None

        def discover_in(clips: Corpus) -> Result:
            pose = pose_clips(self, clips, kept=factors)
            return discover(self, clips, pose, stopper, clock, bounds)

        found = discover_prepared(self, prepared, discover_in)
        if self.verdict and not stopper.stopped:
            found = with_verdict(self, kept, found, bounds, factors)
            clock.lap("verdict")
            found = with_progress(found, kept.select, seed=int(self.seed))
            clock.lap("progress")
        return self._with_result(with_fit_summary(found, corpus, prepared, clock))

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
            rows = tuple(row for row in correction_rows(corrections) if row.clip in clips.clip_ids)
            chosen, expected = self._how_many(clips, callback, rows)
            means = {"scratch": scratch, "ray_address": ray_address, "corrections": corrections}
            chosen.fit_folder(path, callback, shards=shards, processes=processes, **means)  # type: ignore[arg-type]
            return self._adopt(chosen, expected, names)
        prepared = constrain(self, corpus, corrections, names)
        kept, bounds = prepared.kept, prepared.applied.bounds
        stored = stored_features(Path(path), corpus, kept, target=self.target)
        workers = Workers(shards, int(processes), ray_address, scratch, self.device)
        pose = pose_out_of_core(
            stored,
            workers,
            solver=self.solver,
            reduce=None if self.reduce is None else int(self.reduce),
            classes=formulation(self).classes(kept.n_states),
        )
        found = with_corrections(discover(self, kept, pose, stopper, clock, bounds), prepared)
        if self.verdict and not stopper.stopped:
            found = self._judged_by_sample(kept, stored, found, bounds, clock)
        return self._with_result(with_fit_summary(found, corpus, prepared, clock, stored.shapes))

    def _judged_by_sample(
        self, kept: Corpus, stored: FeaturesOnDisk, found: Result, bounds: Bounds, clock: Stopwatch
    ) -> Result:
        """``found``, the result on ``kept``, with verdict and progress by a sample of the clips."""
        sample = random_clips(len(kept), SAMPLE, seed=int(self.seed))
        clips = with_stored_features(kept, stored, sample)
        judged = with_verdict(self, clips, found.select(sample), bounds)
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
    ) -> tuple[JointDiscovery, dict[how_many.Chain, float]]:
        """The fit of the chain that replicates best in ``corpus``, and what is expected of each
        that was tried."""
        fitted: dict[how_many.Chain, JointDiscovery] = {}
        expected: dict[how_many.Chain, float] = {}
        for chain in how_many.TRIED:
            tried = replace(self, changes=chain[0], pattern=chain[1], verdict=True)
            try:
                fitted[chain] = tried.fit(corpus, callback, corrections=corrections)
            except (InfeasibleClipError, CorrectionError):
                if chain[0] == 1:
                    raise
                break  # fewer tracklets than states, or told of fewer changes
            expected[chain] = how_many.expected_of(fitted[chain].result_)
        return fitted[how_many.choose(expected)], expected

    def _adopt(
        self,
        chosen: JointDiscovery,
        expected: dict[how_many.Chain, float],
        names: LabelNames | None,
    ) -> JointDiscovery:
        """Take over the result of the chosen chain."""
        tried = {how_many.described(chain): round(share, 4) for chain, share in expected.items()}
        number = cast(int, chosen.changes)  # not auto
        facts = {"chosen": how_many.described((number, chosen.pattern)), "expected": tried}
        result = chosen.result_
        summary = {**result.summary, "changes": facts}
        return self._with_result(replace(result, summary=summary, names=names or result.names))

    def _with_result(self, result: Result) -> JointDiscovery:
        """Set ``result_`` and the fitted attributes that follow from it."""
        self.result_ = result
        for name, value in result_assembly.fitted_attributes(result).items():
            setattr(self, name, value)
        return self

    def predict(self, corpus: Corpus) -> Result:
        """Label clips that were not in the fit, with the settings and classifiers of the fit."""
        self._check_applies(corpus)
        clock = Stopwatch()
        fitted = JointDiscovery(**self.result_.settings)  # parameters may have been set since
        formed = formulation(fitted)
        skipped, kept = formed.leave_out_infeasible(
            for_chain(corpus.for_changes(int(fitted.changes))), fitted.on_infeasible
        )
        found = predict(self.result_, kept, formed)
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
        found = occurrences(self.result_, corpus, formulation(fitted), float(minimum))
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
        try:
            return model._with_result(result)
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


def _check_type(corpus: Any) -> None:
    if not isinstance(corpus, Corpus):
        raise TypeError(
            f"a Corpus is needed, not {type(corpus).__name__}: make one of arrays with "
            "Corpus.from_arrays"
        )

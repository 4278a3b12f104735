"""JointDiscovery: from a corpus to object states and action times."""

from __future__ import annotations

import math
import platform
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import version
from numbers import Integral, Real
from pathlib import Path
from typing import Any, get_args

import numpy as np

from objectstates.base import choices as settings
from objectstates.base.choices import (
    PAPER,
    ConstraintName,
    OnInfeasible,
    Reject,
    Solver,
    Target,
    TimeUnit,
)
from objectstates.base.errors import CorpusError, InfeasibleClipError, ResultError, SettingError
from objectstates.base.torch_utils import within_memory
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Classifier, Result, SkippedClip
from objectstates.discovery import constraints as formulation
from objectstates.discovery.labelling import (
    Labelling,
    chosen_chunks,
    detection_scale,
    label_alike,
    label_held_out,
    learner_in_memory,
)
from objectstates.discovery.out_of_core import RoundingOnDisk, on_disk, stored_features
from objectstates.discovery.outlier_clips import without_strangers
from objectstates.discovery.solver_runs import (
    Clock,
    FitProgress,
    Rounding,
    Run,
    Schedule,
    Watch,
    best_run,
    check_finite,
    relaxed_classifiers,
    run_in_memory,
    run_sharded,
)
from objectstates.solver.oracle import Constraints
from objectstates.solver.problem import JointProblem, Terms, make_side
from objectstates.solver.rounding import joint_rounding
from objectstates.solver.scale.factor_gpu import HostAlgebra, algebra_on
from objectstates.solver.scale.moments import Reduction
from objectstates.solver.scale.pca import ReducedAlgebra


class InfeasibleClipWarning(UserWarning):
    """Clips were left out because they admit no labelling."""


@dataclass(eq=False)
class JointDiscovery:
    """Discover two object states and the action between them, in all clips of a corpus at once.

    Parameters
    ----------
    nu : weight of the coupling of states and action.
    time_unit : what distances in time are measured in: "clip", the mean length of the clips, or
        "second", as in the paper. At nu = 3 in clips, a label a sixth of a clip on the wrong side
        of the action costs as much as a wrong label, however long clips are.
    mu, lam : ridge weights of the state and the action classifier; the paper's by default.
    detection_weight : weight of the detector's scores (row g of the paper's table): labelling
        tracklet i costs ``detection_weight * (1 - score_i) / M``.
    labelling : "held_out" labels all tracklets that look like those of the other clips, and gives
        the action an extent; "paper" keeps the rounding of lowest objective, which names about one
        tracklet per state and clip. The action's chunk is the same.
    reject : "auto" learns nothing from clips that look like none of the others, as clips that do
        not show the action do. They are labelled by prediction, and named in ``set_aside_``.
    constraint : each state labels "at_least_one" tracklet of a clip, or "exactly_one".
    target : what is sought: "joint", or the "state" or the "action" alone.
    solver : "block", Frank-Wolfe clip by clip, or "full", the paper's.
    tol : stop when the duality gap is at most this share of the relaxed objective ...
    max_passes : ... or after this many passes over all clips.
    restarts : how many runs, from different random labels; the lowest rounded objective is kept.
    seed : of all random choices.
    reduce : to how many principal directions the features of each side are reduced, for very wide
        ones; None for not at all. What that loses is in ``result_.summary["reduced"]``, see
        docs/scale.md. The classifiers are of the features as they were.
    on_infeasible : "skip" leaves out clips that admit no labelling, with a warning; "raise" raises.
    device : "cpu", or "cuda" for a GPU (needs the extra torch): what it factors and, in
        :meth:`fit_folder`, holds and solves. See docs/scale.md.

    Attributes
    ----------
    labels_ : (M,) state 0, 1 or 2 of every tracklet of the corpus.
    action_chunk_ : (N,) the action's chunk within each clip, -1 where there is none.
    action_time_ : (N,) its time in seconds, NaN where there is none.
    action_span_ : (N, 2) from when to when it lasts.
    objective_ : objective of these labels; ``relaxed_objective_``, ``gap_``, ``n_iter_`` and
        ``converged_`` (to ``tol``, or to rounding error) tell of the relaxed solution.
    skipped_ : the clips left out, with reasons; ``set_aside_`` are those not learned from.
    result_ : all of it, as a :class:`~objectstates.data.result.Result`.

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
    labelling: settings.Labelling = "held_out"
    reject: Reject = "none"
    constraint: ConstraintName = "at_least_one"
    target: Target = "joint"
    solver: Solver = "block"
    tol: float = 0.01
    max_passes: int = 500
    restarts: int = 1
    seed: int = 0
    reduce: int | None = None
    on_infeasible: OnInfeasible = "skip"
    device: str = "cpu"

    @classmethod
    def paper(cls, **settings: Any) -> JointDiscovery:
        """The paper's own settings, some of them changed; with ``nu=0.5`` those of its code.

        >>> JointDiscovery.paper().nu, JointDiscovery.paper().labelling
        (1.0, 'paper')
        """
        return cls(**{**PAPER, **settings})

    def fit(
        self, corpus: Corpus, callback: Callable[[FitProgress], bool | None] | None = None
    ) -> JointDiscovery:
        """Discover in ``corpus``. ``callback`` is called after every pass; true from it stops."""
        self.check()
        clock, watch = Clock(), Watch(callback)
        self._check_features(corpus)
        skipped, kept = self._leave_out_infeasible(corpus)
        with within_memory(self.device):
            if self.reject == "auto":
                found = without_strangers(
                    kept,
                    lambda clips: self._discover(clips, watch, clock),
                    self._predicted,
                    seed=int(self.seed),
                )
            else:
                found = self._discover(kept, watch, clock)
        summary = {**found.summary, "corpus": _sizes(corpus), "seconds": clock.seconds}
        self.result_ = replace(found, skipped=skipped, summary=summary)
        self._learned(corpus)
        return self

    def _discover(self, corpus: Corpus, watch: Watch, clock: Clock) -> Result:
        """What is found in clips that all can be labelled."""
        clock.lap("other")
        algebra = self._algebra()
        action, state = self._constraints(corpus, len(corpus.tracklets.start))
        coupling = float(self.nu) / self._seconds_per_unit(corpus)
        problem = JointProblem(
            make_side(
                algebra.factorise(corpus.chunks.features[: action.n_rows], float(self.lam)), action
            ),
            make_side(
                algebra.factorise(corpus.tracklets.features[: state.n_rows], float(self.mu)), state
            ),
            coupling,
        )
        clock.lap("factorise")
        run = best_run(
            self.restarts,
            watch,
            lambda restart: run_in_memory(problem, self._schedule, restart, watch),
        )
        clock.lap("solve")
        found, classifiers = self._label(corpus, problem, run.rounding, algebra)
        terms = problem.integer_terms(found.action, found.state)
        clock.lap("label")
        result = self._result(corpus, run, found, classifiers, terms)
        if isinstance(algebra, ReducedAlgebra):
            features = {"action": corpus.chunks.features, "state": corpus.tracklets.features}
            lost = {side: algebra.reduction(features[side]) for side in classifiers}
            summary = {**result.summary, "reduced": _reduced(lost, found)}
            result = replace(result, summary=summary)
        return result

    def _algebra(self) -> HostAlgebra:
        """What factors features that are in memory."""
        if self.reduce is not None:
            return ReducedAlgebra(int(self.reduce))
        return algebra_on(self.device)

    def fit_folder(
        self,
        path: str | Path,
        callback: Callable[[FitProgress], bool | None] | None = None,
        *,
        shards: int = 1,
        scratch: str | Path | None = None,
        processes: int = 1,
        ray_address: str | None = None,
    ) -> JointDiscovery:
        """Discover in the corpus folder ``path`` without ever holding its features in memory.

        They are read twice to be factored; the factors, of about the size of the features, lie in
        a temporary folder within ``scratch`` (the system's unless given) until the fit is over; or,
        with another ``device`` than the CPU, in its memory.
        The problem and its certificate are those of :meth:`fit`. Labels are rounded every few
        passes instead of after each.

        shards : in how many parts, each by a thread of its own, clips are worked on. More than one
            changes the order in which clips are visited, and with it the path of the solver.
        processes : number of worker processes that hold the shards; 1 means threads of this one.
        ray_address : of a Ray cluster, which works on the shards instead of threads; each of its
            machines must see ``path``, and have the folder ``scratch`` if that is given.
        """
        self.check(shards=shards, ray_address=ray_address)
        clock, watch = Clock(), Watch(callback)
        corpus = Corpus.load(path, features=False)
        skipped, kept = self._leave_out_infeasible(corpus)
        action, state = self._constraints(kept, len(kept.tracklets.start))
        coupling = float(self.nu) / self._seconds_per_unit(kept)
        stored = stored_features(Path(path), corpus, kept, target=self.target)
        settings = {"nu": coupling, "mu": float(self.mu), "lam": float(self.lam)}
        reduce = None if self.reduce is None else int(self.reduce)
        with on_disk(
            stored,
            action,
            state,
            n_shards=shards,
            scratch=scratch,
            processes=processes,
            ray_address=ray_address,
            device=self.device,
            solver=self.solver,
            reduce=reduce,
            **settings,
        ) as problem:
            clock.lap("factorise")
            run = best_run(
                self.restarts,
                watch,
                lambda restart: run_sharded(problem, self._schedule, restart, watch),
            )
            clock.lap("solve")
            rounding = run.rounding
            found = chosen_chunks(kept, rounding.action, rounding.state,
                                  rounding.action_scores, rounding.state_scores)  # fmt: skip
            classifiers = rounding.classifiers
            if self._held_out(kept):
                found, classifiers = label_held_out(
                    kept, state, rounding.action, rounding.state, problem.learn
                )
            check_finite(classifiers)
            terms = problem.integer_terms(found.action, found.state)
        clock.lap("label")
        result = self._result(kept, run, found, classifiers, terms)
        sizes = {**_sizes(corpus), **stored.shapes}
        summary = {**result.summary, "corpus": sizes, "seconds": clock.seconds}
        if reduce is not None:
            summary["reduced"] = _reduced(problem.reductions(), found)
        self.result_ = replace(result, skipped=skipped, summary=summary)
        self._learned(corpus)
        return self

    def _result(
        self,
        corpus: Corpus,
        run: Run[Rounding] | Run[RoundingOnDisk],
        found: Labelling,
        classifiers: dict[str, Classifier],
        terms: Terms,
    ) -> Result:
        """What was found in ``corpus``, all of which took part."""
        rounding, solution = run.rounding, run.solution
        return Result(
            **_columns(corpus, found),
            classifiers=classifiers,
            settings=_plain(self.get_params()),
            summary={
                "kind": "fit",
                "versions": _versions(),
                "seed": int(self.seed),
                "learned_from": len(corpus),
                "objective": {"total": terms.total, **asdict(terms)},
                "rounded_objective": rounding.terms.total,
                "relaxed_objective": solution.terms.total,
                "relaxed_terms": asdict(solution.terms),
                "duality_gap": solution.gap,
                "converged": solution.converged,
                "passes": solution.passes,
                "rounded_at_pass": rounding.passes,
                "coupling_per_second": float(self.nu) / self._seconds_per_unit(corpus),
                "detection_scale": detection_scale(corpus),
                "labelled": "held_out" if self._held_out(corpus) else "paper",
                "trace": run.trace,
            },
        )

    def predict(self, corpus: Corpus) -> Result:
        """Label clips never seen in fit: fixed classifiers, joint rounding, the same labelling."""
        self._check_fitted()
        clock = Clock()
        fitted = JointDiscovery(**self.result_.settings)  # what was learned with, not set since
        _check_features(corpus, self.result_.classifiers)
        skipped, kept = fitted._leave_out_infeasible(corpus)
        found = fitted._predicted(self.result_, kept)
        clock.lap("predict")
        summary = {
            "kind": "predict",
            "versions": _versions(),
            "seed": fitted.seed,
            "corpus": _sizes(corpus),
            "learned_on": self.result_.summary.get("corpus"),
            "seconds": clock.seconds,
        }
        return replace(found, skipped=skipped, summary=summary)

    def _predicted(self, learned: Result, corpus: Corpus) -> Result:
        """Labels of clips that all can be labelled, by what was learned on others."""
        classifiers = learned.classifiers
        n_chunks, action_scores = _scores(classifiers.get("action"), corpus.chunks.features, 1)
        n_tracklets, state_scores = _scores(classifiers.get("state"), corpus.tracklets.features, 2)
        action, state = self._constraints(corpus, n_tracklets)
        labels = joint_rounding(
            action,
            state,
            action_scores,
            state_scores,
            action_weight=1 / (2 * max(n_chunks, 1)),
            state_weight=1 / (2 * max(n_tracklets, 1)),
            coupling=learned.summary["coupling_per_second"] / max(n_chunks, 1),
        )
        found = chosen_chunks(corpus, *labels, action_scores, state_scores)
        if learned.summary["labelled"] == "held_out":
            found = label_alike(corpus, found, state, learned.summary["detection_scale"])
        return Result(
            **_columns(corpus, found),
            classifiers=classifiers,
            settings=learned.settings,
            summary={},
        )

    def save(self, path: str | Path) -> None:
        """Write the result folder, from which :meth:`load` restores this estimator."""
        self._check_fitted()
        self.result_.save(path)

    @classmethod
    def load(cls, path: str | Path) -> JointDiscovery:
        """The estimator that wrote the result folder ``path``, ready to predict."""
        result = Result.load(path)
        if result.summary.get("kind") != "fit":
            raise ResultError(f"{path} holds predictions: give the folder that fit wrote")
        try:
            model = cls(**result.settings)
            model._check_settings()
        except (TypeError, SettingError) as problem:
            raise ResultError(f"{path}: its settings cannot be restored: {problem}") from None
        sought = {"state", "action"} if model.target == "joint" else {model.target}
        if set(result.classifiers) != sought:
            raise ResultError(f"{path} lacks a classifier: fit again")
        model.result_ = result
        try:
            model._tell_certificate()
        except (KeyError, TypeError, ValueError) as problem:
            raise ResultError(f"{path} lacks {problem} in its header: fit again") from None
        return model

    # --- scikit-learn manners --------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name."""
        return {setting.name: getattr(self, setting.name) for setting in fields(self)}

    def set_params(self, **settings: Any) -> JointDiscovery:
        """Change settings by name."""
        for name, value in settings.items():
            if name not in self.get_params():
                raise SettingError(f"no setting {name!r}; there are {', '.join(self.get_params())}")
            setattr(self, name, value)
        return self

    def check(self, *, shards: int | None = None, ray_address: str | None = None) -> None:
        """Raise now what :meth:`fit` would say of the settings; with shards, :meth:`fit_folder`."""
        self._check_settings()
        if shards is None:
            if self.reduce is not None and self.device != "cpu":
                raise SettingError(
                    "in memory, features are reduced by the processor: use --device cpu, or add "
                    "--out-of-core (from Python fit_folder)"
                )
            return
        if not 1 <= _number(shards, Integral) < math.inf:
            raise SettingError(f"shards must be a whole number of at least 1, not {shards!r}")
        if self.reject != "none":
            raise SettingError("clips cannot be rejected out of core: leave out --reject")
        if self.device != "cpu" and ray_address is not None:
            raise SettingError("shards on a Ray cluster work on its processors: use --device cpu")

    def _check_settings(self) -> None:
        """All settings in one place; a setting's type and default come from its declaration."""
        for name, zero in (("nu", True), ("detection_weight", True), ("mu", False), ("lam", False),
                           ("tol", False)):  # fmt: skip
            value = getattr(self, name)
            number = _number(value, Real)
            if not 0 <= number < math.inf or (number == 0 and not zero):
                bound = "of at least 0" if zero else "above 0"
                raise SettingError(f"{name} must be a number {bound}, not {value!r}")
        for name, least in (("max_passes", 1), ("restarts", 1), ("seed", 0)):
            value = getattr(self, name)
            if not least <= _number(value, Integral) < math.inf:
                raise SettingError(
                    f"{name} must be a whole number of at least {least}, not {value!r}"
                )
        if self.reduce is not None and not 1 <= _number(self.reduce, Integral) < math.inf:
            raise SettingError(f"reduce must be a whole number of at least 1, not {self.reduce!r}")
        for name, choices in (
            ("constraint", ConstraintName), ("target", Target), ("solver", Solver),
            ("time_unit", TimeUnit), ("labelling", settings.Labelling),
            ("on_infeasible", OnInfeasible), ("reject", Reject),
        ):  # fmt: skip
            if getattr(self, name) not in get_args(choices):
                raise SettingError(
                    f"{name} must be one of {', '.join(get_args(choices))}, "
                    f"not {getattr(self, name)!r}"
                )
        if self.reject == "auto" and self.labelling != "held_out":
            raise SettingError(
                "reject='auto' needs labelling='held_out': scores of a classifier that a clip "
                "helped to learn say nothing about whether it is like the others"
            )

    def _check_fitted(self) -> None:
        if not hasattr(self, "result_"):
            raise SettingError("nothing has been learned yet: call fit first")

    def _check_features(self, corpus: Corpus) -> None:
        features = {"state": corpus.tracklets.features, "action": corpus.chunks.features}
        for side, rows in features.items():
            if self.target in (side, "joint") and len(rows) and not rows.shape[1]:
                raise CorpusError(
                    f"the corpus has no features to learn the {side} from: is it the one that "
                    "stands in a result? Give the corpus that ingest wrote"
                )

    # --- the pieces of fit -----------------------------------------------------------------------

    def _constraints(self, corpus: Corpus, n_tracklets: int) -> tuple[Constraints, Constraints]:
        """Both sides' constraints; the side that is not sought has no rows."""
        action = (
            formulation.no_action(len(corpus))
            if self.target == "state"
            else formulation.action_constraints(corpus)
        )
        state = (
            formulation.no_states(len(corpus))
            if self.target == "action"
            else formulation.state_constraints(
                corpus,
                exactly_one=self.constraint == "exactly_one",
                penalty=self.detection_weight / max(n_tracklets, 1),
            )
        )
        return action, state

    def _leave_out_infeasible(self, corpus: Corpus) -> tuple[tuple[SkippedClip, ...], Corpus]:
        action, state = self._constraints(corpus, 1)
        skipped = formulation.infeasible_clips(
            corpus,
            None if self.target == "state" else action,
            None if self.target == "action" else state,
        )
        if not skipped:
            return skipped, corpus
        what = f"{len(skipped)} of {len(corpus)} clips cannot be labelled"
        named = "; ".join(f"{clip.clip}: {clip.reason}" for clip in skipped[:3])
        named += "; ..." if len(skipped) > 3 else ""
        if self.on_infeasible == "raise" or len(skipped) == len(corpus):
            raise InfeasibleClipError(f"{what}: {named}")
        warnings.warn(f"{what} and were left out: {named}", InfeasibleClipWarning, stacklevel=3)
        names = {clip.clip for clip in skipped}
        kept = [n for n, clip_id in enumerate(corpus.clip_ids) if clip_id not in names]
        return skipped, corpus.select(kept)

    @property
    def _schedule(self) -> Schedule:
        return Schedule(self.solver, self.tol, self.max_passes, int(self.seed))

    def _label(
        self, corpus: Corpus, problem: JointProblem, rounding: Rounding, algebra: HostAlgebra
    ) -> tuple[Labelling, dict[str, Classifier]]:
        """The labels to give out, and the classifiers that give them to unseen clips."""
        if self._held_out(corpus):
            learn = learner_in_memory(corpus, problem, algebra, mu=self.mu, lam=self.lam)
            found, classifiers = label_held_out(
                corpus, problem.state.constraints, rounding.action, rounding.state, learn
            )
        else:
            found = chosen_chunks(
                corpus,
                rounding.action,
                rounding.state,
                rounding.action_scores,
                rounding.state_scores,
            )
            classifiers = relaxed_classifiers(corpus, rounding, algebra, mu=self.mu, lam=self.lam)
        check_finite(classifiers)
        return found, classifiers

    def _held_out(self, corpus: Corpus) -> bool:
        """Nothing can be learned without a clip that is the only one."""
        return self.labelling == "held_out" and len(corpus) > 1

    def _seconds_per_unit(self, corpus: Corpus) -> float:
        if self.time_unit == "second":
            return 1.0
        table = corpus.chunks
        lengths = table.end[table.offsets[1:] - 1] - table.start[table.offsets[:-1]]
        return float(lengths.mean())

    def _learned(self, corpus: Corpus) -> None:
        """Spread the result over the whole corpus, clips that were left out included."""
        result, position = self.result_, {clip: n for n, clip in enumerate(corpus.clip_ids)}
        where = np.array([position[clip] for clip in result.clips], np.int64)
        rows = corpus.tracklets.offsets[where[result.tracklet_clip]] + result.tracklet_index
        self.labels_ = np.zeros(len(corpus.tracklets.start), np.int8)
        self.labels_[rows] = result.state
        self.action_chunk_ = np.full(len(corpus), -1)
        self.action_chunk_[where] = result.action_chunk
        self.action_time_ = np.full(len(corpus), np.nan)
        self.action_time_[where] = result.action_time
        self.action_span_ = np.full((len(corpus), 2), np.nan)
        self.action_span_[where] = result.action_span
        self._tell_certificate()

    def _tell_certificate(self) -> None:
        """What is known of the optimum without the corpus."""
        result = self.result_
        self.objective_ = float(result.summary["objective"]["total"])
        self.relaxed_objective_ = float(result.summary["relaxed_objective"])
        self.gap_ = float(result.summary["duality_gap"])
        self.n_iter_ = int(result.summary["passes"])
        self.converged_ = bool(result.summary["converged"])
        self.skipped_, self.set_aside_ = result.skipped, result.set_aside


def _scores(classifier: Classifier | None, features: Array, columns: int) -> tuple[int, Array]:
    """How many rows a classifier was learned on, and its scores; none without a classifier."""
    if classifier is None:
        return 0, np.empty((0, columns))
    return classifier.n_rows, classifier.scores(features)


def _columns(corpus: Corpus, found: Labelling) -> dict[str, Any]:
    """The columns of a result."""
    n_tracklets, n_chunks = len(corpus.tracklets.start), len(corpus.chunks.start)
    action, state = len(found.action) > 0, len(found.state) > 0
    return {
        "corpus": corpus.without_features(),
        "action_chunk": np.flatnonzero(found.action) - corpus.chunks.offsets[:-1]  # one per clip
        if action
        else np.full(len(corpus), -1),
        "action_span": found.action_span,
        "action_scores": found.action_scores[:, 0] if action else np.full(n_chunks, np.nan),
        "state": found.state if state else np.zeros(n_tracklets, np.int8),
        "state_scores": found.state_scores if state else np.full((n_tracklets, 2), np.nan),
    }


def _check_features(corpus: Corpus, classifiers: dict[str, Classifier]) -> None:
    features = {"state": corpus.tracklets.features, "action": corpus.chunks.features}
    for side, classifier in classifiers.items():
        found, expected = features[side].shape[1], len(classifier.weights)
        if found != expected and len(features[side]):
            raise CorpusError(
                f"the {side} features have size {found}, but the classifier was learned on size "
                f"{expected}: make the corpus with the same features"
            )


def _reduced(lost: dict[str, Reduction], found: Labelling) -> dict[str, Any]:
    """What reducing the features of each side cost, and the labels found may cost too much."""
    labels = {"action": found.action, "state": found.state}
    return {
        side: {
            "from": each.size,
            "to": each.kept,
            "variance_lost": each.variance_lost,
            "error_share": each.error_share,
            "cost_error_at_most": each.cost_error(labels[side]),
        }
        for side, each in lost.items()
    }


def _sizes(corpus: Corpus) -> dict[str, Any]:
    return {
        "clips": len(corpus),
        "tracklets": list(corpus.tracklets.features.shape),
        "chunks": list(corpus.chunks.features.shape),
    }


def _versions() -> dict[str, str]:
    packages = ("objectstates", "numpy", "scipy", "numba", "pyarrow")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def _number(value: Any, kind: type[Any]) -> float:
    """A setting as a float; NaN, which no bound admits, where it is not of this kind."""
    if isinstance(value, bool) or not isinstance(value, kind):
        return math.nan
    try:
        number: Any = value
        return float(number)
    except OverflowError:
        return math.inf


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON says them: NumPy's numbers become Python's."""
    return {k: v.item() if isinstance(v, np.generic) else v for k, v in settings.items()}

"""The methods of the paper's tables, and two more baselines, behind one interface.

A method takes a corpus with truth and returns scores per clip, so that methods can be compared clip
by clip. Those that cluster have the settings of one ``JointDiscovery``. Scores of random methods
are means over runs.

>>> from objectstates.data.synthetic import synthetic_corpus
>>> corpus = synthetic_corpus(n_clips=6, noise=0.5)
>>> chance, joint = (METHODS[name].run(corpus, MethodSettings()) for name in ("chance", "joint"))
>>> joint.state_precision > chance.state_precision
True
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from objectstates.base.choices import ConstraintName
from objectstates.base.errors import CorpusError, SettingError, TruthError
from objectstates.data.corpus import UNKNOWN, Array, Corpus
from objectstates.data.result import Result
from objectstates.discovery.constraints import InfeasibleClipWarning
from objectstates.discovery.estimator import JointDiscovery
from objectstates.evaluation import ClipScore, Evaluation, SeedSpread, evaluate
from objectstates.evaluation.precision import Side, score_clip

KMEANS_STARTS = 10  # as in the paper
SIDES: tuple[Side, Side] = ("states", "action")
_OF_THE_RUN = ("seed", "solver", "tol", "max_passes", "restarts")
SVM_C = 1.0  # scikit-learn's default; the paper does not give its value


@dataclass(frozen=True)
class MethodSettings:
    """Settings of all methods.

    model : the settings of all discoveries, and the seed of all methods.
    runs : number of runs of a random method that are averaged.
    seeds : number of seeds over which the spread of a method's precision is measured; with 1, none.
    detection_weight : of `joint_scores`. The paper does not give its value; this one had the best
        precision of several on synthetic corpora.
    """

    model: JointDiscovery = field(default_factory=JointDiscovery)
    runs: int = 10
    seeds: int = 1
    detection_weight: float = 0.1

    def __post_init__(self) -> None:
        for name in ("runs", "seeds"):
            if (value := getattr(self, name)) < 1:
                raise SettingError(f"`{name}` must be a whole number of at least 1, not {value}")

    def discovery(self, **changes: Any) -> JointDiscovery:
        """A discovery with these settings, some of them changed; the truth judges it."""
        return JointDiscovery(**{**self.model.get_params(), "verdict": False, **changes})

    def as_dict(self) -> dict[str, Any]:
        """All values, as part of the key of a cached score."""
        return {**asdict(self), "model": self.model.get_params()}


@dataclass(frozen=True)
class Method:
    """A method that finds states or actions.

    title : its name in tables; ``state_row`` and ``action_row`` are its rows in the paper's.
    on_request : whether a benchmark leaves it out unless it is named, because it takes long.
    """

    name: str
    title: str
    run: Callable[[Corpus, MethodSettings], Evaluation]
    state_row: str | None = None
    action_row: str | None = None
    on_request: bool = False

    def scores(self, corpus: Corpus, settings: MethodSettings) -> Evaluation:
        """Run the method; its scores with their spread over seeds, if it depends on the seed."""
        found = self.run(corpus, settings)
        if settings.seeds == 1 or self.name not in SEEDED:
            return found
        first, runs = settings.model.seed, [found]
        for seed in range(first + 1, first + settings.seeds):
            other = replace(settings, model=settings.discovery(seed=seed))
            runs.append(self.run(corpus, other))
        states, action = (
            float(np.std([run.precision(side) for run in runs], ddof=1)) for side in SIDES
        )
        return replace(found, spread=SeedSpread(states, action))


@dataclass(frozen=True)
class BaselineRow:
    """Precision of a method; None for a side without truth, or that the result did not seek."""

    method: str
    states: float | None
    action: float | None


def compare_with_baselines(result: Result, corpus: Corpus) -> list[BaselineRow]:
    """The precision of a result below that of chance and of the middle of the clip.

    The terminal and the report both show these rows. Empty if no truth is known. ``corpus`` has
    the truth, see `evaluate`: clips that the result left out count as wrong if it holds them.
    """
    found, chain = evaluate(result, corpus), corpus.for_changes(result.n_actions)
    fixed = "middle of the clip" if result.n_actions == 1 else "equal parts"
    rows = {"chance": chance(chain), fixed: middle(chain), "discovered": found}

    def known(scores: Evaluation, side: Side) -> float | None:
        value = scores.precision(side)
        return None if np.isnan(value + found.precision(side)) else value

    if np.isnan([found.state_precision, found.action_precision]).all():
        return []
    return [BaselineRow(n, known(row, "states"), known(row, "action")) for n, row in rows.items()]


# --- without learning -------------------------------------------------------------------------


def chance(corpus: Corpus, _settings: MethodSettings | None = None) -> Evaluation:
    """The expected scores of a random tracklet for each state and a random chunk in each clip.

    Only rows with truth count. The recall of one tracklet out of m is 1/m. The corpus is that of
    as many states as are scored; a step that a clip of a chain lacks is always wrong.
    """
    rows, numbers = [], range(1, corpus.n_states + 1)
    for n, clip in enumerate(corpus.clip_ids):
        truth = corpus.tracklets.label[list(corpus.tracklet_rows(n))]
        known = truth[truth != UNKNOWN]
        empty = np.nan if len(truth) or (corpus.tracklets.label == UNKNOWN).all() else 0.0
        precision = [float(np.mean(known == k)) if len(known) else empty for k in numbers]
        recall = [1 / len(truth) if (known == k).any() else np.nan for k in numbers]
        chunks = corpus.chunks.label[list(corpus.chunk_rows(n))]
        chunks = chunks[chunks != UNKNOWN]
        actions = [float(np.mean(chunks == k)) if len(chunks) else np.nan for k in numbers[:-1]]
        scores = tuple(precision), tuple(recall), tuple(actions)
        rows.append(ClipScore(clip, *scores, corpus.n_states))
    return Evaluation(tuple(rows))


def middle(corpus: Corpus, _settings: MethodSettings | None = None) -> Evaluation:
    """The action at the middle of every clip, whatever it shows: a fixed-position baseline.

    Of the allowed chunks it takes the one whose time is nearest to the middle between the clip's
    first and last chunk, the earlier of two at the same distance. Clips that are cut around the
    action make it strong. In a chain every state and action has an equal part of the clip.
    """
    table, rows = corpus.chunks, []
    for n in range(len(corpus)):
        mine = slice(corpus.chunk_rows(n).start, corpus.chunk_rows(n).stop)
        centres = action_middles(table.start[mine].min(), table.end[mine].max(), corpus.n_states)
        apart = np.abs(table.time[mine, None] - centres)
        chunks = np.where(table.allowed[mine], apart, np.inf).argmin(axis=0)
        rows.append(score_clip(corpus, n, None, chunks, corpus.n_states))
    return Evaluation(tuple(rows))


def action_middles(start: float, end: float, n_states: int) -> Array:
    """(K - 1,) the middles of the actions, where all states and actions have equal parts.

    >>> action_middles(0.0, 10.0, 2).tolist(), action_middles(0.0, 10.0, 3).tolist()
    ([5.0], [3.0, 7.0])
    """
    share = (2 * np.arange(1, n_states) - 0.5) / (2 * n_states - 1)
    return np.asarray(start * (1 - share) + end * share)


# --- clustering -------------------------------------------------------------------------------


def kmeans(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """Three clusters of tracklets, two of which are assigned to the states by the truth.

    There are no constraints, so a clip may lack a state, which counts as wrong.
    """
    from sklearn.cluster import KMeans

    features = corpus.tracklets.features
    if len(features) < 3:
        raise CorpusError(f"k-means with K=3 needs 3 tracklets or more, not {len(features)}")
    model = KMeans(3, n_init=KMEANS_STARTS, random_state=settings.model.seed)
    cluster = model.fit_predict(features)
    assignments = []
    for a, b in itertools.permutations(range(3), 2):
        state = np.where(cluster == a, 1, np.where(cluster == b, 2, 0))
        rows = (state[list(corpus.tracklet_rows(n))] for n in range(len(corpus)))
        scores = tuple(score_clip(corpus, n, row, None) for n, row in enumerate(rows))
        assignments.append(Evaluation(scores))
    return max(assignments, key=lambda scores: np.nan_to_num(scores.state_precision))


def constraints_only(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """States from random features, under the same constraints; the mean over runs.

    Like the paper's other rows for states alone it labels about one tracklet per state and clip,
    whatever the model's ``labelling``.
    """
    runs = []
    for run in range(settings.runs):
        seed = settings.model.seed
        noise = np.random.default_rng((seed, run)).standard_normal(
            corpus.tracklets.features.shape, np.float32
        )
        model = settings.discovery(
            target="state", labelling="paper", max_passes=50, seed=seed + run
        )
        runs.append(_discover(model, corpus.with_features(tracklets=noise)))
    return mean_of_runs(runs)


def salient(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """States alone, exactly one tracklet for each."""
    return _discover(_states_alone(settings, "exactly_one"), corpus)


def at_least_one(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """States alone, at least one tracklet for each."""
    return _discover(_states_alone(settings, "at_least_one"), corpus)


def joint(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """States and action together, with the given settings."""
    return _discover(settings.discovery(target="joint"), corpus)


def joint_paper(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """The joint model with the paper's coupling and rounding, whatever the settings."""
    model = settings.model
    kept = {name: getattr(model, name) for name in _OF_THE_RUN}
    return _discover(JointDiscovery.paper(**kept), corpus)


def joint_scores(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """The joint model with a preference for tracklets with high detection scores."""
    _check_scores(corpus)
    weight = settings.detection_weight
    return _discover(settings.discovery(target="joint", detection_weight=weight), corpus)


def state_scores(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """States alone, at least one tracklet for each, with a preference for high detection scores."""
    _check_scores(corpus)
    model = settings.discovery(
        target="state", labelling="paper", detection_weight=settings.detection_weight
    )
    return _discover(model, corpus)


def joint_gt_action(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """States by the joint model, with the true action as the feature of chunks."""
    truth = _complete_truth(corpus.chunks.label, "action")
    known = corpus.with_features(chunks=(truth == 1)[:, None])
    found = _discover(settings.discovery(target="joint"), known)
    return replace(found, rows=tuple(replace(row, actions=(np.nan,)) for row in found.rows))


def action_salient(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """The action alone, one chunk per clip (Bojanowski et al., ICCV 2015)."""
    return _discover(settings.discovery(target="action"), corpus)


def action_object_cues(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """The action alone, between the first and the last detection of the object."""
    allowed = corpus.chunks.allowed.copy()
    for n in range(len(corpus)):
        rows, tracklets = list(corpus.chunk_rows(n)), list(corpus.tracklet_rows(n))
        if tracklets:
            first = corpus.tracklets.start[tracklets].min()
            last = corpus.tracklets.end[tracklets].max()
            time = corpus.chunks.time[rows]
            within = allowed[rows, 0] & (time >= first) & (time <= last)
            if within.any():
                allowed[rows, 0] = within
    cued = replace(corpus, chunks=replace(corpus.chunks, allowed=allowed))
    return _discover(settings.discovery(target="action"), cued)


def joint_gt_states(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """The action by the joint model, with the true states as the features of tracklets."""
    truth = _complete_truth(corpus.tracklets.label, "states")
    known = corpus.with_features(tracklets=np.stack([truth == 1, truth == 2], axis=1))
    found = _discover(settings.discovery(target="joint"), known)
    no_states = (np.nan, np.nan)
    rows = tuple(ClipScore(r.clip, no_states, no_states, r.actions, 0) for r in found.rows)
    return replace(found, rows=rows)


def supervised(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """The best-scored chunk of a linear SVM trained on all other clips (Appendix E, row 1)."""
    return _leave_one_out(corpus, settings)


def supervised_trajectories(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    """The same with all channels of dense trajectories beside the features (Appendix E, row 2)."""
    from objectstates.evaluation.trajectory_bags import trajectory_bags

    bags = trajectory_bags(corpus, seed=settings.model.seed)
    completed = corpus.with_features(chunks=np.hstack([corpus.chunks.features, bags]))
    return _leave_one_out(completed, settings)


def _leave_one_out(corpus: Corpus, settings: MethodSettings) -> Evaluation:
    from sklearn.svm import LinearSVC

    table, truth = corpus.chunks, _complete_truth(corpus.chunks.label, "action")
    owner = np.repeat(np.arange(len(corpus)), np.diff(table.offsets))
    rows = []
    for n in range(len(corpus)):
        others = owner != n
        if len(set(truth[others])) < 2:
            raise TruthError(
                f"without clip {corpus.clip_ids[n]!r} there is nothing to train on: all chunks "
                "are the action, or none"
            )
        model = LinearSVC(C=SVM_C, dual="auto", max_iter=20_000, random_state=settings.model.seed)
        model.fit(table.features[others], truth[others])
        scores = model.decision_function(table.features[~others])
        best = int(np.argmax(np.where(table.allowed[~others, 0], scores, -np.inf)))
        rows.append(score_clip(corpus, n, None, best))
    return Evaluation(tuple(rows))


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("chance", "Chance", chance, "a", "i"),
        Method("kmeans", "K-means", kmeans, "b"),
        Method("constraints", "Constraints only", constraints_only, "c"),
        Method("salient", "Salient state only", salient, "d"),
        Method("at_least_one", "At least one state only", at_least_one, "e"),
        Method("state_scores", "States alone + detection scores", state_scores),
        Method("joint", "Joint model", joint, "f", "iv"),
        Method("joint_scores", "Joint + detection scores", joint_scores, "g"),
        Method("joint_gt_action", "Joint + true action", joint_gt_action, "h"),
        Method("action_salient", "Salient action only", action_salient, None, "ii"),
        Method(
            "action_object_cues", "Salient action + object cues", action_object_cues, None, "iii"
        ),
        Method("joint_gt_states", "Joint + true states", joint_gt_states, None, "v"),
        Method("supervised", "Supervised, leave one out", supervised, None, "E1"),
        Method(
            "supervised_trajectories",
            "Supervised + dense trajectories",
            supervised_trajectories,
            None,
            "E2",
            on_request=True,
        ),
        Method("middle", "Middle of the clip", middle),
        Method("joint_paper", "Joint model, paper's settings", joint_paper),
    )
}
"""All methods by name, in the order of the paper's tables."""

SEEDED = METHODS.keys() - {
    "chance", "middle", "supervised", "supervised_trajectories", "constraints",
}  # fmt: skip
"""The methods whose spread over seeds is measured; `constraints` has a standard error instead, and
the words of `supervised_trajectories` take long to learn."""


# --- helpers ----------------------------------------------------------------------------------


def _discover(model: JointDiscovery, corpus: Corpus) -> Evaluation:
    """Fit and evaluate. Clips that admit no labelling count as wrong and are in ``skipped``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleClipWarning)
        found = evaluate(model.fit(corpus).result_, corpus)
    return replace(found, gap=relative_gap(model))


def relative_gap(model: JointDiscovery) -> float:
    """The duality gap over the relaxed objective; 0 where both are rounding errors."""
    if model.converged_ and model.gap_ > model.tol * model.relaxed_objective_:
        return 0.0
    return float(model.gap_ / model.relaxed_objective_)


def _states_alone(settings: MethodSettings, constraint: ConstraintName) -> JointDiscovery:
    return settings.discovery(target="state", constraint=constraint, labelling="paper")


def mean_of_runs(runs: Sequence[Evaluation]) -> Evaluation:
    """Per-clip means over runs, and the standard error of the state precision over runs."""
    rows = []
    for clip in zip(*(run.rows for run in runs), strict=True):
        first, *others = (row.columns for row in clip)
        names = [name for name in first if name != "clip"]
        means = {name: float(np.mean([row[name] for row in (first, *others)])) for name in names}
        rows.append(ClipScore.from_columns({"clip": clip[0].clip, **means}))
    totals = [run.state_precision for run in runs]
    error = float(np.std(totals, ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else np.nan
    return Evaluation(tuple(rows), runs[0].skipped, error)


def _check_scores(corpus: Corpus) -> None:
    if len(np.unique(corpus.tracklets.score)) < 2:
        raise CorpusError("there are no detection scores: all are the same")


def _complete_truth(label: Array, what: str) -> Array:
    if (label == UNKNOWN).any():
        raise TruthError(
            f"the true {what} of some clips is not known: this method needs it for all"
        )
    return label

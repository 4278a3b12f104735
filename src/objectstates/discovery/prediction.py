"""Labels of clips that were not in a fit: fixed classifiers, joint rounding, the same labelling."""

from __future__ import annotations

import numpy as np

from objectstates.base.errors import CorpusError
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Classifier, Result
from objectstates.discovery.constraints import Formulation
from objectstates.discovery.corrections import Bounds
from objectstates.discovery.labelling import (
    NO_BOUNDS,
    label_alike,
    label_as_rounded,
    without_lacking,
)
from objectstates.discovery.result_assembly import columns
from objectstates.solver.problem import Scales
from objectstates.solver.rounding import joint_rounding


def predict(
    learned: Result, corpus: Corpus, formulation: Formulation, bounds: Bounds = NO_BOUNDS
) -> Result:
    """Label clips that all admit a labelling by what was learned on others; without a summary.

    bounds : of clips with corrections.
    """
    classifiers = learned.classifiers
    corpus = corpus.for_changes(learned.n_actions)
    n_chunks, action_scores = _scores(
        classifiers.get("action"), corpus.chunks.features, learned.n_actions
    )
    n_tracklets, state_scores = _scores(
        classifiers.get("state"), corpus.tracklets.features, learned.n_states
    )
    held_out = learned.summary["labelled"] == "held_out"
    sizes = n_chunks, n_tracklets
    action, state = formulation.constraints(corpus, *sizes, required=held_out)
    scales = Scales(n_chunks, n_tracklets, learned.summary["coupling_per_second"])
    labels = joint_rounding(action, state, action_scores, state_scores, scales)
    if held_out and formulation.optional:
        labels = without_lacking(corpus, *labels, action_scores, state_scores, formulation.steps)
    found = label_as_rounded(corpus, *labels, action_scores, state_scores, bounds)
    if held_out:
        _, optional = formulation.constraints(corpus, *sizes)
        found = label_alike(corpus, found, optional, learned.summary["detection_scale"], bounds)
    return Result(
        **columns(corpus, found), classifiers=classifiers, settings=learned.settings, summary={}
    )


def _scores(classifier: Classifier | None, features: Array, n_columns: int) -> tuple[int, Array]:
    """How many rows a classifier was learned on, and its scores; none without a classifier."""
    if classifier is None:
        return 0, np.empty((0, n_columns))
    return classifier.n_rows, classifier.scores(features)


def check_lengths(corpus: Corpus, learned_on: Corpus) -> None:
    """Raise if ingest made tracklets or chunks of other lengths than the classifiers know."""
    made, known = (c.info.get("ingest") for c in (corpus, learned_on))
    if not (isinstance(made, dict) and isinstance(known, dict)):
        return
    for name in ("tracklet", "chunk"):
        found, expected = (facts.get(f"{name}_seconds") for facts in (made, known))
        if found is not None and expected is not None and found != expected:
            raise CorpusError(
                f"the corpus has {name}s of {found:g} s, but the model was learned on {name}s of "
                f"{expected:g} s: ingest the clips with `like`, the corpus of the model"
            )


def check_sizes(corpus: Corpus, classifiers: dict[str, Classifier]) -> None:
    """Raise unless the corpus has features of the size that the classifiers were learned on."""
    features = {"state": corpus.tracklets.features, "action": corpus.chunks.features}
    for side, classifier in classifiers.items():
        found, expected = features[side].shape[1], len(classifier.weights)
        if found != expected and len(features[side]):
            raise CorpusError(
                f"the {side} features have size {found}, but the classifier was learned on size "
                f"{expected}: make the corpus with the same features"
            )

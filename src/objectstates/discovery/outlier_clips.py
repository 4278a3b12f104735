"""Outlier clips: clips unlike the others, which nothing should be learned from.

Clips retrieved by narration need not show the action, and a discovery must explain every clip, so
that wrong ones distort the rest. This is least trimmed squares of robust regression (Rousseeuw and
Van Driessen, 1999) with a discovery in place of the regression. The evidence for a clip is how
classifiers learned without it score its labels (``Result.evidence``). A discovery in any subset of
the clips ranks all clips, and one in the better half of them, the core, finds more in common; after
a few such concentration steps the core is stable. The search starts from all clips, and from random
subsets, and keeps the core with the most evidence, on a scale that discoveries share. Finally all
clips with evidence like the core's are admitted. Every discovery starts afresh, so nothing learned
from an outlier remains, and the certificate is that of the last discovery's clips.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

import numpy as np

from objectstates.data.actions import Actions
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Result, SkippedClip
from objectstates.solver.oracle import TIE

LIKE = 0.5  # a clip with this share of the core's median evidence is no outlier
FEWEST = 5  # clips that can be learned from
STARTS, DRAWN = 8, 8  # searches from random subsets, and clips in each
STEPS = 2  # concentration steps of a search before it is judged
SAMPLE = 60  # clips that are searched, a random sample if there are more
ROUNDS = 2  # admissions of clips after the search

Discover = Callable[[Corpus], Result]
Predict = Callable[[Result, Corpus], Result]


def discover_without_outliers(
    corpus: Corpus, discover: Discover, predict: Predict, *, seed: int = 0
) -> Result:
    """A result of discovery in the clips that are alike, and of prediction in the outliers.

    discover : called some twenty times, mostly on half of the clips.
    predict : labels another corpus with the classifiers of a result.
    """
    if len(corpus) <= FEWEST:
        return discover(corpus)
    size = _core_size(len(corpus))
    kept = _best_core(corpus, discover, predict, np.random.default_rng(seed))
    for _ in range(ROUNDS):
        found = discover_in(corpus, kept, discover, predict)
        kept = np.flatnonzero(alike(found.evidence, size))
    return discover_in(corpus, kept, discover, predict)


def alike(evidence: Array, core: int) -> Array:
    """(N,) which clips are like the ``core`` clips of most evidence, those included."""
    order = by_evidence(evidence)
    like = evidence >= LIKE * np.median(evidence[order[:core]])
    like[order[:core]] = True
    return np.asarray(like)


def by_evidence(evidence: Array) -> Array:
    """(N,) the clips, most evidence first; clips whose evidence differs by rounding errors stay in
    their order."""
    return np.argsort(-np.round(evidence / TIE), kind="stable")


def _core_size(n_clips: int) -> int:
    return max(FEWEST, (n_clips + 1) // 2)


def _best_core(
    corpus: Corpus, discover: Discover, predict: Predict, rng: np.random.Generator
) -> Array:
    """The half of the clips with the most evidence, over all starts."""
    sample = np.sort(rng.permutation(len(corpus))[:SAMPLE])
    clips = corpus.select(sample)
    size, best = _core_size(len(clips)), -np.inf
    for start in range(1 + STARTS):
        kept = np.arange(len(clips))
        if start:
            kept = np.sort(rng.permutation(len(clips))[: min(DRAWN, size)])
        for _ in range(STEPS):
            evidence = discover_in(clips, kept, discover, predict).raw_evidence
            kept = np.sort(by_evidence(evidence)[:size])
        if (quality := float(evidence[kept].mean())) > best + TIE:
            best, core = quality, kept
    if len(clips) == len(corpus):
        return core
    evidence = discover_in(corpus, sample[core], discover, predict).evidence
    return np.sort(by_evidence(evidence)[: _core_size(len(corpus))])


def discover_in(corpus: Corpus, kept: Array, discover: Discover, predict: Predict) -> Result:
    """A discovery in the clips ``kept``, with predictions for the rest."""
    found = discover(corpus.select(kept))
    rest = np.setdiff1d(np.arange(len(corpus)), kept)
    return _merge(corpus, kept, found, rest, predict) if len(rest) else found


def _merge(corpus: Corpus, kept: Array, found: Result, rest: Array, predict: Predict) -> Result:
    """One result on all of ``corpus``: found in the clips ``kept``, predicted in the ``rest``."""
    parts = ((kept, found), (rest, predict(found, corpus.select(rest))))
    columns: dict[str, Any] = {}
    for name, offsets in (
        ("actions.chunk", np.arange(len(corpus) + 1)),
        ("actions.time", np.arange(len(corpus) + 1)),
        ("actions.span", np.arange(len(corpus) + 1)),
        ("actions.scores", corpus.chunks.offsets),
        ("state", corpus.tracklets.offsets),
        ("state_scores", corpus.tracklets.offsets),
    ):
        values = attrgetter(name)
        like = values(found)
        column = np.empty((offsets[-1], *like.shape[1:]), like.dtype)
        for clips, part in parts:
            rows = [np.arange(offsets[n], offsets[n + 1]) for n in clips]
            column[np.concatenate(rows)] = values(part)
        columns[name] = column
    merged = replace(
        found,
        corpus=corpus.without_features(),
        actions=Actions(*(columns[f"actions.{f.name}"] for f in fields(Actions))),
        state=columns["state"],
        state_scores=columns["state_scores"],
    )
    typical = float(np.median(found.evidence))
    outliers = tuple(
        SkippedClip(
            corpus.clip_ids[n],
            f"looks like none of the clips learned from: evidence {merged.evidence[n]:.2f}, "
            f"theirs {typical:.2f}",
        )
        for n in rest
    )
    return replace(merged, set_aside=outliers)

"""Clips that look like none of the others, so that nothing is learned from them.

Clips that were found by what is said in videos need not show the action, and a discovery must
explain every clip, so that wrong ones spoil the rest. This is the least trimmed squares of robust
regression (Rousseeuw and Van Driessen, 1999) with a discovery for a regression. Evidence that a
clip belongs to the others is how classifiers learned without it score what was labelled in it
(``Result.evidence``). A discovery in any clips ranks all clips, and one in the better half of them,
the core, finds more that is alike; after a few such steps it is stuck. So the search begins with
all clips, and anew with some few drawn by lot, and the start is taken whose core has the most
evidence, on a scale that discoveries share. In the end all clips are let in whose evidence is like
the core's. Every discovery starts from nothing, so nothing that was learned from a wrong clip
stays, and the certificate is that of the clips that the last one learned from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Result, SkippedClip

LIKE = 0.5  # clips are like the core that have this share of its median evidence
FEWEST = 5  # clips that something can be learned from
STARTS, DRAWN = 8, 8  # searches that begin with clips drawn by lot, and how many clips
STEPS = 2  # discoveries of a search before it is judged
SAMPLE = 60  # clips among which is searched; drawn by lot if there are more
ROUNDS = 2  # how often clips are let in again

Discover = Callable[[Corpus], Result]
Predict = Callable[[Result, Corpus], Result]


def without_strangers(
    corpus: Corpus, discover: Discover, predict: Predict, *, seed: int = 0
) -> Result:
    """What is found in the clips that are alike, and by prediction in the others.

    discover : finds in a corpus; called some twenty times, mostly on half of the clips.
    predict : labels another corpus by a result of it.
    """
    if len(corpus) <= FEWEST:
        return discover(corpus)
    size = _core_size(len(corpus))
    kept = _best_core(corpus, discover, predict, np.random.default_rng(seed))
    for _ in range(ROUNDS):
        whole = _look(corpus, kept, discover, predict)
        kept = np.flatnonzero(alike(whole.evidence, size))
    return _look(corpus, kept, discover, predict)


def alike(evidence: Array, core: int) -> Array:
    """(N,) which clips are like the ``core`` clips that have the most evidence, those included."""
    order = np.argsort(-evidence, kind="stable")
    like = evidence >= LIKE * np.median(evidence[order[:core]])
    like[order[:core]] = True
    return np.asarray(like)


def _core_size(n_clips: int) -> int:
    return max(FEWEST, (n_clips + 1) // 2)


def _best_core(
    corpus: Corpus, discover: Discover, predict: Predict, rng: np.random.Generator
) -> Array:
    """The half of the clips in which the most was found that is alike."""
    sample = np.sort(rng.permutation(len(corpus))[:SAMPLE])
    clips = corpus.select(sample)
    size, best = _core_size(len(clips)), -np.inf
    for start in range(1 + STARTS):
        kept = np.arange(len(clips))
        if start:
            kept = np.sort(rng.permutation(len(clips))[: min(DRAWN, size)])
        for _ in range(STEPS):
            evidence = _look(clips, kept, discover, predict).raw_evidence
            kept = np.sort(np.argsort(-evidence, kind="stable")[:size])
        if (quality := float(evidence[kept].mean())) > best:
            best, core = quality, kept
    if len(clips) == len(corpus):
        return core
    evidence = _look(corpus, sample[core], discover, predict).evidence
    return np.sort(np.argsort(-evidence, kind="stable")[: _core_size(len(corpus))])


def _look(corpus: Corpus, kept: Array, discover: Discover, predict: Predict) -> Result:
    """A discovery in the clips ``kept``, with predictions for the rest."""
    found = discover(corpus.select(kept))
    rest = np.setdiff1d(np.arange(len(corpus)), kept)
    return _merge(corpus, kept, found, rest, predict) if len(rest) else found


def _merge(corpus: Corpus, kept: Array, found: Result, rest: Array, predict: Predict) -> Result:
    """One result on all of ``corpus``: found in the clips ``kept``, predicted in the ``rest``."""
    parts = ((kept, found), (rest, predict(found, corpus.select(rest))))
    columns: dict[str, Any] = {}
    for name, offsets in (
        ("action_chunk", np.arange(len(corpus) + 1)),
        ("action_span", np.arange(len(corpus) + 1)),
        ("action_scores", corpus.chunks.offsets),
        ("state", corpus.tracklets.offsets),
        ("state_scores", corpus.tracklets.offsets),
    ):
        like = getattr(found, name)
        column = np.empty((offsets[-1], *like.shape[1:]), like.dtype)
        for clips, part in parts:
            rows = [np.arange(offsets[n], offsets[n + 1]) for n in clips]
            column[np.concatenate(rows)] = getattr(part, name)
        columns[name] = column
    whole = replace(found, corpus=corpus.without_features(), **columns)
    typical = float(np.median(found.evidence))
    strangers = tuple(
        SkippedClip(
            corpus.clip_ids[n],
            f"looks like none of the clips learned from: evidence {whole.evidence[n]:.2f}, "
            f"theirs {typical:.2f}",
        )
        for n in rest
    )
    return replace(whole, set_aside=strangers)

"""Clips that look like none of the others, so that nothing is learned from them.

Clips that were found by what is said in videos need not show the action, and a discovery must
explain every clip, so that some wrong ones spoil the rest. Evidence that a clip belongs to the
others is how classifiers learned without it score what was labelled in it (``Result.evidence``).
The half of the clips with the most evidence, the core, is discovered in alone; then all clips whose
evidence is like the core's are let in again, those first left out by their predicted labels. Every
discovery starts anew, so nothing that was learned from a wrong clip stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from objectstates.corpus import Array, Corpus
from objectstates.result import Result, SkippedClip

STRANGE = 0.4  # without a clip below this share of the core's median evidence, all are kept
LIKE = 0.5  # else those are like the core that have this share of it
ROUNDS = 2  # how often clips are let in again
FEWEST = 5  # clips that something can be learned from

Discover = Callable[[Corpus], Result]
Predict = Callable[[Result, Corpus], Result]


def without_strangers(corpus: Corpus, discover: Discover, predict: Predict) -> Result:
    """What is found in the clips that are alike, and by prediction in the others.

    discover : finds in a corpus; called up to four times.
    predict : labels another corpus by a result of it.
    """
    everything = np.arange(len(corpus))
    size = max(FEWEST, (len(corpus) + 1) // 2)
    found = discover(corpus)
    if len(corpus) <= size or alike(found.evidence, size, STRANGE).all():
        return found
    kept = np.sort(np.argsort(-found.evidence, kind="stable")[:size])
    for round_left in reversed(range(ROUNDS + 1)):
        found = discover(corpus.select(kept))
        rest = np.setdiff1d(everything, kept)
        whole = _merge(corpus, kept, found, rest, predict) if len(rest) else found
        like = np.flatnonzero(alike(whole.evidence, size))
        if not round_left or np.array_equal(like, kept):
            break
        kept = like
    return whole


def alike(evidence: Array, core: int, share: float = LIKE) -> Array:
    """(N,) which clips are like the ``core`` clips that have the most evidence, those included."""
    order = np.argsort(-evidence, kind="stable")
    like = evidence >= share * np.median(evidence[order[:core]])
    like[order[:core]] = True
    return np.asarray(like)


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

"""Which clip to ask a person about next.

The clip whose action is least likely to be right, by the verdict's chances (``verdict.py``): if it
is wrong, correcting it is worth most, and if it is right, confirming it costs one glance.

Without a verdict, the clip that stands for most others: a correction helps the clips that resemble
the corrected one. The order is then that of greedy facility location, in which the next clip is the
one that raises

    sum over clips m of  max over corrected or listed clips c of  similarity(c, m)

most. The most typical clip comes first; a clip like one that is corrected already comes late.
Similarity is that of the mean appearance of all tracklets (docs/corrections.md).
"""

from __future__ import annotations

import numpy as np

from objectstates.base.errors import CorpusError
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Result


def ask_next(result: Result, corpus: Corpus | None = None) -> tuple[str, ...]:
    """The clips without corrections, those first whose action is least likely to be right.

    corpus : the one that was fitted, with its features. Without chances and without a corpus, the
        order is that of least evidence.
    """
    left = ~result.corrected
    if result.confidences is not None or corpus is None:
        known = result.confidences
        chance = result.evidence if known is None else chances_to_ask_by(known)
        order = np.argsort(chance, kind="stable")
        return tuple(result.clips[n] for n in order if left[n])
    rows = {clip: n for n, clip in enumerate(corpus.clip_ids)}
    try:
        clips = corpus.select([rows[clip] for clip in result.clips])
    except KeyError as problem:
        raise CorpusError(f"the corpus lacks clip {problem}, which the result has") from None
    chosen = facility_location(similarities(clips), np.flatnonzero(~left))
    return tuple(result.clips[n] for n in chosen)


def chances_to_ask_by(confidences: Array) -> Array:
    """(N,) that the action is right; that the states are, where no action was sought."""
    action, states = confidences[:, 0], confidences[:, 1:].min(axis=1)
    return np.asarray(np.where(np.isnan(action), states, action))


def similarities(corpus: Corpus) -> Array:
    """(N, N) cosines of the clips' mean appearance, relative to that of all clips."""
    table = corpus.tracklets
    means = np.zeros((len(corpus), table.features.shape[1]))
    for n in range(len(corpus)):
        rows = corpus.tracklet_rows(n)
        if len(rows):
            means[n] = table.features[rows.start : rows.stop].mean(axis=0, dtype=np.float64)
    means -= means.mean(axis=0)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    means = np.divide(means, lengths, out=np.zeros_like(means), where=lengths > 0)
    return np.asarray(means @ means.T)


def facility_location(similarity: Array, chosen: Array, *, most: int | None = None) -> list[int]:
    """The other items in the order in which they cover the items best, after those ``chosen``.

    similarity : (N, N) from -1 to 1.
    most : only the first so many; all unless given.
    """
    n = len(similarity)
    covered = np.full(n, -1.0)
    if len(chosen):
        covered = similarity[:, chosen].max(axis=1)
    left, order = np.setdiff1d(np.arange(n), chosen), list[int]()
    while len(left) and (most is None or len(order) < most):
        gain = np.maximum(similarity[:, left] - covered[:, None], 0).sum(axis=0)
        best = int(left[int(gain.argmax())])
        order.append(best)
        covered = np.maximum(covered, similarity[:, best])
        left = left[left != best]
    return order

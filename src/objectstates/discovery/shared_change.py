"""Does the action change the picture alike in all clips?

Motion alone does not tell that clips show the same manipulation: one hand, or one robot, moves
alike whatever it does. What the action leaves behind does. A linear discriminant is learned from
how chunks look before and after the actions of the other clips, and tells the two apart in a clip
that it has not seen. In clips of one manipulation it can; where every clip changes in another way,
it cannot do much better than chance.

Rows are centred in their clip, so what distinguishes the scenes of clips does not count. With C the
centred rows (T, d), w_n (T,) such that C'w_n is the mean after the action of clip n less the mean
before it, and a ridge r, the discriminant of all clips but n is

    v = (C'C / T + r I)^-1 C' sum_{m != n} w_m  =  C' (CC' / T + r I)^-1 sum_{m != n} w_m.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import blas, cho_factor, cho_solve

from objectstates.data.corpus import Array, Corpus
from objectstates.discovery.replication import SAMPLE, without_change
from objectstates.features.object_motion import OBJECT_MOTION_DIM

MOST = 12  # chunks before the action, and after it, that are looked at in a clip; evenly spaced
RIDGE = 0.1  # relative to the mean squared length of the rows
LEAST_RIDGE = 1e-12  # of rows that are all alike


def appearance(corpus: Corpus) -> Array:
    """(T, d) features of chunks without the first camera's motion and the change profile.

    Motion tells what a clip does, and not what it has reached.
    """
    features = without_change(corpus).chunks.features
    if _is_dense(corpus) and features.shape[1] > OBJECT_MOTION_DIM:
        features = features[:, OBJECT_MOTION_DIM:]
    return features


def _appearance_of_first_camera(corpus: Corpus) -> Array | None:
    """(T, d) of features that ingest has made; None if appearance cannot be told from the rest."""
    dataset = corpus.info.get("dataset")
    if not _is_dense(corpus) or corpus.info["ingest"].get("signals", "none") != "none":
        return None
    features = without_change(corpus).chunks.features
    cameras = len(dataset["cameras"]) if isinstance(dataset, dict) else 1
    first = features[:, OBJECT_MOTION_DIM : features.shape[1] // cameras]
    return first if first.shape[1] else None


def _is_dense(corpus: Corpus) -> bool:
    """Whether ingest has put motion and appearance side by side in the features of chunks."""
    made = corpus.info.get("ingest")
    return isinstance(made, dict) and made.get("chunks", "dense") == "dense"


def told_apart(
    corpus: Corpus, spans: Array, windows: Array, learned: Array, *, seed: int = 0
) -> Array:
    """(N,) how surely the other clips tell what comes after a clip's action from what comes before:
    the probability that a chunk after it scores higher than one before it.

    NaN where there is nothing before or after the action, and if the appearance is not known.

    spans : (N, 2) start and end of the action.
    windows : (N, 2) seconds that belong to the action; those of other actions lie outside.
    learned : the clips to learn from, by their indices.
    """
    separations = np.full(len(corpus), np.nan)
    features = _appearance_of_first_camera(corpus)
    if features is None or not features.any():
        return separations
    sides = [_sides(corpus, n, spans[n], windows[n]) for n in range(len(corpus))]
    usable = [n for n in learned if all(map(len, sides[n]))]
    sample = np.sort(np.random.default_rng(seed).permutation(usable)[:SAMPLE]).astype(np.int64)
    if len(sample) < 2:
        return separations
    parts, weights = [_centred(features, sides[n]) for n in sample], []
    for n in sample:
        before, after = map(len, sides[n])
        weights.append(np.repeat([-1 / before, 1 / after], [before, after]))
    discriminants = _discriminants(parts, weights)
    column_of = {int(n): column for column, n in enumerate(sample)}
    for n, side in enumerate(sides):
        if all(map(len, side)):
            scores = _centred(features, side) @ discriminants[:, column_of.get(n, len(sample))]
            low, high = np.split(scores, [len(side[0])])
            apart = high[:, None] - low[None]
            separations[n] = ((apart > 0).mean() + (apart >= 0).mean()) / 2
    return separations


def _sides(corpus: Corpus, n: int, span: Array, window: Array) -> tuple[Array, Array]:
    """The rows of chunks of clip n before and after its action."""
    rows = np.array(corpus.chunk_rows(n))
    times = corpus.chunks.time[rows]
    before = rows[(times < span[0]) & (times >= window[0])]
    after = rows[(times > span[1]) & (times <= window[1])]
    return _evenly(before), _evenly(after)


def _evenly(rows: Array) -> Array:
    if len(rows) <= MOST:
        return rows
    return np.asarray(rows[np.linspace(0, len(rows) - 1, MOST).round().astype(np.int64)])


def _centred(features: Array, sides: tuple[Array, Array]) -> Array:
    """The rows before, then those after, in float64, relative to their mean."""
    rows = features[np.concatenate(sides)].astype(np.float64)
    return np.asarray(rows - rows.mean(axis=0))


def _discriminants(parts: Sequence[Array], weights: Sequence[Array]) -> Array:
    """(d, n + 1) the discriminants without each of the n clips in turn, then that of all.

    parts : of each clip, the centred rows. weights : of each clip, w_n at its own rows.
    """
    rows = np.concatenate(parts)
    gram = blas.dsyrk(1 / len(rows), rows.T, trans=1, lower=1)  # its lower triangle
    gram[np.diag_indices(len(gram))] += max(RIDGE * float(np.trace(gram)), LEAST_RIDGE)
    weights_without = np.tile(np.concatenate(weights)[:, None], len(parts) + 1)
    last = np.cumsum([len(part) for part in parts])
    for column, (end, part) in enumerate(zip(last, parts, strict=True)):
        weights_without[end - len(part) : end, column] = 0.0
    dual = cho_solve(cho_factor(gram, lower=True, overwrite_a=True), weights_without)
    return np.asarray(rows.T @ dual)

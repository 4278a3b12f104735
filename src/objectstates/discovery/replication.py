"""Replication: does what was found in some clips hold in others?

The clips are divided at random into four parts. Classifiers learned on three of them label the
fourth, and their labels are compared with those of the whole discovery. A discovery that explains
noise does not replicate, however low its objective is. Agreement between seeds says nothing: all of
them explain the same noise.

With the change profile among the features the action would replicate for a trivial reason: in every
clip it is where the profile has its peak. So the parts are learned without it, from motion and
appearance alone. Where these place the action in a clip that they have not seen, and when the
picture of that clip changes for good, are two independent answers to the same question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from objectstates.data.clips import ChangeProfile
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Result
from objectstates.discovery.chain_change import has_change_columns
from objectstates.features.change_columns import WIDTHS, intensity

PARTS, REPEATS = 4, 3  # of the division: twelve discoveries
SAMPLE = 60  # clips that are divided, a random sample if there are more
NEAR = 3.0  # chunks between a learned action and the peak of the change that count as the same

Discover = Callable[[Corpus, Sequence[Array]], Iterable[Result]]
"""Discoveries in parts of a corpus, each given by the indices of its clips, in order."""
Predict = Callable[[Result, Corpus], Result]


@dataclass(frozen=True, eq=False)
class Replication:
    """What classifiers of other clips say about each clip; means over all of them, NaN if unknown.

    action : (N,) share of them that place the action in the span found, or next to it.
    cues : (N,) share of them that place it at the peak of the clip's change.
    action_chance, cues_chance : (N,) both for a time drawn at random.
    states : (N, 2) share of the tracklets found in each state that get the same one.
    """

    action: Array
    action_chance: Array
    cues: Array
    cues_chance: Array
    states: Array


def replicate(
    corpus: Corpus,
    found: Result,
    learned: Array,
    discover: Discover,
    predict: Predict,
    *,
    seed: int = 0,
) -> tuple[Replication, ...]:
    """Compare ``found``, the result on ``corpus``, with results on parts of it; for each change.

    learned : the clips to learn from, all but outliers.
    discover : called once, for twelve parts of the clips to learn from, or of a sample of them.
    predict : labels another corpus with the classifiers of a result.
    """
    compared = [
        _Comparison(own_changes(corpus, found, k), found.change(k)) for k in range(found.n_actions)
    ]
    bare, rng = without_change(corpus), np.random.default_rng(seed)
    sample = learned if len(learned) <= SAMPLE else np.sort(rng.permutation(learned)[:SAMPLE])
    parts = list(_parts(len(sample), rng))
    results = discover(bare.select(sample), parts) if parts else ()
    for own, result in zip(parts, results, strict=True):
        other = np.setdiff1d(np.arange(len(corpus)), sample[own])
        labelled = predict(result, bare.select(other))
        for k, comparison in enumerate(compared):
            comparison.add(other, labelled.change(k))
    return tuple(comparison.means() for comparison in compared)


def own_changes(corpus: Corpus, found: Result, k: int) -> Corpus:
    """The corpus with the part of its change profiles that belongs to action k of a chain: from
    half the way from the action before to half the way to the next."""
    if found.n_actions == 1:
        return corpus
    changes = []
    for times, profile in zip(found.actions.time, corpus.changes, strict=True):
        known = np.flatnonzero(~np.isnan(times))
        if profile is None or k not in known:
            changes.append(profile)
            continue
        middles = (times[known[1:]] + times[known[:-1]]) / 2
        at = int(np.searchsorted(known, k))
        low, high = [-np.inf, *middles, np.inf][at : at + 2]
        bins = profile.start + profile.step * (np.arange(len(profile.curve)) + 0.5)
        mine = (bins >= low) & (bins < high)
        changes.append(replace(profile, curve=np.where(mine, profile.curve, np.float32(0))))
    return replace(corpus, changes=tuple(changes))


def without_change(corpus: Corpus) -> Corpus:
    """The corpus without change profiles and their columns."""
    features = corpus.chunks.features
    if has_change_columns(corpus, features.shape[1]):
        corpus = corpus.with_features(chunks=features[:, : -len(WIDTHS)])
    return replace(corpus, changes=(None,) * len(corpus))


def peak_time(profile: ChangeProfile | None, chunk: float) -> float:
    """When the change is most intense, in seconds; NaN where nothing changes, or it is not known.

    chunk : seconds of a chunk.
    """
    if profile is None or not profile.curve.any():
        return np.nan
    at = int(intensity(profile, chunk).argmax())
    return float(profile.start + profile.step * (at + 0.5))


def separately(discover: Callable[[Corpus], Result]) -> Discover:
    """Discoveries in parts that share nothing."""
    return lambda corpus, parts: (discover(corpus.select(part)) for part in parts)


def _parts(n_clips: int, rng: np.random.Generator) -> Iterator[Array]:
    """The clips to learn on, by their indices: all but a part of them, in turn."""
    for _ in range(REPEATS):
        order = rng.permutation(n_clips)
        for part in range(min(PARTS, n_clips) if n_clips > 1 else 0):
            yield np.sort(np.delete(order, np.s_[part::PARTS]))


class _Comparison:
    """How labels by classifiers of other clips agree with those found."""

    def __init__(self, corpus: Corpus, found: Result) -> None:
        n, chunks = len(corpus), corpus.chunks
        self._found, self._offsets = found, corpus.tracklets.offsets
        self._chunk = float(np.median(chunks.end - chunks.start)) if len(chunks.end) else np.nan
        bounds = [corpus.chunk_rows(k) for k in range(n)]
        lengths = np.array(
            [chunks.end[r[-1]] - chunks.start[r[0]] if r else np.nan for r in bounds]
        )
        self._profiled = any(corpus.changes)
        self._peaks = np.array([peak_time(change, self._chunk) for change in corpus.changes])
        span = np.diff(found.action_span, axis=1)[:, 0]
        self._chances = (
            np.minimum((span + 2 * self._chunk) / lengths, 1),
            np.minimum(2 * NEAR * self._chunk / lengths, 1),
        )
        self._action: list[Array] = []
        self._cues: list[Array] = []
        self._states: list[Array] = []

    def add(self, clips: Array, labelled: Result) -> None:
        """Compare the labels of ``clips`` by classifiers of others."""
        n = len(self._found.clips)
        start, end = self._found.action_span[clips].T
        time = labelled.action_time
        near = (time >= start - self._chunk) & (time <= end + self._chunk)
        self._action.append(_scattered(np.where(np.isnan(time), np.nan, near), clips, n))
        if self._profiled:  # a clip in which nothing changes agrees with none
            at_peak = np.abs(time - self._peaks[clips]) <= NEAR * self._chunk
            self._cues.append(_scattered(np.where(np.isnan(time), np.nan, at_peak), clips, n))
        states = np.full((n, 2), np.nan)
        for k, clip in enumerate(clips):
            mine = slice(*labelled.corpus.tracklets.offsets[k : k + 2])
            found = self._found.state[slice(*self._offsets[clip : clip + 2])]
            states[clip] = [_share(labelled.state[mine][found == s] == s) for s in (1, 2)]
        self._states.append(states)

    def means(self) -> Replication:
        n = len(self._found.clips)
        action_chance, cues_chance = self._chances
        return Replication(
            action=_mean(self._action, (n,)),
            action_chance=action_chance,
            cues=_mean(self._cues, (n,)),
            cues_chance=cues_chance,
            states=_mean(self._states, (n, 2)),
        )


def _scattered(values: Array, rows: Array, count: int) -> Array:
    column = np.full(count, np.nan)
    column[rows] = values
    return column


def _share(right: Array) -> float:
    return float(right.mean()) if len(right) else 0.0


def _mean(columns: list[Array], shape: tuple[int, ...]) -> Array:
    """Mean of what is known."""
    stacked = np.stack([np.full(shape, np.nan), *columns])
    known = (~np.isnan(stacked)).sum(axis=0)
    return np.where(known > 0, np.nansum(stacked, axis=0) / np.maximum(known, 1), np.nan)

"""Baselines for chains of changes: each labels a corpus, as a discovery would.

A method without an extent of its own gives every action the length of an equal part of the clip:
one of 2 K - 1, for K states and K - 1 actions. All label every step, also optional ones, but for
`true_labels`, the truth itself: what the tracklets and chunks of the corpus allow at best.

* `ordered_chance`: random chunks as actions and one random tracklet per state, in order.
* `equal_parts`: every state and action has an equal part of the clip. This and the next are the
  baselines of Sarfraz et al. (Temporally-Weighted Hierarchical Clustering, CVPR 2021).
* `ordered_kmeans`: the tracklets of each clip in K clusters, numbered by their mean time. An action
  is where the fewest tracklets are on the wrong side.
* `independent_fits`: discoveries of a single change, one after the other. The first is made in
  whole clips. All clips are then cut at its action, into the part before it and the part after it,
  and the next is made in the part of which more seconds are left in all clips together; and so on
  until there are K - 1 actions. (To choose the part by the evidence of fits to both finds less.) A
  state has the tracklets that the last fit with it in one of its two parts labelled.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from objectstates.base.errors import ObjectStatesError
from objectstates.data.actions import Actions
from objectstates.data.clips import ChangeProfile
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Result
from objectstates.discovery.constraints import InfeasibleClipWarning
from objectstates.discovery.estimator import JointDiscovery
from objectstates.evaluation.baselines import KMEANS_STARTS, action_middles


def ordered_chance(corpus: Corpus, *, seed: int = 0) -> Result:
    """Random chunks and tracklets, in order; fewer where a clip has too few."""
    rng, n_actions = np.random.default_rng(seed), corpus.n_states - 1
    state = np.zeros(len(corpus.tracklets.start), np.int8)
    chunk = np.full((len(corpus), n_actions), -1)
    for n in range(len(corpus)):
        rows, count = corpus.tracklet_rows(n), len(corpus.chunk_rows(n))
        labelled = _in_order(rng, len(rows), corpus.n_states)
        state[rows.start + labelled] = np.arange(1, len(labelled) + 1)
        chosen = _in_order(rng, count, n_actions)
        chunk[n, : len(chosen)] = chosen
    return as_result(corpus, chunk, state)


def _in_order(rng: np.random.Generator, n: int, count: int) -> Array:
    """At most ``count`` of n rows, at random."""
    return np.sort(rng.permutation(n)[:count])


def equal_parts(corpus: Corpus) -> Result:
    """A tracklet has the state in whose part it lies, none if it overlaps another part."""
    table, n_states = corpus.tracklets, corpus.n_states
    state = np.zeros(len(table.start), np.int8)
    chunk = np.empty((len(corpus), n_states - 1), np.int64)
    for n in range(len(corpus)):
        start, end = clip_bounds(corpus, n)
        chunk[n] = _nearest_chunks(corpus, n, action_middles(start, end, n_states))
        rows = list(corpus.tracklet_rows(n))
        length = (end - start) / (2 * n_states - 1)
        first = np.floor((table.start[rows] - start) / length).astype(int)
        last = np.ceil((table.end[rows] - start) / length).astype(int) - 1
        state[rows] = np.where((first == last) & (first % 2 == 0), first // 2 + 1, 0)
    return as_result(corpus, chunk, state)


def ordered_kmeans(corpus: Corpus, *, seed: int = 0) -> Result:
    """K clusters of the tracklets of each clip, by their features alone; best of ten starts."""
    from sklearn.cluster import KMeans

    table, n_states = corpus.tracklets, corpus.n_states
    state = np.zeros(len(table.start), np.int8)
    chunk = np.full((len(corpus), n_states - 1), -1)
    for n in range(len(corpus)):
        rows = list(corpus.tracklet_rows(n))
        looks = table.features[rows]
        n_clusters = min(n_states, len(np.unique(looks, axis=0)))
        if not n_clusters:
            continue
        model = KMeans(n_clusters, n_init=KMEANS_STARTS, random_state=seed)
        cluster, times = model.fit_predict(looks), table.time[rows]
        means = [times[cluster == c].mean() for c in range(n_clusters)]
        state[rows] = np.argsort(np.argsort(means))[cluster] + 1
        bounds = [best_bound(times, state[rows] > k) for k in range(1, n_clusters)]
        chunk[n, : n_clusters - 1] = _nearest_chunks(corpus, n, np.maximum.accumulate(bounds))
    return as_result(corpus, chunk, state)


def true_labels(corpus: Corpus) -> Result:
    """The labels of the truth; an action lasts from its first chunk to its last."""
    table, n_actions = corpus.chunks, corpus.n_states - 1
    chunk = np.full((len(corpus), n_actions), -1)
    span = np.full((len(corpus), n_actions, 2), np.nan)
    for n in range(len(corpus)):
        rows = np.array(corpus.chunk_rows(n))
        for k in range(n_actions):
            shown = rows[table.label[rows] == k + 1]
            if len(shown):
                chunk[n, k] = shown[len(shown) // 2] - rows[0]
                span[n, k] = table.start[shown[0]], table.end[shown[-1]]
    state = np.maximum(corpus.tracklets.label, 0)
    return _result(corpus, chunk, span.mean(axis=2), span, state)


def best_bound(times: Array, later: Array) -> float:
    """The time that divides ``times`` (m,) with the fewest of ``later`` (m,) on the wrong side.

    >>> best_bound(np.array([1.0, 2.0, 3.0, 4.0]), np.array([False, False, True, True]))
    2.5
    """
    order = np.argsort(times, kind="stable")
    times, later = times[order], later[order]
    wrong = np.cumsum(later) + np.cumsum(~later[::-1])[::-1] - ~later  # cut after each
    at = int(wrong[:-1].argmin()) if len(times) > 1 else 0
    return float(times[at : at + 2].mean())


def clip_bounds(corpus: Corpus, n: int) -> tuple[float, float]:
    """Start and end of the chunks of clip n, in seconds."""
    rows = list(corpus.chunk_rows(n))
    return float(corpus.chunks.start[rows].min()), float(corpus.chunks.end[rows].max())


def _nearest_chunks(corpus: Corpus, n: int, times: Array) -> Array:
    """(A,) the chunks of clip n nearest to ``times`` (A,), each after the one before it; or -1."""
    rows = list(corpus.chunk_rows(n))
    chunks = np.abs(corpus.chunks.time[rows][:, None] - times).argmin(axis=0)
    for k in range(1, len(chunks)):
        chunks[k] = max(chunks[k], chunks[k - 1] + 1)
    return np.where(chunks < len(rows), chunks, -1)


def as_result(corpus: Corpus, chunk: Array, state: Array) -> Result:
    """A result of chunks (N, A) of the actions and states (M,); actions have equal parts' length,
    around the middle of their chunk."""
    rows = corpus.chunks.offsets[:-1, None] + np.maximum(chunk, 0)
    time = np.where(chunk >= 0, corpus.chunks.time[rows], np.nan)
    bounds = np.array([clip_bounds(corpus, n) for n in range(len(corpus))])
    half = (bounds[:, 1] - bounds[:, 0])[:, None] / (2 * corpus.n_states - 1) / 2
    span = np.stack([time - half, time + half], axis=2)
    return _result(corpus, chunk, time, span, state)


def _result(corpus: Corpus, chunk: Array, time: Array, span: Array, state: Array) -> Result:
    scores = np.full((len(corpus.chunks.start), chunk.shape[1]), np.nan)
    return Result(
        corpus=corpus.without_features(),
        actions=Actions(chunk, time, span, scores),
        state=state,
        state_scores=np.full((len(state), corpus.n_states), np.nan),
        classifiers={},
        settings={},
        summary={},
    )


# --- independent fits ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Part:
    """A part of every clip.

    start, end : (N,) seconds; equal where a clip has none of it.
    labelled : (M,) which tracklets have its state.
    """

    start: Array
    end: Array
    labelled: Array


@dataclass(frozen=True, eq=False)
class _Fit:
    """A change within a part: its rows in the whole corpus.

    chunk, time, span : (N,), (N,), (N, 2) of the action; -1 and NaN where there is none.
    state : (M,) 1 before it, 2 after it, 0 for neither.
    """

    chunk: Array
    time: Array
    span: Array
    state: Array


def independent_fits(corpus: Corpus, model: JointDiscovery | None = None) -> Result:
    """Single changes, found one after the other in what is left of the clips.

    model : the settings of all fits, except what is for chains.
    """
    single = JointDiscovery(
        **{
            **(model or JointDiscovery()).get_params(),
            "changes": 1,
            "optional": (),
            "pattern": None,
            "verdict": False,
        }
    )
    bounds = np.array([clip_bounds(corpus, n) for n in range(len(corpus))])
    parts = [_Part(bounds[:, 0], bounds[:, 1], np.zeros(len(corpus.tracklets.start), bool))]
    actions: list[_Fit] = []
    while len(parts) < corpus.n_states:
        longest = int(np.argmax([(part.end - part.start).sum() for part in parts]))
        fit = _fit_part(single, corpus, parts[longest])
        actions.insert(longest, fit)
        parts[longest : longest + 1] = _divided(parts[longest], fit)
    state = np.zeros(len(corpus.tracklets.start), np.int8)
    for number, part in enumerate(parts, start=1):
        state[part.labelled] = number
    chunk, time, span = (
        np.stack([getattr(fit, name) for fit in actions], axis=1)
        for name in ("chunk", "time", "span")
    )
    return _result(corpus, chunk, time, span, state)


def _divided(part: _Part, fit: _Fit) -> list[_Part]:
    """What is before the action, and what is after it; a clip without it has only the first."""
    found = fit.chunk >= 0
    first = np.where(found, np.clip(fit.span[:, 0], part.start, part.end), part.end)
    last = np.where(found, np.clip(fit.span[:, 1], part.start, part.end), part.end)
    return [
        _Part(part.start, first, fit.state == 1),
        _Part(last, part.end, fit.state == 2),
    ]


def _fit_part(model: JointDiscovery, corpus: Corpus, part: _Part) -> _Fit:
    """Fit one change in a part of the clips; there is none where that is not possible."""
    cut, clips, chunks, tracklets = cut_clips(corpus, part.start, part.end)
    fit = _Fit(
        np.full(len(corpus), -1),
        np.full(len(corpus), np.nan),
        np.full((len(corpus), 2), np.nan),
        np.zeros(len(corpus.tracklets.start), np.int8),
    )
    if cut is None:
        return fit
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InfeasibleClipWarning)
            found = model.fit(cut).result_
    except ObjectStatesError:  # such as no clip with two tracklets
        return fit
    at = {clip: n for n, clip in enumerate(cut.clip_ids)}
    for i, clip in enumerate(found.clips):
        part_clip = at[clip]
        n = clips[part_clip]
        rows = chunks[cut.chunk_rows(part_clip).start : cut.chunk_rows(part_clip).stop]
        fit.chunk[n] = rows[found.action_chunk[i]] - corpus.chunks.offsets[n]
        fit.time[n], fit.span[n] = found.action_time[i], found.action_span[i]
        mine, own = cut.tracklet_rows(part_clip), found.corpus.tracklet_rows(i)
        fit.state[tracklets[mine.start : mine.stop]] = found.state[own.start : own.stop]
    return fit


def cut_clips(
    corpus: Corpus, start: Array, end: Array
) -> tuple[Corpus | None, list[int], Array, Array]:
    """The clips from ``start`` to ``end`` (N,), in seconds; those with a chunk and a tracklet left.

    Also the clips that are left, and the rows of their chunks and tracklets in ``corpus``. None if
    no clip is left.
    """
    kept, clips, chunks, tracklets = [], [], [], []
    for n in range(len(corpus)):
        of_chunks, of_tracklets = (
            [row for row in rows if start[n] <= times[row] < end[n]]
            for rows, times in (
                (corpus.chunk_rows(n), corpus.chunks.time),
                (corpus.tracklet_rows(n), corpus.tracklets.time),
            )
        )
        if not of_chunks or not of_tracklets:
            continue
        clip, bounds = corpus[n], (float(start[n]), float(end[n]))
        first = corpus.chunk_rows(n).start, corpus.tracklet_rows(n).start
        part = replace(
            clip,
            chunks=tuple(clip.chunks[row - first[0]] for row in of_chunks),
            tracklets=tuple(clip.tracklets[row - first[1]] for row in of_tracklets),
            start=None if clip.start is None else max(clip.start, bounds[0]),
            end=None if clip.end is None else min(clip.end, bounds[1]),
            change=None if clip.change is None else _cut_profile(clip.change, bounds),
        )
        kept.append(part)
        clips.append(n)
        chunks += of_chunks
        tracklets += of_tracklets
    found = Corpus.from_clips(kept, corpus.info) if kept else None
    return found, clips, np.array(chunks, np.int64), np.array(tracklets, np.int64)


def _cut_profile(profile: ChangeProfile, bounds: Sequence[float]) -> ChangeProfile:
    """Its bins whose middle is within the bounds."""
    middles = profile.start + profile.step * (np.arange(len(profile.curve)) + 0.5)
    inside = np.flatnonzero((middles >= bounds[0]) & (middles < bounds[1]))
    first, last = (inside[0], inside[-1] + 1) if len(inside) else (0, 1)
    start = profile.start + profile.step * first
    return replace(profile, start=float(start), curve=profile.curve[first:last])

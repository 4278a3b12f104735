"""The occurrences of a learned chain in long videos: several, one or none in each.

The classifiers of a fit score all chunks and tracklets of a video, relative to the scores of the
fit's clips. ``solver/occurrences.py`` finds the occurrences, and each becomes a clip: the span of
the video from the middle between it and the one before to the middle between it and the one after,
no longer than clips of the fit reach around their actions. These clips are labelled as any unseen
clip is (``prediction.py``). So the result is one of ordinary clips, several of which may share a
video.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from objectstates.base.errors import ResultError, SettingError
from objectstates.data.clips import Chunk, Clip
from objectstates.data.corpus import Array, Corpus
from objectstates.data.result import Result, SkippedClip
from objectstates.discovery.constraints import Formulation, infeasible_clips
from objectstates.discovery.labelling import DOUBT
from objectstates.discovery.prediction import predict
from objectstates.solver.occurrences import Occurrences, find_occurrences

# Chosen on long simulated videos; docs/occurrences.md.
MINIMUM = 0.55  # score of an occurrence: 1 is like the clips of the fit, 0 unlike them
MARGIN = 0.5  # of the first and the last state's usual length in the fit: so much is examined
SHORTER, LONGER = 0.5, 1.5  # times the shortest and the longest of the fit, between two actions


class NoOccurrenceError(ResultError):
    """None of the videos shows an occurrence."""


@dataclass(frozen=True, eq=False)
class Extent:
    """How long the parts of the fit's clips are, in seconds.

    before, after : (N,) from the start of each clip to its first action, from its last to the end.
    between : (N, A - 1) from one action to the next.
    """

    before: Array
    after: Array
    between: Array

    @classmethod
    def of(cls, learned: Result) -> Extent:
        """That of the clips that have all actions."""
        chunks, time = learned.corpus.chunks, learned.actions.time
        whole = np.isfinite(time).all(axis=1)
        start, end = chunks.start[chunks.offsets[:-1]], chunks.end[chunks.offsets[1:] - 1]
        time, start, end = time[whole], start[whole], end[whole]
        return cls(time[:, 0] - start, end - time[:, -1], np.diff(time, axis=1))

    def margin(self, chunk: float) -> int:
        """Chunks of the first and the last state; ``chunk`` is the length of one in seconds."""
        usual = float(np.median([*self.before, *self.after]))
        return max(1, round(MARGIN * usual / chunk))

    def gaps(self, chunk: float) -> Array:
        """(A - 1, 2) least and greatest number of chunks between two actions."""
        least = np.floor(SHORTER * self.between.min(axis=0) / chunk)
        most = np.ceil(LONGER * self.between.max(axis=0) / chunk)
        return np.asarray(np.maximum(np.stack([least, most], axis=1), 1), np.int64)


@dataclass(frozen=True, eq=False)
class ChunkScores:
    """Scores of the chunks of a corpus.

    actions : (T, A), minus infinity where an action is not allowed.
    states : (T, K). That of a state is the highest of the tracklets in the chunk, less for doubtful
        detections, minus that of the other state which it resembles most; 0 without a tracklet.
        Without the difference, an object that resembles all states would seem to change.
    """

    corpus: Corpus
    actions: Array
    states: Array

    @classmethod
    def of(cls, learned: Result, corpus: Corpus, classes: Array) -> ChunkScores:
        """By the classifiers of a fit.

        classes : (K,) the same number for states that look alike.
        """
        return cls._by(
            corpus,
            learned.classifiers["action"].scores(corpus.chunks.features),
            learned.classifiers["state"].scores(corpus.tracklets.features),
            learned.summary["detection_scale"],
            classes,
        )

    @classmethod
    def held_out(cls, learned: Result, classes: Array) -> ChunkScores:
        """Of the clips of the fit, each by what was learned from the others."""
        scores = learned.actions.scores.copy(), learned.state_scores
        return cls._by(learned.corpus, *scores, learned.summary["detection_scale"], classes)

    @classmethod
    def _by(
        cls, corpus: Corpus, actions: Array, worth: Array, detection_scale: float, classes: Array
    ) -> ChunkScores:
        chunks, table = corpus.chunks, corpus.tracklets
        actions[~chunks.allowed] = -np.inf
        doubt = 1 - np.minimum(table.score / detection_scale, 1)
        worth = worth - DOUBT * doubt[:, None]
        states = np.zeros((len(chunks.start), len(classes)))
        for n in range(len(corpus)):
            mine = slice(*table.offsets[n : n + 2])
            for t in corpus.chunk_rows(n):
                there = (table.start[mine] < chunks.end[t]) & (table.end[mine] > chunks.start[t])
                if there.any():
                    best = worth[mine][there].max(axis=0)
                    states[t] = best - [best[classes != k].max() for k in classes]
        return cls(corpus, actions, states)

    def find(self, extent: Extent, minimum: float, scale: float = 1.0) -> Iterator[Occurrences]:
        """The occurrences in each clip, by scores divided by ``scale``."""
        chunks = self.corpus.chunks
        for lo, hi in pairwise(chunks.offsets):
            length = float(np.median(chunks.end[lo:hi] - chunks.start[lo:hi]))
            yield find_occurrences(
                self.actions[lo:hi] / scale,
                self.states[lo:hi] / scale,
                margin=extent.margin(length),
                gaps=extent.gaps(length),
                minimum=minimum,
            )


def usual_score(learned: Result, extent: Extent, classes: Array) -> float:
    """The median over the clips of a fit of the best occurrence's held-out score.

    It differs between corpora by a factor of two or three; the score of an occurrence is relative
    to it.
    """
    found = ChunkScores.held_out(learned, classes).find(extent, np.inf)
    usual = float(np.median([clip.best for clip in found]))
    if not usual > 0:
        raise SettingError("the clips of the fit do not resemble each other: nothing was learned")
    return usual


def occurrences(
    learned: Result, corpus: Corpus, formulation: Formulation, minimum: float = MINIMUM
) -> Result:
    """A result whose clips are the occurrences in the videos of ``corpus``.

    Its summary has their scores by clip, ``occurrence_scores``, and nothing else. Videos without
    any are among the skipped clips, with the best score they have.
    """
    _check(learned, formulation, minimum)
    corpus = corpus.for_changes(learned.n_actions)
    classes = formulation.classes(learned.n_states)
    extent, skipped = Extent.of(learned), []
    usual = usual_score(learned, extent, classes)
    clips: list[Clip] = []
    scores: dict[str, float] = {}
    in_videos = ChunkScores.of(learned, corpus, classes).find(extent, minimum, usual)
    for n, found in enumerate(in_videos):
        parts = _clips(corpus[n], found, extent)
        clips += parts
        scores |= {part.id: float(score) for part, score in zip(parts, found.scores, strict=True)}
        if not parts:
            skipped.append(SkippedClip(corpus.clip_ids[n], _lacking(found.best, minimum)))
    windows = Corpus.from_clips(clips, corpus.info, corpus.arrays) if clips else None
    left_out = () if windows is None else _infeasible(windows, formulation)
    names = {clip.clip for clip in left_out}
    kept = [n for n, clip in enumerate(clips) if clip.id not in names]
    reasons = (*skipped, *left_out)
    if windows is None or not kept:
        told = "; ".join(f"{clip.clip} {clip.reason}" for clip in reasons[:3])
        raise NoOccurrenceError(f"none of {len(corpus)} videos shows an occurrence: {told}")
    labelled = predict(learned, windows.select(kept), formulation)
    kept_scores = {clip: scores[clip] for clip in labelled.clips}
    return replace(labelled, skipped=reasons, summary={"occurrence_scores": kept_scores})


def _infeasible(windows: Corpus, formulation: Formulation) -> tuple[SkippedClip, ...]:
    """The occurrences that cannot be labelled, because tracklets are lacking."""
    return infeasible_clips(windows, *formulation.constraints(windows, 1, 1))


def _check(learned: Result, formulation: Formulation, minimum: float) -> None:
    if formulation.target != "joint":
        raise SettingError("occurrences need a model of states and action: fit with `target` joint")
    if formulation.optional:
        raise SettingError("occurrences of chains with `optional` actions cannot be found")
    if learned.summary["labelled"] != "held_out":
        raise SettingError("occurrences need held-out scores: fit with `labelling` held_out")
    if not np.isfinite(minimum):
        raise SettingError(f"`minimum` must be a score, not {minimum}")


def _lacking(best: float, minimum: float) -> str:
    if best == -np.inf:
        return "shows no occurrence: it is too short"
    return f"shows no occurrence (best score {best:.2f}, more than {minimum:.2f} needed)"


def _clips(video: Clip, found: Occurrences, extent: Extent) -> list[Clip]:
    """A clip for each occurrence in a video."""
    times = np.array([[video.chunks[t].time for t in rows] for rows in found.actions], np.float64)
    if not len(times):
        return []
    middles = (times[1:, 0] + times[:-1, -1]) / 2
    bounds = [-np.inf, *middles, np.inf]
    clips = []
    for number, ((low, high), mine) in enumerate(zip(pairwise(bounds), times, strict=True), 1):
        start = max(low, mine[0] - float(extent.before.max()))
        end = min(high, mine[-1] + float(extent.after.max()))
        clips.append(_part(video, f"{video.id}#{number}", start, end))
    return clips


def _part(video: Clip, name: str, start: float, end: float) -> Clip:
    """The chunks between two times, and what lies within them."""
    chunks = tuple(c for c in video.chunks if start <= _middle(c) < end)
    first, last = chunks[0].start, chunks[-1].end
    return replace(
        video,
        id=name,
        chunks=chunks,
        tracklets=tuple(x for x in video.tracklets if x.start >= first and x.end <= last),
        start=first,
        end=last,
        change=None if video.change is None else video.change.within(first, last),
    )


def _middle(chunk: Chunk) -> float:
    return (chunk.start + chunk.end) / 2 if chunk.time is None else chunk.time

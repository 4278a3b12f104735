"""The columns of a result and what follows from them: actions, states, scores, confidence.

`result.Result` adds reading and writing; ``result_tables.py`` has the tables on disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from objectstates.base.errors import ResultError
from objectstates.data.actions import Actions
from objectstates.data.corpus import Array, Corpus
from objectstates.data.corrections import LEAVES_OUT, Correction
from objectstates.data.label_names import LabelNames
from objectstates.data.progress import ProgressModel
from objectstates.data.success import Reached, reached_by
from objectstates.data.verdict import Verdict


@dataclass(frozen=True)
class SkippedClip:
    """A clip that was left out, with the reason."""

    clip: str
    reason: str


@dataclass(frozen=True, eq=False)
class Classifier:
    """A linear classifier: scores X W + b of the states or of the action.

    n_rows : number of training rows.
    scale : divisor of the weights, chosen so that labelled rows score about 1 when their clip is
        held out (``solver/held_out.py``). Higher means a better leave-one-clip-out fit.
    """

    weights: Array  # (d, K)
    bias: Array  # (K,)
    n_rows: int
    scale: Array  # (K,)

    def scores(self, features: Array) -> Array:
        """(M, K) scores of features (M, d), in float64."""
        scores = np.empty((len(features), len(self.bias)))
        for first in range(0, len(features), 1024):  # in blocks, to bound the float64 copy
            rows = slice(first, first + 1024)
            scores[rows] = features[rows].astype(np.float64) @ self.weights + self.bias
        return scores


@dataclass(frozen=True, eq=False, repr=False)
class ResultColumns:
    """The action time of each clip, the state of each tracklet, scores and classifiers.

    Arrays follow the rows of ``corpus``: the N clips that took part, with M tracklets and T chunks
    in all, without features. There are K = 2 states and one action, or K states and K - 1 actions
    in a chain of changes. If only states were sought, ``action_chunk`` is -1 and the action's
    time, span and scores are NaN; if only the action was, states are 0 and their scores NaN.
    ``verdict`` and ``confidences`` say how far to trust it (``discovery/verdict.py``); ``progress``
    and ``reached_chance`` how far each clip gets (``discovery/progress.py``). Results of earlier
    versions have none of them.
    ``skipped`` clips are not in the corpus. ``set_aside`` are the outlier clips: they are in the
    corpus, but were not learned from, and their labels are predictions.
    ``corrections`` are those it was made with, ``names`` what the user calls the labels.
    """

    corpus: Corpus
    actions: Actions
    state: Array  # (M,) 0 for none, else 1 to K
    state_scores: Array  # (M, K)
    classifiers: dict[str, Classifier]  # "state", "action"
    settings: dict[str, Any]
    summary: dict[str, Any]
    skipped: tuple[SkippedClip, ...] = field(default=())
    set_aside: tuple[SkippedClip, ...] = field(default=())
    verdict: Verdict | None = None
    confidences: Array | None = None  # (N, 2 K - 1) chances that actions and states are right
    corrections: tuple[Correction, ...] = ()
    names: LabelNames = field(default_factory=LabelNames)
    progress: Array | None = None  # (T,) from 0, state 1, to 1, state 2, in the middle of a chunk
    reached_chance: Array | None = None  # (N,) chance that the clip ends in state 2
    progress_model: ProgressModel | None = None  # for clips that were not in the fit

    def __post_init__(self) -> None:
        if len(self.names.actions) != self.n_actions:  # none were given
            object.__setattr__(self, "names", LabelNames.usual(self.n_actions))

    def __repr__(self) -> str:
        tracklets, chunks = len(self.state), len(self.actions.scores)
        left_out = "".join(
            f", {len(clips)} {kind}"
            for kind, clips in (("skipped", self.skipped), ("outliers", self.set_aside))
            if clips
        )
        states = [
            f"state {k}: {int((self.state == k).sum())} tracklets"
            for k in range(1, self.n_states + 1)
        ]
        actions = [
            f"{name.replace('_', ' ')} in {int((self.actions.chunk[:, k] >= 0).sum())} clips"
            for k, name in enumerate(self.action_labels)
        ]
        lines = [
            f"Result of {len(self.clips)} clips{left_out}, {tracklets} tracklets, {chunks} chunks",
            ", ".join([*states, *actions]),
        ]
        if {"duality_gap", "objective"} <= self.summary.keys():
            lines.append(
                f"objective {self.summary['objective']['total']:.4g}, relaxed "
                f"{self.summary['relaxed_objective']:.4g}, "
                f"duality gap {self.summary['duality_gap']:.2g}"
            )
        return "\n  ".join(lines)

    @property
    def n_actions(self) -> int:
        """1, or more in a chain of changes."""
        return len(self.actions)

    @property
    def n_states(self) -> int:
        """K: one more than actions."""
        return len(self.actions) + 1

    @property
    def action_labels(self) -> tuple[str, ...]:
        """What columns call the actions: "action"; in a chain "action_1", "action_2", ..."""
        return action_labels(self.n_actions)

    @property
    def action_chunk(self) -> Array:
        """(N,) index of the action's chunk within the clip; this and what follows of one change."""
        return self._single(self.actions.chunk)

    @property
    def action_time(self) -> Array:
        """(N,) the moment of the change where it is known, else the chunk's time, in seconds."""
        return self._single(self.actions.time)

    @property
    def action_span(self) -> Array:
        """(N, 2) start and end, in seconds."""
        return self._single(self.actions.span)

    @property
    def action_scores(self) -> Array:
        """(T,) of the chunks."""
        return self._single(self.actions.scores)

    def _single(self, column: Array) -> Array:
        """The column of the only action."""
        if self.n_actions > 1:
            raise ResultError(
                f"the result has {self.n_actions} actions per clip: use `actions`, or "
                "`change(k)` for one of them with its two states"
            )
        return np.asarray(column[:, 0])

    def change(self, k: int) -> Self:
        """Action k (from 0) with the states before and after it, as a result of one change."""
        if self.n_actions == 1:
            return self
        states = np.where((self.state == k + 1) | (self.state == k + 2), self.state - k, 0)
        columns = [k, self.n_actions + k, self.n_actions + k + 1]
        return replace(
            self,
            actions=self.actions.only(k),
            state=states.astype(np.int8),
            state_scores=self.state_scores[:, k : k + 2],
            confidences=None if self.confidences is None else self.confidences[:, columns],
            names=self.names.change(k),
        )

    @property
    def clips(self) -> tuple[str, ...]:
        """The ids of the clips that took part."""
        return self.corpus.clip_ids

    @property
    def tracklet_clip(self) -> Array:
        """(M,) index of the clip of each tracklet."""
        return np.repeat(np.arange(len(self.clips)), np.diff(self.corpus.tracklets.offsets))

    @property
    def tracklet_index(self) -> Array:
        """(M,) index of each tracklet within its clip."""
        return np.arange(len(self.state)) - self.corpus.tracklets.offsets[self.tracklet_clip]

    @property
    def corrected(self) -> Array:
        """(N,) which clips were labelled under corrections of their own."""
        clips = {row.clip for row in self.corrections if row.kind not in LEAVES_OUT}
        return np.array([clip in clips for clip in self.clips], bool)

    @property
    def reached(self) -> tuple[Reached, ...]:
        """(N,) whether each clip ends in state 2: yes, no or unsure; "" if it was not judged."""
        if self.reached_chance is None:
            return tuple(reached_by(np.nan) for _ in self.clips)
        return tuple(reached_by(float(chance)) for chance in self.reached_chance)

    def progress_at(self, clip: str, times: Array) -> Array:
        """(n,) progress of a clip at ``times``, seconds of the video; NaN if it is not known.

        Between the middles of chunks it is interpolated; so every frame has one.
        """
        rows = list(self.corpus.chunk_rows(self.clips.index(clip)))
        if self.progress is None or not rows:
            return np.full(len(times), np.nan)
        return np.interp(times, self.corpus.chunks.time[rows], self.progress[rows])

    @property
    def action_score(self) -> Array:
        """(N,) score of the action's chunk."""
        return self._single(self.scores_at_actions())

    @property
    def confidence(self) -> Array:
        """(N,) from 0 to 1: the share of the clip's answers that is right, on average over corpora.

        The action counts as much as both states together. Without ``confidences`` it only ranks
        clips: e^2 / (e^2 + 1/4) of the evidence e.
        """
        if self.confidences is not None:
            return _weighted_mean(self.confidences.T)
        square = np.maximum(self.evidence, 0.0) ** 2
        return np.asarray(square / (square + 0.25))

    @property
    def evidence(self) -> Array:
        """(N,) mean score of the labelled chunk and tracklets; action and states weigh the same.

        A score is about 1 if the row resembles rows with the same label in other clips.
        """
        return self._evidence({})

    @property
    def raw_evidence(self) -> Array:
        """(N,) the evidence of unscaled scores, for comparing discoveries in the same clips.

        Higher means a better leave-one-clip-out fit.
        """
        return self._evidence({side: found.scale for side, found in self.classifiers.items()})

    def _evidence(self, scale: dict[str, Array]) -> Array:
        owner, sides = self.tracklet_clip, []
        action_scale = scale.get("action", np.ones(self.n_actions))
        state_scale = scale.get("state", np.ones(self.n_states))
        for k in range(1, self.n_states + 1):
            mine = self.state == k
            scores = self.state_scores[mine, k - 1] * state_scale[k - 1]
            total = np.bincount(owner[mine], scores, len(self.clips))
            count = np.bincount(owner[mine], minlength=len(self.clips))
            sides.append(np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0))
        return _weighted_mean(np.stack([*(self.scores_at_actions() * action_scale).T, *sides]))

    def scores_at_actions(self) -> Array:
        """(N, A) score of each action's chunk; NaN where there is none."""
        chunk = self.actions.chunk
        rows = self.corpus.chunks.offsets[:-1, None] + np.maximum(chunk, 0)
        return np.where(chunk >= 0, np.take_along_axis(self.actions.scores, rows, axis=0), np.nan)

    def select(self, clips: Array) -> Self:
        """The result on some of its clips, in this order."""
        corpus = self.corpus
        chunks = [np.arange(*corpus.chunks.offsets[n : n + 2]) for n in clips]
        tracklets = [np.arange(*corpus.tracklets.offsets[n : n + 2]) for n in clips]
        of_chunks, of_tracklets = (
            np.concatenate([np.empty(0, np.int64), *rows]) for rows in (chunks, tracklets)
        )
        chosen = {corpus.clip_ids[n] for n in clips}
        return replace(
            self,
            corpus=corpus.select(clips),
            actions=self.actions.select(clips, of_chunks),
            state=self.state[of_tracklets],
            state_scores=self.state_scores[of_tracklets],
            set_aside=tuple(clip for clip in self.set_aside if clip.clip in chosen),
            confidences=None if self.confidences is None else self.confidences[clips],
            progress=None if self.progress is None else self.progress[of_chunks],
            reached_chance=None if self.reached_chance is None else self.reached_chance[clips],
        )

    @property
    def episode_starts(self) -> Array:
        """(N,) seconds of the video at which each clip's episode starts; NaN without an episode."""
        return np.array([np.nan if e is None else e.start for e in self.corpus.episodes])


def _weighted_mean(known: Array) -> Array:
    """(N,) mean of the known of (2 K - 1, N) numbers of K - 1 actions, then K states.

    The actions count as much as the states: with one, twice as much as a state.
    """
    n_actions = len(known) // 2
    weights = [(n_actions + 1) / n_actions] * n_actions + [1.0] * (n_actions + 1)
    weight = np.array(weights)[:, None] * ~np.isnan(known)
    mean = (np.nan_to_num(known) * weight).sum(axis=0) / np.maximum(weight.sum(axis=0), 1)
    return np.asarray(mean)


def action_labels(n_actions: int) -> tuple[str, ...]:
    """What columns and files call the actions: "action"; in a chain "action_1", "action_2", ..."""
    return ("action",) if n_actions == 1 else tuple(f"action_{k + 1}" for k in range(n_actions))

"""The result of a discovery, in memory and on disk.

A result is a folder::

    result.json         format version, settings, versions, objective, certificate, skipped clips
    actions.parquet     clip, action (1, 2, ...), chunk (index within the clip), time, start, end
                        (s), score, confidence: a row per action that a clip has
    clips.parquet       clip, action_chunk (index within the clip), action_time, action_start,
                        action_end (s), action_score, confidence; action_confidence,
                        state_1_confidence, state_2_confidence: the chance that each is right;
                        reached_chance, reached: whether the clip ends in state 2;
                        of robot datasets also episode, episode_start (s of the video), and
                        action_time_in_episode, action_start_in_episode, action_end_in_episode (s)
    tracklets.parquet   clip, tracklet (index within the clip), start, end, state, score_1, score_2
    chunks.parquet      clip, chunk (index within the clip), start, end, action, score, progress
    classifiers.npz     the learned classifiers, absent sides left out; no pickle
    progress.npz        the learned model of progress, if there is one; no pickle
    corpus/             the clips that took part, without features: videos, boxes, annotations

In a chain of changes the columns of ``clips.parquet`` that begin with ``action`` are those of
``actions.parquet`` alone, but for the confidences (``action_1_confidence``, ...); tracklets have
``score_3`` and so on, and chunks ``score_1``, ``score_2`` and so on, one per action.
A report or an export needs nothing else. Clips that were left out have no rows; ``result.json``
names them with the reason, and also the outlier clips, which have rows but were not learned from.
"""

from __future__ import annotations

import zipfile
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from objectstates.base.errors import CorpusError, MissingExtraError, ResultError
from objectstates.base.storage import Artefact
from objectstates.data.actions import Actions
from objectstates.data.corpus import Array, Corpus
from objectstates.data.corrections import LEAVES_OUT, Correction, corrections_from_json
from objectstates.data.label_names import LabelNames
from objectstates.data.progress import ProgressModel
from objectstates.data.success import Reached, reached_by
from objectstates.data.verdict import Verdict

if TYPE_CHECKING:
    import pandas

ARTEFACT = Artefact(
    header="result.json",
    version=3,
    oldest=2,  # which has no actions.parquet
    files=frozenset(
        {
            *("clips.parquet", "actions.parquet", "tracklets.parquet", "chunks.parquet"),
            *("classifiers.npz", "progress.npz", "corpus"),
        }
    ),
    error=ResultError,
)


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
class Result:
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

    >>> from objectstates import JointDiscovery
    >>> from objectstates.data.synthetic import synthetic_corpus
    >>> result = JointDiscovery().fit(synthetic_corpus(n_clips=8)).result_
    >>> result  # doctest: +ELLIPSIS
    Result of 8 clips, ... tracklets, ... chunks
      state 1: ... tracklets, state 2: ... tracklets, action in 8 clips
      ...
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
        if "duality_gap" in self.summary:
            lines.append(
                f"objective {self.summary['objective']['total']:.4g}, relaxed "
                f"{self.summary['relaxed_objective']:.4g}, "
                f"duality gap {self.summary['duality_gap']:.2g}"
            )
        return "\n  ".join(lines)

    def to_frame(self) -> pandas.DataFrame:
        """One row per clip: action time, start and end in seconds, score, confidence.

        Needs the extra ``pandas``; the columns are those of ``clips.parquet``.
        """
        return _frame(self._clip_table())

    def tracklets_frame(self) -> pandas.DataFrame:
        """One row per tracklet: clip, index within it, start and end in seconds, state, scores.

        Needs the extra ``pandas``; the columns are those of ``tracklets.parquet``.
        """
        return _frame(self._tracklet_table())

    def actions_frame(self) -> pandas.DataFrame:
        """One row per action that a clip has: its number, time, start and end in seconds, score.

        Needs the extra ``pandas``; the columns are those of ``actions.parquet``.
        """
        return _frame(self._action_table())

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

    def change(self, k: int) -> Result:
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
        return self._single(self._at_actions())

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
        return _weighted_mean(np.stack([*(self._at_actions() * action_scale).T, *sides]))

    def _at_actions(self) -> Array:
        """(N, A) score of each action's chunk; NaN where there is none."""
        chunk = self.actions.chunk
        rows = self.corpus.chunks.offsets[:-1, None] + np.maximum(chunk, 0)
        return np.where(chunk >= 0, np.take_along_axis(self.actions.scores, rows, axis=0), np.nan)

    def save(self, path: str | Path) -> None:
        """Write the result as a folder; replace an earlier result there."""
        with ARTEFACT.writing(path) as folder:
            header = {
                "settings": self.settings,
                **self.summary,
                "skipped": [asdict(clip) for clip in self.skipped],
                "set_aside": [asdict(clip) for clip in self.set_aside],
            }
            if self.corrections:
                header["corrections"] = [row.to_json() for row in self.corrections]
            if self.names != LabelNames():
                header["names"] = self.names.to_json()
            if self.verdict is not None:
                header["verdict"] = self.verdict.to_json()
            ARTEFACT.write_header(folder, header)
            pq.write_table(self._clip_table(), folder / "clips.parquet")
            pq.write_table(self._action_table(), folder / "actions.parquet")
            pq.write_table(self._tracklet_table(), folder / "tracklets.parquet")
            pq.write_table(self._chunk_table(), folder / "chunks.parquet")
            arrays = {
                f"{side}_{name}": value
                for side, classifier in self.classifiers.items()
                for name, value in vars(classifier).items()
            }
            np.savez(folder / "classifiers.npz", **arrays)
            if self.progress_model is not None:
                self.progress_model.save(folder / "progress.npz")
            self.corpus.save(folder / "corpus")

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read a result folder."""
        folder = Path(path)
        header = ARTEFACT.read_header(folder)
        version = header.pop("format_version")
        try:
            clips = pq.read_table(folder / "clips.parquet")
            tracklets = pq.read_table(folder / "tracklets.parquet")
            chunks = pq.read_table(folder / "chunks.parquet")
            corpus = Corpus.load(folder / "corpus")
            if version == 2:
                actions = _actions_of_clips(clips, chunks)
            else:
                actions = _read_actions(pq.read_table(folder / "actions.parquet"), corpus, chunks)
            scores = [_column(tracklets, f"score_{k + 1}", np.nan) for k in range(len(actions) + 1)]
            result = cls(
                corpus=corpus,
                actions=actions,
                state=_column(tracklets, "state", 0).astype(np.int8),
                state_scores=np.stack(scores, axis=1),
                classifiers=_read_classifiers(folder / "classifiers.npz"),
                settings=header.pop("settings"),
                skipped=tuple(SkippedClip(**s) for s in header.pop("skipped")),
                set_aside=tuple(SkippedClip(**s) for s in header.pop("set_aside", ())),
                verdict=_read_verdict(header.pop("verdict", None)),
                confidences=_read_confidences(clips, len(actions)),
                corrections=corrections_from_json(header.pop("corrections", [])),
                names=LabelNames.from_json(header.pop("names", {})),
                progress=_optional(chunks, "progress"),
                reached_chance=_optional(clips, "reached_chance"),
                progress_model=_read_progress(folder / "progress.npz"),
                summary=header,
            )
            _check_rows(result, len(clips))
        except (
            OSError, EOFError, KeyError, ValueError, TypeError, AttributeError, CorpusError,
            NotImplementedError, zipfile.BadZipFile, pa.ArrowException,
        ) as problem:  # fmt: skip
            raise ResultError(f"{folder} is not a whole result ({problem}): fit again") from problem
        return result

    def select(self, clips: Array) -> Result:
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

    def _clip_table(self) -> pa.Table:
        names = confidence_columns(self.n_actions)
        chances = (
            {} if self.confidences is None else dict(zip(names, self.confidences.T, strict=True))
        )
        if self.reached_chance is not None:
            chances["reached_chance"] = self.reached_chance
        columns = {name: _nullable(column) for name, column in chances.items()}
        if self.reached_chance is not None:
            columns["reached"] = pa.array([text or None for text in self.reached], pa.string())
        return pa.table(
            {
                "clip": pa.array(self.clips, pa.string()),
                **({} if self.n_actions > 1 else self._action_columns()),
                "confidence": pa.array(self.confidence, pa.float64()),
                **columns,
                **self._episode_columns(),
            }
        )

    def _action_columns(self) -> dict[str, pa.Array]:
        """Of the only action."""
        return {
            "action_chunk": pa.array(self.action_chunk, pa.int32(), mask=self.action_chunk < 0),
            "action_time": _nullable(self.action_time),
            "action_start": _nullable(self.action_span[:, 0]),
            "action_end": _nullable(self.action_span[:, 1]),
            "action_score": _nullable(self.action_score),
        }

    def _action_table(self) -> pa.Table:
        actions, scores = self.actions, self._at_actions()
        clip, number = np.nonzero(actions.chunk >= 0)
        chances = (
            np.full(scores.shape, np.nan)
            if self.confidences is None
            else self.confidences[:, : self.n_actions]
        )
        return pa.table(
            {
                "clip": pa.array([self.clips[n] for n in clip], pa.string()),
                "action": pa.array(number + 1, pa.int8()),
                "chunk": pa.array(actions.chunk[clip, number], pa.int32()),
                "time": _nullable(actions.time[clip, number]),
                "start": _nullable(actions.span[clip, number, 0]),
                "end": _nullable(actions.span[clip, number, 1]),
                "score": _nullable(scores[clip, number]),
                "confidence": _nullable(chances[clip, number]),
            }
        )

    @property
    def episode_starts(self) -> Array:
        """(N,) seconds of the video at which each clip's episode starts; NaN without an episode."""
        return np.array([np.nan if e is None else e.start for e in self.corpus.episodes])

    def _episode_columns(self) -> dict[str, pa.Array]:
        """Numbers of episodes and times in seconds of the episode; none if no clip shows one."""
        episodes, starts = self.corpus.episodes, self.episode_starts
        if not any(episodes):
            return {}
        columns = {
            "episode": pa.array([e and e.index for e in episodes], pa.int64()),
            "episode_start": _nullable(starts),
        }
        if self.n_actions > 1:
            return columns
        return columns | {
            "action_time_in_episode": _nullable(self.action_time - starts),
            "action_start_in_episode": _nullable(self.action_span[:, 0] - starts),
            "action_end_in_episode": _nullable(self.action_span[:, 1] - starts),
        }

    def _tracklet_table(self) -> pa.Table:
        table = self.corpus.tracklets
        return pa.table(
            {
                "clip": pa.array([self.clips[n] for n in self.tracklet_clip], pa.string()),
                "tracklet": pa.array(self.tracklet_index, pa.int32()),
                "start": pa.array(table.start, pa.float64()),
                "end": pa.array(table.end, pa.float64()),
                "state": pa.array(self.state, pa.int8()),
                **{
                    f"score_{k + 1}": _nullable(column)
                    for k, column in enumerate(self.state_scores.T)
                },
            }
        )

    def _chunk_table(self) -> pa.Table:
        table = self.corpus.chunks
        owner = np.repeat(np.arange(len(self.clips)), np.diff(table.offsets))
        index = np.arange(len(owner)) - table.offsets[owner]
        progress = {} if self.progress is None else {"progress": _nullable(self.progress)}
        acting = (index[:, None] == self.actions.chunk[owner]).any(axis=1)
        names = _score_names(self.n_actions)
        return pa.table(
            {
                "clip": pa.array([self.clips[n] for n in owner], pa.string()),
                "chunk": pa.array(index, pa.int32()),
                "start": pa.array(table.start, pa.float64()),
                "end": pa.array(table.end, pa.float64()),
                "action": pa.array(acting),
                **{
                    name: _nullable(column)
                    for name, column in zip(names, self.actions.scores.T, strict=True)
                },
                **progress,
            }
        )


def _weighted_mean(known: Array) -> Array:
    """(N,) mean of the known of (2 K - 1, N) numbers of K - 1 actions, then K states.

    The actions count as much as the states: with one, twice as much as a state.
    """
    n_actions = len(known) // 2
    weights = [(n_actions + 1) / n_actions] * n_actions + [1.0] * (n_actions + 1)
    weight = np.array(weights)[:, None] * ~np.isnan(known)
    mean = (np.nan_to_num(known) * weight).sum(axis=0) / np.maximum(weight.sum(axis=0), 1)
    return np.asarray(mean)


def _check_rows(result: Result, n_clips: int) -> None:
    """Raise if the tables, that of clips with ``n_clips`` rows, do not match the corpus."""
    offsets = result.corpus.chunks.offsets
    sizes = {
        "clips": (n_clips, len(result.corpus)),
        "tracklets": (len(result.state), len(result.corpus.tracklets.start)),
        "chunks": (len(result.actions.scores), len(result.corpus.chunks.start)),
    }
    for name, (found, expected) in sizes.items():
        if found != expected:
            raise ValueError(f"{name}.parquet has {found} rows, its corpus {expected}")
    chunk = result.actions.chunk
    if (chunk >= np.diff(offsets)[:, None]).any() or (chunk < -1).any():
        raise ValueError("an action lies outside its clip")
    if result.n_states != result.corpus.n_states:
        raise ValueError(
            f"{result.n_states} states, but its corpus is for {result.corpus.n_states}"
        )
    if not np.isin(result.state, range(result.n_states + 1)).all():
        raise ValueError(f"a state is not one of 0 to {result.n_states}")
    _check_classifiers(result)


def _nullable(values: Array) -> pa.Array:
    """A column with null in place of NaN."""
    return pa.array(values, pa.float64(), mask=np.isnan(values))


def _frame(table: pa.Table) -> pandas.DataFrame:
    if find_spec("pandas") is None:
        raise MissingExtraError("data frames need an extra: pip install 'objectstates[pandas]'")
    return table.to_pandas()


def _column(table: pa.Table, name: str, missing: float) -> Array:
    return np.asarray(table[name].cast(pa.float64()).fill_null(missing).to_numpy(), np.float64)


def _optional(table: pa.Table, name: str) -> Array | None:
    """A column that earlier versions do not have."""
    return _column(table, name, np.nan) if name in table.column_names else None


def _read_progress(path: Path) -> ProgressModel | None:
    return ProgressModel.load(path) if path.exists() else None


def _read_verdict(values: Any) -> Verdict | None:
    return None if values is None else Verdict.from_json(values)


def action_labels(n_actions: int) -> tuple[str, ...]:
    """What columns and files call the actions: "action"; in a chain "action_1", "action_2", ..."""
    return ("action",) if n_actions == 1 else tuple(f"action_{k + 1}" for k in range(n_actions))


def confidence_columns(n_actions: int) -> tuple[str, ...]:
    """Of ``clips.parquet``: those of the actions, then of the states."""
    states = (f"state_{k + 1}" for k in range(n_actions + 1))
    return tuple(f"{label}_confidence" for label in (*action_labels(n_actions), *states))


def _score_names(n_actions: int) -> tuple[str, ...]:
    """Of the columns of ``chunks.parquet`` with the scores of the actions."""
    return ("score",) if n_actions == 1 else tuple(f"score_{k + 1}" for k in range(n_actions))


def _actions_of_clips(clips: pa.Table, chunks: pa.Table) -> Actions:
    """The actions in tables of format version 2."""
    span = [_column(clips, name, np.nan) for name in ("action_start", "action_end")]
    return Actions.single(
        _column(clips, "action_chunk", -1).astype(np.int64),
        _column(clips, "action_time", np.nan),
        np.stack(span, axis=1),
        _column(chunks, "score", np.nan),
    )


def _read_actions(table: pa.Table, corpus: Corpus, chunks: pa.Table) -> Actions:
    n_actions = corpus.n_states - 1
    scores = [_column(chunks, name, np.nan) for name in _score_names(n_actions)]
    actions = Actions.none(len(corpus), len(corpus.chunks.start), n_actions)
    number = {clip: n for n, clip in enumerate(corpus.clip_ids)}
    rows = np.array([number[clip] for clip in table["clip"].to_pylist()], np.int64)
    columns = table["action"].to_numpy().astype(np.int64) - 1
    if len(columns) and not (0 <= columns.min() <= columns.max() < n_actions):
        raise ValueError(f"actions.parquet: an action is not one of 1 to {n_actions}")
    actions.chunk[rows, columns] = table["chunk"].to_numpy()
    actions.time[rows, columns] = _column(table, "time", np.nan)
    for side, name in enumerate(("start", "end")):
        actions.span[rows, columns, side] = _column(table, name, np.nan)
    return replace(actions, scores=np.stack(scores, axis=1))


def _read_confidences(clips: pa.Table, n_actions: int) -> Array | None:
    names = confidence_columns(n_actions)
    if not set(names) <= set(clips.column_names):
        return None
    return np.stack([_column(clips, name, np.nan) for name in names], axis=1)


def _read_classifiers(path: Path) -> dict[str, Classifier]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {
            side: Classifier(
                arrays[f"{side}_weights"],
                arrays[f"{side}_bias"],
                int(arrays[f"{side}_n_rows"]),
                arrays.get(f"{side}_scale", np.ones(len(arrays[f"{side}_bias"]))),
            )
            for side in ("action", "state")
            if f"{side}_weights" in arrays
        }


def _check_classifiers(result: Result) -> None:
    n_columns = {"action": result.n_actions, "state": result.n_states}
    for side, classifier in result.classifiers.items():
        weights, bias, expected = classifier.weights, classifier.bias, n_columns[side]
        parts = weights, bias, classifier.scale
        shaped = weights.ndim == 2 and weights.shape[1] == expected
        shaped &= bias.shape == classifier.scale.shape == (expected,)
        if not shaped or not all(np.isfinite(part).all() for part in parts):
            raise ValueError(f"the {side} classifier is damaged")

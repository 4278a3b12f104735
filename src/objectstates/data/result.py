"""The result of a discovery, in memory and on disk.

A result is a folder::

    result.json         format version, settings, versions, objective, certificate, skipped clips
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
    version=2,
    files=frozenset(
        {
            *("clips.parquet", "tracklets.parquet", "chunks.parquet", "classifiers.npz"),
            *("progress.npz", "corpus"),
        }
    ),
    error=ResultError,
)
_N_COLUMNS = {"state": 2, "action": 1}  # of each classifier
CONFIDENCES = ("action_confidence", "state_1_confidence", "state_2_confidence")


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
    in all, without features. If only states were sought, ``action_chunk`` is -1 and the action's
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
    action_chunk: Array  # (N,) index within the clip
    action_time: Array  # (N,) the moment of the change where it is known, else the chunk's time
    action_span: Array  # (N, 2) start and end, in seconds
    action_scores: Array  # (T,)
    state: Array  # (M,) 0, 1 or 2
    state_scores: Array  # (M, 2)
    classifiers: dict[str, Classifier]  # "state", "action"
    settings: dict[str, Any]
    summary: dict[str, Any]
    skipped: tuple[SkippedClip, ...] = field(default=())
    set_aside: tuple[SkippedClip, ...] = field(default=())
    verdict: Verdict | None = None
    confidences: Array | None = None  # (N, 3) chances that action, state 1 and state 2 are right
    corrections: tuple[Correction, ...] = ()
    names: LabelNames = field(default_factory=LabelNames)
    progress: Array | None = None  # (T,) from 0, state 1, to 1, state 2, in the middle of a chunk
    reached_chance: Array | None = None  # (N,) chance that the clip ends in state 2
    progress_model: ProgressModel | None = None  # for clips that were not in the fit

    def __repr__(self) -> str:
        tracklets, chunks = len(self.state), len(self.action_scores)
        left_out = "".join(
            f", {len(clips)} {kind}"
            for kind, clips in (("skipped", self.skipped), ("outliers", self.set_aside))
            if clips
        )
        counts = [int((self.state == k).sum()) for k in (1, 2)]
        lines = [
            f"Result of {len(self.clips)} clips{left_out}, {tracklets} tracklets, {chunks} chunks",
            f"state 1: {counts[0]} tracklets, state 2: {counts[1]} tracklets, "
            f"action in {int((self.action_chunk >= 0).sum())} clips",
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
        return self._at_action(self.action_scores)

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
        action_scale, state_scale = scale.get("action", (1.0,)), scale.get("state", (1.0, 1.0))
        for k in (1, 2):
            mine = self.state == k
            scores = self.state_scores[mine, k - 1] * state_scale[k - 1]
            total = np.bincount(owner[mine], scores, len(self.clips))
            count = np.bincount(owner[mine], minlength=len(self.clips))
            sides.append(np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0))
        return _weighted_mean(np.stack([self.action_score * action_scale[0], *sides]))

    def _at_action(self, column: Array) -> Array:
        rows = self.corpus.chunks.offsets[:-1] + np.maximum(self.action_chunk, 0)
        return np.where(self.action_chunk >= 0, column[rows], np.nan)

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
        header.pop("format_version")
        try:
            clips = pq.read_table(folder / "clips.parquet")
            tracklets = pq.read_table(folder / "tracklets.parquet")
            chunks = pq.read_table(folder / "chunks.parquet")
            scores = [_column(tracklets, name, np.nan) for name in ("score_1", "score_2")]
            span = [_column(clips, name, np.nan) for name in ("action_start", "action_end")]
            result = cls(
                corpus=Corpus.load(folder / "corpus"),
                action_chunk=_column(clips, "action_chunk", -1).astype(np.int64),
                action_time=_column(clips, "action_time", np.nan),
                action_span=np.stack(span, axis=1),
                action_scores=_column(chunks, "score", np.nan),
                state=_column(tracklets, "state", 0).astype(np.int8),
                state_scores=np.stack(scores, axis=1),
                classifiers=_read_classifiers(folder / "classifiers.npz"),
                settings=header.pop("settings"),
                skipped=tuple(SkippedClip(**s) for s in header.pop("skipped")),
                set_aside=tuple(SkippedClip(**s) for s in header.pop("set_aside", ())),
                verdict=_read_verdict(header.pop("verdict", None)),
                confidences=_read_confidences(clips),
                corrections=corrections_from_json(header.pop("corrections", [])),
                names=LabelNames.from_json(header.pop("names", {})),
                progress=_optional(chunks, "progress"),
                reached_chance=_optional(clips, "reached_chance"),
                progress_model=_read_progress(folder / "progress.npz"),
                summary=header,
            )
            _check_rows(result)
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
            action_chunk=self.action_chunk[clips],
            action_time=self.action_time[clips],
            action_span=self.action_span[clips],
            action_scores=self.action_scores[of_chunks],
            state=self.state[of_tracklets],
            state_scores=self.state_scores[of_tracklets],
            set_aside=tuple(clip for clip in self.set_aside if clip.clip in chosen),
            confidences=None if self.confidences is None else self.confidences[clips],
            progress=None if self.progress is None else self.progress[of_chunks],
            reached_chance=None if self.reached_chance is None else self.reached_chance[clips],
        )

    def _clip_table(self) -> pa.Table:
        none = self.action_chunk < 0
        chances = (
            {}
            if self.confidences is None
            else dict(zip(CONFIDENCES, self.confidences.T, strict=True))
        )
        if self.reached_chance is not None:
            chances["reached_chance"] = self.reached_chance
        columns = {name: _nullable(column) for name, column in chances.items()}
        if self.reached_chance is not None:
            columns["reached"] = pa.array([text or None for text in self.reached], pa.string())
        return pa.table(
            {
                "clip": pa.array(self.clips, pa.string()),
                "action_chunk": pa.array(self.action_chunk, pa.int32(), mask=none),
                "action_time": _nullable(self.action_time),
                "action_start": _nullable(self.action_span[:, 0]),
                "action_end": _nullable(self.action_span[:, 1]),
                "action_score": _nullable(self.action_score),
                "confidence": pa.array(self.confidence, pa.float64()),
                **columns,
                **self._episode_columns(),
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
        return {
            "episode": pa.array([e and e.index for e in episodes], pa.int64()),
            "episode_start": _nullable(starts),
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
                "score_1": _nullable(self.state_scores[:, 0]),
                "score_2": _nullable(self.state_scores[:, 1]),
            }
        )

    def _chunk_table(self) -> pa.Table:
        table = self.corpus.chunks
        owner = np.repeat(np.arange(len(self.clips)), np.diff(table.offsets))
        index = np.arange(len(owner)) - table.offsets[owner]
        progress = {} if self.progress is None else {"progress": _nullable(self.progress)}
        return pa.table(
            {
                "clip": pa.array([self.clips[n] for n in owner], pa.string()),
                "chunk": pa.array(index, pa.int32()),
                "start": pa.array(table.start, pa.float64()),
                "end": pa.array(table.end, pa.float64()),
                "action": pa.array(index == self.action_chunk[owner]),
                "score": _nullable(self.action_scores),
                **progress,
            }
        )


def _weighted_mean(known: Array) -> Array:
    """(N,) mean of the known of (3, N) numbers of action, state 1 and state 2."""
    weight = np.array([2.0, 1.0, 1.0])[:, None] * ~np.isnan(known)
    mean = (np.nan_to_num(known) * weight).sum(axis=0) / np.maximum(weight.sum(axis=0), 1)
    return np.asarray(mean)


def _check_rows(result: Result) -> None:
    """Raise if the tables do not match the corpus beside them."""
    offsets = result.corpus.chunks.offsets
    sizes = {
        "clips": (len(result.action_chunk), len(result.corpus)),
        "tracklets": (len(result.state), len(result.corpus.tracklets.start)),
        "chunks": (len(result.action_scores), len(result.corpus.chunks.start)),
    }
    for name, (found, expected) in sizes.items():
        if found != expected:
            raise ValueError(f"{name}.parquet has {found} rows, its corpus {expected}")
    if (result.action_chunk >= np.diff(offsets)).any() or (result.action_chunk < -1).any():
        raise ValueError("an action lies outside its clip")
    if not np.isin(result.state, (0, 1, 2)).all():
        raise ValueError("a state is not 0, 1 or 2")


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


def _read_confidences(clips: pa.Table) -> Array | None:
    if not set(CONFIDENCES) <= set(clips.column_names):
        return None
    return np.stack([_column(clips, name, np.nan) for name in CONFIDENCES], axis=1)


def _read_classifiers(path: Path) -> dict[str, Classifier]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        classifiers = {
            side: Classifier(
                arrays[f"{side}_weights"],
                arrays[f"{side}_bias"],
                int(arrays[f"{side}_n_rows"]),
                arrays.get(f"{side}_scale", np.ones(_N_COLUMNS[side])),
            )
            for side in ("action", "state")
            if f"{side}_weights" in arrays
        }
    for side, classifier in classifiers.items():
        weights, bias, n_states = classifier.weights, classifier.bias, _N_COLUMNS[side]
        parts = weights, bias, classifier.scale
        shaped = weights.ndim == 2 and weights.shape[1] == n_states
        shaped &= bias.shape == classifier.scale.shape == (n_states,)
        if not shaped or not all(np.isfinite(part).all() for part in parts):
            raise ValueError(f"the {side} classifier is damaged")
    return classifiers

"""A corpus: tracklets and chunks of a set of clips that all show the same manipulation.

In memory it is two tables of columns with the clips one after another, which is what the solver
needs; ``corpus[i]`` gives one clip as plain objects. On disk it is a folder::

    corpus.json         format version, names and sizes of the features, free-form information
    arrays.npz          what else the features are made with, such as codebooks; optional
    clips.parquet       clip, video, start, end, change_start, change_step, change, change_where,
                        change_where_width, change_where_scale, change_local,
                        change_motion, episode, episode_start
    tracklets.parquet   clip, start, end, time, score, allowed_1, allowed_2, label, boxes, feature
    chunks.parquet      clip, start, end, time, allowed, label, feature

In a corpus for a chain of changes there are columns ``allowed_3`` and so on, and
``allowed_1``, ``allowed_2`` and so on of the chunks, one per action, in place of ``allowed``.

The rows of a clip are contiguous, in the order of ``clips.parquet``; features are fixed-size lists
of float32. ``time``, ``score``, ``allowed*``, ``label`` and ``boxes`` are optional, and so is
``feature`` if the header gives its size as 0: such a corpus can be shown but not learned on. The
columns ``change*`` are the clips' `ChangeProfile`, null where it is not known, and absent if it is
known of no clip: ``change`` is its curve, a list of float32; ``change_where`` its picture row by
row, a list of uint8, with ``change_where_width`` pixels to a row; ``change_where_scale``,
``change_local`` and ``change_motion`` (optional) its scale, its local curve and its motion.
``episode`` and ``episode_start`` are the clips' `EpisodeSpan`, and absent if no clip shows an
episode of a robot dataset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path, PurePath
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import CorpusError
from objectstates.base.file_names import printable_name
from objectstates.data.clips import Box, ChangeProfile, Chunk, Clip, Tracklet, TrackletLabel
from objectstates.data.corpus_io import read_tables, write_tables
from objectstates.data.corpus_tables import (
    UNKNOWN,
    Array,
    Chunks,
    CorpusTables,
    Tracklets,
    as_flags,
    as_labels,
    offsets_of,
)

__all__ = ["UNKNOWN", "Array", "Chunks", "Corpus", "Tracklets"]

Table = TypeVar("Table", Tracklets, Chunks)


class Corpus(CorpusTables):
    """Clips of one manipulation, with their tracklets and chunks.

    Build it with :meth:`from_arrays` or :meth:`from_clips`, read it with :meth:`load`. The
    constructor validates it, so functions that take a corpus need not check it again.

    Examples
    --------
    >>> from objectstates.data.synthetic import synthetic_corpus
    >>> corpus = synthetic_corpus(n_clips=8, seed=0)
    >>> len(corpus), corpus.tracklets.features.shape
    (8, (240, 256))
    >>> corpus.select([0, 3]).clip_ids == (corpus.clip_ids[0], corpus.clip_ids[3])
    True
    """

    def __repr__(self) -> str:
        return (
            f"Corpus({len(self)} clips, "
            f"tracklets {'x'.join(map(str, self.tracklets.features.shape))}, "
            f"chunks {'x'.join(map(str, self.chunks.features.shape))})"
        )

    @classmethod
    def from_arrays(  # long: a parameter per column
        cls,
        *,
        tracklets_per_clip: npt.ArrayLike,
        tracklet_start: npt.ArrayLike,
        tracklet_end: npt.ArrayLike,
        tracklet_features: npt.ArrayLike,
        chunks_per_clip: npt.ArrayLike,
        chunk_start: npt.ArrayLike,
        chunk_end: npt.ArrayLike,
        chunk_features: npt.ArrayLike,
        clip_ids: Sequence[str] | None = None,
        tracklet_time: npt.ArrayLike | None = None,
        tracklet_score: npt.ArrayLike | None = None,
        tracklet_allowed: npt.ArrayLike | None = None,
        tracklet_label: npt.ArrayLike | None = None,
        chunk_time: npt.ArrayLike | None = None,
        chunk_allowed: npt.ArrayLike | None = None,
        chunk_label: npt.ArrayLike | None = None,
        videos: Sequence[str | None] | None = None,
        changes: Sequence[ChangeProfile | None] | None = None,
        info: dict[str, Any] | None = None,
    ) -> Corpus:
        """Build a corpus from columns, clips one after another.

        ``tracklets_per_clip`` and ``chunks_per_clip`` (N,) are the numbers of rows of each clip.
        Times are seconds; rows of a clip are sorted by start. Features (M, d) and (T, d) become
        float32. ``tracklet_allowed`` is (M, 2), ``chunk_allowed`` (T,) or (T, 1); for a chain of K
        states (M, K) and (T, K - 1). Defaults: a time is the middle of its interval, a score is 1,
        everything is allowed, and labels (:data:`UNKNOWN`) and changes (None) are unknown.

        >>> corpus = Corpus.from_arrays(
        ...     tracklets_per_clip=[2], tracklet_start=[0, 2], tracklet_end=[1, 3],
        ...     tracklet_features=np.eye(2),
        ...     chunks_per_clip=[3], chunk_start=[0, 1, 2], chunk_end=[1, 2, 3],
        ...     chunk_features=np.eye(3))
        >>> corpus
        Corpus(1 clips, tracklets 2x2, chunks 3x3)
        """
        of_tracklets = _counts("`tracklets_per_clip`", tracklets_per_clip)
        of_chunks = _counts("`chunks_per_clip`", chunks_per_clip)
        n_clips = len(of_tracklets)
        if len(of_chunks) != n_clips:
            raise CorpusError(
                f"`tracklets_per_clip` is for {n_clips} clips, `chunks_per_clip` for "
                f"{len(of_chunks)}: both must have one entry per clip"
            )
        if clip_ids is None:
            clip_ids = [f"clip{n:0{len(str(max(n_clips - 1, 0)))}d}" for n in range(n_clips)]
        m, t = int(of_tracklets.sum()), int(of_chunks.sum())
        times = tracklet_start, tracklet_end, tracklet_time
        score = np.ones(m) if tracklet_score is None else tracklet_score
        tracklets = Tracklets(
            **_columns("tracklet", of_tracklets, times, tracklet_label, tracklet_features),
            score=_floats("tracklet_score", score),
            allowed=as_flags("`tracklet_allowed`", tracklet_allowed, (m, 2)),
            boxes=np.empty((0, 5)),
            box_offsets=np.zeros(m + 1, np.int64),
        )
        times = chunk_start, chunk_end, chunk_time
        chunks = Chunks(
            **_columns("chunk", of_chunks, times, chunk_label, chunk_features),
            allowed=_per_action(as_flags("`chunk_allowed`", chunk_allowed, (t, 1))),
        )
        no_value = (None,) * n_clips
        of_videos = no_value if videos is None else tuple(map(_printable, videos))
        return cls(
            tuple(clip_ids),
            tracklets,
            chunks,
            of_videos,
            no_value,
            info or {},
            changes=no_value if changes is None else tuple(changes),
        )

    @classmethod
    def from_clips(
        cls,
        clips: Iterable[Clip],
        info: dict[str, Any] | None = None,
        arrays: dict[str, Array] | None = None,
    ) -> Corpus:
        """Build a corpus from :class:`~objectstates.data.clips.Clip` objects."""
        clips = list(clips)
        tracklets = [tracklet for clip in clips for tracklet in clip.tracklets]
        chunks = [chunk for clip in clips for chunk in clip.chunks]
        n_states = np.size(chunks[0].allowed) + 1 if chunks else 2
        corpus = cls.from_arrays(
            clip_ids=[clip.id for clip in clips],
            videos=[clip.video for clip in clips],
            changes=[clip.change for clip in clips],
            info=info,
            tracklets_per_clip=[len(clip.tracklets) for clip in clips],
            tracklet_start=[x.start for x in tracklets],
            tracklet_end=[x.end for x in tracklets],
            tracklet_time=[_time(x) for x in tracklets],
            tracklet_features=_stack("tracklet", [x.feature for x in tracklets]),
            tracklet_score=[x.score for x in tracklets],
            tracklet_allowed=_flags([x.allowed for x in tracklets], n_states),
            tracklet_label=[UNKNOWN if x.label is None else x.label for x in tracklets],
            chunks_per_clip=[len(clip.chunks) for clip in clips],
            chunk_start=[x.start for x in chunks],
            chunk_end=[x.end for x in chunks],
            chunk_time=[_time(x) for x in chunks],
            chunk_features=_stack("chunk", [x.feature for x in chunks]),
            chunk_allowed=_flags([x.allowed for x in chunks], n_states - 1),
            chunk_label=[UNKNOWN if x.label is None else x.label for x in chunks],
        )
        boxes = [(b.time, b.x1, b.y1, b.x2, b.y2) for x in tracklets for b in x.boxes]
        with_boxes = replace(
            corpus.tracklets,
            boxes=np.array(boxes, np.float64).reshape(-1, 5),
            box_offsets=offsets_of([len(x.boxes) for x in tracklets]),
        )
        spans = tuple(
            None if clip.start is None or clip.end is None else (clip.start, clip.end)
            for clip in clips
        )
        episodes = tuple(clip.episode for clip in clips)
        return replace(
            corpus, tracklets=with_boxes, spans=spans, arrays=arrays or {}, episodes=episodes
        )

    @classmethod
    def load(cls, path: str | Path, *, features: bool = True) -> Corpus:
        """Read and validate a corpus folder.

        features : whether to read the features too; without, they have size 0.
        """
        return read_tables(Path(path), cls, features=features)

    def save(self, path: str | Path) -> None:
        """Write the corpus as a folder; an earlier corpus there is replaced as a whole."""
        write_tables(self, Path(path))

    def __iter__(self) -> Iterator[Clip]:
        return (self[n] for n in range(len(self)))

    def __getitem__(self, n: int) -> Clip:
        """Clip n as plain objects."""
        n = range(len(self))[n]
        span = self.spans[n]
        return Clip(
            id=self.clip_ids[n],
            tracklets=tuple(self._tracklet(i) for i in self.tracklet_rows(n)),
            chunks=tuple(self._chunk(t) for t in self.chunk_rows(n)),
            video=self.videos[n],
            start=None if span is None else span[0],
            end=None if span is None else span[1],
            change=self.changes[n],
            episode=self.episodes[n],
        )

    def tracklet_rows(self, n: int) -> range:
        """The rows of clip n in the table of tracklets."""
        return _rows(self.tracklets, n)

    def chunk_rows(self, n: int) -> range:
        """The rows of clip n in the table of chunks."""
        return _rows(self.chunks, n)

    def select(self, clips: Sequence[int] | Array) -> Corpus:
        """The corpus of some clips: indices, in the given order, or a boolean mask (N,)."""
        if np.asarray(clips).dtype == bool:
            clips = np.flatnonzero(clips)
        boxes, first = self.tracklets.boxes, self.tracklets.box_offsets
        tracklets, rows = _select(self.tracklets, clips)
        of_rows = _concatenated([range(first[i], first[i + 1]) for i in rows])
        box_offsets = offsets_of(np.diff(first)[rows])
        return Corpus(
            tuple(self.clip_ids[n] for n in clips),
            replace(tracklets, boxes=boxes[of_rows], box_offsets=box_offsets),
            _select(self.chunks, clips)[0],
            tuple(self.videos[n] for n in clips),
            tuple(self.spans[n] for n in clips),
            self.info,
            self.arrays,
            tuple(self.changes[n] for n in clips),
            tuple(self.episodes[n] for n in clips),
        )

    @property
    def n_states(self) -> int:
        """K: 2, or more for a chain of changes."""
        return int(self.tracklets.allowed.shape[1])

    def for_changes(self, changes: int) -> Corpus:
        """The same clips for a chain of ``changes``: what is forbidden altogether stays so."""
        if changes == self.n_states - 1:
            return self
        allowed = self.tracklets.allowed, self.chunks.allowed
        if any((mask.any(axis=1) != mask.all(axis=1)).any() for mask in allowed):
            raise CorpusError(
                f"the corpus forbids some labels of {self.n_states} states: it cannot be used for "
                f"{changes + 1}"
            )
        tracklets, chunks = (
            np.repeat(np.all(mask, axis=1, keepdims=True), columns, axis=1)
            for mask, columns in zip(allowed, (changes + 1, changes), strict=True)
        )
        return replace(
            self,
            tracklets=replace(self.tracklets, allowed=tracklets),
            chunks=replace(self.chunks, allowed=chunks),
        )

    def with_features(
        self, *, tracklets: Array | None = None, chunks: Array | None = None
    ) -> Corpus:
        """The same clips with other features, (M, d) or (T, d)."""
        of_tracklets, of_chunks = self.tracklets, self.chunks
        if tracklets is not None:
            tracklets = _features("tracklet_features", tracklets)
            of_tracklets = replace(of_tracklets, features=tracklets)
        if chunks is not None:
            of_chunks = replace(of_chunks, features=_features("chunk_features", chunks))
        return replace(self, tracklets=of_tracklets, chunks=of_chunks)

    def image_fps(self, video: str | PurePath | None = None) -> float:
        """Frame rate of videos that are folders of images: that of ``video``, of ingest, else 25.

        ``info["image_fps"]`` has the rates of single videos, by the names of their folders.
        """
        rates, ingest = self.info.get("image_fps"), self.info.get("ingest")
        known = [
            rates.get(PurePath(video).name) if isinstance(rates, dict) and video else None,
            ingest.get("image_fps") if isinstance(ingest, dict) else None,
        ]
        found = (float(r) for r in known if isinstance(r, int | float) and 0 < r < np.inf)
        return next(found, 25.0)

    def without_features(self) -> Corpus:
        """The same clips with features of size 0; times, boxes, scores, changes, labels stay."""
        n_tracklets, n_chunks = len(self.tracklets.start), len(self.chunks.start)
        stripped = self.with_features(
            tracklets=np.empty((n_tracklets, 0)), chunks=np.empty((n_chunks, 0))
        )
        return replace(stripped, arrays={})

    def _tracklet(self, i: int) -> Tracklet:
        table = self.tracklets
        boxes = table.boxes[table.box_offsets[i] : table.box_offsets[i + 1]]
        return Tracklet(
            start=float(table.start[i]),
            end=float(table.end[i]),
            feature=table.features[i],
            score=float(table.score[i]),
            boxes=tuple(Box(*map(float, row)) for row in boxes),
            time=float(table.time[i]),
            allowed=tuple(map(bool, table.allowed[i])),
            label=None if table.label[i] == UNKNOWN else TrackletLabel(table.label[i]),
        )

    def _chunk(self, t: int) -> Chunk:
        table = self.chunks
        flags = [bool(flag) for flag in table.allowed[t]]
        return Chunk(
            start=float(table.start[t]),
            end=float(table.end[t]),
            feature=table.features[t],
            time=float(table.time[t]),
            allowed=tuple(flags) if len(flags) > 1 else flags[0],
            label=None if table.label[t] == UNKNOWN else int(table.label[t]),
        )


def _printable(video: str | None) -> str | None:
    return printable_name(video) if isinstance(video, str) else video


def _rows(table: Tracklets | Chunks, n: int) -> range:
    n = range(len(table.offsets) - 1)[n]
    return range(int(table.offsets[n]), int(table.offsets[n + 1]))


def _select(table: Table, clips: Sequence[int] | Array) -> tuple[Table, Array]:
    """The table of some clips, its boxes left as they are, and the rows it consists of."""
    of_clips = [_rows(table, n) for n in clips]
    rows = _concatenated(of_clips)
    names = {f.name for f in fields(table)} - {"offsets", "boxes", "box_offsets"}
    columns = {name: getattr(table, name)[rows] for name in names}
    return replace(table, offsets=offsets_of([len(r) for r in of_clips]), **columns), rows


def _concatenated(ranges: Iterable[range]) -> Array:
    return np.concatenate([np.empty(0, np.int64), *(np.arange(r.start, r.stop) for r in ranges)])


# --- columns from arrays and objects of the user ------------------------------------------------


def _counts(name: str, values: npt.ArrayLike) -> Array:
    counts = np.asarray(values)
    if counts.size == 0:
        counts = counts.astype(np.int64)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise CorpusError(f"{name} must be a list of integers >= 0, one per clip")
    return counts.astype(np.int64)


def _floats(name: str, values: npt.ArrayLike) -> Array:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as problem:
        raise CorpusError(f"`{name}` must be numbers: {problem}") from problem


def _columns(
    kind: str,
    per_clip: Array,
    times: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike | None],
    label: npt.ArrayLike | None,
    features: npt.ArrayLike,
) -> dict[str, Array]:
    """The columns that both tables have; ``times`` are start, end and time."""
    start, end = _floats(f"{kind}_start", times[0]), _floats(f"{kind}_end", times[1])
    middle = (start + end) / 2 if start.shape == end.shape else start  # validation reports these
    return {
        "offsets": offsets_of(per_clip),
        "start": start,
        "end": end,
        "time": middle if times[2] is None else _floats(f"{kind}_time", times[2]),
        "label": as_labels(
            f"`{kind}_label`", label, int(per_clip.sum()), ambiguous=kind == "tracklet"
        ),
        "features": _features(f"{kind}_features", features),
    }


def _per_action(allowed: Array) -> Array:
    """(T, A) from (T, A), or from (T,) for a single action."""
    return allowed[:, None] if allowed.ndim == 1 else allowed


def _flags(rows: Sequence[bool | tuple[bool, ...]], n_columns: int) -> Array:
    """(n, ``n_columns``) what each row allows."""
    try:
        return np.array(rows, bool).reshape(len(rows), n_columns)
    except ValueError:
        raise CorpusError(
            "`allowed` must have one entry per state of a tracklet, and one less for chunks, the "
            "same in all clips"
        ) from None


def _time(row: Tracklet | Chunk) -> float:
    return (row.start + row.end) / 2 if row.time is None else row.time


def _features(name: str, values: npt.ArrayLike) -> Array:
    try:
        features = np.asarray(values)
        if features.dtype != np.float32:
            with np.errstate(over="ignore"):  # overflow gives inf, which validation rejects
                features = features.astype(np.float32)
    except (TypeError, ValueError) as problem:
        raise CorpusError(f"`{name}` must be a matrix of numbers: {problem}") from problem
    if features.ndim != 2:
        raise CorpusError(f"`{name}` must be a matrix of one row each, not {features.ndim}-d")
    return features


def _stack(name: str, features: list[Array]) -> Array:
    sizes = {feature.shape for feature in features}
    if len(sizes) > 1:
        raise CorpusError(f"{name} features differ in shape: {sorted(sizes)}")
    return np.stack(features) if features else np.empty((0, 1), np.float32)

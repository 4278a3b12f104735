"""A corpus: what is known of a set of clips that all show the same manipulation.

In memory it is two tables of columns (tracklets, chunks) with the clips one after another, which is
what the solver wants; ``corpus[i]`` gives one clip as plain objects. On disk it is a folder::

    corpus.json         format version, names and sizes of the features, free-form information
    arrays.npz          what else the features are made with, such as codebooks; may be missing
    clips.parquet       clip, video, start, end
    tracklets.parquet   clip, start, end, time, score, allowed_1, allowed_2, label, boxes, feature
    chunks.parquet      clip, start, end, time, allowed, label, feature

Rows of a clip stand together, in the order of ``clips.parquet``; features are fixed-size lists of
float32. ``time``, ``score``, ``allowed*``, ``label`` and ``boxes`` may be missing, and so may
``feature`` where the header says that its size is 0: such a corpus can be shown, not learned on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import CorpusError
from objectstates.data.clips import Box, Chunk, Clip, Tracklet, TrackletLabel

UNKNOWN = -1  # label of a row whose truth is not known

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Tracklets:
    """All tracklets, M of them. ``offsets`` (N + 1,) says where each clip's begin.

    ``boxes`` (B, 5) holds time, x1, y1, x2, y2; tracklet i's begin at ``box_offsets[i]``.
    """

    offsets: Array
    start: Array
    end: Array
    time: Array
    score: Array
    allowed: Array  # (M, 2) bool
    label: Array  # (M,) int8: a TrackletLabel or UNKNOWN
    features: Array  # (M, d) float32
    boxes: Array
    box_offsets: Array


@dataclass(frozen=True, eq=False)
class Chunks:
    """All chunks, T of them. ``offsets`` (N + 1,) says where each clip's begin."""

    offsets: Array
    start: Array
    end: Array
    time: Array
    allowed: Array  # (T,) bool
    label: Array  # (T,) int8: 1 action, 0 none, UNKNOWN
    features: Array  # (T, d) float32


@dataclass(frozen=True, eq=False)
class Corpus:
    """Clips of one manipulation, with their tracklets and chunks.

    Build it with :meth:`from_arrays` or :meth:`from_clips`, read it with :meth:`load`. It is
    validated when it is made, so that whoever holds one need not check it again.
    """

    clip_ids: tuple[str, ...]
    tracklets: Tracklets
    chunks: Chunks
    videos: tuple[str | None, ...]
    spans: tuple[tuple[float, float] | None, ...]
    info: dict[str, Any]
    arrays: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _validate(self)

    def __len__(self) -> int:
        return len(self.clip_ids)

    def __repr__(self) -> str:
        return (
            f"Corpus({len(self)} clips, "
            f"tracklets {'x'.join(map(str, self.tracklets.features.shape))}, "
            f"chunks {'x'.join(map(str, self.chunks.features.shape))})"
        )

    @classmethod
    def from_arrays(
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
        info: dict[str, Any] | None = None,
    ) -> Corpus:
        """Build a corpus from columns, clips one after another.

        ``tracklets_per_clip`` and ``chunks_per_clip`` (N,) say how many rows each clip has. Times
        are seconds; rows of a clip are sorted by start. Features (M, d) and (T, d) become float32.
        A time that is not given is the middle of its interval, a score is 1, everything is
        allowed, and a label is unknown (:data:`UNKNOWN`).

        >>> corpus = Corpus.from_arrays(
        ...     tracklets_per_clip=[2], tracklet_start=[0, 2], tracklet_end=[1, 3],
        ...     tracklet_features=np.eye(2),
        ...     chunks_per_clip=[3], chunk_start=[0, 1, 2], chunk_end=[1, 2, 3],
        ...     chunk_features=np.eye(3))
        >>> corpus
        Corpus(1 clips, tracklets 2x2, chunks 3x3)
        """
        counts = [_counts("tracklets_per_clip", tracklets_per_clip)]
        counts.append(_counts("chunks_per_clip", chunks_per_clip))
        n_clips = len(counts[0])
        if len(counts[1]) != n_clips:
            raise CorpusError(
                f"tracklets_per_clip names {n_clips} clips, chunks_per_clip {len(counts[1])}: "
                "both must have one entry per clip"
            )
        if clip_ids is None:
            clip_ids = [f"clip{n:0{len(str(max(n_clips - 1, 0)))}d}" for n in range(n_clips)]
        m, t = int(counts[0].sum()), int(counts[1].sum())
        start, end = (
            _floats("tracklet_start", tracklet_start),
            _floats("tracklet_end", tracklet_end),
        )
        tracklets = Tracklets(
            offsets=_offsets(counts[0]),
            start=start,
            end=end,
            time=_middle("tracklet_time", tracklet_time, start, end),
            score=np.ones(m) if tracklet_score is None else _floats("score", tracklet_score),
            allowed=as_flags("tracklet_allowed", tracklet_allowed, (m, 2)),
            label=as_labels("tracklet_label", tracklet_label, m, 3),
            features=_features("tracklet_features", tracklet_features),
            boxes=np.empty((0, 5)),
            box_offsets=np.zeros(m + 1, np.int64),
        )
        start, end = _floats("chunk_start", chunk_start), _floats("chunk_end", chunk_end)
        chunks = Chunks(
            offsets=_offsets(counts[1]),
            start=start,
            end=end,
            time=_middle("chunk_time", chunk_time, start, end),
            allowed=as_flags("chunk_allowed", chunk_allowed, (t,)),
            label=as_labels("chunk_label", chunk_label, t, 1),
            features=_features("chunk_features", chunk_features),
        )
        return cls(
            tuple(clip_ids),
            tracklets,
            chunks,
            tuple(videos) if videos is not None else (None,) * n_clips,
            (None,) * n_clips,
            info or {},
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
        corpus = cls.from_arrays(
            clip_ids=[clip.id for clip in clips],
            videos=[clip.video for clip in clips],
            info=info,
            tracklets_per_clip=[len(clip.tracklets) for clip in clips],
            tracklet_start=[x.start for x in tracklets],
            tracklet_end=[x.end for x in tracklets],
            tracklet_time=[(x.start + x.end) / 2 if x.time is None else x.time for x in tracklets],
            tracklet_features=_stack("tracklet", [x.feature for x in tracklets]),
            tracklet_score=[x.score for x in tracklets],
            tracklet_allowed=np.array([x.allowed for x in tracklets], bool).reshape(-1, 2),
            tracklet_label=[UNKNOWN if x.label is None else x.label for x in tracklets],
            chunks_per_clip=[len(clip.chunks) for clip in clips],
            chunk_start=[x.start for x in chunks],
            chunk_end=[x.end for x in chunks],
            chunk_time=[(x.start + x.end) / 2 if x.time is None else x.time for x in chunks],
            chunk_features=_stack("chunk", [x.feature for x in chunks]),
            chunk_allowed=[x.allowed for x in chunks],
            chunk_label=[UNKNOWN if x.label is None else x.label for x in chunks],
        )
        boxes = [(b.time, b.x1, b.y1, b.x2, b.y2) for x in tracklets for b in x.boxes]
        with_boxes = replace(
            corpus.tracklets,
            boxes=np.array(boxes, np.float64).reshape(-1, 5),
            box_offsets=_offsets(np.array([len(x.boxes) for x in tracklets], np.int64)),
        )
        spans = tuple(
            None if clip.start is None or clip.end is None else (clip.start, clip.end)
            for clip in clips
        )
        return replace(corpus, tracklets=with_boxes, spans=spans, arrays=arrays or {})

    @classmethod
    def load(cls, path: str | Path) -> Corpus:
        """Read a corpus folder. Tables are memory-mapped while their columns are copied out."""
        from objectstates.data.corpus_io import read_corpus

        return read_corpus(Path(path))

    def save(self, path: str | Path) -> None:
        """Write the corpus as a folder; an earlier corpus there is replaced as a whole."""
        from objectstates.data.corpus_io import write_corpus

        write_corpus(self, Path(path))

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
        )

    def tracklet_rows(self, n: int) -> range:
        """Where clip n's tracklets stand in the table."""
        n = range(len(self))[n]
        return range(int(self.tracklets.offsets[n]), int(self.tracklets.offsets[n + 1]))

    def chunk_rows(self, n: int) -> range:
        """Where clip n's chunks stand in the table."""
        n = range(len(self))[n]
        return range(int(self.chunks.offsets[n]), int(self.chunks.offsets[n + 1]))

    def select(self, clips: Sequence[int] | Array) -> Corpus:
        """The corpus of the given clips alone, in the given order; or of those a mask marks."""
        if np.asarray(clips).dtype == bool:
            clips = np.flatnonzero(clips)
        table, chunks = self.tracklets, self.chunks
        rows = np.concatenate([np.arange(0), *(np.array(self.tracklet_rows(n)) for n in clips)])
        times = np.concatenate([np.arange(0), *(np.array(self.chunk_rows(n)) for n in clips)])
        rows, times = rows.astype(np.int64), times.astype(np.int64)
        spans = [np.arange(table.box_offsets[i], table.box_offsets[i + 1]) for i in rows]
        return Corpus(
            tuple(self.clip_ids[n] for n in clips),
            Tracklets(
                offsets=_offsets(np.array([len(self.tracklet_rows(n)) for n in clips], np.int64)),
                start=table.start[rows],
                end=table.end[rows],
                time=table.time[rows],
                score=table.score[rows],
                allowed=table.allowed[rows],
                label=table.label[rows],
                features=table.features[rows],
                boxes=table.boxes[np.concatenate([np.arange(0), *spans]).astype(np.int64)],
                box_offsets=_offsets(np.diff(table.box_offsets)[rows]),
            ),
            Chunks(
                offsets=_offsets(np.array([len(self.chunk_rows(n)) for n in clips], np.int64)),
                start=chunks.start[times],
                end=chunks.end[times],
                time=chunks.time[times],
                allowed=chunks.allowed[times],
                label=chunks.label[times],
                features=chunks.features[times],
            ),
            tuple(self.videos[n] for n in clips),
            tuple(self.spans[n] for n in clips),
            self.info,
            self.arrays,
        )

    def with_features(
        self, *, tracklets: Array | None = None, chunks: Array | None = None
    ) -> Corpus:
        """The same clips described by other features, (M, d) or (T, d)."""
        return replace(
            self,
            tracklets=self.tracklets
            if tracklets is None
            else replace(self.tracklets, features=_features("tracklet_features", tracklets)),
            chunks=self.chunks
            if chunks is None
            else replace(self.chunks, features=_features("chunk_features", chunks)),
        )

    def without_features(self) -> Corpus:
        """The same clips without what describes them: times, boxes, scores and truth stay."""
        rows, times = len(self.tracklets.start), len(self.chunks.start)
        stripped = self.with_features(tracklets=np.empty((rows, 0)), chunks=np.empty((times, 0)))
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
            allowed=(bool(table.allowed[i, 0]), bool(table.allowed[i, 1])),
            label=None if table.label[i] == UNKNOWN else TrackletLabel(table.label[i]),
        )

    def _chunk(self, t: int) -> Chunk:
        table = self.chunks
        return Chunk(
            start=float(table.start[t]),
            end=float(table.end[t]),
            feature=table.features[t],
            time=float(table.time[t]),
            allowed=bool(table.allowed[t]),
            label=None if table.label[t] == UNKNOWN else bool(table.label[t]),
        )


# --- columns from what users have -------------------------------------------------------------


def _counts(name: str, values: npt.ArrayLike) -> Array:
    counts = np.asarray(values)
    if counts.size == 0:
        counts = counts.astype(np.int64)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise CorpusError(f"{name} must be a list of whole numbers, one per clip")
    return counts.astype(np.int64)


def _offsets(counts: Array) -> Array:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _floats(name: str, values: npt.ArrayLike) -> Array:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as problem:
        raise CorpusError(f"{name} must be numbers: {problem}") from problem


def _middle(name: str, time: npt.ArrayLike | None, start: Array, end: Array) -> Array:
    if time is not None:
        return _floats(name, time)
    return (start + end) / 2 if start.shape == end.shape else start


def as_flags(name: str, values: npt.ArrayLike | None, shape: tuple[int, ...]) -> Array:
    """Booleans, all true unless given."""
    if values is None:
        return np.ones(shape, bool)
    flags = np.asarray(values)
    if flags.size and not np.isin(flags, (0, 1)).all():
        raise CorpusError(f"{name} must be true or false")
    return flags.astype(bool)


def as_labels(name: str, values: npt.ArrayLike | None, n: int, most: int) -> Array:
    """Labels from 0 to ``most``, all unknown unless given."""
    if values is None:
        return np.full(n, UNKNOWN, np.int8)
    labels = np.asarray(values)
    if labels.size and not np.isin(labels, np.arange(UNKNOWN, most + 1)).all():
        raise CorpusError(f"{name} must be whole numbers from 0 to {most}, or -1 for unknown")
    return labels.astype(np.int8)


def _features(name: str, values: npt.ArrayLike) -> Array:
    try:
        features = np.asarray(values)
        if features.dtype != np.float32:
            with np.errstate(over="ignore"):  # too large for float32 is caught as not finite
                features = features.astype(np.float32)
    except (TypeError, ValueError) as problem:
        raise CorpusError(f"{name} must be a matrix of numbers: {problem}") from problem
    if features.ndim != 2:
        raise CorpusError(f"{name} must be a matrix with one row each, not {features.ndim}-d")
    return features


def _stack(name: str, features: list[Array]) -> Array:
    sizes = {feature.shape for feature in features}
    if len(sizes) > 1:
        raise CorpusError(f"{name} features differ in shape: {sorted(sizes)}")
    return np.stack(features) if features else np.empty((0, 1), np.float32)


# --- validation ------------------------------------------------------------------------------


def _validate(corpus: Corpus) -> None:
    ids = corpus.clip_ids
    if not ids:
        raise CorpusError("the corpus has no clips")
    for clip_id in ids:
        if not isinstance(clip_id, str) or not clip_id or not _is_text(clip_id):
            raise CorpusError(f"clip id {clip_id!r} is not a non-empty string")
    if len(set(ids)) < len(ids):
        twice = next(x for x in ids if ids.count(x) > 1)
        raise CorpusError(f"clip id {twice!r} occurs more than once: ids must be unique")
    if not len(corpus.videos) == len(corpus.spans) == len(ids):
        raise CorpusError("there must be one video (or None) per clip")
    for clip_id, video, span in zip(ids, corpus.videos, corpus.spans, strict=True):
        if video is not None and not (isinstance(video, str) and _is_text(video)):
            raise CorpusError(f"clip {clip_id!r}: video {video!r} is not a string")
        if span is not None and not -np.inf < span[0] < span[1] < np.inf:
            raise CorpusError(f"clip {clip_id!r}: its span {span} must end after it starts")
    tables: dict[str, Tracklets | Chunks] = {
        "tracklet": corpus.tracklets,
        "chunk": corpus.chunks,
    }
    for kind, table in tables.items():
        _validate_lengths(kind, table, len(ids))
    empty = np.flatnonzero(np.diff(corpus.chunks.offsets) == 0)
    if len(empty):
        raise CorpusError(
            f"clip {ids[empty[0]]!r} has no chunk: every clip needs at least one, leave it out"
        )
    for kind, table in tables.items():
        _validate_rows(kind, table, ids)
    score = corpus.tracklets.score
    _first_bad(
        "tracklet",
        "score",
        corpus.tracklets,
        ids,
        ~((score >= 0) & (score <= 1)),
        score,
        "must lie between 0 and 1",
    )


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _validate_lengths(kind: str, table: Tracklets | Chunks, n_clips: int) -> None:
    n_rows = int(table.offsets[-1])
    if len(table.offsets) != n_clips + 1:
        raise CorpusError(f"{kind} rows are given for {len(table.offsets) - 1} of {n_clips} clips")
    for name in ("start", "end", "time", "score", "allowed", "label", "features"):
        column = getattr(table, name, None)
        if column is not None and len(column) != n_rows:
            raise CorpusError(
                f"{kind}s: {name} has {len(column)} rows, but the clips have {n_rows} {kind}s in "
                "all: every column must have one row per " + kind
            )
        if column is not None and name not in ("allowed", "features") and column.ndim != 1:
            raise CorpusError(f"{kind}s: {name} must be one-dimensional")
    if isinstance(table, Tracklets):
        if table.allowed.shape != (n_rows, 2):
            raise CorpusError("tracklet_allowed must have two columns, one per state")
        if len(table.box_offsets) != n_rows + 1 or table.box_offsets[-1] != len(table.boxes):
            raise CorpusError("tracklets: boxes do not match the number of tracklets")
        if not np.isfinite(table.boxes).all():
            raise CorpusError("tracklets: boxes have values that are not finite")


def _validate_rows(kind: str, table: Tracklets | Chunks, ids: tuple[str, ...]) -> None:
    for name in ("start", "end", "time"):
        column = getattr(table, name)
        _first_bad(kind, name, table, ids, ~np.isfinite(column), column, "must be finite")
    _first_bad(kind, "end", table, ids, table.end <= table.start, table.end,
               "must lie after the start")  # fmt: skip
    unsorted = np.zeros(len(table.start), bool)
    unsorted[1:] = table.start[1:] < table.start[:-1]
    firsts = table.offsets[:-1][np.diff(table.offsets) > 0]
    unsorted[firsts] = False
    _first_bad(kind, "start", table, ids, unsorted, table.start,
               f"lies before the previous {kind}'s: sort the rows of a clip by start")  # fmt: skip
    for first in range(0, len(table.features), 256):  # in pieces, to need little memory
        check_features(kind, table, ids, first, table.features[first : first + 256])


def check_features(
    kind: str, table: Tracklets | Chunks, ids: tuple[str, ...], first: int, features: Array
) -> None:
    """Raise unless the features of the rows from ``first`` on, (n, d), are all finite."""
    finite = np.asarray(np.isfinite(features).all(axis=1))
    if finite.all():
        return
    bad = np.zeros(len(table.start), bool)
    bad[first : first + len(finite)] = ~finite
    _first_bad(kind, "feature", table, ids, bad, None,
               "has values that are not finite (NaN or infinite): mend or drop it")  # fmt: skip


def _first_bad(
    kind: str,
    name: str,
    table: Tracklets | Chunks,
    ids: tuple[str, ...],
    bad: Array,
    column: Array | None,
    what: str,
) -> None:
    rows = np.flatnonzero(bad)
    if not len(rows):
        return
    row = int(rows[0])
    n = int(np.searchsorted(table.offsets, row, side="right")) - 1
    value = "" if column is None else f" {column[row]:g}"
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    raise CorpusError(
        f"clip {ids[n]!r}, {kind} {row - int(table.offsets[n])}: {name}{value} {what}{more}"
    )

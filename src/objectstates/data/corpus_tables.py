"""The columns of a corpus, one row per tracklet or chunk, and their validation.

`corpus.Corpus` adds the public methods; ``corpus_io.py`` reads and writes these columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from objectstates.base.errors import CorpusError
from objectstates.data.clips import (
    MAX_STATES,
    MAX_WHERE_WIDTH,
    ChangeProfile,
    EpisodeSpan,
    TrackletLabel,
)

UNKNOWN = -1  # label of a row without ground truth

_CHECKED_ROWS = 256  # features per validation step, which bounds the temporary memory

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Tracklets:
    """M tracklets of N clips; those of clip n are rows ``offsets[n]`` to ``offsets[n + 1]``.

    ``boxes`` (B, 5) holds time, x1, y1, x2, y2; tracklet i's start at ``box_offsets[i]``.
    """

    kind: ClassVar[str] = "tracklet"

    offsets: Array  # (N + 1,)
    start: Array
    end: Array
    time: Array
    score: Array
    allowed: Array  # (M, K) bool, for K states
    label: Array  # (M,) int8: a TrackletLabel or UNKNOWN
    features: Array  # (M, d) float32
    boxes: Array
    box_offsets: Array  # (M + 1,)


@dataclass(frozen=True, eq=False)
class Chunks:
    """T chunks of N clips; those of clip n are rows ``offsets[n]`` to ``offsets[n + 1]``."""

    kind: ClassVar[str] = "chunk"

    offsets: Array  # (N + 1,)
    start: Array
    end: Array
    time: Array
    allowed: Array  # (T, K - 1) bool, for K - 1 actions
    label: Array  # (T,) int8: number of the action, 0 no action, UNKNOWN
    features: Array  # (T, d) float32


@dataclass(frozen=True, eq=False)
class CorpusTables:
    """All columns of a corpus; validated on construction.

    spans : start and end of each clip in its video, in seconds.
    info : free-form, JSON only. ``arrays`` : what else features are made with, e.g. codebooks.
    changes : when and where each clip changes for good, None where that is not known; empty for
        a corpus in which it is known of no clip, and then completed with None.
    episodes : of a robot dataset that the clips show; completed like ``changes``.
    """

    clip_ids: tuple[str, ...]
    tracklets: Tracklets
    chunks: Chunks
    videos: tuple[str | None, ...]
    spans: tuple[tuple[float, float] | None, ...]
    info: dict[str, Any]
    arrays: dict[str, Array] = field(default_factory=dict)
    changes: tuple[ChangeProfile | None, ...] = ()
    episodes: tuple[EpisodeSpan | None, ...] = ()

    def __post_init__(self) -> None:
        for name in ("changes", "episodes"):
            if not getattr(self, name):
                object.__setattr__(self, name, (None,) * len(self.clip_ids))
        _validate(self)

    def __len__(self) -> int:
        return len(self.clip_ids)


# --- conversion of columns ----------------------------------------------------------------------


def offsets_of(counts: npt.ArrayLike) -> Array:
    """(n + 1,) the first row of each group, given the number of rows of each (n,)."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def as_flags(name: str, values: npt.ArrayLike | None, shape: tuple[int, ...]) -> Array:
    """Booleans; None means all true."""
    if values is None:
        return np.ones(shape, bool)
    flags = np.asarray(values)
    if flags.size and not np.isin(flags, (0, 1)).all():
        raise CorpusError(f"{name} must be true or false")
    return flags.astype(bool)


def as_labels(name: str, values: npt.ArrayLike | None, n: int, *, ambiguous: bool = False) -> Array:
    """Numbers of states or actions, 0 for none; None means all unknown.

    ambiguous : whether rows may also be ambiguous.
    """
    if values is None:
        return np.full(n, UNKNOWN, np.int8)
    labels = np.asarray(values)
    known = np.arange(TrackletLabel.AMBIGUOUS if ambiguous else UNKNOWN, MAX_STATES + 1)
    if labels.size and not np.isin(labels, known).all():
        also = ", or -2 for ambiguous" if ambiguous else ""
        raise CorpusError(
            f"{name} must be integers from 0 to {MAX_STATES}, or -1 for unknown{also}"
        )
    return labels.astype(np.int8)


# --- validation ---------------------------------------------------------------------------------


def _validate(corpus: CorpusTables) -> None:
    ids = corpus.clip_ids
    if not ids:
        raise CorpusError("the corpus has no clips")
    for clip_id in ids:
        if not clip_id or not _is_text(clip_id):
            raise CorpusError(f"clip id {clip_id!r} is not a non-empty string")
    if len(set(ids)) < len(ids):
        duplicate = next(x for x in ids if ids.count(x) > 1)
        raise CorpusError(f"clip id {duplicate!r} occurs more than once: ids must be unique")
    if not len(corpus.videos) == len(corpus.spans) == len(ids):
        raise CorpusError("there must be one video (or None) per clip")
    for clip_id, video, span in zip(ids, corpus.videos, corpus.spans, strict=True):
        if video is not None and not _is_text(video):
            raise CorpusError(f"clip {clip_id!r}: video {video!r} is not a string")
        if span is not None and not -np.inf < span[0] < span[1] < np.inf:
            raise CorpusError(f"clip {clip_id!r}: its span {span} must end after it starts")
    _validate_changes(corpus)
    _validate_episodes(corpus)
    tables: tuple[Tracklets | Chunks, ...] = corpus.tracklets, corpus.chunks
    for table in tables:
        _validate_lengths(table, len(ids))
    states, actions = corpus.tracklets.allowed.shape[1], corpus.chunks.allowed.shape[1]
    if states != actions + 1:
        raise CorpusError(
            f"`tracklet_allowed` is for {states} states, `chunk_allowed` for {actions} actions: "
            "there is one action less than states"
        )
    empty = np.flatnonzero(np.diff(corpus.chunks.offsets) == 0)
    if len(empty):
        raise CorpusError(
            f"clip {ids[empty[0]]!r} has no chunk: every clip needs at least one, leave it out"
        )
    for table in tables:
        _validate_rows(table, ids)
    score = corpus.tracklets.score
    outside = ~((score >= 0) & (score <= 1))
    _raise_for(corpus.tracklets, ids, outside, "score", score, "must lie between 0 and 1")


def _validate_changes(corpus: CorpusTables) -> None:
    if len(corpus.changes) != len(corpus):
        raise CorpusError(
            f"`changes` has {len(corpus.changes)} change profiles for {len(corpus)} clips: there "
            "must be one (or None) per clip"
        )
    for clip_id, change in zip(corpus.clip_ids, corpus.changes, strict=True):
        problem = None if change is None else _change_problem(change)
        if problem is not None:
            raise CorpusError(f"clip {clip_id!r}, change profile: {problem}")


def _validate_episodes(corpus: CorpusTables) -> None:
    if len(corpus.episodes) != len(corpus):
        raise CorpusError(
            f"`episodes` has {len(corpus.episodes)} episodes for {len(corpus)} clips: there must "
            "be one (or None) per clip"
        )
    for clip_id, episode in zip(corpus.clip_ids, corpus.episodes, strict=True):
        if episode is not None and (episode.index < 0 or not np.isfinite(episode.start)):
            raise CorpusError(f"clip {clip_id!r}: {episode} is no episode: number it from 0")


def _change_problem(change: ChangeProfile) -> str | None:
    """What is wrong with a profile; None if nothing is."""
    problem = _curve_problem(change) or _where_problem(change)
    for name, values in (("local", change.local), ("motion", change.motion)):
        if values is not None:
            problem = problem or _beside_curve_problem(name, values, change.curve)
    return problem


def _curve_problem(change: ChangeProfile) -> str | None:
    curve = change.curve
    if not np.isfinite(change.start):
        return f"start {change.start:g} must be finite"
    if not 0 < change.step < np.inf:
        return f"step {change.step:g} must be a number of seconds above 0"
    if curve.dtype != np.float32 or curve.ndim != 1 or not len(curve):
        return f"curve must be float32 of shape (n,), not {curve.dtype} of {curve.shape}"
    if not (np.isfinite(curve) & (curve >= 0)).all():
        return "curve must have finite values of 0 or more"
    return None


def _where_problem(change: ChangeProfile) -> str | None:
    where = change.where
    if where.dtype != np.uint8 or where.ndim != 2 or not where.size:
        return f"where must be uint8 of shape (h, w), not {where.dtype} of {where.shape}"
    if where.shape[1] > MAX_WHERE_WIDTH:
        return f"where is {where.shape[1]} pixels wide: at most {MAX_WHERE_WIDTH} are allowed"
    if not 0 <= change.scale < np.inf:
        return f"scale {change.scale:g} must be a number of pixels of 0 or more"
    return None


def _beside_curve_problem(name: str, values: Array, curve: Array) -> str | None:
    if values.dtype != np.float32 or values.shape != curve.shape:
        expected = f"float32 of shape {curve.shape}, as the curve"
        return f"{name} must be {expected}, not {values.dtype} of {values.shape}"
    if not (np.isfinite(values) & (values >= 0)).all():
        return f"{name} must have finite values of 0 or more"
    return None


def _is_text(name: Any) -> bool:
    """Whether a name is a string without lone surrogates: Parquet stores UTF-8."""
    try:
        return isinstance(name, str) and name.encode() is not None
    except UnicodeEncodeError:
        return False


def _validate_lengths(table: Tracklets | Chunks, n_clips: int) -> None:
    kind, n_rows = table.kind, int(table.offsets[-1])
    if len(table.offsets) != n_clips + 1:
        raise CorpusError(f"{kind} rows are given for {len(table.offsets) - 1} of {n_clips} clips")
    for name in ("start", "end", "time", "score", "allowed", "label", "features"):
        column = getattr(table, name, None)
        if column is not None and len(column) != n_rows:
            raise CorpusError(
                f"{kind}s: {name} has {len(column)} rows, but the clips have {n_rows} {kind}s in "
                f"all: every column must have one row per {kind}"
            )
        if column is not None and name not in ("allowed", "features") and column.ndim != 1:
            raise CorpusError(f"{kind}s: {name} must be one-dimensional")
    if table.allowed.ndim != 2 or not 1 <= table.allowed.shape[1] <= MAX_STATES:
        columns = "state" if isinstance(table, Tracklets) else "action"
        raise CorpusError(f"`{kind}_allowed` must have one column per {columns}")
    if isinstance(table, Tracklets):
        if len(table.box_offsets) != n_rows + 1 or table.box_offsets[-1] != len(table.boxes):
            raise CorpusError("tracklets: boxes do not match the number of tracklets")
        if not np.isfinite(table.boxes).all():
            raise CorpusError("tracklets: boxes have values that are not finite")


def _validate_rows(table: Tracklets | Chunks, ids: tuple[str, ...]) -> None:
    for name in ("start", "end", "time"):
        column = getattr(table, name)
        _raise_for(table, ids, ~np.isfinite(column), name, column, "must be finite")
    reversed_ = table.end <= table.start
    _raise_for(table, ids, reversed_, "end", table.end, "must lie after the start")
    unsorted = np.zeros(len(table.start), bool)
    unsorted[1:] = table.start[1:] < table.start[:-1]
    unsorted[table.offsets[:-1][np.diff(table.offsets) > 0]] = False  # first rows of clips
    remedy = f"lies before the previous {table.kind}'s: sort the rows of a clip by start"
    _raise_for(table, ids, unsorted, "start", table.start, remedy)
    for first in range(0, len(table.features), _CHECKED_ROWS):
        check_features(table, ids, first, table.features[first : first + _CHECKED_ROWS])


def check_features(
    table: Tracklets | Chunks, ids: tuple[str, ...], first: int, features: Array
) -> None:
    """Raise unless ``features`` (n, d), those of the rows from ``first`` on, are all finite."""
    finite = np.asarray(np.isfinite(features).all(axis=1))
    if finite.all():
        return
    bad = np.zeros(len(table.start), bool)
    bad[first : first + len(finite)] = ~finite
    remedy = "has values that are not finite (NaN or infinite): correct or drop it"
    _raise_for(table, ids, bad, "feature", None, remedy)


def _raise_for(
    table: Tracklets | Chunks,
    ids: tuple[str, ...],
    bad: Array,
    name: str,
    column: Array | None,
    problem: str,
) -> None:
    """Raise for the first row that the mask ``bad`` marks, if any."""
    rows = np.flatnonzero(bad)
    if not len(rows):
        return
    row = int(rows[0])
    n = int(np.searchsorted(table.offsets, row, side="right")) - 1
    value = "" if column is None else f" {column[row]:g}"
    more = f" (and {len(rows) - 1} more)" if len(rows) > 1 else ""
    raise CorpusError(
        f"clip {ids[n]!r}, {table.kind} {row - int(table.offsets[n])}: "
        f"{name}{value} {problem}{more}"
    )

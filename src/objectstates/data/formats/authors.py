"""The authors' release: ``features_<action>.mat``, read as a corpus.

The release has no intervals of tracklets, only the predecessors of each in the dynamic program.
These determine the non-overlap constraint: i and j may both be labelled, i first, if and only if j
is reachable from i. Reachability is an interval order, so intervals that realise it are
reconstructed here, in seconds around each tracklet's time.

Their objective with beta = 1 is the paper's with ``nu=0.5`` (their coupling term has 1/(2T)).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from objectstates.base.choices import CHUNK_SECONDS
from objectstates.base.errors import CorpusError
from objectstates.data.corpus import Array, Corpus
from objectstates.data.formats.mat_file import read_mat, require

_REQUIRED = (
    "X_action", "X_state", "T_action", "T_state", "clips_action", "clips_state", "ptrs_tracks",
)  # fmt: skip
_OPTIONAL = ("Z_GT", "Y_GT", "constrs_action", "constrs_state")
_MOST_TRACKLETS = 10_000  # of a clip; their order takes a byte for each pair


def read_authors(path: str | Path) -> Corpus:
    """Read ``features_<action>.mat``, MATLAB 5 or 7.3 (the latter needs the extra ``mat73``).

    Their labels do not distinguish false positives from ambiguous tracklets: both become 0.
    """
    path = Path(path)
    variables = read_mat(path, [*_REQUIRED, *_OPTIONAL])
    require(path, variables, _REQUIRED, "a features_<action>.mat of the release")
    try:
        return _corpus(path, variables)
    except CorpusError as problem:
        raise CorpusError(f"{path}: {problem}") from None


def _corpus(path: Path, variables: dict[str, Any]) -> Corpus:
    tracklet_time = _vector(variables, "T_state")
    chunk_time = _vector(variables, "T_action")
    tracklets_per_clip = _counts(variables, "clips_state")
    chunks_per_clip = _counts(variables, "clips_action")
    if tracklets_per_clip.sum() != len(tracklet_time):
        raise CorpusError(
            f"clips_state counts {tracklets_per_clip.sum()} tracklets, T_state has "
            f"{len(tracklet_time)}"
        )
    predecessors = variables["ptrs_tracks"]
    if not isinstance(predecessors, list) or len(predecessors) != len(tracklets_per_clip):
        raise CorpusError(f"ptrs_tracks must be a cell of {len(tracklets_per_clip)} cells")
    starts, ends = [np.empty(0)], [np.empty(0)]
    first = 0
    for n, count in enumerate(tracklets_per_clip):
        precedes = _reachability(n, predecessors[n], int(count))
        start, end = realise(precedes, tracklet_time[first : first + count], n)
        starts.append(start)
        ends.append(end)
        first += count
    spacing = np.diff(chunk_time)
    spacing = spacing[spacing > 0]
    half = (float(np.median(spacing)) if len(spacing) else CHUNK_SECONDS) / 2
    return Corpus.from_arrays(
        info={"source": path.name, "format": "authors' release"},
        tracklets_per_clip=tracklets_per_clip,
        tracklet_start=np.concatenate(starts),
        tracklet_end=np.concatenate(ends),
        tracklet_time=tracklet_time,
        tracklet_features=_matrix(variables, "X_state"),
        tracklet_allowed=_stacked(variables, "constrs_state", tracklets_per_clip, 2),
        tracklet_label=_state_labels(variables),
        chunks_per_clip=chunks_per_clip,
        chunk_start=chunk_time - half,
        chunk_end=chunk_time + half,
        chunk_time=chunk_time,
        chunk_features=_matrix(variables, "X_action"),
        chunk_allowed=_stacked(variables, "constrs_action", chunks_per_clip, 1),
        chunk_label=_vector(variables, "Z_GT") if "Z_GT" in variables else None,
    )


# --- intervals from predecessors ---------------------------------------------------------------


def _reachability(n: int, cells: Any, count: int) -> Array:
    """(m, m) bool: whether the tracklet of the row ends before that of the column starts."""
    if not isinstance(cells, list) or len(cells) not in (count, count + 1):
        raise CorpusError(
            f"ptrs_tracks of clip {n} must have one cell per tracklet, and a final one"
        )
    if count > _MOST_TRACKLETS:
        raise CorpusError(f"clip {n} has {count} tracklets, more than {_MOST_TRACKLETS}")
    precedes = np.zeros((count, count), bool)
    for j in range(count):
        try:
            before = np.asarray(cells[j], np.float64).ravel()
        except (TypeError, ValueError) as problem:
            raise CorpusError(f"ptrs_tracks of clip {n}, tracklet {j}: {problem}") from problem
        for p in before:
            if p == -1:  # no predecessor: it may come first
                continue
            if not np.isfinite(p) or p != int(p) or not 0 <= p < j:
                raise CorpusError(
                    f"clip {n}, tracklet {j}: predecessor {p:g} is not an earlier tracklet"
                )
            precedes[:, j] |= precedes[:, int(p)]
            precedes[int(p), j] = True
    return precedes


def realise(precedes: Array, time: Array, clip: int = 0) -> tuple[Array, Array]:
    """Half-open intervals around ``time`` (m,) with the interval order ``precedes`` (m, m).

    The predecessor sets of an interval order are nested. Their ranks are boundaries in time: an
    interval starts at the rank of its own set, and ends at the first set that contains it. Each
    boundary is placed half-way between the times before it and those after it.

    >>> precedes = np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0]], bool)  # 0 before 2; 1 overlaps both
    >>> realise(precedes, np.array([1.0, 2.0, 3.0]))
    (array([0.5, 0.5, 2. ]), array([2. , 3.5, 3.5]))
    """
    count = len(time)
    if count == 0:
        return np.empty(0), np.empty(0)
    sizes, rank = np.unique(precedes.sum(axis=0), return_inverse=True)
    first = [int(np.flatnonzero(rank == q)[0]) for q in range(len(sizes))]
    sets = precedes[:, first].T  # (ranks, m), nested if this is an interval order
    nested = (sets[:-1] <= sets[1:]).all() and (precedes == sets[rank].T).all()
    if not nested:
        raise CorpusError(f"clip {clip}: ptrs_tracks is not the order of any set of intervals")
    until = np.where(sets.any(axis=0), sets.argmax(axis=0), len(sizes))
    bounds = np.empty(len(sizes) + 1)
    bounds[0] = time.min() - 0.5
    for q in range(1, len(sizes)):
        ended, begun = time[until <= q].max(), time[rank >= q].min()
        if ended > begun:
            raise CorpusError(
                f"clip {clip}: T_state places a tracklet at {ended:g} s before one at {begun:g} s"
            )
        bounds[q] = max((ended + begun) / 2, np.nextafter(bounds[q - 1], np.inf))
    bounds[-1] = max(time.max(), bounds[-2]) + 0.5
    return bounds[rank], bounds[until]


# --- variables of the file ---------------------------------------------------------------------


def _matrix(variables: dict[str, Any], name: str) -> Array:
    value = variables[name]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
        raise CorpusError(f"{name} must be a matrix of numbers")
    return value


def _vector(variables: dict[str, Any], name: str) -> Array:
    return _matrix(variables, name).ravel().astype(np.float64)


def _counts(variables: dict[str, Any], name: str) -> Array:
    counts = _vector(variables, name)
    if not (np.isfinite(counts).all() and (counts >= 0).all() and (counts == counts.round()).all()):
        raise CorpusError(f"{name} must hold integers >= 0, one per clip")
    return counts.astype(np.int64)


def _stacked(variables: dict[str, Any], name: str, per_clip: Array, columns: int) -> Array | None:
    """Concatenate a cell of per-clip matrices; a single column is returned as (n,)."""
    if name not in variables:
        return None
    cells = variables[name]
    cells = cells if isinstance(cells, list) else [cells]
    shapes = [np.shape(cell) for cell in cells]
    expected = [(int(count), columns) for count in per_clip]
    fits = [s == e or (e[0] == 0 and 0 in s) for s, e in zip(shapes, expected, strict=False)]
    if len(shapes) != len(expected) or not all(fits):
        raise CorpusError(
            f"{name} must be a cell of one matrix per clip, {columns} columns and a row for each"
        )
    stacked = np.concatenate([np.reshape(cell, (-1, columns)) for cell in cells])
    return stacked if columns > 1 else stacked.ravel()


def _state_labels(variables: dict[str, Any]) -> Array | None:
    if "Y_GT" not in variables:
        return None
    truth = _matrix(variables, "Y_GT")
    if truth.ndim != 2 or truth.shape[1] != 2:
        raise CorpusError("Y_GT must have two columns")
    return np.where(truth[:, 0] > 0, 1, np.where(truth[:, 1] > 0, 2, 0)).astype(np.int8)

"""Read and write a corpus folder: Parquet tables and a JSON header (format: see ``corpus.py``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from objectstates.base.checksums import check_file, checked_header, file_checksum, with_checksums
from objectstates.base.errors import CorpusError
from objectstates.base.npz_file import read_npz
from objectstates.base.storage import Artefact
from objectstates.data.clips import ChangeProfile, EpisodeSpan, TrackletLabel
from objectstates.data.corpus_checksums import TableChecksums, table_checksums
from objectstates.data.corpus_tables import (
    UNKNOWN,
    Array,
    Chunks,
    CorpusTables,
    Tracklets,
    as_flags,
    as_labels,
    check_features,
)
from objectstates.data.parquet_table import BOX, MAX_GROUP_ROWS, ParquetTable

Corpus = TypeVar("Corpus", bound=CorpusTables)

ARTEFACT = Artefact(
    header="corpus.json",
    version=2,
    oldest=1,
    files=frozenset({"clips.parquet", "tracklets.parquet", "chunks.parquet", "arrays.npz"}),
    error=CorpusError,
)

ARRAYS = "arrays.npz"
_TABLES = ("tracklets.parquet", "chunks.parquet")
_GROUP_BYTES = 2 << 20  # of features per row group; writing one needs about ten times as much
_PAGE_BYTES = 1 << 16  # of a data page; the writer buffers several
_CURVE, _WHERE = pa.list_(pa.float32()), pa.list_(pa.uint8())  # of a `ChangeProfile`


@dataclass(frozen=True, eq=False)
class FeaturePieces:
    """Features in pieces, in row order, for a corpus whose features do not fit into memory.

    size : dimension d. ``pieces`` : (n, d) each, with any number n of rows.
    """

    size: int
    pieces: Iterable[Array]

    def groups(self) -> Iterator[Array]:
        """The rows as float32, one row group at a time; the buffer is reused."""
        rows = np.clip(_GROUP_BYTES // (4 * max(self.size, 1)), 16, MAX_GROUP_ROWS)
        group = np.empty((int(rows), self.size), np.float32)
        filled = 0
        for piece in self.pieces:
            done = 0
            while done < len(piece):
                some = piece[done : done + len(group) - filled]
                group[filled : filled + len(some)] = some
                done, filled = done + len(some), filled + len(some)
                if filled == len(group):
                    yield group
                    filled = 0
        yield group[:filled]


def write_tables(corpus: CorpusTables, path: Path) -> None:
    """Write ``corpus`` as the folder ``path``, atomically."""
    features = [
        FeaturePieces(table.features.shape[1], [table.features])
        for table in (corpus.tracklets, corpus.chunks)
    ]
    write_with_features(corpus, path, *features)


def write_with_features(
    corpus: CorpusTables, path: Path, of_tracklets: FeaturePieces, of_chunks: FeaturePieces
) -> None:
    """Write ``corpus`` with the given features, one row group at a time, instead of its own."""
    with ARTEFACT.writing(path) as folder:
        tracklets, chunks = corpus.tracklets, corpus.chunks
        header = {
            "clips": len(corpus),
            "tracklets": {"rows": len(tracklets.start), "feature_size": of_tracklets.size},
            "chunks": {"rows": len(chunks.start), "feature_size": of_chunks.size},
            "info": corpus.info,
        }
        if corpus.arrays:
            np.savez(folder / ARRAYS, allow_pickle=False, **corpus.arrays)
        clips = {
            "clip": pa.array(corpus.clip_ids, pa.string()),
            "video": pa.array(corpus.videos, pa.string()),
            "start": pa.array([s and s[0] for s in corpus.spans], pa.float64()),
            "end": pa.array([s and s[1] for s in corpus.spans], pa.float64()),
            **_change_columns(corpus.changes),
            **_episode_columns(corpus.episodes),
        }
        pq.write_table(pa.table(clips), folder / "clips.parquet")
        boxes = pa.StructArray.from_arrays(
            [
                pa.array(column, field.type)
                for column, field in zip(tracklets.boxes.T, BOX, strict=True)
            ],
            fields=list(BOX),
        )
        _write(folder / "tracklets.parquet", corpus, tracklets, of_tracklets, {
            "score": pa.array(tracklets.score),
            **_allowed_columns(tracklets.allowed),
            "boxes": pa.ListArray.from_arrays(pa.array(tracklets.box_offsets, pa.int32()), boxes),
        })  # fmt: skip
        _write(folder / "chunks.parquet", corpus, chunks, of_chunks, {
            **_allowed_columns(chunks.allowed),
        })  # fmt: skip
        facts = with_checksums(ARTEFACT.version, header, _checksums(folder), CorpusError)
        ARTEFACT.write_header(folder, facts)


def _checksums(folder: Path) -> dict[str, Any]:
    """Of all files of a corpus, by name."""
    found: dict[str, Any] = {
        name: table_checksums(folder / name, pq.read_metadata(folder / name)) for name in _TABLES
    }
    small = [name for name in ("clips.parquet", ARRAYS) if (folder / name).exists()]
    return found | {name: file_checksum(folder / name) for name in small}


def _allowed_columns(allowed: Array) -> dict[str, Any]:
    """``allowed`` (n, K) as one column per state or action; plain ``allowed`` if it is alone."""
    if allowed.shape[1] == 1:
        return {"allowed": pa.array(allowed[:, 0])}
    return {f"allowed_{k + 1}": pa.array(column) for k, column in enumerate(allowed.T)}


def _read_allowed(table: ParquetTable, n_columns: int) -> Array:
    """(n, ``n_columns``), or as many as the table has if there are more."""
    count = n_columns
    while f"allowed_{count + 1}" in table.names:
        count += 1
    names = ["allowed"] if count == 1 else [f"allowed_{k + 1}" for k in range(count)]
    yes = np.ones(table.n_rows)
    columns = np.stack([table.numbers(name, yes) for name in names], axis=1)
    return as_flags(f"{table.path.stem}: allowed", columns, columns.shape)


def _change_columns(changes: tuple[ChangeProfile | None, ...]) -> dict[str, Any]:
    if not any(changes):
        return {}
    columns: dict[str, tuple[Any, list[Any]]] = {
        "change_start": (pa.float64(), [c and c.start for c in changes]),
        "change_step": (pa.float64(), [c and c.step for c in changes]),
        "change": (_CURVE, [c and c.curve for c in changes]),
        "change_where": (_WHERE, [c and c.where.ravel() for c in changes]),
        "change_where_width": (pa.int32(), [c and c.where.shape[1] for c in changes]),
    }
    if any(c is not None and c.scale for c in changes):
        columns["change_where_scale"] = pa.float64(), [c and c.scale for c in changes]
    if any(c is not None and c.local is not None for c in changes):
        columns["change_local"] = _CURVE, [c and c.local for c in changes]
    if any(c is not None and c.motion is not None for c in changes):
        columns["change_motion"] = _CURVE, [c and c.motion for c in changes]
    return {name: pa.array(values, kind) for name, (kind, values) in columns.items()}


def _episode_columns(episodes: tuple[EpisodeSpan | None, ...]) -> dict[str, Any]:
    if not any(episodes):
        return {}
    return {
        "episode": pa.array([e and e.index for e in episodes], pa.int64()),
        "episode_start": pa.array([e and e.start for e in episodes], pa.float64()),
    }


def _write(
    path: Path,
    corpus: CorpusTables,
    table: Tracklets | Chunks,
    features: FeaturePieces,
    more: dict[str, Any],
) -> None:
    owner = np.repeat(np.arange(len(corpus), dtype=np.int32), np.diff(table.offsets))
    columns = pa.table({
        "clip": pa.DictionaryArray.from_arrays(owner, pa.array(corpus.clip_ids, pa.string())),
        "start": pa.array(table.start),
        "end": pa.array(table.end),
        "time": pa.array(table.time),
        "label": pa.array(table.label, mask=table.label == UNKNOWN),
        **more,
    })  # fmt: skip
    schema = columns.schema
    if features.size:
        schema = schema.append(pa.field("feature", pa.list_(pa.float32(), features.size)))
    compression = {name: "NONE" if name == "feature" else "SNAPPY" for name in schema.names}
    done = 0
    with pq.ParquetWriter(
        path, schema, use_dictionary=["clip"], compression=compression, data_page_size=_PAGE_BYTES
    ) as writer:
        for group in features.groups():
            check_features(table, corpus.clip_ids, done, group)
            rows = columns.slice(done, len(group))
            if features.size:
                flat = pa.array(group.ravel())
                lists = pa.FixedSizeListArray.from_arrays(flat, features.size)
                rows = rows.append_column(schema.field("feature"), lists)
            if len(group) or not done:
                writer.write_table(rows)
                pa.default_memory_pool().release_unused()  # else it retains several groups
            done += len(group)
    if done != len(table.start):
        raise CorpusError(f"{path}: there are {done} features for {len(table.start)} {table.kind}s")


def read_tables(path: Path, kind: type[Corpus], *, features: bool = True) -> Corpus:
    """Read the corpus folder ``path`` as an object of class ``kind``.

    features : whether to read them too (`StoredFeatures` reads them later); else their size is 0.
    """
    header = ARTEFACT.read_header(path)
    try:
        return _read(path, header, kind, features)
    except CorpusError as problem:
        named = str(problem) if str(path) in str(problem) else f"{path}: {problem}"
        raise CorpusError(named) from None
    except (
        OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError,
        NotImplementedError, RecursionError, MemoryError, pa.ArrowException,
    ) as problem:  # fmt: skip
        # pyarrow raises many types of errors for a damaged table.
        raise CorpusError(f"{path} cannot be read ({problem}): make it again") from problem


def _read(path: Path, header: dict[str, Any], kind: type[Corpus], features: bool) -> Corpus:
    header, checksums = checked_header(path / ARTEFACT.header, header, CorpusError)
    for name in ("clips.parquet", ARRAYS):
        check_file(path / name, checksums.get(name), CorpusError)
    with ParquetTable(path / "clips.parquet") as clips:
        ids = clips.required("clip").to_pylist()
        videos, starts, ends = (clips.optional(name) for name in ("video", "start", "end"))
        changes = _read_changes(clips, ids)
        numbers, begun = clips.optional("episode"), clips.optional("episode_start")
    episodes = tuple(
        None if n is None else EpisodeSpan(int(n), float(start or 0.0))
        for n, start in zip(numbers, begun, strict=True)
    )
    spans = [None if s is None or e is None else (s, e) for s, e in zip(starts, ends, strict=True)]
    with ParquetTable(path / "tracklets.parquet", checksums) as table:
        tracklets = _read_tracklets(table, ids, features and _has_features(header, "tracklets"))
    if header["format_version"] == 1:  # in which 3 was ambiguous, not a state
        ambiguous = tracklets.label == 3
        tracklets.label[ambiguous] = TrackletLabel.AMBIGUOUS
    with ParquetTable(path / "chunks.parquet", checksums) as table:
        chunks = _read_chunks(table, ids, features and _has_features(header, "chunks"))
    info, arrays = header.get("info") or {}, _read_arrays(path / ARRAYS)
    if not isinstance(info, dict):
        raise CorpusError(f"{path / ARTEFACT.header}: info is no object with names")
    columns = tuple(ids), tracklets, chunks, tuple(videos), tuple(spans)
    return kind(*columns, info, arrays, changes, episodes)


class StoredFeatures:
    """The features of a corpus folder's tracklets or chunks, read some rows at a time.

    rows : (n,) sorted indices of the rows to use; None for all.
    """

    def __init__(
        self, path: Path, kind: Literal["tracklets", "chunks"], rows: Array | None = None
    ) -> None:
        self._path = path / f"{kind}.parquet"
        header = ARTEFACT.read_header(path)
        checksums = checked_header(path / ARTEFACT.header, header, CorpusError)[1]
        self._checksums = TableChecksums(self._path, checksums.get(self._path.name))
        with ParquetTable(self._path) as table:
            size, n_rows, self._groups = table.feature_size(), table.n_rows, table.group_offsets()
        self._rows = rows
        self.shape = (n_rows if rows is None else len(rows), size)

    def read(self, lo: int, hi: int) -> Array:
        """Rows ``[lo, hi)`` as float32, (hi - lo, d)."""
        if lo >= hi:
            return np.empty((0, self.shape[1]), np.float32)
        wanted = np.arange(lo, hi) if self._rows is None else self._rows[lo:hi]
        first, last = np.searchsorted(self._groups, wanted[[0, -1]], side="right") - 1
        with ParquetTable(self._path) as table:
            self._checksums.check_features(table.metadata, range(first, last + 1))
            found = table.feature_groups(range(first, last + 1), self.shape[1])
        rows: Array = found[wanted - self._groups[first]]
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            raise CorpusError(
                f"{self._path}, row {wanted[bad[0]]}: feature has values that are not finite (NaN "
                "or infinite): correct or drop it"
            )
        return rows


def _read_changes(clips: ParquetTable, ids: list[str]) -> tuple[ChangeProfile | None, ...]:
    names = ("change_start", "change_step", "change_where_width")
    starts, steps, widths = (clips.optional(name) for name in names)
    curves, pictures = clips.lists("change", _CURVE), clips.lists("change_where", _WHERE)
    scales = clips.optional("change_where_scale")
    more = (clips.lists(f"change_{name}", _CURVE) for name in ("local", "motion"))
    changes: list[ChangeProfile | None] = []
    for row in zip(ids, starts, steps, curves, pictures, widths, scales, *more, strict=True):
        clip_id, start, step, curve, pixels, width, scale, local, motion = row
        missing = [value is None for value in row[1:-3]]
        if all(missing):
            changes.append(None)
            continue
        if any(missing):
            raise CorpusError(
                f"{clips.path}: clip {clip_id!r} has some of the columns change* but not all"
            )
        if width < 1 or len(pixels) % width:
            raise CorpusError(
                f"{clips.path}: clip {clip_id!r} has {len(pixels)} pixels of change_where, which "
                f"are no rows of change_where_width {width}"
            )
        times, where = (float(start), float(step)), pixels.reshape(-1, width)
        changes.append(ChangeProfile(*times, curve, where, float(scale or 0), local, motion))
    return tuple(changes)


def _read_arrays(path: Path) -> dict[str, Array]:
    if not path.exists():
        return {}
    try:
        return read_npz(path)
    except (OSError, ValueError) as problem:
        raise CorpusError(f"{path} cannot be read ({problem}): make the corpus again") from problem


def _read_tracklets(table: ParquetTable, ids: list[str], features: bool) -> Tracklets:
    boxes, box_offsets = table.boxes()
    return Tracklets(
        **_common_columns(table, ids, "tracklets", features),
        score=table.numbers("score", np.ones(table.n_rows)),
        allowed=_read_allowed(table, 2),
        boxes=boxes,
        box_offsets=box_offsets,
    )


def _read_chunks(table: ParquetTable, ids: list[str], features: bool) -> Chunks:
    return Chunks(
        **_common_columns(table, ids, "chunks", features), allowed=_read_allowed(table, 1)
    )


def _common_columns(
    table: ParquetTable, ids: list[str], name: str, features: bool
) -> dict[str, Array]:
    """The columns that both tables have."""
    n = table.n_rows
    start, end = table.numbers("start"), table.numbers("end")
    labels = table.numbers("label", np.full(n, UNKNOWN, np.float64), UNKNOWN)
    return {
        "offsets": table.clip_offsets(ids),
        "start": start,
        "end": end,
        "time": table.numbers("time", (start + end) / 2),
        "label": as_labels(f"{name}: label", labels, n, ambiguous=name == "tracklets"),
        "features": table.features() if features else np.empty((n, 0), np.float32),
    }


def _has_features(header: dict[str, Any], kind: str) -> bool:
    """Whether rows were written with features; if not, the header gives their size as 0."""
    facts = header.get(kind)
    return not isinstance(facts, dict) or facts.get("feature_size") != 0

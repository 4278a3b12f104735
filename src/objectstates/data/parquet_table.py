"""One Parquet file of a corpus folder: its columns as arrays, checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from objectstates.base.errors import CorpusError
from objectstates.data.corpus_checksums import TableChecksums
from objectstates.data.corpus_tables import Array, offsets_of

MAX_GROUP_ROWS = 256  # writers and readers hold a few row groups beside the corpus
BOX = pa.struct([("time", pa.float64())] + [(x, pa.float32()) for x in ("x1", "y1", "x2", "y2")])


class ParquetTable:
    """One Parquet file of a corpus; errors name the file.

    checksums : of tables by name; the features are verified when they are read.
    """

    def __init__(self, path: Path, checksums: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.path = path
        self._checksums = TableChecksums(path, checksums.get(path.name))
        try:
            self._checksums.check_footer()
            self._file = pq.ParquetFile(path, memory_map=True)
        except FileNotFoundError:
            raise CorpusError(f"{path} is missing: make the corpus again") from None
        except (OSError, pa.ArrowException) as problem:
            raise CorpusError(f"{path} cannot be read as Parquet: {problem}") from problem
        self._checksums.check_rest(self.metadata)

    def __enter__(self) -> ParquetTable:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def metadata(self) -> Any:
        return self._file.metadata

    @property
    def n_rows(self) -> int:
        return int(self.metadata.num_rows)

    @property
    def names(self) -> list[str]:
        """Of its columns."""
        return list(self._file.schema_arrow.names)

    def column(self, name: str) -> Any:
        """A column, or None if the table does not have it."""
        if name not in self._file.schema_arrow.names:
            return None
        try:
            return self._file.read([name]).column(name)
        except (OSError, pa.ArrowException) as problem:
            raise CorpusError(f"{self.path}: column {name} cannot be read: {problem}") from problem

    def _require(self, name: str) -> None:
        if name not in self._file.schema_arrow.names:
            raise CorpusError(f"{self.path} has no column {name!r}, which every corpus needs")

    def required(self, name: str) -> Any:
        self._require(name)
        return self.column(name)

    def optional(self, name: str) -> list[Any]:
        column = self.column(name)
        return [None] * self.n_rows if column is None else list(column.to_pylist())

    def numbers(
        self, name: str, default: Array | None = None, missing: float | None = None
    ) -> Array:
        """A column as float64; nulls and NaN become ``missing``, or raise if that is None."""
        column = self.required(name) if default is None else self.column(name)
        if column is None:
            return np.asarray(default)
        try:
            values = column.cast(pa.float64())
        except pa.ArrowException as problem:
            raise CorpusError(f"{self.path}: column {name} must be numbers") from problem
        if missing is not None:
            values = values.fill_null(missing)
        elif values.null_count:
            raise CorpusError(f"{self.path}: column {name} has rows without a value")
        numbers = np.asarray(values.to_numpy(), np.float64)
        return numbers if missing is None else np.nan_to_num(numbers, nan=missing)

    def clip_offsets(self, ids: list[str]) -> Array:
        """(N + 1,) first row of each clip; rows must be contiguous, in the order of the clips."""
        names = self.required("clip").to_pylist()
        position = {clip_id: n for n, clip_id in enumerate(ids)}
        for name in set(names) - set(position):
            raise CorpusError(f"{self.path}: clip {name!r} is not in clips.parquet")
        owners = np.array([position[name] for name in names], np.int64)
        if (np.diff(owners) < 0).any():
            raise CorpusError(
                f"{self.path}: rows must be in the order of clips.parquet, contiguous per clip"
            )
        return np.searchsorted(owners, np.arange(len(ids) + 1)).astype(np.int64)

    def boxes(self) -> tuple[Array, Array]:
        """All boxes (B, 5), and the first one of each row, (n + 1,)."""
        column = self.column("boxes")
        if column is None or not self.n_rows:
            return np.empty((0, 5)), np.zeros(self.n_rows + 1, np.int64)
        try:
            lists = column.cast(pa.list_(BOX)).combine_chunks()
        except (pa.ArrowException, TypeError, ValueError) as problem:
            raise CorpusError(
                f"{self.path}: boxes must be lists of time, x1, y1, x2, y2"
            ) from problem
        counts = lists.value_lengths().fill_null(0).to_numpy()
        rows = lists.flatten()
        columns = [rows.field(field.name).to_numpy(zero_copy_only=False) for field in BOX]
        return np.stack(columns, axis=1).astype(np.float64), offsets_of(counts)

    def lists(self, name: str, kind: Any) -> list[Array | None]:
        """A column of lists as arrays; None where there is none."""
        column = self.column(name)
        if column is None or not self.n_rows:
            return [None] * self.n_rows
        try:
            lists = column.cast(kind).combine_chunks()
        except (pa.ArrowException, TypeError, ValueError) as problem:
            raise CorpusError(
                f"{self.path}: column {name} must be lists of {kind.value_type}"
            ) from problem
        values = lists.flatten().to_numpy(zero_copy_only=False)
        first = offsets_of(lists.value_lengths().fill_null(0).to_numpy())
        known = lists.is_valid().to_pylist()
        pieces = np.split(values, first[1:-1])
        return [piece if ok else None for piece, ok in zip(pieces, known, strict=True)]

    def features(self) -> Array:
        """The features (n, d) as float32, copied in batches, so they are in memory once."""
        self._checksums.check_features(self.metadata)
        features = np.empty((self.n_rows, self.feature_size()), np.float32)
        done = 0
        for batch in self._file.iter_batches(MAX_GROUP_ROWS, columns=["feature"]):
            rows = self._feature_rows(batch.column(0), features.shape[1])
            features[done : done + len(rows)] = rows
            done += len(rows)
        return features

    def feature_size(self) -> int:
        """The dimension of the features: from the schema, or from the first row."""
        self._require("feature")
        kind = self._file.schema_arrow.field("feature").type
        if pa.types.is_fixed_size_list(kind):
            return int(kind.list_size)
        for batch in self._file.iter_batches(1, columns=["feature"]):
            return len(batch.column(0).to_pylist()[0] or ())
        return 1

    def group_offsets(self) -> Array:
        """The first row of each row group, and the number of rows, (groups + 1,)."""
        facts = self._file.metadata
        return offsets_of([facts.row_group(g).num_rows for g in range(facts.num_row_groups)])

    def feature_groups(self, groups: range, size: int) -> Array:
        """The features of some row groups, (n, size) as float32."""
        try:
            column = self._file.read_row_groups(list(groups), columns=["feature"]).column(0)
        except (OSError, pa.ArrowException) as problem:
            raise CorpusError(f"{self.path}: column feature cannot be read: {problem}") from problem
        return np.concatenate([self._feature_rows(chunk, size) for chunk in column.chunks])

    def _feature_rows(self, column: Any, size: int) -> Array:
        if column.null_count:
            raise CorpusError(f"{self.path}: some rows have no feature")
        try:
            column = column.cast(pa.list_(pa.float32(), size))
            return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(-1, size)
        except (pa.ArrowException, TypeError, ValueError) as problem:
            raise CorpusError(
                f"{self.path}: features must be lists of float32 numbers, all of one size"
            ) from problem

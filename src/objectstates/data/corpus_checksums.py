"""Checksums of the tables of a corpus, which are verified without reading features needlessly.

Features are most of a corpus and are read some rows at a time, or not at all. So the features of
each row group have a checksum of their own, verified when they are read, and all other bytes of the
table have one, verified when the table is opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from objectstates.base.checksums import damaged, file_checksum
from objectstates.base.errors import CorpusError

FEATURE = "feature"
Span = tuple[int, int]


def table_checksums(path: Path, metadata: Any) -> dict[str, str]:
    """Of a Parquet file: ``footer``, ``features``, 8 digits for each row group, and ``rest``.

    metadata : of the file, by pyarrow.
    """
    spans = _feature_spans(metadata)
    return {
        "footer": file_checksum(path, _footer(path)),
        "rest": file_checksum(path, _between(spans, path.stat().st_size)),
        "features": "".join(file_checksum(path, [span]) for span in spans),
    }


class TableChecksums:
    """Verifies parts of one table, each once; without ``expected`` nothing is verified."""

    def __init__(self, path: Path, expected: Any) -> None:
        self._path, self._verified = path, set[int]()
        self._spans: list[Span] | None = None
        self._known = expected is not None
        found = expected if isinstance(expected, dict) else {}
        self._rest, self._features = str(found.get("rest")), str(found.get("features"))
        self._footer = str(found.get("footer"))

    def check_footer(self) -> None:
        """The metadata at the end of the file, before pyarrow reads it: damage can abort it."""
        if self._known and file_checksum(self._path, _footer(self._path)) != self._footer:
            raise damaged(self._path, CorpusError)

    def check_rest(self, metadata: Any) -> None:
        """All but the features."""
        if not self._known:
            return
        spans, size = _feature_spans(metadata), self._path.stat().st_size
        sound = len(self._features) == 8 * len(spans)
        if not sound or file_checksum(self._path, _between(spans, size)) != self._rest:
            raise damaged(self._path, CorpusError)

    def check_features(self, metadata: Any, groups: Iterable[int] | None = None) -> None:
        """The features of some row groups, by default all, unless it was done before."""
        if not self._known:
            return
        if self._spans is None:
            self._spans = _feature_spans(metadata)
        spans = self._spans
        for group in range(len(spans)) if groups is None else groups:
            if group in self._verified or group >= len(spans):
                continue
            if file_checksum(self._path, [spans[group]]) != self._features[8 * group :][:8]:
                raise damaged(self._path, CorpusError)
            self._verified.add(group)


def _footer(path: Path) -> list[Span]:
    """The bytes of the metadata, whose length stands before the last four bytes."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 8))
        length = int.from_bytes(file.read(4), "little")
    return [(max(0, size - 8 - length), size)]


def _feature_spans(metadata: Any) -> list[Span]:
    """The bytes of the features of each row group; empty if the table has none."""
    spans = []
    for g in range(metadata.num_row_groups):
        group = metadata.row_group(g)
        for c in range(group.num_columns):
            column = group.column(c)
            if column.path_in_schema.split(".")[0] == FEATURE:
                first = column.data_page_offset
                if column.has_dictionary_page:
                    first = min(first, column.dictionary_page_offset)
                spans.append((first, first + column.total_compressed_size))
    return spans


def _between(spans: list[Span], size: int) -> list[Span]:
    """The bytes of a file of ``size`` that are in none of the spans, which are in order."""
    edges = [0, *(edge for span in spans for edge in span), size]
    return list(zip(edges[::2], edges[1::2], strict=True))

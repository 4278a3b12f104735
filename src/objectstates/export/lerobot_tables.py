"""Parquet files of a LeRobot dataset, written again with further columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from objectstates.base.errors import ExportError
from objectstates.robots.lerobot_dataset import LeRobotDataset
from objectstates.robots.lerobot_files import INFO, read_json, read_parquet

OF_HF = b"huggingface"  # metadata that lists all columns, by which the new ones would be lost


def relative(dataset: LeRobotDataset, path: Path) -> Path:
    """A path within the dataset."""
    return path.relative_to(dataset.root)


def rewrite_records(
    dataset: LeRobotDataset,
    folder: Path,
    columns: Mapping[str, Callable[[pa.Table], pa.Array]],
    problems: list[str],
) -> None:
    """Write all Parquet files of frames to ``folder`` with columns added or replaced.

    columns : by name, functions that return the column for a table of frames.
    One row group per episode, so that readers can get at one alone.
    """
    for path in dict.fromkeys(episode.record for episode in dataset.episodes):
        if not path.exists():
            problems.append(f"{path} is missing: its episodes have no frames")
            continue
        table = read_parquet(path)
        if "episode_index" not in table.column_names:
            raise ExportError(f"{path} has no column episode_index, as every dataset needs")
        for name, make in columns.items():
            table = with_column(table, name, make(table))
        write_by_episode(table, folder / relative(dataset, path))


def with_column(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """The table with a column added or replaced; all other columns and metadata stay."""
    if name in table.column_names:
        table = table.set_column(table.column_names.index(name), name, values)
    else:
        table = table.append_column(name, values)
    kept = {k: v for k, v in (table.schema.metadata or {}).items() if k != OF_HF}
    return table.replace_schema_metadata(kept or None)


def write_by_episode(table: pa.Table, path: Path) -> None:
    """Write a table of frames with a row group per run of one episode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, table.schema, compression="snappy") as writer:
        for _, rows in episode_runs(table):
            writer.write_table(table.slice(rows.start, len(rows)))


def episode_runs(table: pa.Table) -> Iterator[tuple[int, range]]:
    """The episodes of a table of frames, and the rows of each."""
    owners = table["episode_index"].to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(owners)]
    for first, last in pairwise(edges):
        if first < last:
            yield int(owners[first]), range(first, last)


def add_features(
    dataset: LeRobotDataset, folder: Path, features: Mapping[str, dict[str, Any]]
) -> None:
    """Write ``info.json`` to ``folder`` with further features; all else stays as it is."""
    info = read_json(dataset.root / INFO)
    info["features"].update(features)
    path = folder / INFO
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(info, indent=4, ensure_ascii=False) + "\n", encoding="utf-8")


def indexed_table(index: str, names: Sequence[str], column: str) -> pa.Table:
    """Numbered names, as pandas writes a data frame with the names as its index."""
    table = pa.table({column: pa.array(range(len(names)), pa.int64()), index: list(names)})
    about = [
        {
            "name": name,
            "field_name": name,
            "pandas_type": kind,
            "numpy_type": numpy,
            "metadata": None,
        }
        for name, kind, numpy in ((column, "int64", "int64"), (index, "unicode", "object"))
    ]
    meta = {
        "index_columns": [index],
        "column_indexes": [],
        "columns": about,
        "pandas_version": "2.0.0",
    }
    return table.replace_schema_metadata({"pandas": json.dumps(meta)})

"""Progress per frame and success per episode in a LeRobot dataset, as reward models use them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from objectstates.data.success import Reached
from objectstates.export.lerobot_tables import episode_runs, relative, with_column
from objectstates.export.videos import ExportSource
from objectstates.report.clip_view import ClipView
from objectstates.robots.lerobot_dataset import LeRobotDataset
from objectstates.robots.lerobot_files import (
    EPISODES,
    INFO,
    read_json,
    read_json_lines,
    read_parquet,
)

PROGRESS, REACHED = "progress", "reached"
PROGRESS_FEATURE: dict[str, Any] = {
    "dtype": "float32",
    "shape": [1],
    "names": ["from_state_1_to_state_2"],
}
"""The names tell this column from another's of the same key, which must not be replaced."""

Floats = npt.NDArray[np.float32]


def progress_column(
    source: ExportSource, dataset: LeRobotDataset, problems: list[str]
) -> Callable[[pa.Table], pa.Array] | None:
    """What returns the column ``progress`` of a table of frames; None if progress is not known.

    Episodes without a result keep what an earlier export wrote, else they have NaN.
    """
    found = {c.episode.index: c for c in source.clips if c.episode and c.progress is not None}
    if not found:
        return None
    if read_json(dataset.root / INFO)["features"].get(PROGRESS, PROGRESS_FEATURE) != (
        PROGRESS_FEATURE
    ):
        problems.append(
            f"progress is left out: {dataset.root} has another feature of the name {PROGRESS!r}"
        )
        return None

    def column(table: pa.Table) -> pa.Array:
        values = np.full(table.num_rows, np.nan, np.float32)
        if PROGRESS in table.column_names:
            values[:] = table[PROGRESS].to_numpy()
        times = np.asarray(table["timestamp"].to_numpy(), np.float64)
        for index, frames in episode_runs(table):
            if index in found:
                rows = slice(frames.start, frames.stop)
                values[rows] = frame_progress(found[index], times[rows])
        return pa.array(values, pa.float32())

    return column


def frame_progress(clip: ClipView, times: npt.NDArray[np.float64]) -> Floats:
    """(n,) progress at ``times`` (n,), seconds of the episode."""
    assert clip.episode is not None
    found = clip.result.progress_at(clip.result.clips[clip.number], times + clip.episode.start)
    return found.astype(np.float32)


def write_reached(
    source: ExportSource, dataset: LeRobotDataset, folder: Path, problems: list[str]
) -> None:
    """Write the lists of episodes with ``reached`` (yes, no, unsure), where it is known.

    Episodes without a result keep what an earlier export wrote.
    """
    found = {c.episode.index: c.reached for c in source.clips if c.episode and c.reached}
    if not found:
        return
    written = _reached_in_tables if (dataset.root / EPISODES).is_dir() else _reached_in_lines
    if not written(dataset, folder, found):
        problems.append(
            f"success is left out: episodes of {dataset.root} have another {REACHED!r} already"
        )


def _reached_in_tables(dataset: LeRobotDataset, folder: Path, found: Mapping[int, str]) -> bool:
    """Of v3.0; whether it was written."""
    paths = sorted((dataset.root / EPISODES).rglob("*.parquet"))
    tables = {path: read_parquet(path) for path in paths}
    theirs = [t[REACHED].to_pylist() for t in tables.values() if REACHED in t.column_names]
    if not _are_ours(chain(*theirs)):
        return False
    for path, table in tables.items():
        indices = table["episode_index"].to_pylist()
        known = REACHED in table.column_names
        old = table[REACHED].to_pylist() if known else [None] * len(indices)
        values = [found.get(index, before) for index, before in zip(indices, old, strict=True)]
        target = folder / relative(dataset, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(with_column(table, REACHED, pa.array(values, pa.string())), target)
    return True


def _reached_in_lines(dataset: LeRobotDataset, folder: Path, found: Mapping[int, str]) -> bool:
    """Of v2.0 and v2.1; whether it was written."""
    path = dataset.root / "meta" / "episodes.jsonl"
    rows = read_json_lines(path)
    if not _are_ours(row.get(REACHED) for row in rows):
        return False
    for row in rows:
        if row["episode_index"] in found:
            row[REACHED] = found[row["episode_index"]]
    target = folder / relative(dataset, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    target.write_text(text, encoding="utf-8")
    return True


def _are_ours(values: Iterable[Any]) -> bool:
    """Whether values of ``reached`` are such as an earlier export wrote."""
    return all(value is None or value in get_args(Reached) for value in values)

"""Subtasks for LeRobot: a file beside the dataset, language columns, subtask numbers, and SARM.

Each writer puts only the files that it changes or adds into the folder, at their paths within the
dataset; ``dataset_folders.py`` makes a whole dataset of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from objectstates.base.errors import ExportError
from objectstates.export.lerobot_progress import (
    PROGRESS,
    PROGRESS_FEATURE,
    progress_column,
    write_reached,
)
from objectstates.export.lerobot_tables import (
    add_features,
    episode_runs,
    indexed_table,
    relative,
    rewrite_records,
    with_column,
)
from objectstates.export.subtasks import (
    Subtask,
    dataset_of_export,
    distinct_names,
    episode_subtasks,
)
from objectstates.export.videos import ExportSource
from objectstates.report.phases import place_in_chain
from objectstates.robots.lerobot_files import EPISODES, read_parquet

SIDECAR = Path("meta", "lerobot_annotations.json")
LANGUAGE = "language_persistent"
STYLE = "subtask"
UNLABELLED = "unlabelled"
"""The subtask of frames of episodes without a result."""

ROW = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.string()),
        ("style", pa.string()),
        ("timestamp", pa.float32()),
        ("camera", pa.string()),
        ("tool_calls", pa.list_(pa.string())),
    ]
)
"""A row of the language column: who says what, from when on."""

Subtasks = Mapping[int, tuple[Subtask, ...]]


def write_lerobot_sidecar(
    source: ExportSource, folder: Path, dataset: str | Path | None = None
) -> list[str]:
    """``meta/lerobot_annotations.json``: subtasks of all episodes, in seconds of the episode."""
    problems: list[str] = []
    found = episode_subtasks(source, dataset_of_export(source, dataset), problems)
    episodes = {
        str(index): {"atoms": [_atom(subtask) for subtask in subtasks]}
        for index, subtasks in sorted(found.items())
    }
    path = folder / SIDECAR
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"version": 2, "episodes": episodes}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return problems


def _atom(subtask: Subtask) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": subtask.name,
        "style": STYLE,
        "timestamp": subtask.start,
        "tool_calls": None,
    }


def write_lerobot(
    source: ExportSource, folder: Path, dataset: str | Path | None = None
) -> list[str]:
    """The column ``language_persistent``: the same on all frames of an episode.

    A subtask is active from its timestamp until that of the next. Rows of other styles that the
    column has already are kept. Progress and success are added if the result has them.
    """
    problems: list[str] = []
    place = dataset_of_export(source, dataset)
    found = episode_subtasks(source, place, problems)

    def column(table: pa.Table) -> pa.Array:
        rows, sizes = [], []
        for index, frames in episode_runs(table):
            kept = _other_styles(table, frames.start, index in found)
            mine = [{**_atom(s), "camera": None} for s in found.get(index, ())]
            said = sorted(kept + mine, key=lambda row: (row["timestamp"], row["style"] or ""))
            rows.append(pa.array(said, ROW))
            sizes.append(len(frames))
        repeated = [r.take(np.tile(np.arange(len(r)), n)) for r, n in zip(rows, sizes, strict=True)]
        lengths = np.repeat([len(r) for r in rows], sizes)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        return pa.ListArray.from_arrays(offsets, pa.concat_arrays(repeated or [pa.array([], ROW)]))

    columns: dict[str, Callable[[pa.Table], pa.Array]] = {LANGUAGE: column}
    features: dict[str, dict[str, Any]] = {
        LANGUAGE: {"dtype": "language", "shape": [1], "names": None}
    }
    if (progress := progress_column(source, place, problems)) is not None:
        columns[PROGRESS], features[PROGRESS] = progress, PROGRESS_FEATURE
    rewrite_records(place, folder, columns, problems)
    add_features(place, folder, features)
    write_reached(source, place, folder, problems)
    return problems


def _other_styles(table: pa.Table, frame: int, replaced: bool) -> list[dict[str, Any]]:
    """Rows that the column has at a frame; without subtasks if these are ``replaced``."""
    if LANGUAGE not in table.column_names:
        return []
    rows = table[LANGUAGE][frame].as_py() or []
    names = [field.name for field in ROW]
    return [
        {name: row.get(name) for name in names}
        for row in rows
        if not (replaced and row.get("style") == STYLE)
    ]


def write_lerobot_subtask_index(
    source: ExportSource, folder: Path, dataset: str | Path | None = None
) -> list[str]:
    """``meta/subtasks.parquet`` and the column ``subtask_index``, of lerobot 0.4 and 0.5."""
    problems: list[str] = []
    place = dataset_of_export(source, dataset)
    found = episode_subtasks(source, place, problems)
    names = _names(found)
    if len(found) < len(place.episodes):
        names.append(UNLABELLED)

    def column(table: pa.Table) -> pa.Array:
        numbers = np.full(table.num_rows, len(names) - 1, np.int64)
        for index, frames in episode_runs(table):
            for subtask in found.get(index, ()):
                numbers[frames.start + subtask.first : frames.start + subtask.last] = names.index(
                    subtask.name
                )
        return pa.array(numbers)

    rewrite_records(place, folder, {"subtask_index": column}, problems)
    feature = {"dtype": "int64", "shape": [1], "names": None}
    add_features(place, folder, {"subtask_index": feature})
    pq.write_table(
        indexed_table("subtask", names, "subtask_index"), folder / "meta" / "subtasks.parquet"
    )
    return problems


def _names(found: Subtasks) -> list[str]:
    """Names of subtasks, each once, in the order in which they happen."""
    names = {s.label: s.name for subtasks in found.values() for s in subtasks}
    return list(dict.fromkeys(names[label] for label in sorted(names, key=place_in_chain)))


# --- SARM -----------------------------------------------------------------------------------------


def write_sarm(source: ExportSource, folder: Path, dataset: str | Path | None = None) -> list[str]:
    """Subtasks for the reward model SARM: list columns in ``meta/episodes``, and mean durations.

    The dense subtasks are those found; the sparse one is the whole episode, "task". The model tells
    subtasks by their names, so that states that look alike have different names here.
    """
    problems: list[str] = []
    place = dataset_of_export(source, dataset)
    if not (place.root / EPISODES).is_dir():
        raise ExportError(
            f"sarm needs meta/episodes, which {place.root} of {place.version} does not have: "
            "convert it to v3.0 with the scripts of the lerobot package"
        )
    dense = {
        index: distinct_names(subtasks, source.names)
        for index, subtasks in episode_subtasks(source, place, problems).items()
    }
    whole = {
        index: (Subtask("task", "task", 0, subtasks[-1].last, subtasks[0].start, subtasks[-1].end),)
        for index, subtasks in dense.items()
    }
    annotations: dict[str, Subtasks] = {"sparse": whole, "dense": dense}
    for path in sorted((place.root / EPISODES).rglob("*.parquet")):
        table = read_parquet(path)
        indices = table["episode_index"].to_pylist()
        for prefix, found in annotations.items():
            for name, values in _sarm_columns([found.get(index) for index in indices]).items():
                table = with_column(table, f"{prefix}_subtask_{name}", values)
        target = folder / relative(place, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target)
    for prefix, found in annotations.items():
        text = json.dumps(temporal_proportions(found), indent=2, ensure_ascii=False)
        path = folder / "meta" / f"temporal_proportions_{prefix}.json"
        path.write_text(text + "\n", encoding="utf-8")
    return problems


def _sarm_columns(rows: list[tuple[Subtask, ...] | None]) -> dict[str, pa.Array]:
    """A column per property; null for episodes without a result."""

    def column(kind: Any, of: Any) -> pa.Array:
        lists = [None if row is None else [of(subtask) for subtask in row] for row in rows]
        return pa.array(lists, pa.list_(kind))

    return {
        "names": column(pa.string(), lambda s: s.name),
        "start_times": column(pa.float64(), lambda s: s.start),
        "end_times": column(pa.float64(), lambda s: s.end),
        "start_frames": column(pa.int64(), lambda s: s.first),
        "end_frames": column(pa.int64(), lambda s: s.last),
    }


def temporal_proportions(found: Subtasks) -> dict[str, float]:
    """The mean share of an episode that each subtask takes; they sum to 1."""
    names = _names(found)
    shares = np.zeros(len(names))
    for subtasks in found.values():
        frames = np.array([s.last - s.first for s in subtasks], np.float64)
        for subtask, share in zip(subtasks, frames / frames.sum(), strict=True):
            shares[names.index(subtask.name)] += share
    return dict(zip(names, (shares / shares.sum()).tolist(), strict=True))

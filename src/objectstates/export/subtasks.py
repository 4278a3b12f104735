"""Episodes of a robot dataset divided into subtasks without gaps: before, the action, after.

A chain of changes is divided into its states and actions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from objectstates.base.errors import DatasetError, ExportError
from objectstates.data.label_names import LabelNames
from objectstates.export.videos import ExportSource
from objectstates.report.clip_view import ClipView
from objectstates.report.phases import frame_ranges, phases_in_episode
from objectstates.robots.lerobot_dataset import Episode, LeRobotDataset, read_dataset
from objectstates.robots.lerobot_files import is_dataset, read_parquet

Times = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Subtask:
    """What is done in the frames ``[first, last)`` of an episode, and its times in seconds of it.

    ``start`` is the timestamp of its first frame in the dataset, to the bit; ``end`` is where the
    next subtask starts, or the end of the last frame. ``label`` is state_1, action and so on.
    """

    label: str
    name: str
    first: int
    last: int
    start: float
    end: float


def dataset_of_export(source: ExportSource, place: str | Path | None) -> LeRobotDataset:
    """The dataset that the clips of a result are episodes of; ``place`` is where it is now."""
    recorded = source.dataset
    if recorded is None:
        raise ExportError(
            "the clips of this result are no episodes of a LeRobot dataset: choose csv or jsonl, "
            "or discover a dataset"
        )
    root = Path(recorded if place is None else place)
    if not is_dataset(root):
        raise ExportError(
            f"{root} is no LeRobot dataset: if it was moved, give its folder as `dataset`"
        )
    return read_dataset(root)


def episode_subtasks(
    source: ExportSource, dataset: LeRobotDataset, problems: list[str]
) -> dict[int, tuple[Subtask, ...]]:
    """The subtasks of each episode that has a result; others, and unreadable ones, are left out."""
    episodes = {episode.index: episode for episode in dataset.episodes}
    found = {}
    for clip in source.clips:
        recorded = clip.episode
        if recorded is None or recorded.index not in episodes:
            problems.append(f"left out clip {clip.name!r}: it is no episode of {dataset.root}")
            continue
        try:
            times = frame_times(episodes[recorded.index])
        except DatasetError as problem:
            problems.append(f"left out clip {clip.name!r}: {problem}")
            continue
        found[recorded.index] = divide(clip, times, source)
    if not found:
        raise ExportError(f"no clip of this result is an episode of {dataset.root}")
    return found


def frame_times(episode: Episode) -> Times:
    """(n,) the timestamps of an episode's frames, as the dataset has them."""
    table = read_parquet(episode.record, ["timestamp", "episode_index"])
    try:
        mine = table.filter(pc.equal(table["episode_index"], episode.index))
        times = np.asarray(mine["timestamp"].to_numpy(), np.float32)
    except (ValueError, TypeError, pa.ArrowException) as problem:
        raise DatasetError(f"{episode.record}: the times are no numbers ({problem})") from None
    if not len(times):
        raise DatasetError(f"{episode.record} has no rows of episode {episode.index}")
    if not np.isfinite(times).all():
        raise DatasetError(f"{episode.record}: times of episode {episode.index} are not finite")
    return times


def divide(clip: ClipView, times: Times, source: ExportSource) -> tuple[Subtask, ...]:
    """The subtasks of a clip, snapped to frames at these ``times`` (n,)."""
    count = len(times)
    period = float(np.median(np.diff(times))) if count > 1 else 0.0
    starts = [*map(float, times), float(times[-1]) + period]
    ranges = frame_ranges(phases_in_episode(clip), partial(_frame, times), (0, count))
    return tuple(
        Subtask(r.label, source.names[r.label], r.first, r.last, starts[r.first], starts[r.last])
        for r in ranges
    )


def distinct_names(subtasks: tuple[Subtask, ...], names: LabelNames) -> tuple[Subtask, ...]:
    """The same with the number of the state after a name of several: closed (1), closed (3)."""
    shared = {name for name in names.states if names.states.count(name) > 1}
    return tuple(
        replace(s, name=f"{s.name} ({s.label.removeprefix('state_')})") if s.name in shared else s
        for s in subtasks
    )


def _frame(times: Times, time: float) -> int:
    """The frame nearest to a time, 0 to n; n if it lies nearer to the end of the last frame."""
    period = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    return int(np.searchsorted(times.astype(np.float64), time - period / 2))

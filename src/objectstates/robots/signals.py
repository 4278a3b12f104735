"""The robot's own signals of an episode: joint states and commands, a row per frame."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from objectstates.base.errors import DatasetError, SettingError
from objectstates.robots.lerobot_dataset import LeRobotDataset
from objectstates.robots.lerobot_files import read_parquet
from objectstates.video.clip_list import RecordedEpisode

Floats = npt.NDArray[np.float64]

USUAL = ("observation.state", "action")  # what `signals` "auto" takes, where a dataset has them
_GRIPPER = re.compile(r"grip|jaw|finger|thumb|pinky|index|middle|ring|hand(?!le)", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class EpisodeSignals:
    """Signals of one episode.

    times : (n,) seconds of the episode, increasing.
    values : (n, d) in the units of the dataset, finite.
    """

    times: Floats
    values: Floats


def chosen_signals(dataset: LeRobotDataset, setting: str) -> tuple[str, ...]:
    """The features of a setting: "auto", "none", or keys with commas between."""
    if setting == "none":
        return ()
    if setting == "auto":
        return tuple(key for key in USUAL if key in dataset.signals)
    keys = tuple(dict.fromkeys(key.strip() for key in setting.split(",") if key.strip()))
    for key in keys:
        if key not in dataset.signals:
            known = ", ".join(dataset.signals) or "none"
            raise SettingError(
                f"`signals`: {dataset.root} has no numeric feature {key!r}; it has: {known}"
            )
    return keys


def gripper_components(dataset: LeRobotDataset, keys: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """(d,) which components of the features open and close a hand, by their names."""
    names = [name for key in keys for name in dataset.signal_names[key]]
    return np.array([_GRIPPER.search(name) is not None for name in names], bool)


def read_signals(episode: RecordedEpisode, keys: tuple[str, ...]) -> EpisodeSignals:
    """Read the rows of an episode; rows that are not finite, or out of order, are an error."""
    import pyarrow.compute as pc  # slow: only robot datasets need it

    table = _columns(episode.record, _modified(episode.record), keys)
    place = f"{episode.record}, episode {episode.span.index}"
    try:
        mine = table.filter(pc.equal(table["episode_index"], episode.span.index))
        if not mine.num_rows:
            raise DatasetError(f"{place}: there are no rows of this episode")
        times = np.asarray(mine["timestamp"].to_numpy(), np.float64)
        values = np.concatenate([_matrix(mine[key], place) for key in keys], axis=1)
    except (ValueError, TypeError, AttributeError, pa.ArrowException) as problem:
        raise DatasetError(f"{place}: {', '.join(keys)} are no numbers ({problem})") from None
    if not (np.isfinite(values).all() and np.isfinite(times).all()):
        raise DatasetError(f"{place}: {', '.join(keys)} have values that are not finite")
    if (np.diff(times) <= 0).any():
        raise DatasetError(f"{place}: the timestamps do not increase")
    return EpisodeSignals(times, values)


@lru_cache(maxsize=2)  # a v3.0 file holds many episodes, which are read one after another
def _columns(path: Path, _modified: int, keys: tuple[str, ...]) -> pa.Table:
    return read_parquet(path, ["timestamp", "episode_index", *keys])


def _modified(path: Path) -> int:
    """When a file was last written, in nanoseconds; 0 if it is missing, as reading reports."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _matrix(column: pa.ChunkedArray, place: str) -> Floats:
    """(n, d) from a column of numbers or of lists of one length."""
    rows = column.combine_chunks()
    if isinstance(rows, pa.ChunkedArray):
        rows = pa.concat_arrays(rows.chunks)
    flat = rows.flatten() if hasattr(rows, "flatten") and pa.types.is_nested(rows.type) else rows
    numbers = np.asarray(flat.to_numpy(zero_copy_only=False), np.float64)
    if len(rows) == 0 or len(numbers) % len(rows):
        raise DatasetError(f"{place}: the rows of a feature differ in length")
    return numbers.reshape(len(rows), -1)

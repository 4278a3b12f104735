"""Statistics of the features of episodes, as LeRobot datasets have them.

They are recomputed for segments: those that the source has, of columns of numbers and of cameras.
What the source does not have is left out, and so is what is not known of all episodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from objectstates.robots.lerobot_files import EPISODES, read_json, read_json_lines
from objectstates.video.reader import read_frames

OF_EPISODES = Path("meta", "episodes_stats.jsonl")  # of v2.1; v3.0 has columns of meta/episodes
OF_DATASET = Path("meta", "stats.json")
QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
KNOWN = frozenset({"min", "max", "mean", "std", "count", *QUANTILES})
IMAGES = 50  # of a video of a segment, at most; the official package samples them, too
SIDE = 160  # pixels of their longer side

Floats = npt.NDArray[np.float64]
Stats = dict[str, dict[str, Any]]
"""By feature and statistic, as nested lists of the feature's shape."""


def wanted_stats(root: Path) -> dict[str, tuple[str, ...]]:
    """The statistics that a dataset has of each feature, and that are known here."""
    found: dict[str, dict[str, None]] = {}

    def add(stats: Any) -> None:
        for key, values in (stats if isinstance(stats, dict) else {}).items():
            known = [name for name in values if name in KNOWN]
            found.setdefault(key, {}).update(dict.fromkeys(known))

    if (root / OF_DATASET).exists():
        add(read_json(root / OF_DATASET))
    if (root / OF_EPISODES).exists():
        add(next((row.get("stats") for row in read_json_lines(root / OF_EPISODES)), None))
    for path in sorted((root / EPISODES).rglob("*.parquet"))[:1]:
        for column in pq.read_schema(path).names:
            if column.startswith("stats/"):
                _, *key, name = column.split("/")
                add({"/".join(key): [name]})
    return {key: tuple(names) for key, names in found.items() if names}


def column_stats(column: pa.ChunkedArray, names: Sequence[str]) -> dict[str, Any] | None:
    """Statistics over the rows of a column; None unless it has numbers of one shape."""
    try:
        values = np.array(column.to_pylist(), np.float64)
    except (TypeError, ValueError):  # texts, missing values, lists of several lengths
        return None
    return _stats(
        values.reshape(len(values), -1) if values.ndim < 2 else values, len(values), names
    )


def camera_stats(path: Path, frames: int, names: Sequence[str]) -> dict[str, Any]:
    """Statistics of the three colours, 0 to 1, over a sample of the frames of a video."""
    step = -(-frames // IMAGES)
    with read_frames(path, max_side=SIDE) as film:
        images = [frame.image for number, frame in enumerate(film) if number % step == 0]
    pixels = np.stack(images).reshape(-1, 3, 1, 1) / 255.0
    return _stats(pixels, len(images), names)


def _stats(values: Floats, count: int, names: Sequence[str]) -> dict[str, Any]:
    """Statistics over the first axis of ``values`` (n, ...)."""
    found: dict[str, Any] = {}
    for name in names:
        if name == "count":
            found[name] = [count]
        elif name in QUANTILES:
            found[name] = np.quantile(values, QUANTILES[name], axis=0).tolist()
        else:
            found[name] = getattr(values, name)(axis=0).tolist()
    return found


def joined_stats(episodes: Sequence[Stats], lengths: Sequence[int]) -> Stats:
    """Statistics of a whole dataset from those of its episodes; features of all of them only.

    Quantiles are means of those of the episodes, as the official package joins them.
    """
    shared = [key for key in episodes[0] if all(key in stats for stats in episodes)]
    return {key: _joined([stats[key] for stats in episodes], lengths) for key in shared}


def _joined(parts: Sequence[Mapping[str, Any]], lengths: Sequence[int]) -> dict[str, Any]:
    counts = [part["count"][0] for part in parts] if "count" in parts[0] else lengths
    weights = np.asarray(counts, np.float64) / np.sum(counts)

    def of(name: str) -> Floats:
        return np.array([part[name] for part in parts], np.float64)

    def mean(values: Floats) -> Floats:
        return np.asarray(np.tensordot(weights, values, 1))

    found: dict[str, Any] = {}
    for name in parts[0]:
        if name == "count":
            found[name] = [int(np.sum(counts))]
        elif name == "std":
            if "mean" in parts[0]:
                spread = of("std") ** 2 + (of("mean") - mean(of("mean"))) ** 2
                found[name] = np.sqrt(mean(spread)).tolist()
        elif name in ("min", "max"):
            found[name] = getattr(of(name), name)(axis=0).tolist()
        else:
            found[name] = mean(of(name)).tolist()
    return found


def episode_stats(
    table: pa.Table, videos: Iterable[tuple[str, Path]], wanted: Mapping[str, Sequence[str]]
) -> Stats:
    """The ``wanted`` statistics of an episode, of its frames and the videos of its cameras."""
    found: Stats = {}
    for key, names in wanted.items():
        stats = column_stats(table[key], names) if key in table.column_names else None
        if stats is not None:
            found[key] = stats
    for camera, path in videos:
        if camera in wanted:
            found[camera] = camera_stats(path, table.num_rows, wanted[camera])
    return found

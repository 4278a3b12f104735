"""What a LeRobot dataset of segments says about itself: ``meta``, of v2.0, v2.1 or v3.0."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from objectstates.cut.dataset_stats import OF_DATASET, OF_EPISODES, Stats, joined_stats
from objectstates.export.lerobot_tables import indexed_table
from objectstates.robots.lerobot_files import EPISODES, INFO, FileTemplates


@dataclass(frozen=True)
class FileNumber:
    """The number of a file, in its folder of ``chunks_size`` files (v3.0)."""

    chunk_index: int
    file_index: int


@dataclass(frozen=True)
class SegmentEpisode:
    """An episode that is a segment.

    first : the number of its first frame in the dataset. seconds : how long it lasts.
    about : columns about the segment that other datasets do not have.
    """

    index: int
    length: int
    first: int
    seconds: float
    tasks: tuple[str, ...]
    data: FileNumber
    about: Mapping[str, Any]
    stats: Stats = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """Where the files of the new dataset are.

    version : 2 or 3. In v2 a file holds an episode; here videos do so in v3, too, while a data file
        holds the segments of an episode of the source.
    """

    version: int
    templates: FileTemplates

    def number(self, count: int) -> FileNumber:
        return FileNumber(*divmod(count, self.templates.chunk_size))

    def data_path(self, episode: int, data: FileNumber) -> Path:
        if self.version < 3:
            return self.templates.data_path(episode_index=episode)
        return self.templates.data_path(episode_index=episode, **vars(data))

    def video_path(self, camera: str, episode: int) -> Path:
        if self.version < 3:
            return self.templates.video_path(camera, episode_index=episode)
        number = vars(self.number(episode))
        return self.templates.video_path(camera, episode_index=episode, **number)


def write_meta(
    source: Path,
    folder: Path,
    layout: Layout,
    info: Mapping[str, Any],
    episodes: Sequence[SegmentEpisode],
    tasks: Sequence[str],
) -> None:
    """Write ``meta``; ``source`` is the dataset that was cut, ``info`` the facts about it."""
    cameras = [key for key, value in info["features"].items() if value.get("dtype") == "video"]
    (folder / "meta").mkdir(parents=True, exist_ok=True)
    facts = _info(info, layout, episodes, len(tasks), len(cameras))
    _write_json(folder / INFO, facts)
    if layout.version < 3:
        _write_lists(source, folder, episodes, tasks)
    else:
        _write_tables(folder, layout, cameras, episodes, tasks)
    if (source / OF_DATASET).exists():
        stats = joined_stats([e.stats for e in episodes], [e.length for e in episodes])
        _write_json(folder / OF_DATASET, stats)


def _info(
    info: Mapping[str, Any],
    layout: Layout,
    episodes: Sequence[SegmentEpisode],
    n_tasks: int,
    n_cameras: int,
) -> dict[str, Any]:
    """The facts of the source with new totals; those that it does not have are not added."""
    count = len(episodes)
    totals = {
        "total_episodes": count,
        "total_frames": sum(episode.length for episode in episodes),
        "total_tasks": n_tasks,
        "total_videos": count * n_cameras,
        "total_chunks": -(-count // layout.templates.chunk_size),
        "splits": {"train": f"0:{count}"},
    }
    changed = {key: value for key, value in totals.items() if key in info}
    paths = {"data_path": layout.templates.data, "video_path": layout.templates.video}
    size = {"chunks_size": layout.templates.chunk_size}
    return {
        **info,
        **changed,
        **(paths if n_cameras else {"data_path": paths["data_path"]}),
        **size,
    }


def _write_lists(
    source: Path, folder: Path, episodes: Sequence[SegmentEpisode], tasks: Sequence[str]
) -> None:
    rows = [
        {"episode_index": e.index, "tasks": list(e.tasks), "length": e.length, **e.about}
        for e in episodes
    ]
    _write_lines(folder / "meta" / "episodes.jsonl", rows)
    named = ({"task_index": number, "task": task} for number, task in enumerate(tasks))
    _write_lines(folder / "meta" / "tasks.jsonl", named)
    if (source / OF_EPISODES).exists():
        stats = ({"episode_index": e.index, "stats": e.stats} for e in episodes)
        _write_lines(folder / OF_EPISODES, stats)


def _write_tables(
    folder: Path,
    layout: Layout,
    cameras: Sequence[str],
    episodes: Sequence[SegmentEpisode],
    tasks: Sequence[str],
) -> None:
    rows = []
    for episode in episodes:
        row: dict[str, Any] = {
            "episode_index": episode.index,
            "tasks": list(episode.tasks),
            "length": episode.length,
            "data/chunk_index": episode.data.chunk_index,
            "data/file_index": episode.data.file_index,
            "dataset_from_index": episode.first,
            "dataset_to_index": episode.first + episode.length,
        }
        for camera in cameras:
            video = layout.number(episode.index)
            row |= {f"videos/{camera}/{key}": value for key, value in vars(video).items()}
            row[f"videos/{camera}/from_timestamp"] = 0.0
            row[f"videos/{camera}/to_timestamp"] = episode.seconds
        for key, stats in episode.stats.items():
            row |= {f"stats/{key}/{name}": value for name, value in stats.items()}
        row |= {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0, **episode.about}
        rows.append(row)
    path = folder / EPISODES / "chunk-000" / "file-000.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    names = dict.fromkeys(name for row in rows for name in row)
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), path)
    pq.write_table(indexed_table("task", tasks, "task_index"), folder / "meta" / "tasks.parquet")


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=4, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")

"""LeRobot datasets: cameras, tasks and episodes, and the episodes as clips.

`read_dataset` reads what a dataset says about itself, of v2.0, v2.1 and v3.0 alike, and
`LeRobotDataset.clips` lists its episodes as clips. Videos are not opened: one that is missing or
damaged is reported when its clip is read, like any other. What ``info.json`` says about codecs is
ignored, since it is often wrong.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from objectstates.base.errors import DatasetError, SettingError
from objectstates.data.clips import EpisodeSpan
from objectstates.robots.lerobot_files import (
    INFO,
    MOST,
    PREFIX,
    FileTemplates,
    episode_tables,
    major_version,
    read_json,
    read_json_lines,
    task_names,
    whole_number,
)
from objectstates.video.clip_list import ClipSpan, RecordedEpisode

MOST_COMPONENTS = 100_000  # of a feature of the robot
EARLY = 0.25  # frames by which spans start and end early: times of frames are rounded
_DEFAULT_DATA = {
    2: "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
    3: "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
}
_DEFAULT_VIDEO = {
    2: "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    3: "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
}


@dataclass(frozen=True)
class VideoSpan:
    """The part of a video file that shows an episode, in seconds; None for the whole file."""

    path: Path
    start: float | None = None
    end: float | None = None


@dataclass(frozen=True)
class Episode:
    """One episode: its number, its frames, what it is a demonstration of, and its files."""

    index: int
    length: int
    tasks: tuple[str, ...]
    record: Path
    videos: dict[str, VideoSpan] = field(repr=False)

    @property
    def name(self) -> str:
        return f"episode_{self.index:06d}"


@dataclass(frozen=True)
class LeRobotDataset:
    """What a dataset says about itself.

    version : such as "v2.1". ``fps`` : frames per second of all cameras and signals.
    cameras : keys of the features that are videos. ``pictures`` : of those stored as images.
    signals : sizes of the numeric features of the robot, such as observation.state and action.
    signal_names : of their components, where the dataset says.
    tasks : by number.
    """

    root: Path
    version: str
    fps: float
    robot: str | None
    cameras: tuple[str, ...]
    pictures: tuple[str, ...]
    signals: dict[str, int]
    signal_names: dict[str, tuple[str, ...]]
    tasks: dict[int, str]
    episodes: tuple[Episode, ...] = field(repr=False)

    def camera(self, key: str) -> str:
        """The key of a camera, given in full or without its prefix."""
        named = [c for c in self.cameras if key in (c, c.removeprefix(PREFIX), c.split(".")[-1])]
        if key in named or len(named) == 1:
            return key if key in named else named[0]
        if key in self.pictures or PREFIX + key in self.pictures:
            raise SettingError(
                f"`camera`: {self.root} stores {key} as single images, which cannot be read: "
                "convert the dataset to videos"
            )
        raise SettingError(f"`camera`: {self.root} has no camera {key!r}; {self._cameras()}")

    def chosen_cameras(self, keys: str | None) -> tuple[str, ...]:
        """The cameras of a setting: keys with commas between; None is the only one there is."""
        if keys is None:
            if len(self.cameras) == 1:
                return self.cameras
            need = "choose with `camera`: " if self.cameras else ""
            raise SettingError(f"{self.root}: {need}{self._cameras()}")
        found = [self.camera(key.strip()) for key in keys.split(",") if key.strip()]
        if not found:
            raise SettingError(f"`camera` is empty; {self._cameras()}")
        return tuple(dict.fromkeys(found))

    def _cameras(self) -> str:
        if self.cameras:
            return f"its cameras are {', '.join(self.cameras)}"
        images = f" (its {', '.join(self.pictures)} are single images)" if self.pictures else ""
        return f"it has no video{images}"

    def select(self, task: str | None = None, episodes: str | None = None) -> LeRobotDataset:
        """The dataset of some episodes.

        task : a task, or its number. ``episodes`` : numbers and ranges such as "0:50" or "3,7,9:".
        """
        chosen = list(self.episodes)
        if task is not None:
            wanted = self._task(task)
            chosen = [episode for episode in chosen if wanted in episode.tasks]
        if episodes is not None:
            parts = parse_episodes(episodes)
            chosen = [e for e in chosen if any(e.index in part for part in parts)]
        if not chosen:
            have = [episode.index for episode in self.episodes]
            has = f"episodes {min(have)} to {max(have)}" if have else "no episodes"
            raise SettingError(
                f"`episodes`, `task`: none is left of {self.root}, which has {has}: choose others"
            )
        return replace(self, episodes=tuple(chosen))

    def _task(self, text: str) -> str:
        names = dict.fromkeys([*self.tasks.values(), *(t for e in self.episodes for t in e.tasks)])
        if text.isdecimal() and int(text) in self.tasks:
            return self.tasks[int(text)]
        same = [name for name in names if name.casefold().strip() == text.casefold().strip()]
        if not same:
            known = "; ".join(names) or "none"
            raise SettingError(f"`task`: {self.root} has no task {text!r}; its tasks are: {known}")
        return same[0]

    def clips(self, cameras: Sequence[str]) -> list[ClipSpan]:
        """The episodes as clips of the first camera, with the other cameras as further views."""
        first, *others = cameras
        clips = []
        for episode in self.episodes:
            views = tuple(self._clip(episode, camera) for camera in others)
            clips.append(self._clip(episode, first, views))
        return clips

    def _clip(self, episode: Episode, camera: str, views: tuple[ClipSpan, ...] = ()) -> ClipSpan:
        video, early = episode.videos[camera], EARLY / self.fps
        origin = 0.0 if video.start is None else self._snapped(video.start)
        start = None if video.start is None or origin <= early else origin - early
        end = None if video.end is None else video.end - early
        recorded = RecordedEpisode(
            dataset=self.root,
            camera=camera,
            span=EpisodeSpan(episode.index, origin),
            length=episode.length,
            record=episode.record,
            views=views,
        )
        return ClipSpan(episode.name, video.path, start, end, recorded)

    def _snapped(self, time: float) -> float:
        """The time of the nearest frame, if one is near; stored times are rounded."""
        frame = round(time * self.fps) / self.fps
        return frame if abs(frame - time) < EARLY / self.fps else time


def read_dataset(path: str | Path) -> LeRobotDataset:
    """Read ``meta`` of a dataset."""
    root = Path(path)
    info = read_json(root / INFO)
    if not isinstance(info, dict) or not isinstance(info.get("features"), dict):
        raise DatasetError(f"{root / INFO} has no `features`: this is no LeRobot dataset")
    version = major_version(root, info.get("codebase_version"))
    fps = info.get("fps")
    if not isinstance(fps, int | float) or not 0 < fps < 1e5:
        raise DatasetError(f"{root / INFO}: fps is {fps!r}, not a number of frames per second")
    features: dict[str, dict[str, Any]] = {
        key: value for key, value in info["features"].items() if isinstance(value, dict)
    }
    cameras = tuple(key for key, value in features.items() if value.get("dtype") == "video")
    templates = file_templates(root, info)
    read = _episodes_v2 if version == 2 else _episodes_v3
    episodes = sorted(read(root, templates, cameras), key=lambda e: e.index)
    _check_unique(root, episodes)
    signals = {key: size for key, value in features.items() if (size := _signal_size(key, value))}
    return LeRobotDataset(
        root=root,
        version=str(info["codebase_version"]),
        fps=float(fps),
        robot=info.get("robot_type"),
        cameras=cameras,
        pictures=tuple(key for key, value in features.items() if value.get("dtype") == "image"),
        signals=signals,
        signal_names={key: _component_names(features[key], signals[key]) for key in signals},
        tasks=task_names(root, version),
        episodes=tuple(episodes),
    )


def file_templates(root: Path, info: dict[str, Any]) -> FileTemplates:
    """Where the files of a dataset at ``root`` are, by its ``info.json`` or as usual."""
    version = major_version(root, info.get("codebase_version"))
    return FileTemplates(
        root,
        str(info.get("data_path") or _DEFAULT_DATA[version]),
        str(info.get("video_path") or _DEFAULT_VIDEO[version]),
        max(1, whole_number(root / INFO, "chunks_size", info.get("chunks_size") or 1000)),
    )


def _check_unique(root: Path, episodes: Sequence[Episode]) -> None:
    """Raise if two rows are about the same episode: clips are named by its number."""
    for index, count in Counter(episode.index for episode in episodes).items():
        if count > 1:
            raise DatasetError(
                f"{root / 'meta'} lists episode {index} {count} times: copy the dataset again"
            )


def _episodes_v2(root: Path, templates: FileTemplates, cameras: Sequence[str]) -> list[Episode]:
    episodes = []
    path = root / "meta" / "episodes.jsonl"
    for row in read_json_lines(path):
        index = row.get("episode_index")
        if not isinstance(index, int):
            raise DatasetError(f"{path}: a line has no episode_index")
        index = whole_number(path, "episode_index", index)
        videos = {c: VideoSpan(templates.video_path(c, episode_index=index)) for c in cameras}
        record = templates.data_path(episode_index=index)
        length = whole_number(path, "length", row.get("length") or 0)
        episodes.append(Episode(index, length, _tasks(row.get("tasks")), record, videos))
    return episodes


def _episodes_v3(root: Path, templates: FileTemplates, cameras: Sequence[str]) -> list[Episode]:
    episodes = []
    for path, table in episode_tables(root):
        for row in table.to_pylist():
            index = _number(path, row, "episode_index")
            record = templates.data_path(
                chunk_index=_number(path, row, "data/chunk_index"),
                file_index=_number(path, row, "data/file_index"),
                episode_index=index,
            )
            videos = {camera: _video_v3(path, templates, camera, row) for camera in cameras}
            length = whole_number(path, "length", row.get("length") or 0)
            episodes.append(Episode(index, length, _tasks(row.get("tasks")), record, videos))
    return episodes


def _video_v3(table: Path, templates: FileTemplates, camera: str, row: dict[str, Any]) -> VideoSpan:
    path = templates.video_path(
        camera,
        chunk_index=_number(table, row, f"videos/{camera}/chunk_index"),
        file_index=_number(table, row, f"videos/{camera}/file_index"),
        episode_index=_number(table, row, "episode_index"),
    )
    start, end = (
        _value(table, row, f"videos/{camera}/{name}") for name in ("from_timestamp", "to_timestamp")
    )
    try:
        start, end = float(start), float(end)
    except (TypeError, ValueError):
        start = end = math.nan
    if not 0 <= start < end < math.inf:
        raise DatasetError(
            f"{table}: episode {row['episode_index']} of {camera} has no times from_timestamp and "
            "to_timestamp in seconds: copy the dataset again"
        )
    return VideoSpan(path, start, end)


def _number(table: Path, row: dict[str, Any], column: str) -> int:
    return whole_number(table, column, _value(table, row, column))


def _value(table: Path, row: dict[str, Any], column: str) -> Any:
    value = row.get(column)
    if value is None:
        raise DatasetError(
            f"{table}: column {column!r} is missing or has no value, as a v3.0 dataset "
            "needs: copy the dataset again"
        )
    return value


def _tasks(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def _signal_size(key: str, feature: dict[str, Any]) -> int:
    """The number of components of a feature of the robot; 0 if it is none."""
    robot = key == "action" or key.startswith(("observation.", "action."))
    shape = feature.get("shape")
    if not robot or not str(feature.get("dtype", "")).startswith(("float", "int")):
        return 0
    size = shape[0] if isinstance(shape, list) and len(shape) == 1 else 0
    return size if isinstance(size, int) and 0 < size <= MOST_COMPONENTS else 0


def _component_names(feature: dict[str, Any], size: int) -> tuple[str, ...]:
    """Names of a feature's components: a list, a list in a list, or lists in an object."""
    names: Any = feature.get("names")
    if isinstance(names, dict):
        lists = [x for x in names.values() if isinstance(x, list)]
        names = list(chain(*lists)) or list(names)
    while isinstance(names, list) and len(names) == 1 and isinstance(names[0], list):
        names = names[0]
    if isinstance(names, list) and len(names) == size:
        return tuple(map(str, names))
    return tuple(str(n) for n in range(size))


def parse_episodes(text: str) -> list[range]:
    """Numbers of episodes from text such as "0:50" or "3,7,9:".

    >>> [n for n in range(11) if any(n in part for part in parse_episodes("0:3,7,9:"))]
    [0, 1, 2, 7, 9, 10]
    """
    parts = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(?:(\d+)|(\d*):(\d*))\s*", part)
        if match is None:
            raise SettingError(f"`episodes` must be like 0:50 or 3,7,9, not {text!r}")
        one, first, last = match.groups()
        if one is not None:
            parts.append(range(int(one), int(one) + 1))
        else:
            parts.append(range(int(first or 0), int(last or MOST)))
    return parts

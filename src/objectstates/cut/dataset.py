"""Cut the episodes of a LeRobot dataset into a new dataset whose episodes are the segments.

The new dataset has the version of the source. Its rows are those of the source between the bounds,
with all columns, numbered anew; every camera is cut at the same frames.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from objectstates.base.errors import CutError, DatasetError, VideoError
from objectstates.base.resources import lack_behind
from objectstates.cut.dataset_meta import FileNumber, Layout, SegmentEpisode, write_meta
from objectstates.cut.dataset_stats import episode_stats, wanted_stats
from objectstates.cut.dataset_videos import cut_camera
from objectstates.cut.folder import CutSettings, Progress
from objectstates.cut.idle import kept_frames, moving_span
from objectstates.cut.segments import ClipFrames, Segment, label_of, missing_parts, split
from objectstates.data.corpus import Array
from objectstates.data.label_names import LabelNames
from objectstates.data.result import Result
from objectstates.export.lerobot_tables import write_by_episode
from objectstates.export.registry import ListedFolder
from objectstates.export.subtasks import dataset_of_export
from objectstates.export.videos import ExportSource
from objectstates.report.clip_view import ClipView
from objectstates.report.phases import phases_in_episode, phases_of
from objectstates.robots.lerobot_dataset import EARLY, Episode, LeRobotDataset, file_templates
from objectstates.robots.lerobot_files import INFO, major_version, read_json, read_parquet

ARTEFACT = ListedFolder(header="cut.json", version=1, files=frozenset(), error=CutError)
SUBTASKS = Path("meta", "subtasks.parquet")  # names for the column subtask_index


@dataclass(frozen=True)
class DatasetCut:
    """What was written.

    clips : how many episodes of the source were cut. episodes : the segments.
    dropped : of clips, by name, start and end in seconds of the episode, where nothing moves.
    problems : what was left out and why.
    """

    folder: Path
    clips: int
    episodes: tuple[SegmentEpisode, ...]
    dropped: tuple[tuple[str, float, float], ...]
    problems: tuple[str, ...]

    @property
    def dropped_seconds(self) -> float:
        return sum(end - start for _, start, end in self.dropped)


def cut_dataset(
    result: Result,
    out: str | Path,
    *,
    crf: int | None = None,
    trim_idle: bool = False,
    dataset: str | Path | None = None,
    progress: Progress | None = None,
) -> DatasetCut:
    """Cut every episode of ``result`` into before, action and after, as a LeRobot dataset ``out``.

    A chain of changes is cut into its states and actions.

    It is written under a temporary name and renamed. An earlier one is replaced.

    crf, trim_idle : as in `CutSettings`.
    dataset : the folder of the dataset that was discovered, if it was moved.
    """
    settings = CutSettings(crf=crf, trim_idle=trim_idle)
    if not (result.actions.chunk >= 0).any():
        raise CutError("the result has no action to cut at: fit with `target` joint or action")
    source = ExportSource.of(result)
    if source.dataset is None:
        raise CutError(
            "the clips of this result are no episodes of a LeRobot dataset: cut them with `format` "
            "videos, or discover a dataset"
        )
    place = dataset_of_export(source, dataset)
    if Path(out).resolve().is_relative_to(place.root.resolve()):
        raise CutError(f"{out} lies within the dataset: choose another folder")
    problems = list(source.replaced)
    with ARTEFACT.writing(out) as folder:
        writer = _Writer(place, folder, settings, source.names, problems)
        episodes = {episode.index: episode for episode in place.episodes}
        for number, clip in enumerate(source.clips):
            _cut_clip(writer, clip, episodes, problems)
            if progress is not None:
                progress(number + 1, len(source.clips))
        writer.finish()
        files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
        facts = {"format": "lerobot", "settings": vars(settings), "source": str(place.root)}
        lists = {"dropped": writer.dropped, "problems": problems, "files": files}
        ARTEFACT.write_header(folder, {**facts, **lists})
    return DatasetCut(
        Path(out), writer.clips, tuple(writer.episodes), tuple(writer.dropped), tuple(problems)
    )


def _cut_clip(
    writer: _Writer, clip: ClipView, episodes: dict[int, Episode], problems: list[str]
) -> None:
    """Write a clip; one that cannot be read becomes a problem."""
    if clip.episode is None or clip.episode.index not in episodes:
        problems.append(f"left out clip {clip.name!r}: it is no episode of the dataset")
        return
    try:
        writer.write(clip, episodes[clip.episode.index])
    except (VideoError, DatasetError, av.FFmpegError) as problem:
        if lack_behind(problem):
            raise CutError(f"cannot write the dataset: {problem}") from problem
        problems.append(f"left out clip {clip.name!r}: {problem}")


class _Writer:
    """Writes segments one after another, and at last what is known of all of them."""

    def __init__(
        self,
        dataset: LeRobotDataset,
        folder: Path,
        settings: CutSettings,
        names: LabelNames,
        problems: list[str],
    ) -> None:
        self._dataset, self._folder, self._settings = dataset, folder, settings
        self._names, self._problems = names, problems
        self._info: dict[str, Any] = read_json(dataset.root / INFO)
        version = major_version(dataset.root, dataset.version)
        templates = replace(file_templates(dataset.root, self._info), root=folder)
        self._layout = Layout(version, templates)
        self._wanted = wanted_stats(dataset.root)
        self._timed = self._without_timed_features()
        self._record: tuple[Path, pa.Table] | None = None
        self._tasks: dict[str, int] = {}
        self.episodes: list[SegmentEpisode] = []
        self.dropped: list[tuple[str, float, float]] = []
        self.clips = 0

    def _without_timed_features(self) -> list[str]:
        """Leave out features of language: their times are those of whole episodes."""
        features = self._info["features"]
        timed = [key for key, value in features.items() if value.get("dtype") == "language"]
        self._info["features"] = {k: v for k, v in features.items() if k not in timed}
        self._problems += [
            f"left out column {key!r}: its times are those of whole episodes" for key in timed
        ]
        return timed

    def write(self, clip: ClipView, episode: Episode) -> None:
        """Write the segments of an episode; files of one that fails are removed."""
        rows = self._rows(episode)
        times = np.asarray(rows["timestamp"].to_numpy(), np.float64)
        segments, dropped = self._segments(clip, episode, times)
        first = len(self.episodes)
        numbers = range(first, first + len(segments))
        paths = {
            camera: [self._layout.video_path(camera, number) for number in numbers]
            for camera in self._dataset.cameras
        }
        losses: list[list[float | None]] = []
        try:
            for camera, targets in paths.items():
                video, crf = episode.videos[camera], self._settings.crf
                losses.append(cut_camera(video, times, segments, targets, crf))
        except BaseException:
            for path in (path for targets in paths.values() for path in targets):
                path.unlink(missing_ok=True)
            raise
        loss = [_lowest([values[k] for values in losses]) for k in range(len(segments))]
        self._write_rows(clip, episode, rows, segments, paths, loss)
        self.dropped += [(clip.name, start, end) for start, end in dropped]
        self.clips += 1
        self._problems += [
            f"clip {clip.name!r} has no segment {part!r}: it has no frames"
            for part in missing_parts(segments, phases_of(clip), clip.result.n_actions)
        ]

    def _rows(self, episode: Episode) -> pa.Table:
        if self._record is None or self._record[0] != episode.record:
            self._record = episode.record, read_parquet(episode.record)  # of many episodes in v3.0
        table = self._record[1]
        if not {"timestamp", "episode_index"} <= set(table.column_names):
            raise DatasetError(f"{episode.record} has no columns timestamp and episode_index")
        rows = table.filter(pc.equal(table["episode_index"], episode.index))
        if not rows.num_rows:
            raise DatasetError(f"{episode.record} has no rows of episode {episode.index}")
        timed = [key for key in self._timed if key in rows.column_names]
        if timed:  # the metadata lists all columns, as datasets of Hugging Face are read by
            rows = rows.drop_columns(timed).replace_schema_metadata(None)
        return rows.combine_chunks()

    def _segments(
        self, clip: ClipView, episode: Episode, times: Array
    ) -> tuple[list[Segment], list[tuple[float, float]]]:
        """Segments, and what was dropped, in rows and seconds of the episode."""
        phases = phases_in_episode(clip)
        step = float(np.median(np.diff(times))) if len(times) > 1 else 1 / self._dataset.fps
        frames = ClipFrames.of(times, float(times[-1]) + step)
        first, last = 0, len(times)
        if self._settings.trim_idle:
            first, last = kept_frames(frames, self._moving(episode, frames), phases)
        ends = (0, first), (last, len(times))
        dropped = [(frames.bound(a), frames.bound(b)) for a, b in ends if b > a]
        return split(frames, phases, clip.result.n_actions, (first, last)), dropped

    def _moving(self, episode: Episode, frames: ClipFrames) -> tuple[float, float] | None:
        """When something moves before any camera, in seconds of the episode."""
        spans = []
        for video in episode.videos.values():
            origin = video.start or 0.0
            early = max(origin - EARLY / self._dataset.fps, 0.0)
            span = moving_span(video.path, early, origin + frames.end)
            spans += [] if span is None else [(span[0] - origin, span[1] - origin)]
        return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None

    def _write_rows(
        self,
        clip: ClipView,
        episode: Episode,
        rows: pa.Table,
        segments: list[Segment],
        videos: dict[str, list[Path]],
        loss: list[float | None],
    ) -> None:
        """Write the rows of the segments, and note what ``meta`` will say about them."""
        data = self._layout.number(self.clips)
        tables = []
        for number, segment in enumerate(segments):
            label = self._names.label(label_of(segment.part))
            table, tasks = self._renumbered(rows, episode, segment, label)
            about = {
                "segment": segment.part,
                "label": label,
                "source_episode_index": episode.index,
                "source_from_frame": segment.first,
                "source_to_frame": segment.last,
                "reached": clip.reached or None,
                "psnr": loss[number],
            }
            files = [(camera, paths[number]) for camera, paths in videos.items()]
            stats = episode_stats(table, files, self._wanted)
            self._add(segment, tasks, data, about, stats)
            tables.append(table)
        if self._layout.version < 3:
            for table in tables:
                index = int(table["episode_index"][0].as_py())
                write_by_episode(table, self._layout.data_path(index, data))
        else:
            path = self._layout.data_path(self.episodes[-1].index, data)
            write_by_episode(pa.concat_tables(tables), path)

    def _add(
        self,
        segment: Segment,
        tasks: tuple[str, ...],
        data: FileNumber,
        about: dict[str, Any],
        stats: dict[str, dict[str, Any]],
    ) -> None:
        self.episodes.append(
            SegmentEpisode(
                index=len(self.episodes),
                length=segment.n_frames,
                first=self._frames,
                seconds=segment.end - segment.start,
                tasks=tasks,
                data=data,
                about={key: value for key, value in about.items() if value is not None},
                stats=stats,
            )
        )

    @property
    def _frames(self) -> int:
        """How many were written."""
        return self.episodes[-1].first + self.episodes[-1].length if self.episodes else 0

    def _renumbered(
        self, rows: pa.Table, episode: Episode, segment: Segment, label: str
    ) -> tuple[pa.Table, tuple[str, ...]]:
        """The rows of a segment as those of a new episode, and its tasks."""
        table, count = rows.slice(segment.first, segment.n_frames), segment.n_frames
        tasks = self._task_of_rows(table, episode, label)
        times = np.asarray(table["timestamp"].to_numpy(), np.float64)
        columns = {
            "frame_index": np.arange(count),
            "timestamp": times - times[0],
            "index": np.arange(self._frames, self._frames + count),
            "episode_index": np.full(count, len(self.episodes)),
            "task_index": np.array([self._tasks[task] for task in tasks]),
        }
        for name, values in columns.items():
            if name in table.column_names:
                at = table.column_names.index(name)
                field = table.schema.field(at)
                table = table.set_column(at, field, pa.array(values).cast(field.type, safe=False))
        return table, tuple(dict.fromkeys(tasks))

    def _task_of_rows(self, table: pa.Table, episode: Episode, label: str) -> list[str]:
        """The new task of each row: the task of the source and the name of the segment."""
        known, of_episode = self._dataset.tasks, next(iter(episode.tasks), "")
        numbers: list[Any] = [None] * table.num_rows
        if "task_index" in table.column_names:
            numbers = table["task_index"].to_pylist()
        tasks = [segment_task(known.get(number, of_episode), label) for number in numbers]
        for task in tasks:
            self._tasks.setdefault(task, len(self._tasks))
        return tasks

    def finish(self) -> None:
        """Write ``meta``."""
        root, features = self._dataset.root, self._info["features"]
        if not self.episodes:
            raise CutError(f"no episode of {root} can be cut: {'; '.join(self._problems)}")
        for camera in self._dataset.cameras:
            about = dict(features[camera])
            for name in ("info", "video_info"):
                if isinstance(about.get(name), dict):
                    about[name] = {**about[name], **_CODING}
            features[camera] = about
        tasks = list(self._tasks)
        write_meta(root, self._folder, self._layout, self._info, self.episodes, tasks)
        if (root / SUBTASKS).exists() and "subtask_index" in features:
            shutil.copyfile(root / SUBTASKS, self._folder / SUBTASKS)


_CODING = {"video.codec": "h264", "has_audio": False}


def segment_task(task: str, label: str) -> str:
    """The task of a segment: that of its episode, and what the segment is called.

    >>> segment_task("make light", "off"), segment_task("press", "press"), segment_task("", "on")
    ('make light: off', 'press', 'on')
    """
    return label if task in ("", label) else f"{task}: {label}"


def _lowest(losses: list[float | None]) -> float | None:
    """The lowest PSNR of several cameras; None if all are exact."""
    known = [loss for loss in losses if loss is not None]
    return min(known) if known else None

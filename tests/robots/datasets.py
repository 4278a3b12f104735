"""LeRobot datasets to test with: a small one of v2.1, and a converter from v2.1 to v3.0.

``python -m tests.robots.datasets SOURCE TARGET`` converts a dataset on disk. Videos are joined by
copying their packets, so that decoded frames are the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from objectstates.robots.lerobot_dataset import Episode, read_dataset
from tests.video.videos import write_video

CAMERA, WRIST = "observation.images.front", "observation.images.wrist"
TASKS = ("press the switch", "pull the lever")
FPS, WIDTH, HEIGHT = 30, 96, 72
SECONDS = (3.0, 3.4, 2.7, 3.1)  # of the episodes
STATE_NAMES = ("shoulder", "elbow", "gripper")
VIDEO = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
DATA = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"


@dataclass(frozen=True)
class Demonstration:
    """What happens in one episode: frames of a camera, joint states, the action's time."""

    images: list[npt.NDArray[np.uint8]]
    state: npt.NDArray[np.float32]
    action_time: float


def demonstrate(index: int, seconds: float, camera: int = 0) -> Demonstration:
    """A hand comes to a thing, which changes its colour when the gripper closes, and leaves."""
    rng = np.random.default_rng(1000 + camera)  # one scene, seen by this camera
    coarse = rng.integers(40, 160, (HEIGHT // 6, WIDTH // 6, 3), np.uint8)
    table = coarse.repeat(6, axis=0).repeat(6, axis=1)
    count = round(seconds * FPS)
    change = round(count * (0.42 + 0.06 * (index % 3)))
    images, state = [], np.zeros((count, 3), np.float32)
    for i in range(count):
        image = table.copy()
        image[24:48, 36:64] = (40, 90, 220) if i < change else (240, 150, 20)
        near = max(0.0, 1 - abs(i - change) / 20)
        if near > 0:
            x = round(80 - 36 * near) - 8 * camera
            image[30:44, x : x + 14] = (200, 200, 200)
        images.append(image)
        state[i] = near, 0.5 * near, float(abs(i - change) < 6)
    return Demonstration(images, state, change / FPS)


def write_dataset(
    root: Path,
    *,
    episodes: Sequence[float] = SECONDS,
    cameras: Sequence[str] = (CAMERA,),
    version: str = "v2.1",
    video_path: str = VIDEO,
    codec: str = "libx264",
) -> Path:
    """A v2.1 dataset of short videos; odd episodes are of the second task."""
    rows, frames_before = [], 0
    for index, seconds in enumerate(episodes):
        for number, camera in enumerate(cameras):
            seen = demonstrate(index, seconds, number)
            path = root / video_path.format(
                episode_chunk=0, chunk_index=0, video_key=camera, episode_index=index
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            write_video(path, seen.images, fps=FPS, codec=codec)
        state = demonstrate(index, seconds).state
        task = index % 2
        rows.append({"episode_index": index, "tasks": [TASKS[task]], "length": len(state)})
        path = root / DATA.format(episode_chunk=0, episode_index=index)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(record(state, index, frames_before, task), path)
        frames_before += len(state)
    meta = root / "meta"
    meta.mkdir(parents=True, exist_ok=True)
    _write_lines(meta / "episodes.jsonl", rows)
    _write_lines(
        meta / "tasks.jsonl", [{"task_index": k, "task": task} for k, task in enumerate(TASKS)]
    )
    info = {
        "codebase_version": version,
        "robot_type": "two joints",
        "total_episodes": len(rows),
        "total_frames": frames_before,
        "total_tasks": len(TASKS),
        "total_videos": len(rows) * len(cameras),
        "total_chunks": 1,
        "chunks_size": 1000,
        "fps": FPS,
        "splits": {"train": f"0:{len(rows)}"},
        "data_path": DATA,
        "video_path": video_path,
        "features": features(cameras),
    }
    (meta / "info.json").write_text(json.dumps(info, indent=1))
    return root


def features(cameras: Sequence[str]) -> dict[str, Any]:
    signal = {"dtype": "float32", "shape": [3], "names": list(STATE_NAMES)}
    size = [HEIGHT, WIDTH, 3]
    video = {"dtype": "video", "shape": size, "names": ["height", "width", "channels"]}
    numbers = ("frame_index", "episode_index", "index", "task_index")
    return {
        "observation.state": signal,
        "action": signal,
        # a codec that is not the videos': readers must not believe it
        **{
            camera: {**video, "info": {"video.codec": "av1", "video.fps": FPS}}
            for camera in cameras
        },
        "timestamp": {"dtype": "float32", "shape": [1], "names": None},
        **{name: {"dtype": "int64", "shape": [1], "names": None} for name in numbers},
    }


def record(state: npt.NDArray[np.float32], index: int, before: int, task: int) -> pa.Table:
    """The rows of an episode; commands are the states of the next frame."""
    count = len(state)
    command = np.vstack([state[1:], state[-1:]])
    frames = np.arange(count)
    return pa.table(
        {
            "observation.state": _lists(state),
            "action": _lists(command),
            "timestamp": pa.array(frames / FPS, pa.float32()),
            "frame_index": pa.array(frames, pa.int64()),
            "episode_index": pa.array(np.full(count, index), pa.int64()),
            "index": pa.array(frames + before, pa.int64()),
            "task_index": pa.array(np.full(count, task), pa.int64()),
        }
    )


def _lists(values: npt.NDArray[np.float32]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def _write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


# --- from v2.1 to v3.0 ------------------------------------------------------------------------


def convert_to_v3(source: Path, target: Path, *, per_file: int = 3) -> Path:
    """Write a v2.1 dataset as v3.0, ``per_file`` episodes to a file."""
    dataset = read_dataset(source)
    groups = [
        dataset.episodes[first : first + per_file]
        for first in range(0, len(dataset.episodes), per_file)
    ]
    about: list[dict[str, Any]] = []
    for number, group in enumerate(groups):
        about += _join_records(group, target, number, sum(row["length"] for row in about))
        for camera in dataset.cameras:
            path = target / f"videos/{camera}/chunk-000/file-{number:03d}.mp4"
            spans = join_videos([episode.videos[camera].path for episode in group], path)
            for row, (start, end) in zip(about[-len(group) :], spans, strict=True):
                place = {"chunk_index": 0, "file_index": number}
                times = {"from_timestamp": start, "to_timestamp": end}
                row.update({f"videos/{camera}/{k}": v for k, v in {**place, **times}.items()})
    path = target / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(about), path)
    pq.write_table(_task_table(dataset.tasks), target / "meta" / "tasks.parquet")
    info = json.loads((source / "meta" / "info.json").read_text())
    for key in ("total_videos", "total_chunks"):
        info.pop(key, None)
    info |= {
        "codebase_version": "v3.0",
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    }
    (target / "meta" / "info.json").write_text(json.dumps(info, indent=1))
    return target


def _join_records(
    group: Sequence[Episode], target: Path, number: int, before: int
) -> list[dict[str, Any]]:
    path = target / f"data/chunk-000/file-{number:03d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = [pq.read_table(episode.record) for episode in group]
    with pq.ParquetWriter(path, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    rows = []
    for episode, table in zip(group, tables, strict=True):
        rows.append(
            {
                "episode_index": episode.index,
                "tasks": list(episode.tasks),
                "length": table.num_rows,
                "data/chunk_index": 0,
                "data/file_index": number,
                "dataset_from_index": before,
                "dataset_to_index": before + table.num_rows,
                "meta/episodes/chunk_index": 0,
                "meta/episodes/file_index": 0,
            }
        )
        before += table.num_rows
    return rows


def _task_table(tasks: dict[int, str]) -> pa.Table:
    """As pandas writes a data frame whose index is the task."""
    table = pa.table({"task_index": list(tasks), "__index_level_0__": list(tasks.values())})
    index = {"name": None, "field_name": "__index_level_0__", "pandas_type": "unicode",
             "numpy_type": "object", "metadata": None}  # fmt: skip
    column = {"name": "task_index", "field_name": "task_index", "pandas_type": "int64",
              "numpy_type": "int64", "metadata": None}  # fmt: skip
    about = {"index_columns": ["__index_level_0__"], "column_indexes": [],
             "columns": [column, index], "pandas_version": "2.0.0"}  # fmt: skip
    return table.replace_schema_metadata({"pandas": json.dumps(about)})


def join_videos(videos: Sequence[Path], path: Path) -> list[tuple[float, float]]:
    """Append the packets of videos of one encoding; returns start and end of each in seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    spans, offset = [], 0
    with av.open(str(path), "w") as joined:
        out: Any = None
        for video in videos:
            with av.open(str(video)) as container:
                stream = container.streams.video[0]
                out = out or joined.add_stream_from_template(stream)
                out.time_base = stream.time_base
                packets = [p for p in container.demux(stream) if p.pts is not None]
                first, end = min(p.pts or 0 for p in packets), offset
                for packet in packets:
                    pts = (packet.pts or 0) + offset - first
                    packet.pts, packet.dts = pts, (packet.dts or 0) + offset - first
                    end = max(end, pts + (packet.duration or 0))
                    packet.stream = out
                    joined.mux(packet)
                base = float(stream.time_base or 0)
                spans.append((offset * base, end * base))
                offset = end
    return spans


if __name__ == "__main__":
    convert_to_v3(Path(sys.argv[1]), Path(sys.argv[2]))

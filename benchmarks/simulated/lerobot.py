"""Write simulated clips as a LeRobot v2.1 dataset, with what the robot measured and was told.

    python -m benchmarks.simulated.lerobot CLIPS/drawer-open --out DATASET [--crops]

Each clip is an episode: its video, and a Parquet file with ``observation.state`` and ``action``.
``--crops`` keeps the frames that ``crops.json`` beside the clips names, so that the middle of an
episode is no good guess of its action. ``truth/`` holds the clips' JSON files by episode, with
times of the episode; it is no part of the format.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from objectstates.base.errors import BenchmarkError
from objectstates.video.reader import read_frames

CAMERA = "observation.images.front"
VIDEO = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
DATA = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"


def write_dataset(clips: Path, out: Path, *, crops: bool = False) -> int:
    """Write the clips of one manipulation as a dataset; returns the number of episodes."""
    facts = [json.loads(path.read_text()) for path in sorted(clips.glob("*.json"))]
    facts = [fact for fact in facts if "robot" in fact]
    if not facts:
        raise BenchmarkError(f"{clips} has no clips with the robot's signals: render them again")
    cut = json.loads((clips.parent / "crops.json").read_text()) if crops else {}
    task, rows = facts[0]["task"], []
    for index, fact in enumerate(facts):
        first, last = cut.get(fact["clip"], (0, fact["n_frames"]))
        rows.append({"episode_index": index, "tasks": [task], "length": last - first})
        _write_video(clips / f"{fact['clip']}.mp4", out, index, fact, (first, last))
        _write_record(out, index, fact, (first, last), sum(row["length"] for row in rows[:-1]))
        _write_truth(out, index, fact, (first, last))
    meta = out / "meta"
    meta.mkdir(parents=True, exist_ok=True)
    (meta / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (meta / "tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": task}) + "\n")
    (meta / "info.json").write_text(json.dumps(_info(facts[0], rows), indent=1) + "\n")
    return len(rows)


def _info(fact: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = fact["robot"]["names"]
    signal = {"dtype": "float32", "shape": [len(names)], "names": names}
    size = [fact["height"], fact["width"], 3]
    scalars = ("frame_index", "episode_index", "index", "task_index")
    return {
        "codebase_version": "v2.1",
        "robot_type": "sawyer (Meta-World)",
        "total_episodes": len(rows),
        "total_frames": sum(row["length"] for row in rows),
        "total_tasks": 1,
        "total_videos": len(rows),
        "total_chunks": 1,
        "chunks_size": 1000,
        "fps": fact["fps"],
        "splits": {"train": f"0:{len(rows)}"},
        "data_path": DATA,
        "video_path": VIDEO,
        "features": {
            "observation.state": signal,
            "action": signal,
            CAMERA: {"dtype": "video", "shape": size, "names": ["height", "width", "channels"]},
            "timestamp": {"dtype": "float32", "shape": [1], "names": None},
            **{key: {"dtype": "int64", "shape": [1], "names": None} for key in scalars},
        },
    }


def _write_video(
    source: Path, out: Path, index: int, fact: dict[str, Any], span: tuple[int, int]
) -> None:
    path = out / VIDEO.format(episode_chunk=0, video_key=CAMERA, episode_index=index)
    path.parent.mkdir(parents=True, exist_ok=True)
    if span == (0, fact["n_frames"]):
        shutil.copyfile(source, path)
        return
    bounds = ((frame - 0.5) / fact["fps"] for frame in span)
    start, end = (max(0.0, bound) for bound in bounds)
    with av.open(str(path), "w") as container, read_frames(source, start, end) as frames:
        stream = container.add_stream("libx264", rate=fact["fps"])
        stream.width, stream.height, stream.pix_fmt = fact["width"], fact["height"], "yuv420p"
        stream.options = {"crf": "20", "threads": "1", "g": "50"}
        for frame in frames:
            picture = av.VideoFrame.from_ndarray(frame.image, format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode())


def _write_record(
    out: Path, index: int, fact: dict[str, Any], span: tuple[int, int], before: int
) -> None:
    path = out / DATA.format(episode_chunk=0, episode_index=index)
    path.parent.mkdir(parents=True, exist_ok=True)
    robot, count = fact["robot"], span[1] - span[0]
    frames = np.arange(count)
    table = {
        **{
            key: pa.FixedSizeListArray.from_arrays(
                pa.array(np.array(robot[name][slice(*span)], np.float32).ravel()),
                len(robot["names"]),
            )
            for key, name in (("observation.state", "state"), ("action", "action"))
        },
        "timestamp": pa.array(frames / fact["fps"], pa.float32()),
        "frame_index": pa.array(frames),
        "episode_index": pa.array(np.full(count, index)),
        "index": pa.array(frames + before),
        "task_index": pa.array(np.zeros(count, np.int64)),
    }
    pq.write_table(pa.table(table), path)


def _write_truth(out: Path, index: int, fact: dict[str, Any], span: tuple[int, int]) -> None:
    path = out / "truth" / f"episode_{index:06d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    first, last = span

    def seconds(frames: list[int]) -> list[float]:
        return [min(max(frame - first, 0), last - first) / fact["fps"] for frame in frames]

    if "actions" in fact:
        actions = [
            {key: value for key, value in step.items() if key != "frames"}
            | {"interval_s": step["frames"] and seconds(step["frames"])}
            for step in fact["actions"]
        ]
        change: dict[str, Any] = {"actions": actions}
    else:
        change = {"action_interval_s": seconds(fact["action_frames"])}
    kept = {
        "clip": fact["clip"],
        "fps": fact["fps"],
        "n_frames": last - first,
        "states": fact["states"],
        **change,
        "object": {"box": fact["object"]["box"][first:last]},
    }
    path.write_text(json.dumps(kept) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.simulated.lerobot", description=__doc__)
    parser.add_argument("clips", type=Path, help="folder of one manipulation")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--crops", action="store_true")
    chosen = parser.parse_args()
    try:
        count = write_dataset(chosen.clips, chosen.out, crops=chosen.crops)
    except BenchmarkError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    print(f"{count} episodes in {chosen.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

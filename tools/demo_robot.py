"""Make the data of ``objectstates demo --robot``: a few episodes of a real dataset, made small.

    python -m tools.demo_robot ../shared/data/real/g1_bottle

The episodes are the first `EPISODES` of the dataset, whole, so nothing is chosen by what they show.
Their videos are scaled to `WIDTH` pixels and encoded anew. They are of YifanTian07/G1-policy-train
(MIT, (c) 2026 Yifan Tian); its license is shipped with the episodes.
"""

from __future__ import annotations

import argparse
import json
import shutil
from fractions import Fraction
from pathlib import Path

import av
import pyarrow.parquet as pq

from objectstates.robots.lerobot_dataset import Episode, LeRobotDataset, read_dataset
from objectstates.video.reader import probe, read_frames

EPISODES, WIDTH, QUALITY = 8, 240, "29"
OUT = Path(__file__).parents[1] / "src" / "objectstates" / "demo" / "robot"


def make(source: Path, out: Path = OUT) -> int:
    """Write the episodes; returns the bytes of all files."""
    shutil.rmtree(out, ignore_errors=True)
    dataset = read_dataset(source).select(episodes=f"0:{EPISODES}")
    for episode in dataset.episodes:
        _write_episode(dataset, episode, out)
    info = json.loads((source / "meta" / "info.json").read_text())
    length = sum(episode.length for episode in dataset.episodes)
    count = len(dataset.episodes)
    info |= {"total_episodes": count, "total_videos": count, "total_frames": length}
    info["splits"] = {"train": f"0:{count}"}
    for camera in dataset.cameras:
        height, width, channels = info["features"][camera]["shape"]
        size = [round(height * WIDTH / width), WIDTH, channels]
        info["features"][camera]["shape"] = size
        about = info["features"][camera].get("info", {})
        about |= {"video.height": size[0], "video.width": size[1]}
    meta = out / "meta"
    meta.mkdir(parents=True)
    (meta / "info.json").write_text(json.dumps(info, indent=1) + "\n")
    lines = (source / "meta" / "episodes.jsonl").read_text().splitlines(keepends=True)
    (meta / "episodes.jsonl").write_text("".join(lines[:count]))
    shutil.copyfile(source / "meta" / "tasks.jsonl", meta / "tasks.jsonl")
    shutil.copyfile(source / "LICENSE", out / "LICENSE")
    return sum(path.stat().st_size for path in out.rglob("*") if path.is_file())


def _write_episode(dataset: LeRobotDataset, episode: Episode, out: Path) -> None:
    record = out / episode.record.relative_to(dataset.root)
    record.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pq.read_table(episode.record), record, compression="zstd")
    for video in episode.videos.values():
        target = out / video.path.relative_to(dataset.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        _encode(video.path, target, round(dataset.fps))


def _encode(source: Path, target: Path, fps: int) -> None:
    """Small H.264; one thread, so that the same frames give the same bytes."""
    info = probe(source)
    with read_frames(source, max_side=WIDTH) as frames, av.open(str(target), "w") as container:
        options = {"crf": QUALITY, "preset": "veryslow", "threads": "1"}
        stream = container.add_stream("libx264", rate=fps, options=options)
        stream.width, stream.height = WIDTH, round(info.height * WIDTH / info.width)
        stream.pix_fmt = "yuv420p"
        for number, frame in enumerate(frames):
            picture = av.VideoFrame.from_ndarray(frame.image, format="rgb24")
            picture.pts, picture.time_base = number, Fraction(1, fps)
            container.mux(stream.encode(picture))
        container.mux(stream.encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    print(f"{make(parser.parse_args().source)} bytes in {OUT}")

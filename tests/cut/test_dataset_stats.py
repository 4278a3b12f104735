"""Statistics of segments are those of their rows and frames."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from objectstates.cut import cut_dataset
from objectstates.robots.lerobot_dataset import read_dataset
from objectstates.robots.lerobot_files import read_json_lines
from objectstates.video.reader import read_frames
from tests.export.lerobot_results import result_of
from tests.robots.datasets import CAMERA, convert_to_v3, write_dataset

NAMES = ("min", "max", "mean", "std", "count", "q01", "q99")
KEYS = ("observation.state", "timestamp", CAMERA)


def with_stats(root):
    """Say that there are statistics; their values do not matter."""
    stats = {key: {name: [0.0] for name in NAMES} for key in (*KEYS, "unknown")}
    (root / "meta" / "stats.json").write_text(json.dumps(stats))
    if (root / "meta" / "episodes.jsonl").exists():
        row = json.dumps({"episode_index": 0, "stats": stats})
        (root / "meta" / "episodes_stats.jsonl").write_text(row + "\n")
    else:
        [path] = (root / "meta" / "episodes").rglob("*.parquet")
        table = pq.read_table(path)
        for key in KEYS:
            for name in NAMES:
                table = table.append_column(f"stats/{key}/{name}", [[[0.0]] * table.num_rows])
        pq.write_table(table, path)
    return root


def stats_of(root):
    lines = root / "meta" / "episodes_stats.jsonl"
    if lines.exists():
        return [row["stats"] for row in read_json_lines(lines)]
    [path] = (root / "meta" / "episodes").rglob("*.parquet")
    return [
        {key: {name: row[f"stats/{key}/{name}"] for name in NAMES} for key in KEYS}
        for row in pq.read_table(path).to_pylist()
    ]


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_statistics_are_computed_again(version, tmp_path):
    root = write_dataset(tmp_path / "v2")
    root = with_stats(root if version == "v2.1" else convert_to_v3(root, tmp_path / "v3"))
    out = tmp_path / "out"
    cut_dataset(result_of(root), out)
    found = stats_of(out)
    everything = []
    for episode, stats in zip(read_dataset(out).episodes, found, strict=True):
        assert set(stats) == set(KEYS)
        table = pq.read_table(episode.record)
        mine = [row for row in table.to_pylist() if row["episode_index"] == episode.index]
        state = np.array([row["observation.state"] for row in mine])
        everything.append(state)
        for name in ("min", "max", "mean", "std"):
            wanted = getattr(state, name)(axis=0)
            np.testing.assert_allclose(stats["observation.state"][name], wanted, atol=1e-6)
        assert stats["observation.state"]["q99"] == pytest.approx(np.quantile(state, 0.99, axis=0))
        assert stats["observation.state"]["count"] == [episode.length]
        assert stats["timestamp"]["min"] == [0.0]
        with read_frames(episode.videos[CAMERA].path) as film:
            pixels = np.stack([frame.image for frame in film]) / 255
        assert np.shape(stats[CAMERA]["mean"]) == (3, 1, 1)
        found_mean = np.ravel(stats[CAMERA]["mean"])
        np.testing.assert_allclose(found_mean, pixels.mean(axis=(0, 1, 2)), atol=0.01)
    whole, states = json.loads((out / "meta/stats.json").read_text()), np.concatenate(everything)
    assert set(whole) == set(KEYS)
    for name in ("min", "max", "mean", "std"):
        wanted = getattr(states, name)(axis=0)
        np.testing.assert_allclose(whole["observation.state"][name], wanted, atol=1e-6)
    assert whole["observation.state"]["count"] == [len(states)]


def test_a_dataset_without_statistics_gets_none(tmp_path):
    root = write_dataset(tmp_path / "set", episodes=(2.0,))
    cut_dataset(result_of(root), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out" / "meta").iterdir()) == [
        "episodes.jsonl",
        "info.json",
        "tasks.jsonl",
    ]

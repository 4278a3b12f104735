"""Progress and success in LeRobot datasets, read back with pyarrow alone."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from objectstates.export import export
from objectstates.export.lerobot_progress import PROGRESS_FEATURE
from objectstates.robots.lerobot_files import read_json_lines
from tests.export.lerobot_results import result_of
from tests.robots.datasets import SECONDS, convert_to_v3, write_dataset

CURVE = (0.0, 0.1, 0.6, 0.9, 0.9)  # at the middles of the chunks: 0.2, 0.6, 1.0, 1.4, 1.8 s
CHANCES = (0.99, 0.01, 0.7, 0.98)
ANSWERS = ["yes", "no", "unsure", "yes"]


@pytest.fixture(params=["v2.1", "v3.0"])
def root(request, tmp_path):
    v2 = write_dataset(tmp_path / "v2")
    return v2 if request.param == "v2.1" else convert_to_v3(v2, tmp_path / "v3")


def judged(root, episodes=None, curve=CURVE, chances=CHANCES):
    result = result_of(root, episodes)
    n = len(result.clips)
    return replace(
        result, progress=np.tile(np.array(curve), n), reached_chance=np.array(chances[:n])
    )


def frames(root):
    for path in sorted((root / "data").rglob("*.parquet")):
        yield from (
            pq.read_table(path).select(["episode_index", "timestamp", "progress"]).to_pylist()
        )


def episodes(root):
    lines = root / "meta" / "episodes.jsonl"
    if lines.exists():
        return read_json_lines(lines)
    [path] = (root / "meta" / "episodes").rglob("*.parquet")
    return pq.read_table(path).to_pylist()


def reached(root):
    return [row.get("reached") for row in episodes(root)]


def features(root):
    return json.loads((root / "meta" / "info.json").read_text())["features"]


def test_every_frame_has_progress_and_every_episode_its_success(root, tmp_path):
    copy = tmp_path / "copy"
    assert export(judged(root), "lerobot", copy).problems == ()
    for row in frames(copy):
        wanted = np.interp(row["timestamp"], [0.2, 0.6, 1.0, 1.4, 1.8], CURVE)
        assert row["progress"] == pytest.approx(wanted, abs=1e-5)
    for path in (copy / "data").rglob("*.parquet"):
        assert str(pq.read_schema(path).field("progress").type) == "float"
    assert features(copy)["progress"] == PROGRESS_FEATURE
    assert reached(copy) == ANSWERS


def test_other_episodes_keep_what_was_written_for_them(root):
    export(judged(root, "0:2"), "lerobot", None, in_place=True)
    assert reached(root) == ["yes", "no", None, None]
    known = {row["episode_index"] for row in frames(root) if np.isfinite(row["progress"])}
    assert known == {0, 1}
    export(judged(root, "2:4", np.ones(5), (0.01, 0.01)), "lerobot", None, in_place=True)
    assert reached(root) == ["yes", "no", "no", "no"]
    last = {row["episode_index"]: row["progress"] for row in frames(root)}
    assert [last[n] for n in range(len(SECONDS))] == pytest.approx([0.9, 0.9, 1, 1])


def test_progress_that_others_wrote_stays(root, tmp_path):
    info = json.loads((root / "meta" / "info.json").read_text())
    theirs = {"dtype": "float32", "shape": [1], "names": None}
    info["features"]["progress"] = theirs
    (root / "meta" / "info.json").write_text(json.dumps(info))
    done = export(judged(root), "lerobot", tmp_path / "copy")
    assert "progress is left out" in done.problems[0]
    assert features(tmp_path / "copy")["progress"] == theirs


def test_a_result_without_progress_adds_neither(root, tmp_path):
    export(result_of(root), "lerobot", tmp_path / "copy")
    assert "progress" not in features(tmp_path / "copy")
    assert all("reached" not in row for row in episodes(tmp_path / "copy"))


def test_success_that_others_wrote_stays(tmp_path):
    root = write_dataset(tmp_path / "set")
    path = root / "meta" / "episodes.jsonl"
    text = "".join(json.dumps({**row, "reached": True}) + "\n" for row in read_json_lines(path))
    path.write_text(text)
    done = export(judged(root), "lerobot", tmp_path / "copy")
    assert "success is left out" in done.problems[0]
    assert reached(tmp_path / "copy") == [True] * len(SECONDS)

"""Datasets of segments, read back with pyarrow alone: rows, frames and facts are the source's."""

import json
import resource
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from objectstates.base.errors import CutError
from objectstates.cut import cut_dataset
from objectstates.export import export
from objectstates.robots.lerobot_dataset import read_dataset
from objectstates.robots.lerobot_files import read_json_lines
from objectstates.video.reader import read_frames
from tests.cut.films import result_on
from tests.export.lerobot_results import ACTION, NAMES, result_of
from tests.results import with_action
from tests.robots.datasets import CAMERA, FPS, SECONDS, TASKS, WRIST, convert_to_v3, write_dataset

LENGTHS = [round(seconds * FPS) for seconds in SECONDS]
FIRST, LAST = (round(t * FPS) for t in ACTION)
PARTS = ["before", "action", "after"]
NUMBERED = ["frame_index", "timestamp", "index", "episode_index", "task_index"]


@pytest.fixture(scope="module")
def v2(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("v2") / "set", cameras=(CAMERA, WRIST))


@pytest.fixture(scope="module")
def v3(v2, tmp_path_factory):
    return convert_to_v3(v2, tmp_path_factory.mktemp("v3") / "set")


@pytest.fixture(params=["v2.1", "v3.0"])
def root(request, v2, v3):
    return v2 if request.param == "v2.1" else v3


def frames_of(root):
    """All rows, in the order of ``index``."""
    paths = sorted((root / "data").rglob("*.parquet"))
    table = pa.concat_tables([pq.read_table(path) for path in paths])
    return table.sort_by("index")


def episodes_of(root):
    lines = root / "meta" / "episodes.jsonl"
    if lines.exists():
        return read_json_lines(lines)
    [path] = (root / "meta" / "episodes").rglob("*.parquet")
    return pq.read_table(path).to_pylist()


def info_of(root):
    return json.loads((root / "meta" / "info.json").read_text())


def images(span, length):
    """The first ``length`` images of an episode."""
    start = None if span.start is None else max(span.start - 0.25 / FPS, 0)
    with read_frames(span.path, start) as reading:
        return [frame.image for frame, _ in zip(reading, range(length), strict=False)]


def test_rows_are_those_of_the_source_numbered_anew(root, tmp_path):
    done = cut_dataset(result_of(root), tmp_path / "out")
    assert done.problems == ()
    assert (done.clips, len(done.episodes)) == (4, 12)
    old, new = frames_of(root), frames_of(tmp_path / "out")
    assert new.schema.equals(old.schema)
    assert new.drop_columns(NUMBERED).equals(old.drop_columns(NUMBERED))
    assert new["index"].to_pylist() == list(range(sum(LENGTHS)))
    lengths = [n for total in LENGTHS for n in (FIRST, LAST - FIRST, total - LAST)]
    assert new["episode_index"].to_pylist() == np.repeat(range(12), lengths).tolist()
    counted = np.concatenate([np.arange(n) for n in lengths])
    assert new["frame_index"].to_pylist() == counted.tolist()
    np.testing.assert_allclose(new["timestamp"].to_numpy(), counted / FPS, atol=1e-5)


def test_every_camera_shows_the_frames_of_the_source(root, tmp_path):
    cut_dataset(result_of(root), tmp_path / "out")
    old, new = read_dataset(root), read_dataset(tmp_path / "out")
    assert new.cameras == (CAMERA, WRIST)
    for camera in new.cameras:
        for episode in old.episodes:
            segments = new.episodes[3 * episode.index : 3 * episode.index + 3]
            theirs = images(episode.videos[camera], episode.length)
            ours = [
                image
                for segment in segments
                for image in images(segment.videos[camera], segment.length + 1)
            ]
            np.testing.assert_array_equal(ours, theirs)
    span = new.episodes[4].videos[CAMERA]
    with read_frames(span.path) as reading:  # the times of frames are those of the rows
        times = [frame.time for frame in reading]
    np.testing.assert_allclose(times, np.arange(LAST - FIRST) / FPS, atol=1e-4)


def test_meta_agrees_with_the_files(root, tmp_path):
    out = tmp_path / "out"
    judged = replace(result_of(root), reached_chance=np.array([0.9, 0.1, 0.7, 0.9]))
    cut_dataset(judged, out)
    info, dataset = info_of(out), read_dataset(out)
    assert info["codebase_version"] == info_of(root)["codebase_version"]
    assert set(info) == set(info_of(root))
    assert (info["total_episodes"], info["total_frames"]) == (12, sum(LENGTHS))
    assert info["splits"] == {"train": "0:12"}
    if "total_videos" in info:
        assert info["total_videos"] == 24
    assert info["features"][CAMERA]["info"]["video.codec"] == "h264"
    rows = episodes_of(out)
    assert [row["segment"] for row in rows] == PARTS * 4
    assert [row["source_episode_index"] for row in rows] == np.repeat(range(4), 3).tolist()
    assert [row["source_to_frame"] - row["source_from_frame"] for row in rows] == [
        episode.length for episode in dataset.episodes
    ]
    assert [row["reached"] for row in rows[::3]] == ["yes", "no", "unsure", "yes"]
    for row in rows if "dataset_from_index" in rows[0] else ():
        mine = frames_of(out).slice(row["dataset_from_index"], row["length"])
        assert set(mine["episode_index"].to_pylist()) == {row["episode_index"]}
    for path in (out / "data").rglob("*.parquet"):
        mine = [episode for episode in dataset.episodes if episode.record == path]
        assert pq.ParquetFile(path).num_row_groups == len(mine)


def test_tasks_name_the_segment_beside_the_task(root, tmp_path):
    cut_dataset(result_of(root), tmp_path / "out")
    dataset = read_dataset(tmp_path / "out")
    assert NAMES.action == TASKS[0]  # said once
    wanted = [
        [f"{TASKS[0]}: off", TASKS[0], f"{TASKS[0]}: on"],
        [f"{TASKS[1]}: off", f"{TASKS[1]}: {TASKS[0]}", f"{TASKS[1]}: on"],
    ]
    assert list(dataset.tasks.values()) == wanted[0] + wanted[1]
    for episode in dataset.episodes:
        assert episode.tasks == (wanted[episode.index // 3 % 2][episode.index % 3],)
    table = frames_of(tmp_path / "out")
    for number, index in zip(
        table["task_index"].to_pylist(), table["episode_index"].to_pylist(), strict=True
    ):
        assert (dataset.tasks[number],) == dataset.episodes[index].tasks


def test_a_dataset_of_segments_can_be_cut_again_and_is_replaced(root, tmp_path):
    cut_dataset(result_of(root), tmp_path / "out")
    cut_dataset(result_of(root, "1"), tmp_path / "out")
    assert len(read_dataset(tmp_path / "out").episodes) == 3
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(CutError, match="exists and holds something else"):
        cut_dataset(result_of(root, "1"), tmp_path / "out")


def test_lossy_segments_say_how_near_they_are(v3, tmp_path):
    cut_dataset(result_of(v3, "0"), tmp_path / "out", crf=30)
    assert all(25 < row["psnr"] < 60 for row in episodes_of(tmp_path / "out"))


def test_idle_ends_are_left_out_of_all_columns(tmp_path):
    root = write_dataset(tmp_path / "set", episodes=(6.0, 6.0))
    result = result_of(root)
    start = np.array([[2.6, 3.0], [3.0, 3.3]])
    done = cut_dataset(
        with_action(result, span=start),
        tmp_path / "out",
        trim_idle=True,
    )
    assert done.dropped
    rows, out = episodes_of(tmp_path / "out"), frames_of(tmp_path / "out")
    assert rows[0]["source_from_frame"] > 0
    assert out.num_rows == sum(row["length"] for row in rows)
    assert out.num_rows + round(done.dropped_seconds * FPS) == 2 * 6 * FPS
    source = frames_of(root)["observation.state"].to_pylist()
    states = out["observation.state"].to_pylist()
    first = rows[0]["source_from_frame"]
    length = sum(row["length"] for row in rows[:3])
    assert states[:length] == source[first : first + length]


def test_an_episode_that_cannot_be_read_is_reported_and_leaves_no_gap(tmp_path):
    root = write_dataset(tmp_path / "set", cameras=(CAMERA, WRIST))
    result = result_of(root)
    read_dataset(root).episodes[1].videos[WRIST].path.unlink()
    done = cut_dataset(result, tmp_path / "out")
    assert len(done.problems) == 1
    assert "episode_000001" in done.problems[0]
    rows = episodes_of(tmp_path / "out")
    assert [row["episode_index"] for row in rows] == list(range(9))
    assert sorted({row["source_episode_index"] for row in rows}) == [0, 2, 3]
    assert len(list((tmp_path / "out").rglob("*.mp4"))) == 18


def test_a_video_with_fewer_frames_than_rows_is_reported(tmp_path):
    root = write_dataset(tmp_path / "set")
    result = result_of(root)
    first, second = (episode.videos[CAMERA].path for episode in read_dataset(root).episodes[:2])
    second.write_bytes(first.read_bytes())
    done = cut_dataset(result, tmp_path / "out")
    assert f"no frame for row {LENGTHS[0]} of the episode" in done.problems[0]


def test_columns_with_times_of_whole_episodes_are_left_out(root, tmp_path):
    export(result_of(root), "lerobot", tmp_path / "with")
    done = cut_dataset(result_of(tmp_path / "with"), tmp_path / "out")
    assert done.problems == (
        "left out column 'language_persistent': its times are those of whole episodes",
    )
    assert frames_of(tmp_path / "out").schema.equals(frames_of(root).schema)
    assert set(info_of(tmp_path / "out")["features"]) == set(info_of(root)["features"])


def test_what_cannot_be_cut_is_explained_and_leaves_nothing(v2, tmp_path):
    result = result_of(v2)
    with pytest.raises(CutError, match="lies within the dataset"):
        cut_dataset(result, v2 / "out")
    with pytest.raises(CutError, match="no action to cut at"):
        cut_dataset(
            with_action(result, chunk=np.full(4, -1)),
            tmp_path / "out",
        )
    film = result_on([("film", tmp_path / "film.mp4", 2.0, (0.8, 1.2))])
    with pytest.raises(CutError, match="are no episodes of a LeRobot dataset: cut them with"):
        cut_dataset(film, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("limit", [100, 3000, 20_000])
def test_a_full_disk_leaves_what_was_there(root, tmp_path, limit):
    """A limit on the size of files stands for a full disk: writing fails in the same way."""
    cut_dataset(result_of(root, "1"), tmp_path / "out")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(CutError, match="cannot write"):
            cut_dataset(result_of(root), tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert len(read_dataset(tmp_path / "out").episodes) == 3

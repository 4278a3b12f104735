"""What a LeRobot dataset says about itself, in the layouts that occur in practice."""

import json
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from objectstates.base.errors import DatasetError, SettingError, VideoError
from objectstates.robots.dataset_clips import find_dataset_clips
from objectstates.robots.lerobot_dataset import parse_episodes, read_dataset
from objectstates.video.reader import read_frames
from tests.robots.datasets import (
    CAMERA,
    FPS,
    SECONDS,
    TASKS,
    WRIST,
    convert_to_v3,
    write_dataset,
)


@pytest.fixture(scope="module")
def v2(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("v2") / "set", cameras=(CAMERA, WRIST))


@pytest.fixture(scope="module")
def v3(v2, tmp_path_factory):
    return convert_to_v3(v2, tmp_path_factory.mktemp("v3") / "set")


@pytest.fixture
def changed(v2, tmp_path):
    """A copy whose ``info.json`` a test may change."""
    root = shutil.copytree(v2, tmp_path / "set")

    def change(**facts):
        path = root / "meta" / "info.json"
        info = json.loads(path.read_text())
        features = facts.pop("features", {})
        info["features"] = {k: v for k, v in (info["features"] | features).items() if v is not None}
        path.write_text(json.dumps(info | facts))
        return root

    return change


def test_both_versions_say_the_same(v2, v3):
    a, b = read_dataset(v2), read_dataset(v3)
    assert (a.version, b.version) == ("v2.1", "v3.0")
    for name in ("fps", "robot", "cameras", "signals", "signal_names", "tasks"):
        assert getattr(a, name) == getattr(b, name)
    assert a.cameras == (CAMERA, WRIST)
    assert a.signals == {"observation.state": 3, "action": 3}
    assert a.signal_names["action"][2] == "gripper"
    facts = [[(e.index, e.length, e.tasks, e.name) for e in each.episodes] for each in (a, b)]
    assert facts[0] == facts[1]
    assert [length for _, length, _, _ in facts[0]] == [round(s * FPS) for s in SECONDS]


@pytest.mark.parametrize("fps", [None, 25.0])
def test_both_versions_give_the_same_frames(v2, v3, fps):
    """To the pixel, also when frames are sampled, and at the same times of the episode."""
    pairs = zip(*(find_dataset_clips([root], camera="front") for root in (v2, v3)), strict=True)
    for a, b in pairs:
        first, second = (
            list(read_frames(clip.video, clip.start, clip.end, fps=fps, origin=clip.origin))
            for clip in (a, b)
        )
        assert len(first) == len(second) >= round(2.6 * (fps or FPS))
        for x, y in zip(first, second, strict=True):
            assert (x.image == y.image).all()
            assert x.time == pytest.approx(b.episode.span.seconds(y.time), abs=1e-9)


def test_cameras_are_chosen_by_key_or_by_name(v2):
    dataset = read_dataset(v2)
    assert dataset.chosen_cameras("wrist, observation.images.front") == (WRIST, CAMERA)
    with pytest.raises(
        SettingError, match=f"choose with `camera`: its cameras are {CAMERA}, {WRIST}"
    ):
        dataset.chosen_cameras(None)
    with pytest.raises(SettingError, match="has no camera 'side'; its cameras are"):
        dataset.chosen_cameras("side")
    with pytest.raises(SettingError, match="`camera` is empty"):
        dataset.chosen_cameras(",")


def test_the_only_camera_need_not_be_named(changed):
    root = changed(features={WRIST: None})
    assert [clip.id for clip in find_dataset_clips([root])][:2] == [
        "episode_000000",
        "episode_000001",
    ]


def test_further_cameras_are_views_of_the_same_clip(v3):
    clip = find_dataset_clips([v3], camera="front,wrist")[1]
    assert clip.episode is not None
    assert clip.episode.camera == CAMERA
    [view] = clip.episode.views
    assert view.episode is not None
    assert view.episode.camera == WRIST
    assert clip.video != view.video


def test_episodes_are_chosen_by_task_and_number(v2):
    def chosen(**how):
        return [e.index for e in read_dataset(v2).select(**how).episodes]

    assert chosen(task=TASKS[1]) == chosen(task="1") == [1, 3]
    assert chosen(episodes="1:") == [1, 2, 3]
    assert chosen(episodes="0,2:3", task=TASKS[0].upper()) == [0, 2]
    with pytest.raises(SettingError, match=f"its tasks are: {TASKS[0]}; {TASKS[1]}"):
        chosen(task="dance")
    with pytest.raises(SettingError, match="which has episodes 0 to 3"):
        chosen(episodes="7:9")


@pytest.mark.parametrize("text", ["a", "1-3", "1:2:3", "-1", ""])
def test_wrong_ranges_are_refused(text):
    with pytest.raises(SettingError, match="`episodes` must be like 0:50"):
        parse_episodes(text)


def test_long_ranges_take_no_memory():
    [part] = parse_episodes("2:1000000000000")
    assert 999_999_999_999 in part
    assert 1 not in part


@pytest.mark.parametrize(
    "layout",
    [
        "videos/chunk-{chunk_index:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "{video_key}/{episode_index}.mp4",
    ],
)
def test_templates_of_any_form_are_followed(tmp_path, layout):
    root = write_dataset(tmp_path, episodes=(1.0,), video_path=layout)
    [clip] = find_dataset_clips([root])
    assert clip.video.is_file()


def test_a_folder_video_is_found_where_the_template_says_videos(changed):
    root = changed()
    (root / "videos").rename(root / "video")
    assert all(clip.video.is_file() for clip in find_dataset_clips([root], camera="front"))


def test_folders_without_the_prefix_of_the_key_are_found(changed):
    root = changed()
    place = root / "videos" / "chunk-000"
    (place / CAMERA).rename(place / "front")
    assert all(clip.video.is_file() for clip in find_dataset_clips([root], camera="front"))


def test_keys_without_a_prefix_are_cameras_too(tmp_path):
    root = write_dataset(tmp_path, episodes=(1.0,), cameras=("top",))
    [clip] = find_dataset_clips([root])
    assert clip.episode is not None
    assert clip.episode.camera == "top"


def test_a_missing_video_is_reported_when_it_is_read(changed):
    root = changed()
    gone = root / "videos" / "chunk-000" / CAMERA / "episode_000002.mp4"
    gone.unlink()
    clip = find_dataset_clips([root], camera="front")[2]
    assert clip.video == gone
    with pytest.raises(VideoError, match="does not exist"):
        read_frames(clip.video)


def test_episodes_that_a_dataset_lacks_leave_the_others_their_numbers(changed):
    root = changed()
    path = root / "meta" / "episodes.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[2:]) + "\n")
    assert [clip.id for clip in find_dataset_clips([root], camera="front")] == [
        "episode_000002",
        "episode_000003",
    ]


def test_av1_is_read_whatever_the_dataset_says_about_its_codec(tmp_path):
    root = write_dataset(tmp_path, episodes=(1.0,), codec="libsvtav1")
    [clip] = find_dataset_clips([root])
    assert len(list(read_frames(clip.video))) == FPS


def test_images_instead_of_videos_are_explained(changed):
    root = changed(features={WRIST: None, CAMERA: {"dtype": "image", "shape": [3, 72, 96]}})
    with pytest.raises(SettingError, match=r"it has no video .its observation.images.front are"):
        find_dataset_clips([root])
    with pytest.raises(SettingError, match="as single images, which cannot be read"):
        find_dataset_clips([root], camera="front")


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"codebase_version": "v1.6"}, "version 'v1.6', but v2.0, v2.1 and v3.0 can be read"),
        ({"codebase_version": None}, "version None"),
        ({"fps": 0}, "fps is 0"),
        ({"video_path": "{day}/{video_key}.mp4"}, "has an unknown field .'day'"),
        ({"data_path": "../{episode_index}.parquet"}, "leaves the dataset"),
        ({"data_path": "/etc/{episode_index}"}, "leaves the dataset"),
        ({"video_path": "a/{video_key}/../../x.mp4"}, "leaves the dataset"),
        ({"video_path": "."}, "leaves the dataset"),
        ({"video_path": "a\0b"}, "is no path"),
        ({"video_path": "{episode_index.__class__}"}, "a field is a name and a width"),
        ({"video_path": "{video_key[0]}"}, "a field is a name and a width"),
        ({"video_path": "{episode_index:99999999999d}"}, "a field is a name and a width"),
        ({"data_path": "{0}.parquet"}, "has an unknown field"),
        ({"chunks_size": "many"}, "chunks_size is 'many', not a whole number"),
        ({"chunks_size": float("inf")}, "chunks_size is 'inf'"),
        ({"fps": float("nan")}, "fps is nan"),
    ],
)
def test_what_is_wrong_in_the_header_is_named(changed, facts, message):
    with pytest.raises(DatasetError, match=message):
        read_dataset(changed(**facts))


@pytest.mark.parametrize("shape", [["many"], [10**12], [-1], [[3]]])
def test_a_feature_without_a_size_is_no_signal(changed, shape):
    feature = {"dtype": "float32", "shape": shape, "names": None}
    assert "action" not in read_dataset(changed(features={"action": feature})).signals


def test_a_path_that_is_too_long_is_a_missing_video(changed):
    root = changed(video_path="x" * 5000)
    assert not os.path.exists(find_dataset_clips([root], camera="front")[0].video)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"episode_index": 0}, "lists episode 0 2 times"),
        ({"episode_index": 10**30}, "episode_index is .*not a whole number"),
        ({"episode_index": -1}, "episode_index is '-1'"),
        ({"episode_index": 9, "length": "long"}, "length is 'long'"),
        ({"episode_index": 9, "length": float("inf")}, "length is 'inf'"),
    ],
)
def test_what_is_wrong_with_an_episode_is_named(changed, line, message):
    root = changed()
    with (root / "meta" / "episodes.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    with pytest.raises(DatasetError, match=message):
        read_dataset(root)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (f"videos/{CAMERA}/to_timestamp", float("nan"), "has no times from_timestamp and to"),
        (f"videos/{CAMERA}/from_timestamp", -1.0, "has no times from_timestamp and to"),
        ("data/file_index", float("nan"), "data/file_index is 'nan'"),
        ("episode_index", None, "column 'episode_index' is missing or has no value"),
    ],
)
def test_what_is_wrong_in_a_table_of_episodes_is_named(v3, tmp_path, column, value, message):
    root = shutil.copytree(v3, tmp_path / "set")
    [path] = (root / "meta" / "episodes").rglob("*.parquet")
    table = pq.read_table(path)
    wrong = pa.array([value] * len(table), pa.float64())
    pq.write_table(table.set_column(table.column_names.index(column), column, wrong), path)
    with pytest.raises(DatasetError, match=message):
        read_dataset(root)


def test_damaged_metadata_names_the_file(changed, v3, tmp_path):
    root = changed()
    (root / "meta" / "episodes.jsonl").write_text('{"episode_index": 0}\n{"episode')
    with pytest.raises(DatasetError, match=r"episodes.jsonl, line 2: .*correct this line"):
        read_dataset(root)
    (root / "meta" / "episodes.jsonl").write_text("[" * 100_000)
    with pytest.raises(DatasetError, match=r"episodes.jsonl, line 1: .*correct this line"):
        read_dataset(root)
    (root / "meta" / "info.json").write_text("{")
    with pytest.raises(DatasetError, match=r"info.json cannot be read"):
        read_dataset(root)
    other = shutil.copytree(v3, tmp_path / "other")
    [table] = (other / "meta" / "episodes").rglob("*.parquet")
    table.write_bytes(b"PAR1")
    with pytest.raises(DatasetError, match=r"file-000.parquet cannot be read"):
        read_dataset(other)
    table.unlink()
    with pytest.raises(DatasetError, match="has no Parquet file"):
        read_dataset(other)


def test_names_of_tasks_that_are_not_utf8_name_the_file(v3, tmp_path):
    copy = shutil.copytree(v3, tmp_path / "copy")
    path = copy / "meta" / "tasks.parquet"
    table = pq.read_table(path)
    name = next(n for n in table.column_names if n != "task_index")
    column = pa.array([b"open \xa5"] * len(table), pa.binary()).view(pa.string())
    changed = table.set_column(table.column_names.index(name), name, column)
    pq.write_table(changed, path)
    with pytest.raises(DatasetError, match=r"tasks\.parquet cannot be read .*UTF"):
        read_dataset(copy)

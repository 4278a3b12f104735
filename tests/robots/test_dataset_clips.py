"""Paths that may be datasets, videos or lists."""

import pytest

from objectstates.base.errors import SettingError
from objectstates.robots.dataset_clips import find_dataset_clips
from tests.robots.datasets import write_dataset
from tests.video.videos import gray, write_video


def test_other_paths_are_read_as_ever(tmp_path):
    video = write_video(tmp_path / "a.mp4", gray(3))
    assert [clip.id for clip in find_dataset_clips([video])] == ["a"]
    for name, value in (("camera", "front"), ("task", "0"), ("episodes", "0:2")):
        with pytest.raises(SettingError, match=f"`{name}` is for a LeRobot dataset"):
            find_dataset_clips([video], **{name: value})


def test_a_dataset_is_read_by_itself(tmp_path):
    video = write_video(tmp_path / "a.mp4", gray(3))
    root = write_dataset(tmp_path / "set", episodes=(0.5,))
    with pytest.raises(SettingError, match="is a dataset, which is read by itself"):
        find_dataset_clips([root, video])
    with pytest.raises(SettingError, match="is a dataset, which is read by itself"):
        find_dataset_clips([root], tmp_path / "clips.csv")

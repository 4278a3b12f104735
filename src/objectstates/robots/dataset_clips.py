"""Find the clips to read where a path may be a robot dataset, a video, a folder or a list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from objectstates.base.errors import SettingError
from objectstates.robots.lerobot_dataset import read_dataset
from objectstates.robots.lerobot_files import is_dataset
from objectstates.video.clip_list import ClipSpan, find_clips


def find_dataset_clips(
    paths: Sequence[str | Path],
    csv: str | Path | None = None,
    *,
    camera: str | None = None,
    task: str | None = None,
    episodes: str | None = None,
) -> list[ClipSpan]:
    """The episodes of a dataset as clips, or `find_clips` where no path is a dataset.

    camera : keys of cameras, with commas between; not needed if there is only one.
    task, episodes : which episodes, see `LeRobotDataset.select`; all unless given.
    """
    datasets = [path for path in paths if is_dataset(path)]
    if not datasets:
        for name, value in (("camera", camera), ("task", task), ("episodes", episodes)):
            if value is not None:
                raise SettingError(
                    f"`{name}` is for a LeRobot dataset, a folder with meta/info.json: name one"
                )
        return find_clips(paths, csv)
    if len(paths) > 1 or csv is not None:
        raise SettingError(
            f"{datasets[0]} is a dataset, which is read by itself: name no other videos, datasets "
            "or `clips`"
        )
    dataset = read_dataset(datasets[0])
    cameras = dataset.chosen_cameras(camera)
    return dataset.select(task, episodes).clips(cameras)

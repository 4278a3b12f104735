"""Joint states and commands of an episode."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from objectstates.base.errors import DatasetError, SettingError
from objectstates.robots.dataset_clips import find_dataset_clips
from objectstates.robots.lerobot_dataset import read_dataset
from objectstates.robots.signals import chosen_signals, gripper_components, read_signals
from tests.robots.datasets import FPS, convert_to_v3, demonstrate, write_dataset

LENGTHS = (0.5, 0.4)


@pytest.fixture
def root(tmp_path):
    return write_dataset(tmp_path / "set", episodes=LENGTHS)


def episodes(root):
    return [clip.episode for clip in find_dataset_clips([root])]


def test_rows_of_an_episode_are_read_from_either_version(root, tmp_path):
    newer = convert_to_v3(root, tmp_path / "v3")
    for index, seconds in enumerate(LENGTHS):
        state = demonstrate(index, seconds).state
        for place in (root, newer):
            found = read_signals(episodes(place)[index], ("observation.state", "action"))
            assert np.array_equal(found.values[:, :3], state)
            assert np.array_equal(found.values[:-1, 3:], state[1:])
            assert np.allclose(found.times, np.arange(len(state)) / FPS)


def test_signals_are_chosen_by_name(root):
    dataset = read_dataset(root)
    assert chosen_signals(dataset, "auto") == ("observation.state", "action")
    assert chosen_signals(dataset, "none") == ()
    assert chosen_signals(dataset, "action, action") == ("action",)
    with pytest.raises(
        SettingError, match=r"no numeric feature 'torque'; it has: observation.state"
    ):
        chosen_signals(dataset, "torque")
    assert gripper_components(dataset, ("action",)).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("action", [[1.0], [float("nan")]], "not finite"),
        ("action", [[1.0], [1.0, 2.0]], "differ in length"),
        ("timestamp", [0.1, 0.1], "timestamps do not increase"),
        ("episode_index", [5, 5], "no rows of this episode"),
        ("episode_index", ["a", "b"], "are no numbers"),
        ("timestamp", ["a", "b"], "are no numbers"),
        ("action", [["a"], ["b"]], "are no numbers"),
    ],
)
def test_what_is_wrong_in_the_rows_is_named(root, column, values, message):
    rows = {"timestamp": [0.0, 0.1], "episode_index": [0, 0], "action": [[1.0], [2.0]]}
    episode = episodes(root)[0]
    pq.write_table(pa.table({**rows, column: values}), episode.record)
    with pytest.raises(DatasetError, match=message):
        read_signals(episode, ("action",))


def test_a_missing_column_is_named(root):
    episode = episodes(root)[0]
    pq.write_table(pa.table({"episode_index": [0, 0], "action": [[1.0], [2.0]]}), episode.record)
    with pytest.raises(DatasetError, match="has no column timestamp"):
        read_signals(episode, ("action",))


def test_a_single_number_per_frame_is_a_signal_too(root):
    episode = episodes(root)[0]
    rows = {"timestamp": [0.0, 0.1], "episode_index": [0, 0], "action": [1, 2]}
    pq.write_table(pa.table(rows), episode.record)
    assert read_signals(episode, ("action",)).values.tolist() == [[1.0], [2.0]]

import json

import numpy as np
import pytest

from benchmarks.simulated.lerobot import write_dataset
from objectstates import read_truth
from objectstates.base.errors import BenchmarkError
from objectstates.robots.dataset_clips import find_dataset_clips
from objectstates.robots.signals import read_signals
from objectstates.video.reader import read_frames
from tests.benchmarks.simulated.clip_facts import chain_facts
from tests.video.videos import gray, number, write_video


def test_clips_become_episodes_of_a_robot_dataset(tmp_path):
    clips = tmp_path / "clips" / "drawer-open"
    clips.mkdir(parents=True)
    for name in ("a", "b"):
        write_video(clips / f"{name}.mp4", gray(40))
        state = np.arange(160.0).reshape(40, 4).tolist()
        fact = {
            "clip": name, "task": "drawer-open", "fps": 25, "n_frames": 40, "width": 64,
            "height": 48, "states": ["closed", "open"], "action_frames": [20, 30],
            "object": {"box": [[0, 0, 9, 9]] * 40},
            "robot": {"names": ["x", "y", "z", "gripper"], "state": state, "action": state},
        }  # fmt: skip
        (clips / f"{name}.json").write_text(json.dumps(fact))
    (clips.parent / "crops.json").write_text(json.dumps({"a": [10, 35]}))
    out = tmp_path / "set"
    assert write_dataset(clips, out, crops=True) == 2
    first, second = find_dataset_clips([out])
    frames = list(read_frames(first.video))
    assert [number(frame) for frame in frames] == list(range(10, 35))
    assert len(list(read_frames(second.video))) == 40
    assert first.episode is not None
    signals = read_signals(first.episode, ("observation.state",))
    assert signals.values[:, 0].tolist() == [4.0 * frame for frame in range(10, 35)]
    truth_of = read_truth(out / "truth")
    assert truth_of["episode_000000"].action == (0.4, 0.8)
    with pytest.raises(BenchmarkError, match="no clips with the robot's signals"):
        write_dataset(tmp_path, tmp_path / "other")


def test_the_actions_of_a_chain_keep_their_times_in_a_cropped_episode(tmp_path):
    clips = tmp_path / "clips" / "chain"
    clips.mkdir(parents=True)
    write_video(clips / "a.mp4", gray(200))
    zeros = np.zeros((200, 4)).tolist()
    signals = {"names": ["x", "y", "z", "gripper"], "state": zeros, "action": zeros}
    fact = chain_facts() | {"clip": "a", "width": 64, "height": 48, "robot": signals}
    (clips / "a.json").write_text(json.dumps(fact))
    (clips.parent / "crops.json").write_text(json.dumps({"a": [25, 200]}))
    write_dataset(clips, tmp_path / "set", crops=True)
    kept = json.loads((tmp_path / "set" / "truth" / "episode_000000.json").read_text())
    assert [step["step"] for step in kept["actions"]] == [1, 2]
    for step, whole in zip(kept["actions"], fact["actions"], strict=True):
        assert step["interval_s"] == pytest.approx([time - 1 for time in whole["interval_s"]])

"""Simulated clips: truth, crops and tasks; rendering where the extra is installed."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulated import truth
from benchmarks.simulated.check import check_clip, problems
from benchmarks.simulated.crops import ClipFacts, middle_hits, one_sided, read_clips, write_crops
from benchmarks.simulated.lerobot import write_dataset
from benchmarks.simulated.tasks import MANIPULATIONS, manipulation
from objectstates import read_truth
from objectstates.base.errors import BenchmarkError, SettingError, TruthError
from objectstates.robots.dataset_clips import find_dataset_clips
from objectstates.robots.signals import read_signals
from objectstates.video.reader import read_frames
from tests.video.videos import gray, number, write_video

ROOT = Path(__file__).parents[2]


@st.composite
def curves(draw):
    """A state that rests, moves for some frames, and rests: (n, 1), first and last frame moved."""
    before, moving = draw(st.integers(5, 60)), draw(st.integers(3, 80))
    after = draw(st.integers(15, 60))
    start, change = draw(st.floats(-2, 2)), draw(st.sampled_from([-1.5, -0.1, 0.2, 3.0]))
    ramp = np.linspace(0, 1, moving + 1)
    curve = start + change * np.r_[np.zeros(before), ramp, np.ones(after)]
    return curve[:, None], before, before + moving


@given(curves())
def test_the_action_is_where_the_state_moves(case):
    values, first, last = case
    begin, end = truth.action_frames(values)
    assert first < begin < end <= last
    # It starts at most 2 % of the change late, and ends at most 5 % early.
    assert begin - first <= 0.02 * (last - first) + 1
    assert last - end <= 0.05 * (last - first) + 1


def test_a_tremble_before_and_after_is_no_action():
    rng = np.random.default_rng(0)
    values = np.r_[np.zeros(100), np.linspace(0, 1, 50), np.ones(100)][:, None]
    values = values + rng.uniform(-0.004, 0.004, values.shape)
    assert truth.action_frames(values) == pytest.approx((101, 147), abs=2)


def test_a_pause_in_mid_action_is_part_of_it():
    moving = np.r_[np.linspace(0, 0.5, 20), np.full(25, 0.5), np.linspace(0.5, 1, 20)]
    begin, end = truth.action_frames(np.r_[np.zeros(30), moving, np.ones(30)][:, None])
    assert (begin, end) == pytest.approx((31, 93), abs=2)


def test_a_state_that_stays_has_no_action():
    with pytest.raises(ValueError, match="no action"):
        truth.action_frames(np.ones((40, 3)))


def test_progress_of_a_position_counts_the_way_from_the_start():
    values = np.zeros((60, 3))
    values[20:40, 1] = np.linspace(0, 0.2, 20)
    values[40:, 1] = 0.2
    progress = truth.progress(values)
    assert progress[0] == 0
    assert progress[-1] == pytest.approx(1)
    assert (np.diff(progress) >= -1e-12).all()


def frame_codes(codes):
    picture = np.zeros((30, 40), np.int8)
    for code, (x1, y1, x2, y2) in codes.items():
        picture[y1:y2, x1:x2] = code
    return picture


@pytest.mark.parametrize(
    ("separate", "box", "visible", "share"),
    [(False, [5, 5, 25, 15], [12, 5, 25, 15], 0.65), (True, [5, 5, 15, 15], [12, 5, 15, 15], 0.3)],
)
def test_boxes_of_object_part_hand_and_things(separate, box, visible, share):
    log = truth.BoxLog(2, separate)
    alone = {truth.WHOLE: (5, 5, 15, 15), truth.PART: (15, 5, 25, 15)}
    hidden = {truth.GRIPPER: (0, 5, 12, 15), truth.DISTRACTOR + 1: (30, 20, 34, 26)}
    log.add(frame_codes(alone), frame_codes(alone | hidden))
    assert log.object == {"box": [box], "box_visible": [visible], "visible_fraction": [share]}
    assert log.part["box"] == [[15, 5, 25, 15]]
    assert log.gripper == [[0, 5, 12, 15]]
    assert log.distractors == [[None], [[30, 20, 34, 26]]]


clips = st.builds(
    lambda before, action, after, name: ClipFacts(
        f"clip_{name}", "task", before + action + after, (before, before + action), 25
    ),
    st.integers(50, 200),
    st.integers(25, 100),
    st.integers(50, 200),
    st.integers(0, 999),
)


@given(clips, st.integers(0, 5))
def test_a_crop_cuts_one_end_and_keeps_the_action(clip, seed):
    start, end = one_sided(clip, seed)
    first, last = clip.action
    assert 0 <= start < first
    assert last < end <= clip.frames
    assert start == 0 or end == clip.frames
    assert min(first - start, end - last) <= 2.4 * clip.fps
    assert (start, end) == one_sided(clip, seed)


def test_crops_cut_either_end_and_take_the_middle_away_from_the_action():
    filmed = [ClipFacts(f"clip_{i:03d}", "task", 400, (180, 220), 25) for i in range(200)]
    crops = {clip.name: one_sided(clip, 3) for clip in filmed}
    assert 60 < sum(start == 0 for start, _ in crops.values()) < 140
    assert middle_hits(filmed, crops) == (1, 0)


def clip_facts(name="drawer-open_000"):
    """The truth of a clip as it is written, of a state that moves from frame 60 to 100."""
    values = np.r_[np.zeros(60), np.linspace(0, 0.15, 40), np.full(70, 0.15)][:, None]
    touch = (np.arange(170) > 55) & (np.arange(170) < 110)
    phases = ["before"] * 50 + ["policy"] * 55 + ["retreat"] * 25 + ["after"] * 40
    boxes = [[10, 10, 50, 40]] * 170
    return {
        "version": truth.VERSION,
        "clip": name,
        "task": name.split("_")[0],
        "action": "open drawer",
        "states": ["closed", "open"],
        "width": 320,
        "height": 240,
        **truth.state_truth(
            values, truth.action_frames(values), touch, phases, [("linger", 100, 105)], 25
        ),
        "value_name": "joint:goal_slidey",
        "object": {
            "name": "drawer",
            "box": boxes,
            "box_visible": boxes,
            "visible_fraction": [1.0] * 170,
        },
        "part": {"name": "drawer_link", "box": boxes, "box_visible": [None] * 170},
        "gripper": {"box_visible": [None] * 170},
        "things": [{"kind": "can", "state": None, "box_visible": boxes}],
        "camera": {"motion": "static"},
        "look": {},
        "seed": 1,
        "rejected_tries": {},
    }


def test_what_follows_from_the_state_fits_together():
    facts = clip_facts()
    assert list(problems(facts)) == []
    assert facts["touch_interval_s"] == [56 / 25, 110 / 25]
    assert [name for name, _, _ in facts["phases"]] == ["before", "policy", "retreat", "after"]
    json.dumps(facts, allow_nan=False)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda facts: facts.pop("touch"), "lacks touch"),
        (lambda facts: facts.update(action_frames=[100, 60]), "not within"),
        (lambda facts: facts.update(duration_s=3.0), "duration_s"),
        (lambda facts: facts.update(action_interval_s=[1.0, 2.0]), "do not follow"),
        (lambda facts: facts["progress"].pop(), "progress has 169 rows"),
        (lambda facts: facts["part"].update(box=[[300, 10, 330, 20]] * 170), "part.box of frame 0"),
        (lambda facts: facts["phases"].pop(), "phases do not fill"),
    ],
)
def test_the_check_finds_what_is_wrong(change, complaint):
    facts = clip_facts()
    change(facts)
    assert any(complaint in problem for problem in problems(facts))


def test_crops_are_written_for_all_clips_and_do_not_depend_on_the_others(tmp_path):
    (tmp_path / "drawer-open").mkdir()
    for index in range(3):
        name = f"drawer-open_{index:03d}"
        path = tmp_path / "drawer-open" / f"{name}.json"
        path.write_text(json.dumps(clip_facts(name)))
    crops = write_crops(tmp_path, 1)
    assert {name: tuple(crop) for name, crop in crops.items()} == {
        name: tuple(crop)
        for name, crop in json.loads((tmp_path / "crops.json").read_text()).items()
    }
    (tmp_path / "drawer-open" / "drawer-open_001.json").unlink()
    assert write_crops(tmp_path, 1).items() <= crops.items()
    assert [clip.action for clip in read_clips(tmp_path)] == [(61, 98)] * 2


def test_the_projects_own_reader_takes_the_truth(tmp_path):
    (tmp_path / "drawer-open").mkdir()
    path = tmp_path / "drawer-open" / "drawer-open_000.json"
    path.write_text(json.dumps(clip_facts()))
    found = read_truth(tmp_path / "drawer-open")
    assert len(found) == 1


def test_a_broken_truth_is_named(tmp_path):
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "task_000.json").write_text("{}")
    with pytest.raises(TruthError, match=r"task_000\.json .*remove it"):
        write_crops(tmp_path, 1)


@pytest.mark.parametrize("task", MANIPULATIONS.values(), ids=MANIPULATIONS)
def test_a_task_makes_sense(task):
    assert task.states[0] != task.states[1]
    assert task.value[0] in ("joint", "pos")
    # The state is the value of a joint of the object, or the position of a separate part.
    assert (task.change != 0) == (task.value[0] == "joint") == (not task.separate)
    if task.change:
        assert abs(task.change) >= task.least_change
    assert task.travel is None or task.travel >= task.least_change
    assert 0 < task.pace[0] < task.pace[1] <= 1
    assert 0 < task.reach[0] < task.reach[1] <= 1
    for low, high in (task.view.primary, *task.view.secondary, task.view.elevation):
        assert low < high
    assert -90 < task.view.elevation[0] < task.view.elevation[1] < 0


def test_what_can_be_opened_can_be_closed():
    for distractor in ("drawer", "door", "window", "faucet"):
        opens, closes = manipulation(f"{distractor}-open"), manipulation(f"{distractor}-close")
        assert opens.states == closes.states[::-1]
        assert opens.noun == closes.noun
        assert np.sign(opens.change) == -np.sign(closes.change)


def test_an_unknown_task_is_answered_with_all_names():
    with pytest.raises(SettingError, match=r"'drawer-opne'.*drawer-open, drawer-close"):
        manipulation("drawer-opne")


START = "import runpy, sys; {}; runpy.run_module('benchmarks.simulated', run_name='__main__')"


def command(*words, first="pass"):
    return subprocess.run(
        [sys.executable, "-c", START.format(first), *map(str, words)],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "COLUMNS": "200"},
    )


def test_the_command_lists_its_tasks_without_the_extra():
    listed = command("--list").stdout.split()
    assert set(MANIPULATIONS) <= set(listed)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["drawer-open"], "pip install 'objectstates[simulated]'"),
        (["drawer-open", "--seed", -1], "--seed from 0"),
        (["drawer-opne"], "choose from drawer-open"),
        ([], "name a task"),
    ],
)
def test_one_line_says_what_to_mend(tmp_path, words, complaint):
    answer = command(*words, "--out", tmp_path, first="sys.modules['metaworld'] = None")
    assert answer.returncode == 2
    assert complaint in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


has_simulator = importlib.util.find_spec("metaworld") is not None


@pytest.mark.skipif(not has_simulator, reason="needs the extra 'simulated'")
class TestWithTheSimulator:
    def test_a_clip_is_whole_and_the_same_seed_makes_it_again(self, tmp_path):
        for folder in ("one", "two"):
            made = command("dial-turn", "--clips", 1, "--seed", 1, "--out", tmp_path / folder)
            assert made.returncode == 0, made.stderr
        name = "dial-turn/dial-turn_000"
        assert check_clip(tmp_path / "one" / f"{name}.json")[0] == []
        for kind in ("mp4", "json"):
            one, two = (tmp_path / folder / f"{name}.{kind}" for folder in ("one", "two"))
            assert one.read_bytes() == two.read_bytes()
        facts = json.loads((tmp_path / "one" / f"{name}.json").read_text())
        first, last = facts["action_frames"]
        assert 1 <= (last - first) / facts["fps"] <= 4
        touched = np.flatnonzero(facts["touch"])
        assert touched[0] <= first < touched[-1]
        again = command("dial-turn", "--clips", 1, "--seed", 1, "--out", tmp_path / "one")
        assert "1 of 1 clips are there" in again.stdout

    @pytest.mark.parametrize("name", ["drawer-open", "faucet-close", "box-close"])
    def test_a_twin_has_all_pieces_of_the_object_and_a_place_of_its_own(self, name):
        from benchmarks.simulated import scene

        task = manipulation(name)
        rng = np.random.default_rng(0)
        for _ in range(30):
            stage = scene.build(task, rng)
            if stage.distractors[0].kind == task.noun:
                break
        own = scene.subtree(stage.model, task.whole) if task.separate else stage.object()
        twin = {stage.distractor_bodies()[0]}
        assert len(scene.visible_geoms(stage.model, twin)) == len(
            scene.visible_geoms(stage.model, own)
        )
        own_low, own_high = scene.footprint(stage.model, stage.data, own)
        low, high = scene.footprint(stage.model, stage.data, twin)
        assert ((high < own_low) | (low > own_high)).any()

    def test_a_twin_has_the_shape_of_the_object(self):
        """In the first state, not rotated, its pieces lie where the object's lie."""
        from benchmarks.simulated import distractors, scene
        from benchmarks.simulated.simulator import mujoco

        task = manipulation("faucet-open")
        (twin, _), _ = scene.twins(task.name)
        lone = scene._environment(
            task, lambda spec: distractors.add_to(spec, "thing0", twin, np.random.default_rng(0))
        )
        stage = scene.Scene(task, lone, (twin,))
        lone.seed(0)
        lone.reset()
        body = stage.distractor_bodies()[0]
        stage.model.body_pos[body] = stage.model.body("faucetBase").pos
        mujoco.mj_forward(stage.model, stage.data)
        ours = scene.footprint(stage.model, stage.data, {body})
        theirs = scene.footprint(stage.model, stage.data, stage.object())
        np.testing.assert_allclose(ours, theirs, atol=2e-3)


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

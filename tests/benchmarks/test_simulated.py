"""Simulated clips: truth, crops and tasks; rendering where the extra is installed."""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulated import truth
from benchmarks.simulated.chains import CHAINS, Plan, chain, plans
from benchmarks.simulated.check import check_clip, problems
from benchmarks.simulated.contact_sheet import shown_frames
from benchmarks.simulated.crops import (
    ClipFacts,
    action_spans,
    middle_hits,
    one_sided,
    read_clips,
    write_crops,
)
from benchmarks.simulated.lerobot import write_dataset
from benchmarks.simulated.tasks import MANIPULATIONS, manipulation
from objectstates import read_truth
from objectstates.base.errors import BenchmarkError, SettingError, TruthError
from objectstates.robots.dataset_clips import find_dataset_clips
from objectstates.robots.signals import read_signals
from objectstates.video.reader import read_frames
from tests.video.videos import gray, number, write_video

ROOT = Path(__file__).parents[2]
SINGLE_CHANGE = "5bb31828cb3550a64485f13cd936f13fbc7e3525b550599f2245b458b95fcd71"
"""SHA-256 of the JSON of `clip_facts`."""


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


def test_the_truth_of_a_single_change_has_the_same_bytes_as_before_there_were_chains():
    text = json.dumps(clip_facts(), separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == SINGLE_CHANGE


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


def ramps(*moves):
    """A state (n, 1) that rests 50 frames at 0, then goes in 25 frames to each of ``moves`` and
    rests there for 50; and the frames of the cuts, in the middle of the rests between."""
    values, cuts = [np.zeros(50)], [0]
    for start, end in pairwise((0, *moves)):
        values.append(np.r_[np.linspace(start, end, 26)[1:], np.full(50, end)])
        cuts.append(cuts[-1] + (100 if len(cuts) == 1 else 75))
    return np.concatenate(values)[:, None], [*cuts[:-1], 50 + 75 * len(moves)]


def chain_facts(moves=(0.15, 0.0), occurrences=None, name="drawer-open-close_000"):
    """The truth of open, close as it is written; a long video if ``occurrences`` are given."""
    values, cuts = ramps(*moves)
    frames = [
        tuple(start + frame for frame in truth.action_frames(values[start:end]))
        for start, end in pairwise(cuts)
    ]
    long, names = occurrences is not None, ("open drawer", "close drawer")
    steps = [
        truth.Step(
            names[k],
            k + 1,
            frames[2 * o + k] if 2 * o + k < len(frames) else None,
            o + 1 if long else None,
        )
        for o in range(occurrences if long else 1)
        for k in range(2)
    ]
    count = len(values)
    facts = clip_facts(name)
    for key in ("action", "action_interval_s", "action_frames"):
        del facts[key]
    for key in ("state1_interval_s", "state2_interval_s"):
        del facts[key]
    boxes = [[10, 10, 50, 40]] * count
    facts |= truth.chain_truth(values, steps, cuts, values[:, 0] > 9, ["before"] * count, [], 25)
    facts["states"] = ["closed", "open", "closed"]
    facts["object"] |= {"box": boxes, "box_visible": boxes, "visible_fraction": [1.0] * count}
    facts["part"] |= {"box": boxes, "box_visible": boxes}
    facts["gripper"] = {"box_visible": [None] * count}
    facts["things"] = []
    return facts


def test_the_truth_of_a_chain_tells_every_action_and_state():
    facts = chain_facts()
    assert list(problems(facts)) == []
    opening, closing = facts["actions"]
    assert (opening["name"], opening["step"]) == ("open drawer", 1)
    assert opening["frames"] == pytest.approx([50, 74], abs=1)
    assert closing["frames"] == pytest.approx([125, 149], abs=1)
    assert closing["interval_s"] == [frame / 25 for frame in closing["frames"]]
    (s1, e1), (s2, e2) = opening["interval_s"], closing["interval_s"]
    assert facts["state_intervals_s"] == [[0, s1], [e1, s2], [e2, 8.0]]
    assert facts["progress"][0] == 0
    assert facts["progress"][100] == pytest.approx(1)
    assert facts["progress"][-1] == pytest.approx(2)
    assert "action_interval_s" not in facts
    assert "occurrence" not in opening
    json.dumps(facts, allow_nan=False)


def test_a_step_left_out_has_no_interval_and_its_state_never_comes():
    facts = chain_facts(moves=(0.15,))
    assert list(problems(facts)) == []
    opening, closing = facts["actions"]
    assert (closing["step"], closing["frames"], closing["interval_s"]) == (2, None, None)
    assert facts["state_intervals_s"][1:] == [[opening["interval_s"][1], 5.0], None]
    assert facts["progress"][-1] == pytest.approx(1)


def test_a_long_video_tells_every_occurrence():
    facts = chain_facts(moves=(0.15, 0.0, 0.15, 0.0), occurrences=2)
    assert list(problems(facts)) == []
    assert [(step["occurrence"], step["step"]) for step in facts["actions"]] == [
        (1, 1), (1, 2), (2, 1), (2, 2),
    ]  # fmt: skip
    intervals = [step["interval_s"] for step in facts["actions"]]
    assert facts["occurrences_s"] == [
        [intervals[0][0], intervals[1][1]],
        [intervals[2][0], intervals[3][1]],
    ]
    first, second = facts["state_intervals_s"]
    assert first[2] == second[0] == [intervals[1][1], intervals[2][0]]
    assert facts["progress"][-1] == pytest.approx(2)


def test_a_long_video_in_which_nothing_happens_has_no_occurrence():
    facts = chain_facts(moves=(), occurrences=0)
    assert list(problems(facts)) == []
    assert facts["actions"] == facts["occurrences_s"] == facts["state_intervals_s"] == []
    assert set(facts["progress"]) == {0}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda facts: facts.pop("state_intervals_s"), "lacks state_intervals_s"),
        (lambda facts: facts["actions"].reverse(), "not [1, 2] each"),
        (lambda facts: facts["actions"].pop(), "not [1, 2] each"),
        (lambda facts: facts["actions"][0].update(interval_s=[1.0, 2.0]), "does not follow"),
        (lambda facts: facts["actions"][0].update(frames=[50, 140]), "not in order"),
        (lambda facts: facts["state_intervals_s"].pop(), "do not follow from actions"),
    ],
)
def test_the_check_finds_what_is_wrong_with_a_chain(change, complaint):
    facts = chain_facts()
    change(facts)
    assert any(complaint in problem for problem in problems(facts))


def test_a_crop_keeps_all_actions_of_a_chain(tmp_path):
    (tmp_path / "chain").mkdir()
    cases = {"two": chain_facts(), "one": chain_facts((0.15,)), "none": chain_facts((), 0)}
    for name, facts in cases.items():
        (tmp_path / "chain" / f"{name}.json").write_text(json.dumps(facts))
    crops = write_crops(tmp_path, 1)
    assert crops["none"] == (0, 50)
    for name in ("two", "one"):
        spans = action_spans(cases[name])
        assert crops[name][0] < spans[0][0]
        assert spans[-1][1] < crops[name][1]


def test_a_contact_sheet_shows_every_state_and_action_of_a_chain():
    facts = chain_facts()
    shown = shown_frames(facts)
    for first, last in action_spans(facts):
        assert any(first <= frame < last for frame in shown)
    for start, end in facts["state_intervals_s"]:
        assert any(start <= frame / 25 < end for frame in shown)


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_goes_from_state_to_state(name):
    steps, states, neighbour = CHAINS[name].steps, CHAINS[name].states, CHAINS[name].neighbour
    objects = [steps[0]] if neighbour is None else [steps[0], neighbour.task]
    assert len(states) == len(steps) + 1
    for step, before, after in zip(steps, states[:-1], states[1:], strict=True):
        assert step.states == (before, after)
        assert (step.whole, step.value) in [(each.whole, each.value) for each in objects]
    assert not steps[-1].keeps_hold


def test_a_manipulation_is_a_chain_of_one_step():
    single = chain("drawer-open")
    assert single.steps == (manipulation("drawer-open"),)
    assert Plan(single).performed == ((0, 0),)
    with pytest.raises(SettingError, match=r"'drawer-opne'.*drawer-open, .*lid-lift-place"):
        chain("drawer-opne")


@given(st.integers(0, 40), st.sampled_from([0.0, 0.2, 0.5, 1.0]), st.integers(0, 9))
def test_a_step_is_left_out_in_the_share_that_was_asked_for(number, share, seed):
    made = plans(CHAINS["drawer-open-close"], number, seed, share, None)
    skipped = [plan for plan in made if not plan.complete]
    assert abs(len(skipped) - share * number) < 1
    assert all(plan.performed == ((0, 0),) for plan in skipped)
    # Rendering more clips keeps the plans of the first.
    assert made == plans(CHAINS["drawer-open-close"], number + 7, seed, share, None)[:number]


def test_long_videos_have_every_number_of_occurrences():
    made = plans(CHAINS["drawer-open-close"], 10, 3, 0.0, (0, 4))
    assert sorted(len(plan.performed) for plan in made) == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]


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
    assert {*MANIPULATIONS, *CHAINS} <= set(listed)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["drawer-open"], "pip install 'objectstates[simulated]'"),
        (["drawer-open", "--seed", -1], "--seed from 0"),
        (["drawer-opne"], "choose from drawer-open"),
        (["drawer-open-close", "--occurrences", "4:0"], "such as 0:4"),
        (["drawer-open-close", "--leave-out", "2"], "give 0 to 1"),
        (["lid-lift-place", "--occurrences", "0:4"], "does not end as it starts"),
        (["drawer-open", "--leave-out", "0.2"], "is no chain"),
        (["drawer-open-close", "--leave-out", "0.2", "--occurrences", "1:2"], "whole chains"),
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

    @pytest.mark.parametrize("name", CHAINS)
    def test_the_policies_of_a_chain_go_through_its_states(self, name):
        """Simulated, not rendered: the part moves in every step and rests between them."""
        from benchmarks.simulated import scene
        from benchmarks.simulated.episode import record_episode

        for attempt in range(30):
            rng = np.random.default_rng([1, attempt])
            try:
                stage = scene.build(chain(name).scene, rng, chain(name).neighbour)
                episode = record_episode(stage, Plan(chain(name)), rng)
                break
            except scene.RejectedError:
                continue
        steps = chain(name).steps
        assert len(episode.actions) == len(steps)
        for (first, last), start, end in zip(
            episode.actions, episode.cuts[:-1], episode.cuts[1:], strict=True
        ):
            assert start < first < last < end
            rests = episode.values[last:end]
            moved = np.linalg.norm(episode.values[last] - episode.values[first])
            assert np.ptp(rests, axis=0).max() < 0.1 * moved

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

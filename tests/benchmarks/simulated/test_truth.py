import hashlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulated import truth
from benchmarks.simulated.check import problems
from objectstates import read_truth
from tests.benchmarks.simulated.clip_facts import chain_facts, clip_facts

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


def test_what_follows_from_the_state_fits_together():
    facts = clip_facts()
    assert list(problems(facts)) == []
    assert facts["touch_interval_s"] == [56 / 25, 110 / 25]
    assert [name for name, _, _ in facts["phases"]] == ["before", "policy", "retreat", "after"]
    json.dumps(facts, allow_nan=False)


def test_the_truth_of_a_single_change_has_the_same_bytes_as_before_there_were_chains():
    text = json.dumps(clip_facts(), separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == SINGLE_CHANGE


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


def test_the_projects_own_reader_takes_the_truth(tmp_path):
    (tmp_path / "drawer-open").mkdir()
    path = tmp_path / "drawer-open" / "drawer-open_000.json"
    path.write_text(json.dumps(clip_facts()))
    found = read_truth(tmp_path / "drawer-open")
    assert len(found) == 1

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulated.crops import (
    ClipFacts,
    action_spans,
    middle_hits,
    one_sided,
    read_clips,
    write_crops,
)
from objectstates.base.errors import TruthError
from tests.benchmarks.simulated.clip_facts import chain_facts, clip_facts

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


def test_a_broken_truth_is_named(tmp_path):
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "task_000.json").write_text("{}")
    with pytest.raises(TruthError, match=r"task_000\.json .*remove it"):
        write_crops(tmp_path, 1)

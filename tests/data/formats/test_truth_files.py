import json

import numpy as np
import pytest

from objectstates.base.errors import TruthError
from objectstates.data.formats.truth_files import read_truth, shown_box


def simulated(folder, name="lid_000", **changes):
    facts = {
        "fps": 10,
        "n_frames": 3,
        "action_interval_s": [0.1, 0.2],
        "object": {"box": [[10, 10, 20, 20], [10, 10, 20, 20], None]},
        "part": {"box": [[12, 12, 15, 15], [15, 5, 25, 12], None]},
        **changes,
    }
    (folder / f"{name}.mp4").touch()
    (folder / f"{name}.json").write_text(json.dumps(facts))
    return facts


def test_a_folder_of_clips(tmp_path):
    simulated(tmp_path)
    (tmp_path / "crops.json").write_text("{}")
    truth = read_truth(tmp_path)["lid_000"]
    assert truth.action == (0.1, 0.2)
    np.testing.assert_allclose(truth.times, [0, 0.1, 0.2])
    np.testing.assert_array_equal(truth.boxes, [[10, 10, 20, 20], [10, 5, 25, 20], [np.nan] * 4])


@pytest.mark.parametrize("boxes", [True, False])
def test_more_frames_than_any_film_has_are_no_trouble(tmp_path, boxes):
    facts = simulated(tmp_path, n_frames=2**63)
    if boxes:
        with pytest.raises(TruthError, match=r"lid_000\.json is malformed"):
            read_truth(tmp_path)
        return
    del facts["object"], facts["part"]
    (tmp_path / "lid_000.json").write_text(json.dumps(facts))
    assert len(read_truth(tmp_path)["lid_000"].times) == 0


def filmed_chain(folder, *intervals, **changes):
    """A film of 40 frames, 10 a second, whose steps are fastest 0.4 s after they begin."""
    progress = np.zeros(40)
    for start, _ in filter(None, intervals):
        progress[round(start * 10) + 4 :] += 1
    actions = [{"name": "x", "step": k, "interval_s": i} for k, i in enumerate(intervals, start=1)]
    facts = {"n_frames": 40, "object": {"box": [[1, 1, 5, 5]] * 40}, "progress": progress.tolist()}
    facts |= {"fps": 10, "actions": actions} | changes
    (folder / "chain.mp4").touch()
    (folder / "chain.json").write_text(json.dumps(facts))


def test_a_film_of_a_chain(tmp_path):
    filmed_chain(tmp_path, [0.5, 1.5], [2.5, 3.5])
    truth = read_truth(tmp_path)["chain"]
    assert truth.actions == ((0.5, 1.5), (2.5, 3.5))
    np.testing.assert_allclose(truth.change_times, [0.9, 2.9], atol=0.21)
    filmed_chain(tmp_path, [0.5, 1.5], None)
    left_out = read_truth(tmp_path)["chain"]
    assert left_out.actions == ((0.5, 1.5), None)
    assert np.isnan(left_out.change_times).tolist() == [False, True]


def test_a_film_with_several_chains_is_refused(tmp_path):
    row = {"name": "x", "step": 1, "occurrence": 1, "interval_s": [1, 2]}
    filmed_chain(tmp_path, actions=[row])
    with pytest.raises(TruthError, match="long video"):
        read_truth(tmp_path)
    filmed_chain(tmp_path, actions=[{"name": "x", "step": 2, "interval_s": [1, 2]}])
    with pytest.raises(TruthError, match="not 1, 2 and so on"):
        read_truth(tmp_path)


def test_the_shown_box_is_the_union_of_object_and_part():
    beside = {"object": {"box": [[0, 0, 4, 4]]}, "part": {"box": [[6, 1, 8, 3]]}}
    assert shown_box(beside, 0) == (0, 0, 8, 4)
    assert shown_box({"object": {"box": [None]}, "part": {"box": [None]}}, 0) is None
    assert shown_box({"object": {"box": [[1, 2, 3, 4]]}}, 0) == (1, 2, 3, 4)


def annotation(**changes):
    return {
        "file": "open_drawer/00.mp4",
        "fps": 30.0,
        "action_interval_s": [1.3, 1.8],
        "object_box_before": [0, 0, 10, 10],
        "frame_before": 0,
        "object_box_after": [0, 0, 12, 10],
        "frame_after": 60,
        **changes,
    }


def test_annotations_of_one_early_and_one_late_frame(tmp_path):
    hidden = annotation(file="lid/02.mp4", object_box_after=None)
    (tmp_path / "annotations.json").write_text(json.dumps([annotation(), hidden]))
    truth = read_truth(tmp_path)
    assert list(truth) == ["open_drawer/00", "lid/02"]
    assert truth["open_drawer/00"].times.tolist() == [0, 2]
    assert truth["open_drawer/00"].boxes[1].tolist() == [0, 0, 12, 10]
    assert len(truth["lid/02"].boxes) == 1, "a missing annotation is not an invisible object"


def test_a_list_of_actions(tmp_path):
    path = tmp_path / "truth.csv"
    path.write_text("clip,action_start,action_end\na,1,2.5\nb,0,1\n")
    truth = read_truth(path)
    assert list(truth["a"].action) == [1, 2.5]
    assert len(truth["b"].times) == 0


def test_a_list_of_chains(tmp_path):
    path = tmp_path / "truth.csv"
    path.write_text("clip,action,action_start,action_end\na,2,5,6\na,1,1,2.5\nb,1,0,1\n")
    truth = read_truth(path)
    assert list(truth["a"].actions) == [(1, 2.5), (5, 6)]
    assert list(truth["b"].actions) == [(0, 1), None]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("t.csv", "clip,action,action_start,action_end\na,x,1,2\n", "line 2: the action 'x'"),
        ("t.csv", "clip,action,action_start,action_end\na,1,1,2\na,1,3,4\n", "line 3"),
        ("t.csv", "clip,action,action_start,action_end\na,1,3,4\na,2,1,2\n", "t.csv: clip 'a'"),
        ("t.csv", "clip,start,end\na,1,2\n", "header must be clip,action_start"),
        ("t.csv", "clip,action_start,action_end\na,1,x\n", "line 2: 'x' is not a number"),
        ("t.csv", "clip,action_start,action_end\na,1\n", "line 2: None is not a number"),
        (
            "t.csv",
            "clip,action_start,action_end\na,2,1\n",
            "t.csv, line 2: clip 'a': the action from 2 to 1 s",
        ),
        ("t.csv", "clip,action_start,action_end\na,1,2\na,1,2\n", "line 3"),
        ("t.csv", "clip,action_start,action_end\n", "no clip"),
        ("t.json", "[{]", "cannot be read as JSON"),
        ("t.json", "{}", "a list"),
        ("t.json", '[{"file": "a.mp4", "fps": 30}]', "entry 1"),
        ("t.json", '[{"file": "", "fps": 30}]', "entry 1"),
        ("t.json", "[7]", "entry 1"),
        ("t.json", json.dumps([annotation(action_interval_s=[2, 1])]), "entry 1.* from 2 to 1 s"),
        ("t.json", json.dumps([annotation(fps=0)]), "entry 1"),
        ("t.json", json.dumps([annotation(object_box_before=[1, 2, 3])]), "entry 1"),
        ("t.txt", "", "neither"),
    ],
)
def test_a_bad_file_is_named_with_the_reason(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(TruthError, match=words):
        read_truth(tmp_path / name)


def test_a_bad_clip_is_named(tmp_path):
    simulated(tmp_path, "x", object={"box": [[1, 2, 3, 4]]})
    with pytest.raises(TruthError, match=r"x\.json"):
        read_truth(tmp_path)
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(TruthError, match="lacks action_interval_s"):
        read_truth(tmp_path)
    with pytest.raises(TruthError, match="does not exist"):
        read_truth(tmp_path / "nowhere")


@pytest.mark.reference
def test_the_data_beside_the_repository_reads_whole(shared):
    counts = {}
    for task in sorted(path for path in (shared / "data" / "sim").iterdir() if path.is_dir()):
        counts[task.name] = len(read_truth(task))
        assert counts[task.name] == len(list(task.glob("*.mp4")))
    assert sum(counts.values()) >= 100
    assert len(read_truth(shared / "data" / "droid")) == 27
    for clip in read_truth(shared / "data" / "sim" / "drawer-open").values():
        assert np.isfinite(clip.boxes).all(axis=1).mean() > 0.9

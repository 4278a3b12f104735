import json
from dataclasses import replace

import numpy as np
import pytest

from objectstates import Box, Chunk, Clip, Corpus, Tracklet
from objectstates.base.errors import TruthError
from objectstates.data.truth import (
    ClipTruth,
    TruthCount,
    UnknownClipWarning,
    label_corpus,
    read_truth,
    shown_box,
    truth_count,
)

FEATURE = np.ones(1, np.float32)
HERE, THERE = (0, 0, 10, 10), (50, 50, 60, 60)


def tracklet(start, end, *boxes):
    times = np.linspace(start, end, len(boxes), endpoint=False)
    return Tracklet(
        start,
        end,
        FEATURE,
        boxes=tuple(Box(float(t), *b) for t, b in zip(times, boxes, strict=True)),
    )


def corpus_of(*tracklets, clip="a", video=None, span=(None, None)):
    chunks = tuple(Chunk(t, t + 1.0, FEATURE) for t in range(10))
    return Corpus.from_clips([Clip(clip, tracklets, chunks, video, *span)])


def truth_of(action, times=(), boxes=(), clip="a"):
    boxes = np.array(boxes, float).reshape(-1, 4)
    return {clip: ClipTruth.single(clip, action, np.array(times, float), boxes)}


def test_a_tracklet_is_judged_by_place_and_time():
    corpus = corpus_of(
        tracklet(0, 1, HERE, HERE),  # before
        tracklet(1, 2, THERE, THERE),  # another object
        tracklet(2, 3, HERE, HERE),  # ends as the action begins
        tracklet(2.5, 3.5, HERE, HERE),  # runs into it
        tracklet(4, 5, HERE, HERE),  # in it
        tracklet(5.5, 6.5, HERE, HERE),  # runs out of it
        tracklet(6, 7, HERE, HERE),  # begins as it ends
        tracklet(8, 9, HERE, THERE),  # drifted away: overlap 1/2 in the mean, which is enough
        tracklet(8.5, 9.5, HERE, THERE, THERE),  # and 1/3, which is not
    )
    times = np.arange(0, 10, 0.1)
    labelled = label_corpus(corpus, truth_of((3, 6), times, [HERE] * len(times)))
    assert labelled.tracklets.label.tolist() == [1, 0, 1, -2, -2, -2, 2, 2, 0]
    # Chunks of a second, by their middle: 3.5, 4.5, 5.5.
    assert labelled.chunks.label.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 0]


def test_overlap_is_of_areas():
    half = (0, 0, 10, 5)  # IoU 0.5 with HERE
    third = (0, 5, 10, 15)  # 50 in common of 150
    corpus = corpus_of(tracklet(0, 1, half), tracklet(1, 2, third))
    labelled = label_corpus(corpus, truth_of((3, 6), [0, 1], [HERE, HERE]))
    assert labelled.tracklets.label.tolist() == [1, 0]


def test_an_object_that_is_not_seen_overlaps_with_nothing():
    corpus = corpus_of(tracklet(0, 1, HERE), tracklet(1, 2, HERE))
    unseen = (np.nan,) * 4
    labelled = label_corpus(corpus, truth_of((3, 6), [0, 1], [HERE, unseen]))
    assert labelled.tracklets.label.tolist() == [1, 0]


def test_one_box_per_phase_suffices():
    """The box after the action is nearer in time, but the one of the same phase counts."""
    corpus = corpus_of(tracklet(4, 5, HERE), tracklet(7, 8, HERE), tracklet(8, 9, THERE))
    labelled = label_corpus(corpus, truth_of((5.2, 5.4), [0, 5.5], [HERE, THERE]))
    assert labelled.tracklets.label.tolist() == [1, 0, 2]


def test_without_boxes_time_alone_decides():
    corpus = corpus_of(tracklet(0, 1), tracklet(4, 5), tracklet(8, 9))
    assert label_corpus(corpus, truth_of((3, 6))).tracklets.label.tolist() == [1, -2, 2]
    with pytest.raises(TruthError, match="without boxes"):
        label_corpus(corpus, truth_of((3, 6), [0], [HERE]))


def test_the_corpus_knows_whether_its_truth_has_boxes():
    clips = [replace(corpus_of(tracklet(0, 1, HERE))[0], id=name) for name in "abc"]
    corpus = Corpus.from_clips(clips, info={"object": "cup"})
    assert truth_count(corpus) == TruthCount(0, 0)
    assert not truth_count(corpus).by_time
    timed, boxed = truth_of((3, 6), clip="a"), truth_of((3, 6), [0], [HERE], clip="b")
    for truth, count in (
        (timed, TruthCount(1, 0)), (boxed, TruthCount(1, 1)), (timed | boxed, TruthCount(2, 1)),
    ):  # fmt: skip
        with pytest.warns(UnknownClipWarning):
            labelled = label_corpus(corpus, truth)
        assert truth_count(labelled) == count
        assert labelled.info["object"] == "cup"
        assert ("by time alone, an upper bound" in count.note) == count.by_time
    assert "1 of 2 annotated clips" in TruthCount(2, 1).note
    for damaged in (7, {"clips": "many"}, None):
        assert truth_count(replace(corpus, info={"truth": damaged})) == TruthCount(0, 0)


def test_a_crop_has_the_truth_of_its_video():
    truth = {**truth_of((3, 6), clip="drawer/00"), **truth_of((1, 2), clip="lid/00")}
    for video, expected in (("x/drawer/00.mp4", [3, 4, 5]), ("x/lid/00.mp4", [1])):
        corpus = corpus_of(clip="crop-2", video=video, span=(0.0, 10.0))
        assert np.flatnonzero(label_corpus(corpus, truth).chunks.label).tolist() == expected


def test_clips_without_ground_truth_are_named():
    known, other = corpus_of(clip="a")[0], replace(corpus_of(clip="b")[0], id="b")
    with pytest.warns(UnknownClipWarning, match="1 of 2 clips: b"):
        labelled = label_corpus(Corpus.from_clips([known, other]), truth_of((3, 6)))
    assert set(labelled.chunks.label[10:]) == {-1}
    with pytest.raises(TruthError, match="1 of 1 clips: b; there is some for a"):
        label_corpus(Corpus.from_clips([other]), truth_of((3, 6)))


def test_nothing_else_of_the_corpus_changes():
    corpus = corpus_of(tracklet(0, 1, HERE))
    labelled = label_corpus(corpus, truth_of((3, 6), [0], [HERE]))
    np.testing.assert_array_equal(labelled.tracklets.boxes, corpus.tracklets.boxes)
    assert corpus.tracklets.label.tolist() == [-1]


# --- chains --------------------------------------------------------------------------------------


def chain_of(*actions, clip="a"):
    return {clip: ClipTruth(clip, actions, np.empty(0), np.empty((0, 4)))}


def test_a_tracklet_of_a_chain_has_the_state_between_two_actions():
    corpus = corpus_of(
        tracklet(0, 1), tracklet(1.5, 2.5), tracklet(3, 4), tracklet(4.5, 5.5), tracklet(5, 8),
        tracklet(7, 8), tracklet(8, 9),
    )  # fmt: skip
    labelled = label_corpus(corpus, chain_of((2, 3), (5, 7)))
    assert labelled.tracklets.label.tolist() == [1, -2, 2, -2, -2, 3, 3]
    assert labelled.chunks.label.tolist() == [0, 0, 1, 0, 0, 2, 2, 0, 0, 0]


def test_the_state_after_a_step_left_out_is_missing():
    """Later states keep their numbers."""
    corpus = corpus_of(tracklet(0, 1), tracklet(3, 4), tracklet(8, 9))
    last = label_corpus(corpus, chain_of((2, 3), None))
    assert last.tracklets.label.tolist() == [1, 2, 2]
    assert set(last.chunks.label) == {0, 1}
    first = label_corpus(corpus, chain_of(None, (5, 7)))
    assert first.tracklets.label.tolist() == [1, 1, 3]
    assert set(first.chunks.label) == {0, 2}


def test_a_short_step_of_a_chain_is_not_one_left_out():
    """No chunk has its middle in it; one that shows it is labelled nevertheless."""
    labelled = label_corpus(corpus_of(), chain_of((2.6, 2.9), (5, 7)))
    assert labelled.chunks.label.tolist() == [0, 0, 1, 0, 0, 2, 2, 0, 0, 0]
    outside = label_corpus(corpus_of(), chain_of((2, 3), (12, 13)))
    assert set(outside.chunks.label) == {0, 1}, "the clip does not show it"


def test_boxes_are_those_of_the_same_state_of_a_chain():
    truth = ClipTruth(
        "a", ((1, 2), (5, 6)), np.array([0.5, 2.5, 6.5]), np.array([HERE, THERE, HERE], float)
    )
    corpus = corpus_of(tracklet(4, 5, THERE), tracklet(4, 5, HERE), tracklet(6, 7, HERE))
    assert label_corpus(corpus, {"a": truth}).tracklets.label.tolist() == [2, 0, 3]


def test_clips_with_different_chains_do_not_mix():
    clips = [replace(corpus_of()[0], id=name) for name in "ab"]
    truth = chain_of((2, 3), clip="a") | chain_of((2, 3), (5, 7), clip="b")
    with pytest.raises(TruthError, match="different numbers of actions"):
        label_corpus(Corpus.from_clips(clips), truth)


def test_the_actions_of_a_chain_are_in_order():
    with pytest.raises(TruthError, match="from 2 to 3 s begins before"):
        chain_of((5, 7), (2, 3))
    with pytest.raises(TruthError, match="no action"):
        chain_of(None, None)
    with pytest.raises(TruthError, match="use `actions`"):
        _ = chain_of((2, 3), (5, 7))["a"].action


# --- files ---------------------------------------------------------------------------------------


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

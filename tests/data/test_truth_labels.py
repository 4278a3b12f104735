from dataclasses import replace

import numpy as np
import pytest

from objectstates import Box, Chunk, Clip, Corpus, Tracklet
from objectstates.base.errors import TruthError
from objectstates.data.truth import ClipTruth
from objectstates.data.truth_labels import TruthCount, UnknownClipWarning, label_corpus, truth_count

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

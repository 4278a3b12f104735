"""Long videos made of short ones, the data of the benchmark of discovery."""

import json
from itertools import pairwise

import av
import numpy as np
import pytest

from benchmarks.wild.discovery import WRONG, clips_by_task, evaluate_methods, find_clips
from benchmarks.wild.footage import FPS, make_long_videos, span_truth, write_span
from objectstates.data.corpus import Corpus
from objectstates.data.synthetic import synthetic_corpus

TASKS = ("drawer-open", "drawer-close", "door-open")
SIZE = 48, 64


def shade(task, number):
    """The grey that a clip begins with; it grows by one every third frame."""
    return 40 * (1 + TASKS.index(task)) + number


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Nine clips of each task, 12 s long, with the action from 5 to 7 s."""
    place = tmp_path_factory.mktemp("filmed")
    for task in TASKS:
        (place / task).mkdir()
        for number in range(9):
            path = place / task / f"{task}_{number:03d}.mp4"
            with av.open(str(path), "w") as container:
                stream = container.add_stream("libx264", rate=FPS, options={"crf": "10"})
                stream.height, stream.width = SIZE
                stream.pix_fmt = "yuv420p"
                for i in range(300):
                    picture = np.full((*SIZE, 3), shade(task, number) + i // 3, np.uint8)
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
                container.mux(stream.encode())
            truth = {
                "task": task,
                "n_frames": 300,
                "height": SIZE[0],
                "width": SIZE[1],
                "action_interval_s": [5.0, 7.0],
                "object": {"box": [[i, 0, i + 1, 1] for i in range(300)]},
                "part": {"box": [None] * 300},
            }
            path.with_suffix(".json").write_text(json.dumps(truth))
    return place


@pytest.fixture(scope="module")
def videos(folder):
    return make_long_videos(clips_by_task(folder, ["drawer-open"]), 8, seed=3)


def test_training_clips_of_the_detector_are_left_out(folder):
    counts = {task: len(paths) for task, paths in clips_by_task(folder, ["drawer-open"]).items()}
    assert counts == {"drawer-open": 3, "drawer-close": 9, "door-open": 9}


def test_every_clip_is_in_one_long_video_and_a_task_in_each_at_most_once(folder):
    clips = {task: paths[:6] for task, paths in clips_by_task(folder, []).items()}
    videos = make_long_videos(clips, 8, seed=3)
    shots = [shot for video in videos for shot in video.shots]
    assert sorted(shot.video for shot in shots) == sorted(p for ps in clips.values() for p in ps)
    for video in videos:
        assert len({shot.task for shot in video.shots}) == len(video.shots)
        assert all(a.last == b.first for a, b in pairwise(video.shots))


def test_more_clips_of_a_task_than_videos_are_refused(folder):
    with pytest.raises(ValueError, match="zip"):
        make_long_videos(clips_by_task(folder, []), 8, seed=3)


@pytest.fixture
def long(folder):
    one = {task: clips_by_task(folder, [])[task][:1] for task in TASKS[:2]}
    (video,) = (video for video in make_long_videos(one, 1, seed=0))
    return video


def test_a_span_has_the_frames_of_the_long_video(long, tmp_path):
    write_span(long, 8.0, 16.0, tmp_path / "span.mp4")
    with av.open(str(tmp_path / "span.mp4")) as container:
        frames = [frame.to_ndarray(format="gray") for frame in container.decode(video=0)]
    assert len(frames) == 8 * FPS
    first, second = (shade(shot.task, 0) for shot in long.shots)
    expected = [first + i // 3 for i in range(200, 300)] + [second + i // 3 for i in range(100)]
    luma = [16 + grey * 219 / 255 for grey in expected]  # of a television's range
    shown = np.array([frame.mean() for frame in frames])
    assert np.median(np.abs(shown - luma)) < 3  # encoded twice
    assert np.abs(np.diff(shown)).argmax() == 99  # the cut, to a frame


def test_ground_truth_is_relative_to_the_span(long):
    second = long.shots[1]
    truth = span_truth(long, second.task, 8.0, 28.0)
    assert truth is not None
    assert truth["n_frames"] == 400  # 20 s were asked for; the video ends after 16
    assert truth["shot_s"] == [4.0, 16.0]
    assert truth["action_interval_s"] == [9.0, 11.0]
    boxes = truth["object"]["box"]
    assert len(boxes) == 400
    assert boxes[:100] == [None] * 100
    assert boxes[100:] == [[i, 0, i + 1, 1] for i in range(300)]


def test_a_span_without_the_middle_of_the_action_is_wrong(long):
    first = long.shots[0].task
    assert span_truth(long, first, 0.0, 5.9) is None
    assert span_truth(long, first, 0.0, 6.1) is not None
    assert span_truth(long, first, 6.1, 20.0) is None
    assert span_truth(long, "door-open", 0.0, 24.0) is None


def test_two_fifths_of_the_noisy_clips_are_wrong_and_the_best_of_their_kind(folder):
    many = make_long_videos(
        {task: paths[:9] for task, paths in clips_by_task(folder, []).items()}, 12, seed=5
    )
    found, clips = find_clips(many, "drawer-open", seed=0)
    names = {f"{clip.narration.name}-{clip.start:05.1f}" for clip in clips}
    assert names == set(found.retrieved) | set(found.noisy)
    assert found.shown == 9
    assert found.facts["noisy_wrong"] == pytest.approx(WRONG, abs=0.06)
    assert found.right <= set(found.noisy)
    assert found.facts["precision"] > found.chance
    times = {video.name: video for video in many}
    for clip in clips:
        truth = span_truth(times[clip.narration.name], "drawer-open", clip.start, clip.end)
        assert (truth is not None) == (f"{clip.narration.name}-{clip.start:05.1f}" in found.right)


def test_wrong_clips_count_only_among_those_answered():
    clips = [*synthetic_corpus(10, seed=1, noise=0.3)]
    corpus = Corpus.from_clips(clips)
    right = frozenset(clip.id for clip in clips[:7])
    judged = evaluate_methods(corpus, right)
    for scores in judged.right.values():
        assert {row.clip for row in scores.rows} == right
    assert len(judged.answered["joint"].rows) == 10
    rejected = 10 - len(judged.answered["joint, rejecting"].rows)
    assert rejected == judged.rejection["wrong_set_aside"] + judged.rejection["right_set_aside"]
    assert judged.right["curated"].state_precision > judged.right["chance"].state_precision

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from objectstates.base.errors import VideoError
from objectstates.video.clip_list import ClipSpan, find_clips
from objectstates.web.label.frame_choice import POSITIONS, FrameChoice
from objectstates.web.label.labels_file import Key
from tests.video.videos import gray, noise, write_video


@pytest.fixture
def clips(tmp_path: Path) -> list[ClipSpan]:
    for name in "abc":
        write_video(tmp_path / f"{name}.mp4", gray(50))
    return find_clips([tmp_path])


def test_every_clip_has_a_turn_before_any_has_two(clips: list[ClipSpan]):
    choice, labelled = FrameChoice(clips), dict[Key, object]()
    for _ in range(6):
        found = choice.next(labelled, ())
        assert found is not None
        labelled[found] = None
    turns = [clip for clip, _ in labelled]
    assert sorted(turns[:3]) == sorted(turns[3:]) == ["a", "b", "c"]
    for clip in "abc":
        first, second = (time for name, time in labelled if name == clip)
        assert abs(first - second) > 500  # ms, of 2 s


def test_all_is_gone_through_without_repetition(clips: list[ClipSpan]):
    choice, labelled = FrameChoice(clips[:1]), dict[Key, object]()
    while (found := choice.next(labelled, ())) is not None:
        assert found not in labelled
        labelled[found] = None
    assert len(labelled) == len(POSITIONS)


def test_a_skipped_frame_does_not_come_again(clips: list[ClipSpan]):
    choice = FrameChoice(clips)
    first = choice.next({}, ())
    assert first is not None
    assert choice.next({}, [first]) != first


def test_frames_that_look_different_come_first(tmp_path: Path):
    flat = gray(1)[0]
    images = [flat] * 30 + noise(10) + [flat] * 40
    write_video(tmp_path / "v.mp4", [image.repeat(2, 0).repeat(2, 1) for image in images])
    choice = FrameChoice(find_clips([tmp_path / "v.mp4"]))
    choice.prepare(lambda: False)
    labelled: dict[Key, object] = {("v", 200): None}
    found = choice.next(labelled, ())
    assert found is not None
    assert 1200 <= found[1] < 1600  # the noise, from 1.2 to 1.6 s


def test_clips_that_cannot_be_read_are_passed_by(tmp_path: Path):
    write_video(tmp_path / "good.mp4", gray(20))
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    choice = FrameChoice(find_clips([tmp_path]))
    with pytest.raises(VideoError):
        choice.extent("bad")
    choice.prepare(lambda: False)
    found = choice.next({}, ())
    assert found is not None
    assert found[0] == "good"
    assert list(choice.failed) == ["bad"]


def test_spans_of_a_video_are_kept_to(tmp_path: Path):
    video = write_video(tmp_path / "v.mp4", gray(50))
    choice = FrameChoice([ClipSpan("s", video, 1.0, 1.5)])
    labelled = dict[Key, object]()
    while (found := choice.next(labelled, ())) is not None:
        labelled[found] = None
    times = np.array([time for _, time in labelled])
    assert len(times)
    assert (times >= 1000).all()
    assert (times < 1500).all()

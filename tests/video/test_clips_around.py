"""Clips around annotated actions."""

from pathlib import Path

import pytest

from objectstates.base.errors import SettingError
from objectstates.video.clip_list import ClipSpan
from objectstates.video.clips_around import clips_around, span_around


def test_a_clip_is_centred_on_its_action_and_has_all_of_it():
    assert span_around((30.0, 34.0), 10.0) == (22.0, 42.0)
    assert span_around((30.0, 60.0), 10.0) == (30.0, 60.0), "a long action is whole"
    assert span_around((1.0, 3.0), 10.0) == (0.0, 12.0), "no video has frames before 0"
    with pytest.raises(SettingError, match="`around` must be a number of seconds above 0"):
        span_around((1.0, 2.0), 0.0)


def test_every_action_of_a_video_gives_a_clip():
    videos = [ClipSpan(name, Path(f"{name}.mp4")) for name in ("one", "many", "none")]
    actions = {"one": [(20.0, 22.0)], "many": [(20.0, 22.0), (90.0, 95.0)]}
    found = clips_around(videos, actions, 10.0)
    assert [(clip.id, clip.start, clip.end) for clip in found] == [
        ("one", 11.0, 31.0), ("many-1", 11.0, 31.0), ("many-2", 82.5, 102.5),
    ]  # fmt: skip
    assert found[2].video == Path("many.mp4")


def test_a_clip_stays_within_the_part_of_the_video_that_is_used():
    (found,) = clips_around([ClipSpan("a", Path("a.mp4"), 15.0, 25.0)], {"a": [(20.0, 22.0)]}, 10.0)
    assert (found.start, found.end) == (15.0, 25.0)

"""The change of a clip is the same after it was in the cache, and so are the boxes found by it."""

from dataclasses import fields, replace

import numpy as np
import pytest

from objectstates.base.cache import ArrayCache
from objectstates.detect.change_detector import MotionDetector
from objectstates.features.change_profile import ClipChange, clip_change, profile_of
from objectstates.ingest.stored_change import (
    change_arrays,
    profile_arrays,
    stored_change,
    stored_profile,
)
from objectstates.video.clip_list import ClipSpan
from objectstates.video.reader import probe, read_frames
from tests.ingest.test_pipeline import FPS, scene
from tests.video.videos import write_video


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("change")
    return ClipSpan("a", write_video(folder / "a.mp4", scene(1), fps=FPS))


def kept(cache: ArrayCache, change: ClipChange) -> ClipChange:
    cache.put("0" * 40, change_arrays(change))
    return stored_change(cache.get("0" * 40) or {})


@pytest.mark.parametrize("local", [True, False])
def test_a_change_is_kept_as_it_is(clip, tmp_path, local):
    change = clip_change(clip.video, None, None)
    if not local:
        change = replace(change, local=None)
    again = kept(ArrayCache(tmp_path), change)
    for field in fields(ClipChange):
        one, other = getattr(change, field.name), getattr(again, field.name)
        assert type(one) is type(other), field.name
        np.testing.assert_array_equal(one, other)
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)


def test_the_detector_finds_the_same_with_it(clip, tmp_path):
    change = kept(ArrayCache(tmp_path), clip_change(clip.video, None, None))
    detector = MotionDetector().for_clip(clip, probe(clip.video))
    other = detector.with_change(change)
    assert other.fingerprint == detector.fingerprint
    with read_frames(clip.video, fps=2.5) as reading:
        frames = list(reading)
    found = list(zip(detector.detect(frames), other.detect(frames), strict=True))
    assert sum(len(one) for one, _ in found) > 10
    for one, two in found:
        np.testing.assert_array_equal(one.boxes, two.boxes)
        np.testing.assert_array_equal(one.scores, two.scores)


def test_a_profile_is_kept_in_seconds_of_the_video(clip, tmp_path):
    cache, change = ArrayCache(tmp_path), clip_change(clip.video, None, None)
    cache.put("1" * 40, profile_arrays(change, origin=100.0))
    again, profile = stored_profile(cache.entry("1" * 40)), profile_of(change)
    assert again is not None
    assert (again.start, again.step) == (profile.start + 100.0, profile.step)
    np.testing.assert_array_equal(again.curve, profile.curve)
    cache.put("2" * 40, profile_arrays(None, origin=None))
    assert stored_profile(cache.entry("2" * 40)) is None

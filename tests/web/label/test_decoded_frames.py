from __future__ import annotations

from pathlib import Path

import pytest

from objectstates.base.errors import LabelError
from objectstates.video.clip_list import ClipSpan
from objectstates.web.label.decoded_frames import KEPT, DecodedFrames
from objectstates.web.label.frame_choice import clip_extent
from tests.video.videos import gray, write_video


def test_the_nearest_frame_is_given_and_kept_for_a_while(tmp_path: Path):
    write_video(tmp_path / "v.mp4", gray(40))
    clip = ClipSpan("v", tmp_path / "v.mp4")
    extent, frames = clip_extent(clip), DecodedFrames()
    first = frames.at(clip, extent, 0.41)
    assert first.time == pytest.approx(0.4)
    assert round(float(first.image.mean()) / 5) == 10
    assert frames.at(clip, extent, 0.4) is frames.at(clip, extent, 0.41) is first
    for number in range(KEPT):
        frames.at(clip, extent, 0.04 * number + 0.8)
    assert frames.at(clip, extent, 0.4) is not first


def test_a_time_outside_of_the_clip_is_refused(tmp_path: Path):
    write_video(tmp_path / "v.mp4", gray(40))
    clip = ClipSpan("v", tmp_path / "v.mp4", 0.4, 0.8)
    with pytest.raises(LabelError, match=r"no frame at 1 s: it lasts from 0\.4 to 0\.8 s"):
        DecodedFrames().at(clip, clip_extent(clip), 1.0)

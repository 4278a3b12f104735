from itertools import pairwise

import numpy as np
import pytest

from objectstates.narration.audio import RATE, read_audio
from tests.narration.test_speech import write_video


def test_segments_make_up_the_whole_and_are_cut_in_pauses(tmp_path):
    rng = np.random.default_rng(0)
    loud = rng.normal(0, 3000, 65 * 8000).astype(np.int16)
    loud[25 * 8000 : 26 * 8000] = 0  # the only pause
    write_video(tmp_path / "v.mp4", loud, rate=8000)
    segments = list(read_audio(tmp_path / "v.mp4"))
    assert [round(segment.start) for segment in segments][:2] in ([0, 25], [0, 26])
    assert all(len(segment.samples) <= 30 * RATE for segment in segments)
    assert sum(len(segment.samples) for segment in segments) / RATE == pytest.approx(65, abs=0.3)
    for one, next_one in pairwise(segments):
        assert one.start + len(one.samples) / RATE == pytest.approx(next_one.start, abs=0.01)


def test_times_are_those_of_the_video_if_the_audio_starts_late(tmp_path):
    tone = (8000 * np.sin(np.arange(16000) / 5)).astype(np.int16)
    write_video(tmp_path / "v.mkv", tone, rate=16000, offset=3.0)
    first = next(read_audio(tmp_path / "v.mkv"))
    assert first.start == pytest.approx(3.0, abs=0.1)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectstates.base.choices import CHUNK_SECONDS
from objectstates.base.errors import SettingError
from objectstates.features.chunks import (
    ChunkAverages,
    chunk_averages,
    chunk_intervals,
    chunk_windows,
)


@given(start=st.floats(-100, 1e5), length=st.floats(0.01, 500))
def test_chunks_tile_the_clip(start, length):
    chunks = chunk_intervals(start, start + length)
    assert chunks[0, 0] == start
    assert chunks[-1, 1] == start + length
    assert (chunks[1:, 0] == chunks[:-1, 1]).all()
    lengths = np.diff(chunks)[:, 0]
    np.testing.assert_allclose(lengths[:-1], CHUNK_SECONDS, atol=1e-9)
    assert lengths[-1] < 1.5 * CHUNK_SECONDS + 1e-5
    assert len(chunks) == 1 or lengths[-1] > 0.5 * CHUNK_SECONDS - 1e-5


def test_a_clip_shorter_than_a_chunk_is_one():
    assert chunk_intervals(3.0, 3.04).tolist() == [[3.0, 3.04]]
    times, values = np.array([3.0]), np.array([[1.0, 2.0]])
    assert chunk_averages(times, values, chunk_intervals(3.0, 3.04)).tolist() == [[1.0, 2.0]]


def test_at_25_frames_a_second_it_is_the_papers_10_and_30_frames():
    times = np.arange(200) / 25
    chunks = chunk_intervals(0, 8)
    assert len(chunks) == 20
    windows = chunk_windows(times, chunks)
    assert windows[1:-1].tolist() == [[10 * k - 10, 10 * k + 20] for k in range(1, 19)]
    assert windows[0].tolist() == [0, 20]
    assert windows[-1].tolist() == [180, 200]


@pytest.mark.parametrize("fps", [12, 24, 29.97, 60, 120])
def test_the_frame_rate_does_not_matter(fps):
    def smooth(times):
        return np.stack([np.sin(times), times], axis=1)

    chunks = chunk_intervals(0, 10)
    usual, other = (
        chunk_averages(t + 0.5 / f, smooth(t + 0.5 / f), chunks)
        for f, t in ((25, np.arange(250) / 25), (fps, np.arange(int(10 * fps)) / fps))
    )
    np.testing.assert_allclose(other, usual, atol=0.05)


@given(st.lists(st.floats(0, 20), min_size=1, max_size=60), st.floats(0.1, 20))
def test_a_constant_stays_what_it_is_whatever_the_times(times, end):
    times = np.sort(times)
    values = np.tile([3.0, -1.0], (len(times), 1))
    averages = chunk_averages(times, values, chunk_intervals(0, end))
    np.testing.assert_allclose(averages, np.tile([3.0, -1.0], (len(averages), 1)))


def test_a_gap_takes_the_nearest_sample_but_has_an_empty_window():
    times, values = np.array([0.1, 9.9]), np.array([[1.0], [2.0]])
    chunks = chunk_intervals(0, 10)
    averages = chunk_averages(times, values, chunks)[:, 0]
    assert averages[:12].tolist() == [1.0] * 12
    assert averages[13:].tolist() == [2.0] * 12
    first, last = chunk_windows(times, chunks)[12]
    assert first == last


def test_no_samples_at_all_average_to_zero():
    assert (
        chunk_averages(np.empty(0), np.empty((0, 3)), chunk_intervals(0, 1)).tolist()
        == [[0.0, 0.0, 0.0]] * 3
    )


@given(
    steps=st.lists(st.sampled_from([0.0, 0.04, 0.2, 0.4, 1.7]), min_size=1, max_size=80),
    start=st.floats(-10, 10),
    rest=st.floats(0.01, 3),
    settle=st.lists(st.booleans(), min_size=80, max_size=80),
    seconds=st.sampled_from([0.08, 0.4, 1.6]),
)
def test_samples_one_by_one_average_to_the_same_bits(steps, start, rest, settle, seconds):
    times = start + np.cumsum(steps)
    values = np.random.default_rng(0).normal(size=(len(times), 2)).astype(np.float32)
    end = times[-1] + rest
    growing = ChunkAverages(start, 2, seconds=seconds, window=3 * seconds)
    for time, value, now in zip(times, values, settle, strict=False):
        growing.add(time, value)
        if now:
            growing.close()
    chunks = chunk_intervals(start, end, seconds=seconds)
    whole = chunk_averages(times, values, chunks, window=3 * seconds)
    np.testing.assert_array_equal(growing.finish(end), whole)


def test_samples_are_not_kept():
    growing = ChunkAverages(0.0, 1)
    for k in range(1000):
        growing.add(k / 5, np.ones(1))
        growing.close()
        assert len(growing._times) <= 12


def test_senseless_times_are_refused():
    with pytest.raises(SettingError, match=r"\[1.*, 1.*\) s"):
        chunk_intervals(1, 1)
    with pytest.raises(SettingError, match="decrease"):
        chunk_averages(np.array([1.0, 0.5]), np.ones((2, 1)), chunk_intervals(0, 2))
